"""Whole segments leave the log, oldest first, by log start, size and age; what must stay stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import NOW_MS, TOPIC, World, record, run_between_head_and_commit
from winnow.clock import read_wall_clock_ms
from winnow.engine.staging import read_plan
from winnow.errors import PlanVoidError, UsageError
from winnow.pipeline.admin.delete_records import LOG_END, delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.marks import mark_uncleanable
from winnow.values.model import Reason, Record

DAY_MS = 86_400_000


def _days(world: World, *ages: float, keys: str = "abcdefgh", value: bytes | None = b"v") -> None:
    """One file per age (in days), two records each."""
    for age in ages:
        first = world.state().log_end_offset
        stamp_ms = world.clock() - round(age * DAY_MS)
        key = keys[first // 2 % len(keys)].encode()
        world.ingest([Record(first, key, value, stamp_ms), Record(first + 1, key + b"2", value, stamp_ms)])


def _offsets(world: World) -> list[int]:
    return [each.offset for each in world.read()]


def _reason(world: World, as_of_ms: int | None = None) -> Reason:
    (found,) = assess_topics(
        world.installation, [TOPIC], as_of_ms=world.clock() if as_of_ms is None else as_of_ms, record=False
    )
    return found.reason


def test_with_policy_delete_the_oldest_segments_go_by_age_and_the_log_start_follows(world: World) -> None:
    """Records in the order of their age; nothing is rewritten, nothing is cleaned."""
    world.create(cleanup_policy="delete", retention_ms=str(2 * DAY_MS))
    _days(world, 5, 3, 1, 0)
    assert _reason(world) is Reason.RETENTION
    receipt = world.compact()
    assert receipt is not None
    (part,) = receipt.partitions
    assert (part.records_retired, part.records_in, part.next_first_dirty_offset) == (4, 0, 4)
    assert (_offsets(world), world.state().log_start_offset, world.state().log_end_offset) == ([4, 5, 6, 7], 4, 8)
    assert world.state().first_dirty_offset is None
    assert world.compact() is None
    assert _reason(world) is Reason.POLICY_DELETE_ONLY


def test_a_segment_exactly_as_old_as_retention_stays(world: World) -> None:
    """Kafka removes what is strictly older."""
    world.create(cleanup_policy="delete", retention_ms=str(2 * DAY_MS))
    _days(world, 2)
    assert world.compact() is None
    world.clock.now_ms += 1
    assert world.compact() is not None
    assert _offsets(world) == []


def test_a_young_segment_keeps_the_older_ones_behind_it(world: World) -> None:
    """The scan stops at the first segment that does not qualify."""
    world.create(cleanup_policy="delete", retention_ms=str(2 * DAY_MS))
    _days(world, 1, 9, 9)
    assert world.compact() is None


def test_when_every_segment_goes_the_log_end_stays(world: World) -> None:
    """Offsets are never given again."""
    world.create(cleanup_policy="delete", retention_ms="1")
    _days(world, 3, 2)
    assert world.compact() is not None
    assert (world.state().log_start_offset, world.state().log_end_offset) == (4, 4)
    _days(world, 0)
    assert _offsets(world) == [4, 5]


def test_retention_bytes_takes_segments_as_long_as_the_excess_is_at_least_their_size(world: World) -> None:
    """Room for two of three, and one byte less than room for two."""
    world.create(cleanup_policy="delete")
    _days(world, 0, 0, 0)
    sizes = [segment.size_bytes for segment in world.segments()]
    alter_topic(world.installation, TOPIC, {"retention.bytes": str(sum(sizes[1:]) + 1)}, [])
    assert world.compact() is None
    alter_topic(world.installation, TOPIC, {"retention.bytes": str(sum(sizes[1:]))}, [])
    assert world.compact() is not None
    assert _offsets(world) == [2, 3, 4, 5]


def test_a_simulated_future_removes_nothing(world: World) -> None:
    """Retention's clock is the earlier of as-of and the present."""
    world.create(cleanup_policy="delete", retention_ms=str(2 * DAY_MS))
    _days(world, 1)
    assert world.compact(world.clock() + 30 * DAY_MS) is None
    assert _offsets(world) == [0, 1]


