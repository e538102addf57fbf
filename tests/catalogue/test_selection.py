"""Which partition is looked at, which range of it is cleanable, and what the ratio and the lags say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.catalogue.log_builder import (
    FULL_BYTES,
    HOUR_MS,
    LONG_AGO_MS,
    NOW_MS,
    assess_log,
    build_log,
    build_segment,
    build_segments,
    make_rules,
)
from tests.catalogue.record_samples import FORMATS, write_records
from tests.support.world import TOPIC, World, build_versions, compute_survivors, open_world, record, write_jsonl
from winnow.errors import BadInputError, WinnowError
from winnow.files import storage
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.leases import hold_lease
from winnow.planning.cleanable import PartitionLog, find_cleanable_range
from winnow.values.model import Reason, Record
from winnow.values.topic_state import Append, Uncleanable

MARK = Uncleanable("a segment cannot be read", since_ms=LONG_AGO_MS, next_attempt_ms=NOW_MS + 1)


def growing(*, marks: dict[int, Uncleanable] | None = None) -> list[PartitionLog]:
    """Three partitions whose first two segments are clean; behind them two, four and eight dirty ones."""
    return [
        build_log(
            *build_segments(2 + 2 * 2**partition),
            partition=partition,
            first_dirty_offset=20,
            uncleanable=(marks or {}).get(partition),
        )
        for partition in range(3)
    ]


def between(logs: list[PartitionLog], less: int, more: int) -> float:
    """A threshold that partition ``more`` exceeds and ``less`` does not."""
    return (assess_log(logs[less]).dirty_ratio + assess_log(logs[more]).dirty_ratio) / 2


# ------------------------------------------------------------------------------------------------------ which partition


@pytest.mark.kafka("1", "G12")
def test_the_dirtiest_partition_is_selected_before_any_less_dirty_one() -> None:
    """Whatever the threshold, what is selected is the dirtiest, then the dirtiest two, then all."""
    logs = growing()
    ratios = [assess_log(log).dirty_ratio for log in logs]
    assert ratios == [2 / 4, 4 / 6, 8 / 10]
    for threshold, selected in ((ratios[2], []), (ratios[1], [2]), (ratios[0], [1, 2]), (0, [0, 1, 2])):
        found = [log.partition for log in logs if assess_log(log, min_cleanable_dirty_ratio=threshold).eligible]
        assert found == selected


@pytest.mark.kafka("2")
def test_an_uncleanable_partition_is_left_out_and_the_next_one_taken() -> None:
    """Until its wait is over; the others are judged as if it were not there."""
    logs = growing(marks={2: MARK})
    threshold = between(logs, 0, 1)
    found = {log.partition: assess_log(log, min_cleanable_dirty_ratio=threshold).reason for log in logs}
    assert found == {0: Reason.NOT_DIRTY_ENOUGH, 1: Reason.DIRTY_RATIO, 2: Reason.UNCLEANABLE}
    later = assess_log(logs[2], as_of_ms=NOW_MS + 1, min_cleanable_dirty_ratio=threshold)
    assert later.reason is Reason.DIRTY_RATIO


@pytest.mark.kafka("3")
def test_a_topic_that_another_run_holds_is_left_to_it_and_the_next_one_compacted(tmp_path: Path) -> None:
    """The lease is the only thing between them."""
    with open_world(tmp_path) as world:
        for topic, dirty in ((TOPIC, 9), ("payments", 6)):
            world.create(1, topic=topic, min_cleanable_dirty_ratio="0")
            world.ingest(build_versions(0, dirty), topic=topic)
        with open_installation(world.installation.settings, now_ms=world.clock) as other, hold_lease(other, TOPIC):
            found = {
                a.topic: a.reason for a in assess_topics(world.installation, [], as_of_ms=world.clock(), record=False)
            }
            assert found == {TOPIC: Reason.IN_PROGRESS, "payments": Reason.DIRTY_RATIO}
            world.compact(topic="payments")
        assert world.read() == build_versions(0, 9)
        assert world.read(topic="payments") == compute_survivors(build_versions(0, 6))


@pytest.mark.kafka("4")
def test_nothing_is_selected_when_the_dirty_ones_are_uncleanable_held_or_paused_and_the_rest_clean() -> None:
    """Each says its own reason."""
    dirty = build_segments(4)
    marked = assess_log(build_log(*dirty, first_dirty_offset=20, uncleanable=MARK))
    held = assess_log(build_log(*dirty, first_dirty_offset=20), in_progress=True)
    paused = assess_log(build_log(*dirty, first_dirty_offset=20, paused_since_ms=LONG_AGO_MS))
    clean = assess_log(build_log(*dirty, first_dirty_offset=40))
    assert [a.reason for a in (marked, held, paused, clean)] == [
        Reason.UNCLEANABLE,
        Reason.IN_PROGRESS,
        Reason.PAUSED,
        Reason.CLEAN,
    ]
    assert not any(a.eligible for a in (marked, held, paused, clean))


@pytest.mark.kafka("5")
def test_a_log_that_cannot_be_assessed_is_named_with_its_cause(tmp_path: Path) -> None:
    """Its state is gone, and so is the copy; the topic beside it is assessed."""
    with open_world(tmp_path) as world:
        for topic in (TOPIC, "payments"):
            world.create(1, topic=topic, min_cleanable_dirty_ratio="0")
            world.ingest(build_versions(0, 6), topic=topic)
        head = world.head()
        assert head.copies is not None
        for folder in (head.location, head.copies):
            for path in storage.parse_local_path(folder).glob("_winnow/state/*"):
                path.unlink()
        with pytest.raises(WinnowError, match="topic orders") as failed:
            assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
        assert isinstance(failed.value.__cause__, FileNotFoundError)
        (other,) = assess_topics(world.installation, ["payments"], as_of_ms=world.clock())
        assert other.eligible


# ------------------------------------------------------------------------------------------------------ where it begins


@pytest.mark.kafka("6")
def test_a_checkpoint_above_the_log_end_makes_the_whole_log_dirty() -> None:
    found = assess_log(build_log(*build_segments(3), first_dirty_offset=200))
    assert (found.first_dirty_offset, found.clean_bytes, found.cleanable_bytes) == (0, 0, 3 * FULL_BYTES)


@pytest.mark.kafka("7")
def test_a_checkpoint_below_the_log_start_counts_as_the_log_start() -> None:
    found = assess_log(build_log(*build_segments(3, first=1), first_dirty_offset=0, log_start_offset=10))
    assert (found.first_dirty_offset, found.clean_bytes, found.cleanable_bytes) == (10, 0, 3 * FULL_BYTES)


@pytest.mark.kafka("8")
def test_a_log_start_inside_the_only_segment_leaves_nothing_to_select() -> None:
    """The segment is active, so what lies above the log start is not cleanable yet."""
    found = assess_log(build_log(build_segment(0, 9, size_bytes=FULL_BYTES - 1, at_ms=NOW_MS), log_start_offset=5))
    assert (found.reason, found.first_dirty_offset, found.first_uncleanable_offset) == (Reason.NO_CLOSED_SEGMENT, 5, 5)
    assert (found.clean_bytes, found.cleanable_bytes) == (FULL_BYTES - 1, 0)


@pytest.mark.kafka("9")
def test_a_checkpoint_inside_the_only_segment_leaves_nothing_to_select_time_after_time() -> None:
    """Looking again says the same: nothing loops, nothing moves."""
    log = build_log(build_segment(0, 9, size_bytes=FULL_BYTES - 1, at_ms=NOW_MS), first_dirty_offset=5)
    first, again = assess_log(log), assess_log(log)
    assert first == again
    assert (first.reason, first.first_dirty_offset, first.first_uncleanable_offset) == (Reason.NO_CLOSED_SEGMENT, 5, 5)


@pytest.mark.kafka("10")
def test_a_checkpoint_below_the_log_start_is_corrected_although_nothing_is_cleaned() -> None:
    """What the look says is what a plan would begin with."""
    log = build_log(
        build_segment(10, 19, size_bytes=FULL_BYTES - 1, at_ms=NOW_MS), first_dirty_offset=0, log_start_offset=10
    )
    found = assess_log(log)
    assert (found.eligible, found.first_dirty_offset) == (False, 10)


@pytest.mark.kafka("11")
@pytest.mark.parametrize("checkpoint", [0, 200])
def test_a_checkpoint_outside_the_log_is_corrected_although_another_partition_is_selected(checkpoint: int) -> None:
    """Above the end as below the start; its own records are too young to be cleaned."""
    dirtier = build_log(*build_segments(4), first_dirty_offset=10)
    young = build_segments(2, first=1, at_ms=NOW_MS)
    stale = build_log(*young, partition=1, first_dirty_offset=checkpoint, log_start_offset=10)
    found = [assess_log(log, min_compaction_lag_ms=1) for log in (dirtier, stale)]
    assert [each.eligible for each in found] == [True, False]
    assert [each.first_dirty_offset for each in found] == [10, 10]


@pytest.mark.kafka("16")
@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(10, 10), (15, 15), (30, 30), (9, 10), (0, 10), (31, 10), (2**62, 10), (None, 10)]
)
def test_a_checkpoint_is_kept_inside_the_log_and_reset_outside(checkpoint: int | None, expected: int) -> None:
    """Both ends of the log are inside."""
    found = assess_log(build_log(*build_segments(2, first=1), first_dirty_offset=checkpoint, log_start_offset=10))
    assert found.first_dirty_offset == expected


# -------------------------------------------------------------------------------------------------------- where it ends


@pytest.mark.kafka("12")
def test_without_a_minimum_lag_the_range_reaches_the_log_end() -> None:
    """Also when the records are of this very moment."""
    span = find_cleanable_range(build_log(*build_segments(5, at_ms=NOW_MS)), make_rules(), NOW_MS)
    assert (span.first_dirty_offset, span.first_uncleanable_offset) == (0, 50)


@pytest.mark.kafka("13")
def test_the_range_ends_where_the_active_segment_begins() -> None:
    """The last two files together are not full."""
    active = [build_segment(30, 34, size_bytes=40, at_ms=NOW_MS), build_segment(35, 39, size_bytes=40, at_ms=NOW_MS)]
    span = find_cleanable_range(build_log(*build_segments(3), *active), make_rules(), NOW_MS)
    assert (span.first_uncleanable_offset, span.active_offset) == (30, 30)


@pytest.mark.kafka("14", "G9")
def test_the_range_ends_at_the_first_segment_younger_than_the_minimum_lag() -> None:
    """Exactly as old as the lag is old enough; one segment of the future blocks all after it."""
    lag_ms = HOUR_MS
    old, due = build_segments(2, at_ms=NOW_MS - 2 * lag_ms), build_segments(1, first=2, at_ms=NOW_MS - lag_ms)
    young, old_again = (
        build_segments(1, first=3, at_ms=NOW_MS - lag_ms + 1),
        build_segments(2, first=4, at_ms=NOW_MS - 2 * lag_ms),
    )
    span = find_cleanable_range(
        build_log(*old, *due, *young, *old_again), make_rules(min_compaction_lag_ms=lag_ms), NOW_MS
    )
    assert (span.first_dirty_offset, span.first_uncleanable_offset) == (0, 30)


@pytest.mark.kafka("15")
def test_the_range_ends_at_the_active_segment_when_all_closed_data_is_old_enough() -> None:
    active = build_segment(30, 39, size_bytes=FULL_BYTES - 1, at_ms=NOW_MS - 2 * HOUR_MS)
    log = build_log(*build_segments(3, at_ms=NOW_MS - 2 * HOUR_MS), active)
    span = find_cleanable_range(log, make_rules(min_compaction_lag_ms=HOUR_MS), NOW_MS)
    assert span.first_uncleanable_offset == 30


@pytest.mark.kafka("17")
def test_undecided_records_wait_outside_the_log_and_each_segment_for_its_lag(tmp_path: Path) -> None:
    """A transaction is open at offset 6, then decided; nothing can be slipped in below the log end afterwards."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", min_compaction_lag_ms=str(HOUR_MS), internal_segment_bytes="1")
        now = world.clock()
        world.ingest([record(n, b"k", b"old-%d" % n, now - HOUR_MS) for n in range(6)])
        world.compact()
        assert (world.state().first_dirty_offset, world.state().log_end_offset) == (6, 6)
        decided = [record(n, b"k", b"decided-%d" % n, now - HOUR_MS) for n in (6, 7)]
        marker_at = 8
        young = [record(n, b"k", b"young-%d" % n, now) for n in (marker_at + 1, marker_at + 2)]
        world.ingest(decided)
        world.ingest(young)
        world.compact()
        assert [r.offset for r in world.read()] == [7, 9, 10]
        assert world.state().first_dirty_offset == 9
        with pytest.raises(BadInputError, match="offset 8"):
            world.ingest([record(marker_at, b"k", b"undecided then", now)])
        world.clock.now_ms += HOUR_MS
        world.compact()
        assert [r.offset for r in world.read()] == [10]


