"""Splits the time of one ``winnow compact`` into phases from its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PHASES = (
    "start",
    "plan",
    "spark start",
    "winners",
    "rewrite",
    "spark",
    "facts",
    "gx import",
    "validate",
    "publish",
    "rest",
)
"""In the order of a run. ``start``: process, imports, catalog, store. ``plan``: assess and plan. ``spark start``: from
spark-submit to the session. ``spark``: the application without winners and rewrite: starting its workers, scheduling,
its end. ``facts``: computed again for validation. ``gx import``: how long validation waited for the import of Great
Expectations, which begins while Spark works. ``validate``: validation itself. ``rest``: everything else."""

WORK = ("winners", "rewrite", "spark")
"""The phases of the Spark application without its start."""

Event = Mapping[str, Any]


def read_events(path: Path) -> list[dict[str, Any]]:
    """Return the events in order of arrival; none when the file does not exist."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def compute_phases(events: Sequence[Event], started: float, ended: float, cores: int) -> dict[str, float]:
    """Compute the seconds per phase; they add up to the time between ``started`` and ``ended`` (monotonic, s).

    Winners and rewrite run in parallel tasks: the time of all busy tasks, divided by the cores that could be busy, is
    split between the two in proportion to their own seconds.
    """
    found = dict.fromkeys(PHASES, 0.0)
    planned = _named(events, "planned")
    began = _first(events, "compacting")
    session = _first(events, "spark_started")
    staged = _first(events, "staged")
    if not planned or began is None:
        return found | {"start": ended - started}
    plan_began = planned[0]["at"] - planned[0]["duration_ms"] / 1000
    found["start"] = plan_began - started
    found["plan"] = began["at"] - plan_began
    if session is not None and staged is not None:
        found["spark start"] = session["at"] - began["at"]
        found.update(_work(events, staged["at"] - session["at"], cores))
    found.update(_split_validation(events, staged))
    found["publish"] = _measure_union(_named(events, "published"))
    found["rest"] = max(0.0, ended - started - sum(found.values()))
    return found


def _split_validation(events: Iterable[Event], staged: Event | None) -> dict[str, float]:
    """Split validation into its parts; topics that were validated side by side cannot take longer than all of it."""
    found = dict.fromkeys(("facts", "gx import", "validate"), 0.0)
    validated = _named(events, "validated")
    for event in validated:
        facts, waited = event.get("facts_ms", 0) / 1000, event.get("import_ms", 0) / 1000
        found["facts"] += facts
        found["gx import"] += waited
        found["validate"] += event["duration_ms"] / 1000 - facts - waited
    total = sum(found.values())
    if staged is None or not total:
        return found
    share = min(1.0, (validated[-1]["at"] - staged["at"]) / total)
    return {name: seconds * share for name, seconds in found.items()}


def _measure_union(events: Iterable[Event]) -> float:
    """Measure the seconds in which at least one of ``events`` was under way, each for its own duration."""
    spans = sorted((each["at"] - each.get("duration_ms", 0) / 1000, each["at"]) for each in events)
    seconds, until = 0.0, 0.0
    for began, ended in spans:
        seconds += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return seconds


def _work(events: Iterable[Event], seconds: float, cores: int) -> dict[str, float]:
    parts = _named(events, "spark_partition")
    busy = sum(part.get("seconds", 0.0) for part in parts)
    winners = sum(part.get("winners_seconds", 0.0) for part in parts)
    rewrite = sum(part.get("rewrite_seconds", 0.0) for part in parts)
    if not winners + rewrite:
        rewrite = busy  # an engine that does not report them separately
    # A partition split over several tasks adds up their seconds, which can exceed the cores' time.
    wide = min(cores, max(1, len(parts)))
    share = min(1.0, seconds * wide / max(winners + rewrite, 1e-9))
    winners, rewrite = winners * share / wide, rewrite * share / wide
    return {"winners": winners, "rewrite": rewrite, "spark": max(0.0, seconds - winners - rewrite)}


def compute_work_seconds(events: Sequence[Event]) -> float | None:
    """Compute the seconds from the session to the end of the Spark application; None when there was none."""
    session, staged = _first(events, "spark_started"), _first(events, "staged")
    return None if session is None or staged is None else float(staged["at"] - session["at"])


def sum_engine_seconds(events: Sequence[Event]) -> dict[str, float]:
    """Sum the seconds of all tasks by kind of work."""
    parts = _named(events, "spark_partition")
    names = ("seconds", "winners_seconds", "rewrite_seconds")
    return {name: round(sum(part.get(name, 0.0) for part in parts), 3) for name in names}


def _named(events: Iterable[Event], name: str) -> list[Event]:
    return [event for event in events if event["event"] == name]


def _first(events: Iterable[Event], name: str) -> Event | None:
    return next((event for event in events if event["event"] == name), None)
