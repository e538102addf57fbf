"""What a run logs: the events of the pipeline in this process, and the log of a Spark task."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process_spark
from tests.support.world import TOPIC, World, build_versions, open_world
from winnow.engine import compaction_job as spark
from winnow.engine import staging
from winnow.files import storage
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.driver import compact_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.topics.partitions import pause_partitions
from winnow.report.events import LoggedEvent, read_event

without_spark = in_process_spark.without_spark


@pytest.fixture
def world(tmp_path: Path, without_spark: None) -> Iterator[World]:
    """A topic of two partitions, both due."""
    with open_world(tmp_path) as opened:
        opened.create(2, min_cleanable_dirty_ratio="0")
        opened.ingest([*build_versions(0, 12), *build_versions(0, 12, partition=1)])
        yield opened


def told(caplog: pytest.LogCaptureFixture) -> list[LoggedEvent]:
    """The events since the last time this was asked."""
    found = [event for record in caplog.records if (event := read_event(record)) is not None]
    caplog.clear()
    return found


def test_run_tells_each_step_once_and_publishing_again_tells_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """With the plan's id all the way; what did not happen a second time is not told a second time."""
    caplog.set_level(logging.INFO, "winnow.events")
    told(caplog)
    (receipt,) = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock()).receipts
    assert receipt.plan_id is not None
    assert receipt.attempt is not None
    events = told(caplog)
    assert [event.name for event in events] == ["planned", "compacting", "staged", "validated", "published"]
    assert {event.fields["plan_id"] for event in events} == {receipt.plan_id}
    fields = events[-1].fields
    parts = receipt.partitions
    assert fields["records_in"] == sum(part.records_in for part in parts) == 24
    assert fields["records_kept"] == sum(part.records_kept for part in parts)
    assert publish_attempt(world.installation, receipt.plan_id, receipt.attempt) == receipt
    compact_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    assert told(caplog) == []


def test_partition_that_cannot_be_read_is_told_as_marked_alerted_and_failed_in_spark(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """In this order, so that people hear of the mark whatever becomes of the run, and only the partition at fault."""
    path = storage.parse_local_path(world.segments(1)[-1].path)
    path.write_bytes(path.read_bytes()[:40])
    caplog.set_level(logging.INFO, "winnow.events")
    told(caplog)
    compact_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    events = told(caplog)
    assert [event.name for event in events] == ["planned", "compacting", "state_changed", "alerted", "spark_failed"]
    assert [event.fields["partitions"] for event in events[2:]] == [[1], [1], [1]]
    assert events[2].fields["operation"] == "mark-uncleanable"


def test_plan_that_the_next_run_finds_unfinished_is_told_as_voided_and_a_paused_one_as_refused(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The first died before it published; under the second the partition was paused."""
    caplog.set_level(logging.INFO, "winnow.events")
    first = world.plan(world.clock())
    assert first is not None
    assert [event.name for event in told(caplog)] == ["planned"]
    sweep_topics(world.installation, [TOPIC])
    events = told(caplog)
    assert [event.name for event in events] == ["voided", "swept"]
    assert events[0].fields["plan_id"] == first.plan_id
    second = world.plan(world.clock())
    assert second is not None
    world.stage(second)
    world.accept(second)
    pause_partitions(world.installation, TOPIC, [0], by="somebody")
    assert [event.name for event in told(caplog)] == ["planned", "state_changed"]
    with pytest.raises(Exception, match="was paused while plan"):
        publish_attempt(world.installation, second.plan_id, "a1")
    assert [event.name for event in told(caplog)] == ["refused"]


def test_spark_task_writes_a_json_line_before_and_after_each_partition(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, with topic, partition, plan and attempt, and no byte of a record."""
    plan = world.plan(world.clock())
    assert plan is not None
    path = storage.parse_local_path(world.segments(1)[-1].path)
    path.write_bytes(path.read_bytes()[:40])
    units = spark.build_units(plan.uri, staging.read_plan(plan.uri))
    heard: list[dict[str, Any]] = []
    list(spark._run_task([units], "a1", world.installation.budget, heard.append))
    written = capsys.readouterr().err
    lines = [json.loads(line) for line in written.splitlines()]
    assert [(line["event"], line["partition"]) for line in lines] == [
        ("partition_started", 0), ("partition_done", 0), ("partition_started", 1), ("partition_failed", 1),
    ]  # fmt: skip
    key = {"topic": TOPIC, "plan_id": plan.plan_id, "attempt": "a1"}
    assert all(key.items() <= line.items() and line["timestamp"].endswith("Z") for line in lines)
    assert lines[1]["records_in"] == 12
    # The driver hears the same of each partition, so its lines and the executors' can be joined.
    assert [(event["partition"], event["plan_id"], event["attempt"]) for event in heard] == [
        (0, plan.plan_id, "a1"),
        (1, plan.plan_id, "a1"),
    ]
