"""Up to when a topic is compacted: against the definition, record by record."""

from __future__ import annotations

from tests.support.world import TOPIC, World, build_versions, record
from winnow.pipeline.monitor.watermark import Watermark, compute_watermark
from winnow.pipeline.topics.definition import alter_topic
from winnow.values.model import Record

HOUR_MS = 3_600_000


def look(world: World) -> Watermark:
    """The watermark of the topic now."""
    return compute_watermark(world.installation.log.open(TOPIC), now_ms=world.clock())


def holds(world: World, mark: Watermark, records: list[Record]) -> bool:
    """The definition: every record with a timestamp up to the watermark lies below its first dirty offset."""
    assert mark.compacted_through_ms is not None
    return all(
        each.offset < mark.first_dirty_offsets[each.partition]
        for each in records
        if each.timestamp_ms is not None and each.timestamp_ms <= mark.compacted_through_ms
    )


def at(first: int, count: int, time_ms: int, partition: int = 0) -> list[Record]:
    """Records whose timestamps begin at ``time_ms`` and lie a second apart."""
    return [
        record(n, b"key-%d" % (n % 3), b"v", time_ms + (n - first) * 1000, partition=partition)
        for n in range(first, first + count)
    ]


def test_a_topic_with_nothing_dirty_is_compacted_through_now(world: World) -> None:
    """Empty, or compacted to its end: all that the log holds is compacted, whatever its timestamps."""
    world.create(2, min_cleanable_dirty_ratio="0")
    assert look(world) == Watermark(TOPIC, world.head().snapshot_id, {0: 0, 1: 0}, world.clock())
    records = at(0, 30, world.clock() - 48 * HOUR_MS)
    world.ingest(records)
    assert world.compact(world.clock() + 400 * 24 * HOUR_MS) is not None
    mark = look(world)
    assert (mark.first_dirty_offsets, mark.compacted_through_ms) == ({0: 30, 1: 0}, world.clock())
    assert holds(world, mark, records)


def test_the_earliest_dirty_timestamp_of_any_partition_holds_the_watermark(world: World) -> None:
    """Two partitions, one compacted up to a part: a millisecond before the oldest dirty record, and not one more."""
    world.create(2, min_cleanable_dirty_ratio="0", segment_ms=str(HOUR_MS))
    now_ms = world.clock()
    old = at(0, 30, now_ms - 48 * HOUR_MS) + at(0, 30, now_ms - 40 * HOUR_MS, 1)
    world.ingest(old)
    first = look(world)
    assert first.compacted_through_ms == now_ms - 48 * HOUR_MS - 1
    assert world.compact() is not None
    fresh = at(30, 5, now_ms - 600_000) + at(30, 5, now_ms - 300_000, 1)
    world.ingest(fresh)
    mark = look(world)
    assert mark.first_dirty_offsets == {0: 30, 1: 30}
    assert mark.compacted_through_ms == now_ms - 600_000 - 1
    assert holds(world, mark, old + fresh)


def test_a_late_record_takes_the_watermark_back(world: World) -> None:
    """It is dirty, and older than what was compacted before; nobody may believe that it was compacted."""
    world.create(1, min_cleanable_dirty_ratio="0")
    now_ms = world.clock()
    old = at(0, 30, now_ms - 9 * 24 * HOUR_MS)
    world.ingest(old)
    world.compact()
    late = [record(30, b"key-0", b"late", now_ms - 30 * 24 * HOUR_MS)]
    world.ingest(late)
    mark = look(world)
    assert mark.compacted_through_ms == now_ms - 30 * 24 * HOUR_MS - 1
    assert holds(world, mark, old + late)


def test_records_without_a_timestamp_count_by_their_append(world: World) -> None:
    """All of a segment or some of it: the as-of of the append bounds what may be said."""
    world.create(1)
    as_of_ms = world.clock() - 5 * HOUR_MS
    world.ingest([record(0, b"a", b"v", None)], as_of_ms=as_of_ms)
    assert look(world).compacted_through_ms == as_of_ms - 1
    world.ingest([record(1, b"b", b"v", None), record(2, b"c", b"v", world.clock())], as_of_ms=as_of_ms - 7)
    assert look(world).compacted_through_ms == as_of_ms - 8


def test_a_dirty_record_from_the_future_says_nothing_of_the_time_until_then(world: World) -> None:
    """The watermark is never ahead of the present."""
    world.create(1)
    world.ingest([record(0, b"a", b"v", world.clock() + HOUR_MS)], as_of_ms=world.clock() + HOUR_MS)
    assert look(world).compacted_through_ms == world.clock()


def test_another_strategy_makes_everything_dirty_again(world: World) -> None:
    """What was chosen by the old order is not compacted by the new one."""
    world.create(1, min_cleanable_dirty_ratio="0")
    world.ingest(build_versions(0, 30))
    assert world.compact() is not None
    assert look(world).compacted_through_ms == world.clock()
    alter_topic(world.installation, TOPIC, {"compaction.strategy": "timestamp"}, [])
    mark = look(world)
    assert mark.first_dirty_offsets == {0: 0}
    assert mark.compacted_through_ms is not None
    assert mark.compacted_through_ms < 1_000
