"""Damaged partitions are counted and left to themselves; metrics say what holds now, whatever was configured before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import in_process_spark
from tests.support.world import TOPIC, World, build_versions, compute_survivors, open_world, record
from winnow.files import storage
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.driver import compact_topics
from winnow.pipeline.monitor.metrics import measure_topic
from winnow.pipeline.topics.definition import alter_topic, list_topics
from winnow.pipeline.topics.marks import release_marks
from winnow.report.metrics import Value, list_metric_values, sum_measurements
from winnow.values.model import Reason, Status

HOUR_MS = 3_600_000

without_spark = in_process_spark.without_spark


@pytest.fixture
def world(tmp_path: Path, without_spark: None) -> Iterator[World]:
    """Three partitions of one topic, each with two files."""
    with open_world(tmp_path) as opened:
        opened.create(3, min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
        for start in (0, 6):
            opened.ingest([each for partition in range(3) for each in build_versions(start, 6, partition=partition)])
        yield opened


def measured(world: World, topic: str = TOPIC) -> dict[str, Value]:
    return list_metric_values(measure_topic(world.installation, topic, as_of_ms=world.clock()))


@pytest.mark.kafka("114")
def test_damaged_partitions_are_counted_with_their_bytes_until_they_are_mended(world: World) -> None:
    """Two of three are truncated; the third is compacted, and each release lowers the count."""
    cleanable = [
        a.cleanable_bytes for a in assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    ]
    whole = {}
    for partition in (0, 1):
        path = storage.parse_local_path(world.segments(partition)[1].path)
        whole[path] = path.read_bytes()
        path.write_bytes(whole[path][:50])
    assert compact_topics(world.installation, [TOPIC], as_of_ms=world.clock()).exit_code == 4
    found = measured(world)
    assert found["uncleanable-partitions-count"] == 2
    assert found["uncleanable-bytes"] == cleanable[0] + cleanable[1]
    world.clock.now_ms += 1
    (receipt,) = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock()).receipts
    assert (receipt.status, [part.partition for part in receipt.partitions]) == (Status.PUBLISHED, [2])
    assert world.read(2) == compute_survivors(build_versions(0, 12, partition=2))
    for path, content in whole.items():
        path.write_bytes(content)
    release_marks(world.installation, TOPIC, [0], why="restored from a copy")
    assert measured(world)["uncleanable-partitions-count"] == 1
    assert measured(world)["uncleanable-bytes"] == cleanable[1]
    release_marks(world.installation, TOPIC, [1], why="restored from a copy")
    world.clock.now_ms += 1
    assert compact_topics(world.installation, [TOPIC], as_of_ms=world.clock()).exit_code == 0
    assert measured(world)["uncleanable-partitions-count"] == 0
    assert [world.read(n) for n in (0, 1)] == [compute_survivors(build_versions(0, 12, partition=n)) for n in (0, 1)]


@pytest.mark.kafka("116")
def test_without_any_run_metrics_are_zero_or_left_out(world: World) -> None:
    """Nothing divides by nothing, neither for a topic nor for no topics at all."""
    world.create(1, topic="empty")
    none_at_all = list_metric_values(sum_measurements([]))
    for found, there in ((measured(world, "empty"), {"partitions-count": 1}), (none_at_all, {})):
        assert {name: value for name, value in found.items() if value} == there
    assert found["uncleanable-partitions-count"] == 0
    assert [found["max-clean-time-secs"], found["cleaner-recopy-percent"]] == [None, None]


@pytest.mark.kafka("117")
def test_metrics_of_a_topic_end_with_it(world: World) -> None:
    """Its marks leave the total; the other topics' figures are what they were."""
    world.create(1, topic="payments", min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
    world.ingest(build_versions(0, 6), topic="payments")
    for partition in range(3):
        storage.parse_local_path(world.segments(partition)[0].path).write_bytes(b"")
    compact_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    payments = measured(world, "payments")

    def together() -> dict[str, Value]:
        return list_metric_values(
            sum_measurements(
                [measure_topic(world.installation, t, as_of_ms=world.clock()) for t in list_topics(world.installation)]
            )
        )

    assert together()["uncleanable-partitions-count"] == 3
    world.installation.log.catalog.drop_table(("winnow", TOPIC))
    world.installation.store.projection.forget_topic(TOPIC)
    left = together()
    assert {name: left[name] for name in payments} == payments == measured(world, "payments")
    assert (left["due-topics-count"], left["uncleanable-topics-count"]) == (1, 0)


@pytest.mark.kafka("118")
@pytest.mark.parametrize(
    "changes",
    [
        {"compaction.strategy": "timestamp"},
        {"cleanup.policy": "compact,delete", "retention.ms": "1"},
        {"max.compaction.lag.ms": str(HOUR_MS)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_metric_is_still_there_after_the_configuration_changed(world: World, changes: dict[str, str]) -> None:
    """And still says what the last run did."""
    compact_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    before = measured(world)
    assert before["cleaner-recopy-percent"] != 0
    alter_topic(world.installation, TOPIC, changes, [])
    after = measured(world)
    assert [name for name, value in before.items() if value is not None and after[name] is None] == []
    assert after["cleaner-recopy-percent"] == before["cleaner-recopy-percent"]


@pytest.mark.kafka("115")
def test_a_worker_that_died_is_seen_by_what_is_not_done(world: World) -> None:
    """Its run stays open, the delay grows, and the next run takes the work over."""
    world.create(1, topic="due", max_compaction_lag_ms=str(HOUR_MS), min_cleanable_dirty_ratio="1.0")
    records = [record(n, b"k", b"%d" % n, world.clock()) for n in range(3)]
    world.ingest(records, topic="due")
    world.clock.now_ms += 2 * HOUR_MS
    plan = world.plan(world.clock(), topic="due")
    assert plan is not None
    assert [run.plan_id for run in world.installation.store.runs.list_open("due")] == [plan.plan_id]
    assert measured(world, "due")["max-compaction-delay-secs"] == 3_600
    assert measured(world, "due")["overdue-partitions-count"] == 1
    world.clock.now_ms += HOUR_MS
    (found,) = assess_topics(world.installation, ["due"], as_of_ms=world.clock(), record=False)
    assert (found.reason, measured(world, "due")["max-compaction-delay-secs"]) == (Reason.MAX_COMPACTION_LAG, 7_200)
    assert compact_topics(world.installation, ["due"], as_of_ms=world.clock()).exit_code == 0
    assert world.installation.store.runs.list_open("due") == []
    assert measured(world, "due")["overdue-partitions-count"] == 0
    assert world.read(topic="due") == records[2:]
