"""The lines in which a Spark job tells what became of its plans."""

from __future__ import annotations

import io
import subprocess
import sys

from winnow.engine.events import (
    PartitionFailure,
    PlanFailure,
    PlanOutcome,
    emit_outcomes,
    parse_event,
    parse_failure,
)
from winnow.errors import Explanation

FAILURE = PlanFailure(
    Explanation("orders-0: gone", "Nothing was published.", "Run it again."),
    4,
    (PartitionFailure(0, "gone", 4), PartitionFailure(2, "odd", 1)),
)


def test_failure_of_a_plan_arrives_as_it_was_sent_and_last() -> None:
    """A log that keeps only its last lines still says which partitions failed."""
    stream = io.StringIO()
    emit_outcomes([PlanOutcome("orders", "p1", None, FAILURE), PlanOutcome("users", "p2", "file:///m.json")], stream)
    events = [event for line in stream.getvalue().splitlines() if (event := parse_event(line)) is not None]
    assert [event["plan_id"] for event in events] == ["p2", "p1"]
    assert [parse_failure(event) for event in events] == [None, FAILURE]
    assert (events[0]["manifest"], events[0]["error"], events[0]["exit_code"]) == ("file:///m.json", None, 0)
    assert (events[1]["manifest"], events[1]["error"], events[1]["exit_code"]) == (
        None,
        "orders-0: gone. Nothing was published. Run it again",
        4,
    )


def test_failure_of_the_whole_job_names_no_partition_and_may_be_of_an_older_version_without_parts() -> None:
    event = parse_event('WINNOW {"event": "failed", "error": "two Sparks", "exit_code": 2}')
    assert event is not None
    assert parse_failure(event) == PlanFailure(Explanation("two Sparks"), 2)


def test_other_lines_and_other_events_are_no_failure() -> None:
    assert [parse_event(line) for line in ("24/01/01 WARN x", "WINNOW {", "WINNOW []", "")] == [None] * 4
    assert parse_failure({"event": "partition", "error": "gone"}) is None


def test_who_listens_to_the_job_loads_no_spark() -> None:
    code = "import sys, winnow.engine.events; print({'pyspark', 'duckdb', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