# ------------------------------------------------------------------------------------------------------ bytes and ratio


@pytest.mark.kafka("18")
def test_bytes_are_those_of_the_closed_segments() -> None:
    """The checkpoint stands at the active segment: everything before it is clean, nothing is cleanable."""
    closed, active = build_segments(4), build_segment(40, 49, size_bytes=FULL_BYTES - 1, at_ms=NOW_MS)
    found = assess_log(build_log(*closed, active, first_dirty_offset=40))
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio) == (4 * FULL_BYTES, 0, 0.0)


@pytest.mark.kafka("19")
def test_two_clean_two_cleanable_and_two_uncleanable_segments_give_one_half() -> None:
    """The worked example of the dirty ratio; strictly greater, so one half itself does not fire."""
    log = build_log(*build_segments(4), *build_segments(2, first=4, at_ms=NOW_MS), first_dirty_offset=20)
    found = assess_log(log, min_compaction_lag_ms=1)
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio) == (200, 200, 0.5)
    assert (found.first_uncleanable_offset, found.reason) == (40, Reason.NOT_DIRTY_ENOUGH)
    assert assess_log(log, min_compaction_lag_ms=1, min_cleanable_dirty_ratio=0.49).reason is Reason.DIRTY_RATIO


def files_of(world: World, *blocks: list[Record]) -> None:
    """Each block as a file of its own."""
    for block in blocks:
        world.ingest(block)


