"""How long records and tombstones live, where a clock could be taken for another one."""

from __future__ import annotations

import pytest

from tests.support.world import TOPIC, World, record
from winnow.pipeline.topics.definition import alter_topic
from winnow.report.receipts import format_receipt

HOUR_MS = 3_600_000


def _offsets(world: World) -> list[int]:
    return [each.offset for each in world.read()]


@pytest.mark.kafka("G13", "G29")
def test_a_backfill_starts_a_tombstones_horizon_now_and_not_at_its_as_of(world: World) -> None:
    """A reader of today may have seen the value until this very run."""
    world.create(segment_ms="1", delete_retention_ms=str(2 * HOUR_MS), min_cleanable_dirty_ratio="0")
    old_ms = world.clock() - 100 * HOUR_MS
    world.ingest([record(0, b"k", b"v", old_ms), record(1, b"k", None, old_ms)], as_of_ms=old_ms)
    assert world.compact(world.clock() - 50 * HOUR_MS) is not None
    assert world.state().history[-1].delete_horizon_ms == world.clock() + 2 * HOUR_MS
    assert world.compact() is None
    assert _offsets(world) == [1]
    world.clock.now_ms += 2 * HOUR_MS
    assert world.compact() is not None
    assert _offsets(world) == []


def test_a_simulated_future_starts_the_horizon_there(world: World) -> None:
    """The later of as-of and the present: a tombstone lives longer for it, never shorter."""
    world.create(segment_ms="1", delete_retention_ms=str(2 * HOUR_MS), min_cleanable_dirty_ratio="0")
    world.ingest([record(0, b"k", None, world.clock())])
    ahead_ms = world.clock() + 9 * HOUR_MS
    assert world.compact(ahead_ms) is not None
    assert world.state().history[-1].delete_horizon_ms == ahead_ms + 2 * HOUR_MS
    world.clock.now_ms += 3 * HOUR_MS
    assert world.compact() is None


def test_a_simulated_run_names_what_it_removed_before_its_time(world: World) -> None:
    """Tombstones by their horizon, and offsets that the minimum lag keeps: by the wall clock neither was due."""
    world.create(
        segment_ms="1",
        delete_retention_ms=str(2 * HOUR_MS),
        min_compaction_lag_ms=str(HOUR_MS),
        min_cleanable_dirty_ratio="0",
    )
    old_ms = world.clock() - 9 * HOUR_MS
    world.ingest([record(0, b"a", None, old_ms), record(1, b"b", None, old_ms)])
    first = world.compact()
    assert first is not None
    assert "Simulated" not in first.message + format_receipt(first)
    world.ingest([record(2, b"c", b"1", world.clock()), record(3, b"c", b"2", world.clock())])
    receipt = world.compact(world.clock() + 3 * HOUR_MS)
    assert receipt is not None
    (part,) = receipt.partitions
    assert (part.tombstones_expired, part.tombstones_expired_early, part.offsets_cleaned_early) == (2, 2, 2)
    for told in (receipt.message, format_receipt(receipt)):
        assert "Simulated: the as-of " in told
        assert "lies 3 h ahead of the present." in told
        assert "Up to 2 tombstones expired before their delete horizon by the wall clock" in told
        assert "2 offsets were cleaned that min.compaction.lag.ms or the active segment would still exclude" in told
    assert _offsets(world) == [3]


def test_a_simulated_run_does_not_count_what_was_due_anyway(world: World) -> None:
    """A horizon that has passed by the wall clock, beside one that has not."""
    world.create(segment_ms="1", delete_retention_ms=str(2 * HOUR_MS), min_cleanable_dirty_ratio="0")
    world.ingest([record(0, b"a", None, world.clock() - HOUR_MS)])
    assert world.compact() is not None
    world.clock.now_ms += 2 * HOUR_MS
    world.ingest([record(1, b"b", None, world.clock() - HOUR_MS), record(2, b"c", None, world.clock() - HOUR_MS)])
    simulated = world.compact(world.clock() + 2 * HOUR_MS)
    assert simulated is not None
    assert (simulated.partitions[0].tombstones_expired, simulated.partitions[0].tombstones_expired_early) == (1, 0)
    assert "By the wall clock, nothing was removed before its time." in simulated.message


def test_the_youngest_record_of_a_segment_decides_its_minimum_lag(world: World) -> None:
    """An old record beside a young one waits with it."""
    world.create(segment_ms="1", min_compaction_lag_ms=str(HOUR_MS), min_cleanable_dirty_ratio="0")
    now_ms = world.clock()
    world.ingest([record(0, b"k", b"1", now_ms - 9 * HOUR_MS), record(1, b"k", b"2", now_ms - HOUR_MS + 1)])
    assert world.compact() is None
    world.clock.now_ms += 1
    assert world.compact() is not None
    assert _offsets(world) == [1]


@pytest.mark.kafka("G16")
def test_only_a_null_value_expires(world: World) -> None:
    """G16: an empty value and the text null are values, whatever horizon has passed over them."""
    world.create(segment_ms="1", delete_retention_ms="0", min_cleanable_dirty_ratio="0")
    stamp_ms = world.clock() - HOUR_MS
    values = [(b"empty", b""), (b"text", b"null"), (b"gone", None)]
    world.ingest([record(offset, key, value, stamp_ms) for offset, (key, value) in enumerate(values)])
    assert world.compact() is not None
    assert _offsets(world) == [0, 1, 2]
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].tombstones_expired == 1
    assert _offsets(world) == [0, 1]
    assert world.compact() is None


def test_a_later_run_leaves_a_horizon_that_has_started_where_it_is(world: World) -> None:
    """Otherwise a busy partition would keep its tombstones for ever (KAFKA-8522)."""
    world.create(segment_ms="1", delete_retention_ms=str(2 * HOUR_MS), min_cleanable_dirty_ratio="0")
    stamp_ms = world.clock() - 9 * HOUR_MS
    world.ingest([record(0, b"gone", None, stamp_ms)])
    assert world.compact() is not None
    for offset in (1, 2):
        world.clock.now_ms += HOUR_MS
        world.ingest([record(offset, b"other", b"v", stamp_ms)])
        assert world.compact() is not None
    assert _offsets(world) == [2]


def test_file_is_skipped_again_after_a_changed_strategy_covered_only_part_of_the_log(world: World) -> None:
    """That run lowers the checkpoint; what an earlier one removed above it stays removed, and is no hole."""
    world.create(segment_ms="1", min_cleanable_dirty_ratio="0")
    old = [record(n, b"k", b"v", world.clock() - 216 * HOUR_MS) for n in range(3)]
    young = [record(n, b"k", b"v", world.clock()) for n in range(3, 6)]
    world.ingest(old)
    world.ingest(young)
    assert world.compact() is not None
    changes = {"compaction.strategy": "timestamp", "min.compaction.lag.ms": str(24 * HOUR_MS), "segment.bytes": "14"}
    world.ingest([record(6, b"other", b"v", world.clock())])
    alter_topic(world.installation, TOPIC, changes, [])
    world.compact()
    report = world.ingest(young)
    assert (report.records_appended, report.records_skipped) == (0, 3)
