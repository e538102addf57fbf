"""Logs the events of the pipeline as one line each: a fixed name, then fields; never user bytes.

They go through the logger ``winnow.events`` at level INFO, alerts at ERROR. A formatter that knows nothing of them
prints ``published topic=orders plan_id=...``; a handler that wants fields finds a :class:`LoggedEvent`
on the record as its attribute ``winnow``. In Airflow the plugin does that, and the task log carries the fields.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Field = str | int | float | bool | Sequence[int] | Sequence[str] | Mapping[str, int] | None
"""Names, ids and counts; None: unknown, and left out."""

log = logging.getLogger("winnow.events")
_ATTRIBUTE = "winnow"


@dataclass(frozen=True, slots=True)
class EventDefinition:
    """An event that may be logged. ``fields``: in printing order, after the topic.

    ``phase``: the step of a run that the field ``duration_ms`` measures. ``outcome``: how this event ends a run.
    """

    name: str
    meaning: str
    fields: tuple[str, ...]
    phase: str | None = None
    outcome: str | None = None


_PLAN = ("plan_id", "attempt")
_PARTS = ("facts_ms", "import_ms", "judge_ms")

EVENTS: tuple[EventDefinition, ...] = (
    EventDefinition(
        "ingested",
        "an ingest call ended; with no records appended there was nothing new",
        (
            "files",
            "layout",
            "records_appended",
            "records_skipped",
            "records_quarantined",
            "records_left_out",
            "records_erased",
            "snapshot_id",
            "duration_ms",
        ),
        phase="ingest",
    ),
    EventDefinition(
        "ingest_undone",
        "an ingest call was undone: its records left the log",
        (
            "ingest_id",
            "records_removed",
            "partitions",
            "files_retired",
            "bytes_retired",
            "snapshot_id",
            "duration_ms",
        ),
    ),
    EventDefinition(
        "undone",
        "a run, or a deletion of records, was taken back: what it had replaced is in the log again",
        (
            "plan_id",
            "undone",
            "records_restored",
            "partitions",
            "files_retired",
            "bytes_retired",
            "snapshot_id",
            "duration_ms",
        ),
    ),
    EventDefinition(
        "erased",
        "keys were erased from the log for its readers; a sweep deletes the files that held them",
        ("erasure_id", "keys", "records", "files", "snapshot_id", "duration_ms"),
    ),
    EventDefinition(
        "erasures_applied",
        "erasures that only the register knew were applied to an older state, in the commit that brought it back",
        ("erasure_id", "erasures", "records", "files", "snapshot_id"),
    ),
    EventDefinition(
        "assessed",
        "each partition was judged due or idle; `reasons` counts partitions per reason",
        ("partitions", "eligible", "reasons", "as_of_ms", "duration_ms"),
        phase="assess",
    ),
    EventDefinition(
        "planned",
        "a plan was written",
        (*_PLAN, "partitions", "bytes", "deadline_ms", "as_of_ms", "duration_ms"),
        phase="plan",
    ),
    EventDefinition("compacting", "an attempt at a plan begins", _PLAN),
    EventDefinition(
        "staged",
        "an attempt left its staging manifest; `duration_ms` is that of the whole Spark application",
        (*_PLAN, "duration_ms"),
        phase="compact",
    ),
    EventDefinition(
        "validated",
        "an attempt passed validation; its times: computing facts, waiting for Great Expectations' import, judging (of "
        "attempts that are judged together, an equal share)",
        (*_PLAN, "expectations", "warnings", *_PARTS, "duration_ms"),
        phase="validate",
    ),
    EventDefinition(
        "invalid",
        "an attempt failed validation; the partitions at fault are marked",
        (*_PLAN, "partitions", "failed", *_PARTS, "duration_ms"),
        phase="validate",
        outcome="invalid",
    ),
    EventDefinition(
        "spark_failed",
        "Spark could not carry out a plan; nothing was published. `partitions`: those at fault, which are marked",
        (*_PLAN, "partitions"),
        outcome="spark_failed",
    ),
    EventDefinition(
        "broken",
        "a check raised an error instead of judging; nothing is marked",
        (*_PLAN, "failed", *_PARTS, "duration_ms"),
        phase="validate",
        outcome="broken",
    ),
    EventDefinition(
        "published",
        "a plan was committed to the table and its checkpoint moved",
        (
            *_PLAN,
            "snapshot_id",
            "partitions",
            "records_in",
            "records_kept",
            "records_superseded",
            "tombstones_expired",
            "records_keyless",
            "records_retired",
            "bytes_in",
            "bytes_out",
            "bytes_retired",
            "engine_seconds",
            "duration_ms",
        ),
        phase="publish",
        outcome="published",
    ),
    EventDefinition(
        "latest_updated",
        "the side table of the latest state was brought up to date; `rebuilt`: rewritten as a whole",
        (
            "snapshot_id",
            "reflects",
            "rebuilt",
            "rows",
            "rows_inserted",
            "rows_updated",
            "rows_deleted",
            "files_written",
            "files_replaced",
            "bytes_written",
            "rows_not_decoded",
            "columns_added",
            "duration_ms",
        ),
    ),
    EventDefinition("refused", "the log changed after planning; nothing was published", _PLAN, outcome="refused"),
    EventDefinition("unknown", "it is not known yet whether a plan was committed", _PLAN, outcome="unknown"),
    EventDefinition("voided", "a plan ended before it published anything", _PLAN, outcome="void"),
    EventDefinition(
        "state_changed",
        "marks, pauses or checkpoints changed without a run; `operation` says how",
        ("operation", "partitions", "snapshot_id"),
    ),
    EventDefinition(
        "topic_deleted",
        "a topic was deleted; until its files are removed it can be restored",
        ("records", "bytes", "snapshot_id"),
    ),
    EventDefinition("topic_restored", "a deleted topic was brought back", ("snapshot_id",)),
    EventDefinition(
        "topic_recovered",
        "a topic came back into the catalog from the warehouse, recovered or adopted",
        ("action", "snapshot_id", "fence"),
    ),
    EventDefinition(
        "topic_removed",
        "a deleted topic and its files were removed for good",
        ("files_deleted", "bytes_deleted"),
    ),
    EventDefinition(
        "restored",
        "a topic's log was written into a Kafka topic and read back",
        ("target_topic", "records", "records_written", "snapshot_id", "duration_ms"),
    ),
    EventDefinition(
        "swept",
        "files that nothing refers to any more were removed",
        ("files_deleted", "bytes_deleted", "snapshots_expired", "files_waiting", "bytes_waiting", "duration_ms"),
        phase="sweep",
    ),
    EventDefinition(
        "scrubbed",
        "live files were read in full and checked; `findings` counts all that are open",
        ("segments", "segments_checked", "bytes_checked", "bytes_left", "findings"),
    ),
    EventDefinition("alerted", "an alert was sent; `message` is its text", ("kind", "partitions", "message")),
    EventDefinition("recovered", "the problem of an alert is over", ("partitions", "message")),
)
"""All events, in the order of a run."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One logged event: its name, and its fields in order, the topic first."""

    name: str
    fields: Mapping[str, Field]

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{name}={_format_field(value)}" for name, value in self.fields.items())])