def test_a_simulated_future_retires_no_tombstone_before_its_time(world: World) -> None:
    """Its segment is too old by now; under timestamp it stays for what may still arrive, by the wall clock."""
    world.create(
        cleanup_policy="compact,delete",
        compaction_strategy="timestamp",
        retention_ms=str(2 * DAY_MS),
        min_cleanable_dirty_ratio="0.9",
        segment_ms="1",
    )
    world.ingest([record(0, b"k", None, world.clock() - 9 * DAY_MS)])
    assert world.compact() is not None
    planned = world.plan(world.clock() + 30 * DAY_MS)
    assert planned is not None
    (partition,) = read_plan(planned.uri).partitions
    assert partition.retired == ()
    world.clock.now_ms += 30 * DAY_MS
    planned = world.plan(world.clock())
    assert planned is not None
    (partition,) = read_plan(planned.uri).partitions
    assert [segment.first_offset for segment in partition.retired] == [0]


def test_a_backfill_of_the_past_removes_what_was_too_old_then(world: World) -> None:
    """And not what is too old by now."""
    world.create(cleanup_policy="delete", retention_ms=str(2 * DAY_MS))
    _days(world, 9, 4)
    assert world.compact(world.clock() - 5 * DAY_MS) is not None
    assert _offsets(world) == [2, 3]


def test_with_compact_and_delete_the_rest_is_compacted_in_the_same_run(world: World) -> None:
    """Counts are of what retention leaves; what it removed is counted apart."""
    world.create(cleanup_policy="compact,delete", retention_ms=str(2 * DAY_MS), segment_bytes="14")
    _days(world, 5, 1, 1, keys="a")
    receipt = world.compact()
    assert receipt is not None
    (part,) = receipt.partitions
    assert (part.records_retired, part.records_in, part.records_kept, part.records_superseded) == (2, 4, 2, 2)
    assert _offsets(world) == [4, 5]


def test_the_latest_value_of_a_key_goes_by_age_unless_it_is_protected(world: World) -> None:
    """Kafka loses it (case 143); with winnow.retention.protect.latest the cleaner does retention's work."""
    world.create(
        cleanup_policy="compact,delete",
        retention_ms=str(2 * DAY_MS),
        segment_bytes="14",
        min_cleanable_dirty_ratio="1",
    )
    _days(world, 9, 5, 5, keys="xaa")
    alter_topic(world.installation, TOPIC, {"winnow.retention.protect.latest": "true"}, [])
    assert _reason(world) is Reason.RETENTION
    receipt = world.compact()
    assert receipt is not None
    assert (receipt.partitions[0].records_retired, receipt.partitions[0].records_superseded) == (0, 2)
    assert _offsets(world) == [0, 1, 4, 5]
    assert world.compact() is None
    alter_topic(world.installation, TOPIC, {"winnow.retention.protect.latest": "false"}, [])
    assert world.compact() is not None
    assert _offsets(world) == []


def test_retention_goes_on_for_an_uncleanable_partition_and_leaves_its_mark(world: World) -> None:
    """Kafka stops it with the cleaner (KAFKA-7215)."""
    world.create(cleanup_policy="compact,delete", retention_ms=str(2 * DAY_MS), segment_bytes="14")
    _days(world, 5, 1)
    mark_uncleanable(world.installation, TOPIC, "p", {0: "damaged"})
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].reason is Reason.RETENTION
    assert (receipt.partitions[0].records_retired, receipt.partitions[0].records_in) == (2, 0)
    assert world.state().uncleanable is not None
    assert world.state().first_dirty_offset is None
    assert _reason(world) is Reason.UNCLEANABLE


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
def test_under_timestamp_and_header_retention_takes_no_dirty_segment_and_no_living_tombstone(
    world: World, strategy: str
) -> None:
    """What they outrank may still arrive; once the tombstone may go, the run that drops it drops it."""
    world.create(
        cleanup_policy="compact,delete",
        compaction_strategy=strategy,
        compaction_strategy_header="v",
        retention_ms=str(2 * DAY_MS),
        segment_bytes="14",
        min_cleanable_dirty_ratio="0",
        delete_retention_ms="0",
        winnow_late_arrival_ms=str(DAY_MS),
    )
    version = (("v", (9).to_bytes(8, "big")),)
    world.ingest([record(0, b"gone", None, NOW_MS - 9 * DAY_MS, headers=version)])
    receipt = world.compact()
    assert receipt is not None
    assert (receipt.partitions[0].records_retired, _offsets(world)) == (0, [0])
    assert world.compact() is None
    world.clock.now_ms += DAY_MS
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].records_retired + receipt.partitions[0].tombstones_expired == 1
    assert _offsets(world) == []


