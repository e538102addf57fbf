"""Events of the pipeline: one line each, a fixed vocabulary, and what they count."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from winnow.report.counters import COUNTERS, Sample, count_event, time_event
from winnow.report.events import EVENTS, Field, LoggedEvent, log_event, read_event


def calls_of_log_event(root: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call of ``log_event`` in the program, with where it stands."""
    for folder in ("winnow", "plugins", "dags", "jobs"):
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                called = node.func if isinstance(node, ast.Call) else None
                name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", None)
                if isinstance(node, ast.Call) and name == "log_event" and len(node.args) > 1:
                    yield f"{path.relative_to(root)}:{node.lineno}", node


def test_every_event_that_is_told_is_in_the_list_with_its_fields_and_every_one_is_told(root: Path) -> None:
    """A field or a name that the list does not have would be lost, or would end a run."""
    fields = {event.name: {*event.fields, "level"} for event in EVENTS}
    told = set()
    for place, call in calls_of_log_event(root):
        assert isinstance(call.args[0], ast.Constant), place
        name = call.args[0].value
        assert isinstance(name, str), place
        assert {each.arg for each in call.keywords if each.arg is not None} <= fields[name], place
        told.add(name)
    assert told == fields.keys()


def test_event_is_one_line_of_text_and_carries_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    """In the order of the list, whatever that of the call; what is not known is left out."""
    with caplog.at_level(logging.INFO, "winnow.events"):
        log_event("invalid", "orders", duration_ms=7, partitions=(0, 2), failed=["a b"], plan_id="p", attempt=None)
    (record,) = caplog.records
    assert record.getMessage() == 'invalid topic=orders plan_id=p partitions=[0,2] failed=["a b"] duration_ms=7'
    told = read_event(record)
    assert told is not None
    assert (told.name, dict(told.fields)) == (
        "invalid",
        {"topic": "orders", "plan_id": "p", "partitions": [0, 2], "failed": ["a b"], "duration_ms": 7},
    )


def test_sentence_of_an_event_is_what_people_read_and_one_of_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    """An alert at a shell is its sentence, not name and fields."""
    with caplog.at_level(logging.INFO, "winnow.events"):
        log_event(
            "alerted", "orders", level=logging.ERROR, message="Orders are late.\nSee why.", kind="deadline_missed"
        )
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "Orders are late.\nSee why.")
    told = read_event(record)
    assert told is not None
    assert str(told) == 'alerted topic=orders kind=deadline_missed message="Orders are late.\\nSee why."'
    assert read_event(logging.makeLogRecord({"msg": "another line"})) is None


PUBLISHED: dict[str, Field] = {
    "topic": "orders", "records_superseded": 60, "tombstones_expired": 3, "records_keyless": 0, "records_retired": 5,
    "bytes_in": 1000, "bytes_out": 400, "bytes_retired": 50, "duration_ms": 12,
}  # fmt: skip


def test_published_run_counts_once_with_what_it_removed_by_reason() -> None:
    """Reasons that removed nothing are left out."""
    told = LoggedEvent("published", PUBLISHED)
    assert list(count_event(told)) == [
        Sample("runs", 1, ("outcome", "published")),
        Sample("records-removed", 60, ("reason", "superseded")),
        Sample("records-removed", 3, ("reason", "tombstone")),
        Sample("records-removed", 5, ("reason", "retention")),
        Sample("bytes-removed", 650),
    ]
    assert time_event(told) == Sample("phase", 12, ("phase", "publish"))


def test_run_that_made_its_files_a_little_larger_removes_no_negative_bytes() -> None:
    """A counter cannot fall."""
    assert "bytes-removed" not in {
        s.name for s in count_event(LoggedEvent("published", {**PUBLISHED, "bytes_out": 9_999}))
    }


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        ("invalid", "invalid"),
        ("broken", "broken"),
        ("spark_failed", "spark_failed"),
        ("refused", "refused"),
        ("unknown", "unknown"),
        ("voided", "void"),
    ],
)
def test_every_way_a_run_ends_counts_as_its_outcome(event: str, outcome: str) -> None:
    """And as nothing else."""
    assert list(count_event(LoggedEvent(event, {"topic": "orders"}))) == [Sample("runs", 1, ("outcome", outcome))]


def test_steps_on_the_way_count_nothing_and_are_timed_where_they_say_how_long() -> None:
    """An alert counts by its kind, an ingest call its records."""
    assert list(count_event(LoggedEvent("assessed", {"topic": "orders", "duration_ms": 4}))) == []
    assert time_event(LoggedEvent("assessed", {"topic": "orders", "duration_ms": 4})) == Sample(
        "phase", 4, ("phase", "assess")
    )
    assert time_event(LoggedEvent("published", {"topic": "orders"})) is None
    assert time_event(LoggedEvent("compacting", {"topic": "orders", "duration_ms": 4})) is None
    assert list(count_event(LoggedEvent("alerted", {"kind": "commit_unknown"}))) == [
        Sample("alerts", 1, ("kind", "commit_unknown"))
    ]
    assert list(count_event(LoggedEvent("ingested", {"records_appended": 9}))) == [Sample("records-ingested", 9)]


def test_labels_of_a_counter_are_those_that_its_events_give() -> None:
    """The pages list them."""
    samples = [s for event in EVENTS for s in count_event(LoggedEvent(event.name, {**PUBLISHED, "records_keyless": 1}))]
    for counter in COUNTERS:
        given = {s.label[1] for s in samples if s.name == counter.name and s.label is not None}
        assert given == set(counter.labels) or counter.name == "alerts"