def log_event(name: str, topic: str, *, level: int = logging.INFO, message: str | None = None, **fields: Field) -> None:
    """Log one event about ``topic``. ``message``: text for people in place of name and fields."""
    if not log.isEnabledFor(level):
        return
    event = next(each for each in EVENTS if each.name == name)
    given = {**fields, "message": message}
    known = {field: _convert_to_plain(given[field]) for field in event.fields if given.get(field) is not None}
    logged = LoggedEvent(name, {"topic": topic, **known})
    log.log(level, "%s", logged if message is None else message, extra={_ATTRIBUTE: logged}, stacklevel=2)


def read_event(record: logging.LogRecord) -> LoggedEvent | None:
    """Read the event of a log record; None if it carries none."""
    found = getattr(record, _ATTRIBUTE, None)
    return found if isinstance(found, LoggedEvent) else None


def _convert_to_plain(value: Field) -> Field:
    if isinstance(value, Mapping):
        return dict(value)
    # Convert to lists: a tuple would be printed in Python's notation, not in JSON's.
    return [*value] if isinstance(value, tuple) else value


def _format_field(value: Field) -> str:
    if isinstance(value, str):
        return value if value and not set(value) & set(' "=\n') else json.dumps(value)
    return json.dumps(value, separators=(",", ":"))