@pytest.mark.kafka("20")
def test_a_segment_that_holds_the_first_uncleanable_offset_keeps_its_duplicates(tmp_path: Path) -> None:
    """Seven files of one key; the last record of the third is too young, so only the first two shrink."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", min_compaction_lag_ms=str(HOUR_MS), internal_segment_bytes="1")
        now = world.clock()
        blocks = [
            [record(n, b"k", b"%d" % n, now if n == 14 else now - 2 * HOUR_MS) for n in range(block * 5, block * 5 + 5)]
            for block in range(7)
        ]
        files_of(world, *blocks)
        before = world.segments()
        world.compact()
        assert [r.offset for r in world.read()] == [9, *range(10, 35)]
        assert world.segments()[1:] == before[2:]
        assert world.state().first_dirty_offset == 10


# ----------------------------------------------------------------------------------------------------------------- lags


@pytest.mark.kafka("21", "G10")
def test_each_block_is_compacted_when_its_maximum_lag_has_passed_and_not_before(tmp_path: Path) -> None:
    """The ratio never fires; the second block waits for its own six hours, and nothing has to arrive meanwhile."""
    with open_world(tmp_path) as world:
        world.create(
            1,
            min_cleanable_dirty_ratio="1.0",
            min_compaction_lag_ms=str(HOUR_MS),
            max_compaction_lag_ms=str(6 * HOUR_MS),
        )
        start = world.clock()
        first = [record(n, b"k%d" % (n % 3), b"first", start) for n in range(9)]
        second = [record(n, b"k%d" % (n % 3), b"second", start + 6 * HOUR_MS) for n in range(9, 18)]
        world.ingest(first)
        world.clock.now_ms = start + 6 * HOUR_MS
        world.ingest(second)
        assert world.compact() is None
        world.clock.now_ms += 1
        world.compact()
        assert world.read() == [*first[6:], *second]
        assert world.state().first_dirty_offset == 9
        world.clock.now_ms = start + 12 * HOUR_MS
        assert world.compact() is None
        world.clock.now_ms += 1
        world.compact()
        assert world.read() == second[6:]


@pytest.mark.kafka("22")
@pytest.mark.parametrize("kind", FORMATS)
def test_within_the_minimum_lag_nothing_shrinks_and_after_it_the_old_block_does(tmp_path: Path, kind: str) -> None:
    """Whatever the format of the input; the state of keys is the same before and after."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", min_compaction_lag_ms=str(HOUR_MS), internal_segment_bytes="1")
        start = world.clock()
        old = [record(n, b"k%d" % (n % 100), b"v%d" % n, start) for n in range(300)]
        new = [record(n, b"k%d" % (n % 100), b"v%d" % n, start + HOUR_MS // 2) for n in range(300, 400)]
        ingest_files(world.installation, TOPIC, [write_records(tmp_path, "old", kind, old)], as_of_ms=start)
        world.clock.now_ms = start + HOUR_MS // 2
        assert world.compact() is None
        ingest_files(world.installation, TOPIC, [write_records(tmp_path, "new", kind, new)], as_of_ms=world.clock())
        assert world.compact() is None
        assert world.read() == [*old, *new]
        world.clock.now_ms = start + HOUR_MS
        size_before = sum(s.size_bytes for s in world.segments())
        world.compact()
        assert world.read() == [*old[200:], *new]
        assert sum(s.size_bytes for s in world.segments()) < size_before
        assert {r.key: r.value for r in world.read()} == {r.key: r.value for r in [*old, *new]}


@pytest.mark.kafka("25")
@pytest.mark.parametrize("timestamped", [True, False])
@pytest.mark.parametrize(("age_ms", "closed"), [(HOUR_MS, False), (HOUR_MS + 1, True)])
def test_a_segment_is_closed_by_the_age_of_its_records_or_of_its_append(
    timestamped: bool, age_ms: int, closed: bool
) -> None:
    """Strictly older than segment.ms; the clock alone moves, nothing is appended."""
    at_ms = NOW_MS - age_ms
    young = build_segment(0, 9, size_bytes=1, at_ms=at_ms if timestamped else None)
    log = build_log(young, appends=(Append("digest", 0, 9, 10, at_ms),))
    found = assess_log(log, segment_ms=HOUR_MS)
    assert found.reason is (Reason.DIRTY_RATIO if closed else Reason.NO_CLOSED_SEGMENT)
    assert found.first_uncleanable_offset == (10 if closed else 0)


@pytest.mark.kafka("25")
def test_records_of_one_time_far_apart_from_the_clock_close_by_size_alone() -> None:
    """Timestamps of the future make a segment no older."""
    ahead = build_segment(0, 9, size_bytes=1, at_ms=NOW_MS + HOUR_MS)
    assert assess_log(build_log(ahead), segment_ms=1).reason is Reason.NO_CLOSED_SEGMENT


@pytest.mark.kafka("25")
def test_an_empty_append_rolls_nothing(tmp_path: Path) -> None:
    """No file, no snapshot; an empty log stays empty however late it is."""
    with open_world(tmp_path) as world:
        world.create(1, segment_ms="1")
        path = write_jsonl(tmp_path / "empty.jsonl", [])
        ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
        world.clock.now_ms += 1_000 * HOUR_MS
        (found,) = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
        assert (found.reason, world.segments(), world.snapshot_ids()) == (Reason.EMPTY, (), [])