def test_retired_segments_leave_the_disk_after_their_grace(world: World) -> None:
    """Not before: a reader of the old snapshot may be at work."""
    world.create(cleanup_policy="delete", retention_ms=str(2 * DAY_MS), winnow_retired_grace_ms=str(DAY_MS))
    world.clock.now_ms = read_wall_clock_ms()  # snapshots carry the real time
    _days(world, 5)
    (segment,) = world.segments()
    path = Path(segment.path.removeprefix("file://"))
    world.compact()
    sweep_topics(world.installation, [TOPIC])
    assert path.exists()
    world.clock.now_ms += DAY_MS + 60_000
    sweep_topics(world.installation, [TOPIC])
    assert not path.exists()


def test_a_segment_that_retention_took_is_skipped_when_its_file_is_ingested_again(world: World) -> None:
    """Offsets below the log start never come back."""
    world.create(cleanup_policy="delete", retention_ms=str(2 * DAY_MS))
    old = [record(0, b"a", b"1", NOW_MS - 5 * DAY_MS), record(1, b"b", b"1", NOW_MS - 5 * DAY_MS)]
    world.ingest(old)
    world.compact()
    report = world.ingest(old)
    assert (report.records_appended, report.records_skipped, _offsets(world)) == (0, 2, [])


def test_deleted_records_are_unreadable_at_once_and_their_segments_go_at_the_next_run(world: World) -> None:
    """The log start may lie inside a segment; that segment stays."""
    world.create(cleanup_policy="delete")
    _days(world, 0, 0)
    (row,) = delete_records(world.installation, TOPIC, {0: 3})
    assert (row.log_start_offset, row.previous_log_start_offset) == (3, 0)
    assert _offsets(world) == [3]
    assert len(world.segments()) == 2
    assert _reason(world) is Reason.RETENTION
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].records_retired == 2
    assert (_offsets(world), len(world.segments())) == ([3], 1)
    assert world.compact() is None


def test_deleting_records_twice_or_lower_changes_nothing(world: World) -> None:
    """A log start only rises."""
    world.create(cleanup_policy="delete")
    _days(world, 0, 0)
    delete_records(world.installation, TOPIC, {0: 3})
    snapshots = world.snapshot_ids()
    delete_records(world.installation, TOPIC, {0: 3})
    delete_records(world.installation, TOPIC, {0: 1})
    assert world.snapshot_ids() == snapshots
    assert world.state().log_start_offset == 3
    delete_records(world.installation, TOPIC, {0: LOG_END})
    assert (world.state().log_start_offset, _offsets(world)) == (4, [])


@pytest.mark.parametrize(
    ("policy", "before", "said"),
    [
        ("compact", {0: 1}, "POLICY_VIOLATION"),
        ("delete", {0: 5}, "OFFSET_OUT_OF_RANGE"),
        ("delete", {0: -2}, "OFFSET_OUT_OF_RANGE"),
        ("delete", {7: 1}, "partitions 0 to 0"),
    ],
)
def test_deleting_records_where_it_must_not_be_is_refused_and_changes_nothing(
    world: World, policy: str, before: dict[int, int], said: str
) -> None:
    """With Kafka's words, and the way on."""
    world.create(cleanup_policy=policy)
    _days(world, 0, 0)
    with pytest.raises(UsageError, match=said):
        delete_records(world.installation, TOPIC, before)
    assert _offsets(world) == [0, 1, 2, 3]


def test_a_plan_made_before_records_were_deleted_is_void(world: World) -> None:
    """What was staged holds records that nobody may read any more."""
    world.create(cleanup_policy="compact,delete", segment_bytes="14")
    _days(world, 0, 0, keys="a")
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    delete_records(world.installation, TOPIC, {0: 3})
    with pytest.raises(PlanVoidError, match="is no longer what plan"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert _offsets(world) == [3]


def test_setting_a_policy_that_deletes_says_what_the_next_run_removes(world: World) -> None:
    """Records, bytes and where the log would begin; the run then removes exactly that."""
    world.create()
    _days(world, 5, 1)
    size_bytes = world.segments()[0].size_bytes
    changes = {"cleanup.policy": "compact,delete", "retention.ms": str(2 * DAY_MS)}
    (notice,) = alter_topic(world.installation, TOPIC, changes, []).notices
    assert f"would remove 2 records ({size_bytes:,} bytes)" in notice
    assert "begin at offset 2" in notice
    receipt = world.compact()
    assert receipt is not None
    assert (receipt.partitions[0].records_retired, receipt.partitions[0].bytes_retired) == (2, size_bytes)


def test_a_policy_that_deletes_without_a_limit_removes_nothing_and_says_so(world: World) -> None:
    """Winnow's default of retention.ms is -1: an archive may be the only copy."""
    world.create()
    _days(world, 900)
    (notice,) = alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, []).notices
    assert "nothing is removed" in notice
    assert world.compact() is None


