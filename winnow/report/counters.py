"""Derives StatsD and OpenTelemetry counters and timers from pipeline events. Pure.

Gauges show the present state (:mod:`winnow.report.metrics`); counters and timers record each event as it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from winnow.report.events import EVENTS, LoggedEvent

PHASE = "phase"
"""The timer: duration of one step of one topic. Its label ``phase`` is one of :data:`PHASES`."""
PHASES = tuple(dict.fromkeys(event.phase for event in EVENTS if event.phase is not None))
OUTCOMES = tuple(event.outcome for event in EVENTS if event.outcome is not None)

_BY_NAME = {event.name: event for event in EVENTS}


@dataclass(frozen=True, slots=True)
class Sample:
    """A count or a duration (ms). ``label``: name and value, besides the topic."""

    name: str
    value: int
    label: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter: its name, its label besides the topic, and the amount that an event adds to it (by label)."""

    name: str
    label: str | None
    labels: tuple[str, ...]
    meaning: str
    added: Callable[[LoggedEvent], Mapping[str | None, Any]]


def _read_number(logged: LoggedEvent, field: str) -> int | float:
    value = logged.fields.get(field)
    return value if isinstance(value, int | float) else 0


def _read_outcome(logged: LoggedEvent) -> Mapping[str | None, Any]:
    event = _BY_NAME.get(logged.name)
    return {event.outcome: 1} if event is not None and event.outcome is not None else {}


_REMOVALS = {
    "superseded": "records_superseded",
    "tombstone": "tombstones_expired",
    "keyless": "records_keyless",
    "retention": "records_retired",
}


def _count_records_removed(logged: LoggedEvent) -> Mapping[str | None, Any]:
    if logged.name != "published":
        return {}
    return {why: _read_number(logged, field) for why, field in _REMOVALS.items()}


def _count_bytes_removed(logged: LoggedEvent) -> Mapping[str | None, Any]:
    if logged.name != "published":
        return {}
    left = _read_number(logged, "bytes_in") - _read_number(logged, "bytes_out") + _read_number(logged, "bytes_retired")
    # A counter cannot fall, and a rewrite may compress a little worse than its input.
    return {None: max(0, left)}


def _count_records_ingested(logged: LoggedEvent) -> Mapping[str | None, Any]:
    return {None: _read_number(logged, "records_appended")} if logged.name == "ingested" else {}


def _count_alerts(logged: LoggedEvent) -> Mapping[str | None, Any]:
    return {str(logged.fields.get("kind")): 1} if logged.name == "alerted" else {}


COUNTERS: tuple[Counter, ...] = (
    Counter(
        "runs", "outcome", OUTCOMES, "Runs that ended, by outcome; unknown and broken ones may end again", _read_outcome
    ),
    Counter(
        "records-removed",
        "reason",
        tuple(_REMOVALS),
        "Records that published runs removed from the log",
        _count_records_removed,
    ),
    Counter("bytes-removed", None, (), "Bytes by which published runs made the log smaller", _count_bytes_removed),
    Counter("records-ingested", None, (), "Records appended by ingest calls", _count_records_ingested),
    Counter("alerts", "kind", (), "Alerts that were sent, by kind", _count_alerts),
)


def count_event(logged: LoggedEvent) -> Iterator[Sample]:
    """Return the amounts that ``logged`` adds to counters; amounts of 0 are left out."""
    for counter in COUNTERS:
        for value, added in counter.added(logged).items():
            if added:
                label = None if counter.label is None or value is None else (counter.label, value)
                yield Sample(counter.name, int(added), label)


def time_event(logged: LoggedEvent) -> Sample | None:
    """Return the duration of the step that ``logged`` ended; None if it ended none, or has no duration."""
    event = _BY_NAME.get(logged.name)
    duration_ms = logged.fields.get("duration_ms")
    if event is None or event.phase is None or not isinstance(duration_ms, int):
        return None
    return Sample(PHASE, duration_ms, (PHASE, event.phase))