def test_with_an_empty_policy_only_what_lies_below_the_log_start_goes(world: World) -> None:
    """Later Kafka's rule (KAFKA-19112)."""
    world.create(cleanup_policy="delete")
    _days(world, 900, 1)
    delete_records(world.installation, TOPIC, {0: 2})
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "", "retention.ms": "1"}, [])
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].records_retired == 2
    assert _reason(world) is Reason.POLICY_DELETE_ONLY


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"compaction.strategy": "offset"}, {"compaction.strategy": "timestamp"}),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, {"retention.ms": "-1"}),
        ({"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}),
        ({"delete.retention.ms": "0"}, {"delete.retention.ms": "1000"}),
    ],
)
def test_a_plan_is_void_when_the_configuration_changed_after_it_was_made(
    world: World, before: dict[str, str], after: dict[str, str]
) -> None:
    """What it removes was right under other rules; the next plan follows those in force."""
    world.create(segment_bytes="14", min_cleanable_dirty_ratio="0")
    alter_topic(world.installation, TOPIC, before, [])
    _days(world, 5, 4, keys="a")
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    alter_topic(world.installation, TOPIC, after, [])
    with pytest.raises(PlanVoidError, match="configuration of topic orders changed"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert _offsets(world) == [0, 1, 2, 3]


def test_a_configuration_that_changes_while_a_publish_commits_voids_the_plan(world: World) -> None:
    """Looked at before, committed after: altering is a commit, so the publish begins again and looks again."""
    world.create(segment_bytes="14", min_cleanable_dirty_ratio="0")
    _days(world, 5, 4, keys="a")
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    with (
        run_between_head_and_commit(
            lambda: alter_topic(world.installation, TOPIC, {"compaction.strategy": "timestamp"}, [])
        ),
        pytest.raises(PlanVoidError),
    ):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert _offsets(world) == [0, 1, 2, 3]


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
def test_retention_leaves_a_tombstone_whose_late_older_value_is_not_compacted_yet(world: World, strategy: str) -> None:
    """Both past their horizon: the value arrived before it, and nothing but the tombstone outranks it."""
    world.create(
        cleanup_policy="compact,delete",
        compaction_strategy=strategy,
        compaction_strategy_header="v",
        retention_ms=str(20 * DAY_MS),
        segment_bytes="14",
        min_cleanable_dirty_ratio="1",
        max_compaction_lag_ms=str(100 * DAY_MS),
        delete_retention_ms="0",
        winnow_late_arrival_ms=str(DAY_MS),
    )
    newer, older = ((("v", number.to_bytes(8, "big")),) for number in (9, 7))
    world.ingest([record(0, b"k", None, NOW_MS, headers=newer)])
    alter_topic(world.installation, TOPIC, {"min.cleanable.dirty.ratio": "0"}, [])
    assert world.compact() is not None
    alter_topic(world.installation, TOPIC, {"min.cleanable.dirty.ratio": "1"}, [])
    world.ingest([record(1, b"k", b"late", NOW_MS - DAY_MS, headers=older)])
    world.clock.now_ms += 50 * DAY_MS
    while world.compact() is not None:
        assert b"late" not in [each.value for each in world.read()] or len(world.read()) == 2
    alter_topic(world.installation, TOPIC, {"min.cleanable.dirty.ratio": "0", "retention.ms": "-1"}, [])
    while world.compact() is not None:
        pass
    assert b"late" not in [each.value for each in world.read()]


def test_file_that_meets_a_raised_log_start_on_a_log_never_cleaned_is_skipped(world: World) -> None:
    """Nothing was ever compacted, so nothing is known of cleanings; below the log start nothing comes back."""
    world.create(cleanup_policy="delete", segment_bytes="14")
    records = [record(n, b"k", b"v", world.clock()) for n in range(4)]
    world.ingest(records)
    delete_records(world.installation, TOPIC, {0: 4})
    assert world.compact() is not None
    report = world.ingest(records)
    assert (report.records_appended, report.records_skipped) == (0, 4)
