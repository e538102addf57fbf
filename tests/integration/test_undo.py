"""Taking a run back: the log is as if it had never been, what came since stays, and what is gone is not promised."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.cli_runner import winnow
from tests.support.key_changes import read_snapshot_changes
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    define_world,
    list_visible_rows,
    record,
    run_between_head_and_commit,
)
from winnow.errors import PlanVoidError, UndoRefusedError, UsageError
from winnow.pipeline.admin.checkpoints import import_checkpoints
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.partitions import resume_partitions
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.pipeline.undo.listing import UndoableChange, list_undoable
from winnow.pipeline.undo.undo import UndoReport, undo_change
from winnow.sources.checkpoint_file import CheckpointEntry
from winnow.store import RunState
from winnow.store.audit import AuditAction
from winnow.store.projection import Projection
from winnow.store.rows import Window
from winnow.values.topic_state import PartitionState

GRACE_MS = 3_600_000
FIRST = build_versions(0, 9)
SECOND = build_versions(0, 6, partition=1)

world = define_world(
    2,
    [*FIRST, *SECOND],
    in_the_present=True,
    min_cleanable_dirty_ratio="0",
    cleanup_policy="compact,delete",
    segment_ms="1",
    winnow_retired_grace_ms=str(GRACE_MS),
    winnow_keyless="quarantine",
)
"""Two partitions with records of three keys each; every version of a key but the last can be superseded."""


def compact(world: World) -> str:
    """Let a run compact what is due; return its plan's id."""
    world.clock.now_ms += 1_000
    receipt = world.compact()
    assert receipt is not None
    assert receipt.plan_id is not None
    return receipt.plan_id


def undo(world: World, change_id: str, *partitions: int, takes_later: bool = False) -> UndoReport:
    return undo_change(world.installation, TOPIC, change_id, partitions, takes_later=takes_later)


def resume(world: World) -> None:
    resume_partitions(world.installation, TOPIC, by="ann", everybody=True)


def listed(world: World) -> dict[str, UndoableChange]:
    return {each.change_id: each for each in list_undoable(world.installation, TOPIC).changes}


def latest_keys(world: World) -> list[bytes]:
    latest = world.installation.log.latest_table(TOPIC).table()
    assert latest is not None
    return sorted(row["key"] for row in latest.scan().to_arrow().to_pylist())


def without_pause(state: PartitionState) -> PartitionState:
    return replace(state, paused_by=(), paused_since_ms=None)


def test_log_and_its_cleaner_state_are_as_before_the_run(world: World) -> None:
    before, segments, read = world.head().state, [*world.segments(0), *world.segments(1)], world.read()
    plan_id = compact(world)
    assert len(world.read()) == 6
    report = undo(world, plan_id)
    assert (report.was_undone, sum(part.records_restored for part in report.partitions)) == (False, 9)
    assert world.read() == read
    assert [*world.segments(0), *world.segments(1)] == segments
    after = world.head().state
    assert {n: without_pause(each) for n, each in after.partitions.items()} == before.partitions
    assert after.fence > before.fence


def test_undone_partitions_are_paused_under_a_name_that_says_so_and_go_on_when_resumed(world: World) -> None:
    report = undo(world, compact(world))
    assert report.paused_by.startswith("undone by ")
    assert world.state(0).paused_by == (report.paused_by,)
    assert world.compact() is None
    assert f"winnow partitions resume {TOPIC} --partition 0 --partition 1 --by '{report.paused_by}'" == report.resume
    resume_partitions(world.installation, TOPIC, [0, 1], by=report.paused_by)
    read = world.read()
    again = compact(world)
    assert len(world.read()) == 6
    undo(world, again)
    assert world.read() == read


def test_same_run_can_be_made_again_as_of_the_same_instant(world: World) -> None:
    """A backfill decides the same from the same segments; that is another plan, since the first is in the history."""
    as_of_ms = world.clock()
    first = world.compact(as_of_ms)
    assert first is not None
    kept = world.read()
    undo(world, str(first.plan_id))
    resume(world)
    second = world.compact(as_of_ms)
    assert second is not None
    assert second.plan_id != first.plan_id
    assert world.read() == kept


def test_undoing_twice_changes_nothing(world: World) -> None:
    plan_id = compact(world)
    undo(world, plan_id)
    before = world.snapshot_ids()
    assert undo(world, plan_id).was_undone
    assert world.snapshot_ids() == before


def test_what_was_appended_since_stays(world: World) -> None:
    plan_id = compact(world)
    later = [*build_versions(9, 4), *build_versions(6, 2, partition=1)]
    world.ingest(later)
    undo(world, plan_id)
    assert world.read() == sorted([*FIRST, *SECOND, *later], key=lambda each: (each.partition, each.offset))
    assert [entry.first_offset for entry in world.state(0).appends] == [0, 9]


def test_call_that_the_run_had_compacted_can_be_undone_afterwards(world: World) -> None:
    call = list_ingests(world.installation, TOPIC).calls[0]
    plan_id = compact(world)
    assert not list_ingests(world.installation, TOPIC).calls[0].undoable
    undo(world, plan_id)
    undo_ingest(world.installation, TOPIC, call.ingest_id)
    assert world.read() == []


def test_one_partition_can_be_taken_back_alone_and_the_other_later(world: World) -> None:
    read = world.read()
    plan_id = compact(world)
    compacted = world.read(1)
    report = undo(world, plan_id, 0)
    assert [part.partition for part in report.partitions] == [0]
    assert (world.read(0), world.read(1)) == (FIRST, compacted)
    assert not world.state(1).paused_by
    assert listed(world)[plan_id].undone_partitions == (0,)
    assert [part.partition for part in undo(world, plan_id).partitions] == [1]
    assert world.read() == read
    with pytest.raises(UsageError, match="changed nothing in orders-7"):
        undo(world, plan_id, 7)


def test_later_run_over_its_result_is_named_and_taken_back_with_it_newest_first(world: World) -> None:
    before, read = world.state(0), world.read()
    first = compact(world)
    later = build_versions(9, 3)
    world.ingest(later)
    second = compact(world)
    with pytest.raises(UndoRefusedError, match=second) as refused:
        undo(world, first)
    assert f"winnow undo {first} --and-later" in str(refused.value)
    report = undo(world, first, takes_later=True)
    assert next(part.undone for part in report.partitions if part.partition == 0) == (second, first)
    assert world.read() == sorted([*read, *later], key=lambda each: (each.partition, each.offset))
    after = world.state(0)
    assert (after.first_dirty_offset, after.history) == (before.first_dirty_offset, before.history)
    assert undo(world, second).was_undone


def test_later_run_that_wrote_nothing_anew_stands_in_the_way_too(world: World) -> None:
    """It has judged tombstones by what the first run left."""
    first = compact(world)
    world.ingest([record(9, b"other", b"1")])
    second = compact(world)
    assert [each.records for each in world.segments(0)][-1] == 1
    with pytest.raises(UndoRefusedError, match=second):
        undo(world, first, 0)


def test_tombstones_that_went_are_back_with_what_they_fend_off(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"delete.retention.ms": "0"}, [])
    world.ingest([record(9, b"key-0", None), record(10, b"key-9", b"1")])
    first = compact(world)
    history = world.state(0).history
    world.ingest([record(11, b"key-9", b"2")])
    read = world.read()
    second = compact(world)
    assert 9 not in [each.offset for each in world.read(0)]
    undo(world, second)
    assert world.read() == read
    assert world.state(0).history == history
    undo(world, first)
    assert [each.offset for each in world.read(0)] == list(range(12))


def test_retention_run_is_taken_back_and_a_log_start_raised_since_stays(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete", "retention.ms": "1000"}, [])
    world.ingest([record(9, b"k", b"v", world.clock() + 86_400_000)])
    world.clock.now_ms += 10_000
    plan_id = compact(world)
    assert [each.offset for each in world.read(0)] == [9]
    alter_topic(world.installation, TOPIC, {"retention.ms": "-1"}, [])
    assert listed(world)[plan_id].kind == "retention"
    undo(world, plan_id)
    assert [each.offset for each in world.read(0)] == list(range(10))
    assert world.state(0).log_start_offset == 0


def test_log_start_that_was_raised_after_the_run_stays(world: World) -> None:
    plan_id = compact(world)
    delete_records(world.installation, TOPIC, {0: 4})
    undo(world, plan_id)
    assert world.read(0) == FIRST[4:]
    assert world.state(0).log_start_offset == 4


def test_deletion_of_records_is_taken_back_by_its_name(world: World) -> None:
    (deleted,) = delete_records(world.installation, TOPIC, {0: 4})
    assert deleted.change_id is not None
    assert deleted.change_id.startswith(f"delete-records:{TOPIC}:")
    report = undo(world, deleted.change_id)
    assert (world.read(0), report.partitions[0].log_start_offset) == (FIRST, 0)
    (again,) = delete_records(world.installation, TOPIC, {0: 0})
    assert again.change_id is None


def test_deletions_can_be_taken_back_in_any_order(world: World) -> None:
    """The log begins where the highest of those that stay lets it begin."""
    ids = []
    for offset in (2, 5, 7):
        (deleted,) = delete_records(world.installation, TOPIC, {0: offset})
        ids.append(str(deleted.change_id))
    starts = []
    for change_id in (ids[1], ids[0], ids[2]):
        undo(world, change_id)
        starts.append(world.state(0).log_start_offset)
    assert starts == [7, 7, 0]


def test_run_that_removed_the_deleted_segments_is_taken_back_with_the_deletion(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
    world.ingest([record(9, b"k", b"v")])
    (deleted,) = delete_records(world.installation, TOPIC, {0: 9})
    run = compact(world)
    assert [each.first_offset for each in world.segments(0)] == [9]
    with pytest.raises(UndoRefusedError, match=run):
        undo(world, str(deleted.change_id))
    undo(world, str(deleted.change_id), takes_later=True)
    assert [each.offset for each in world.read(0)] == list(range(10))


def test_imported_checkpoint_stays(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete", "retention.bytes": "0"}, [])
    run = compact(world)
    import_checkpoints(world.installation, TOPIC, [CheckpointEntry(TOPIC, 0, 6)])
    undo(world, run)
    assert world.state(0).first_dirty_offset == 6


def test_keyless_records_leave_the_quarantine_and_are_in_the_log_again(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
    world.ingest([record(9, None, b"without"), record(10, b"key-0", b"last")])
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact"}, [])
    read = world.read()
    plan_id = compact(world)
    quarantine = world.installation.log.quarantine(TOPIC)
    assert list_visible_rows(quarantine, world.head().state).num_rows == 1
    undo(world, plan_id)
    assert world.read() == read
    assert list_visible_rows(quarantine, world.head().state).num_rows == 0
    world.clock.now_ms += 2 * GRACE_MS
    sweep_topics(world.installation, [TOPIC])
    assert quarantine.files() == []
    assert world.read() == read


def test_keyless_records_of_several_partitions_are_not_divided(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
    world.ingest([record(9, None, b"a"), replace(record(6, None, b"b"), partition=1)])
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact"}, [])
    read = world.read()
    plan_id = compact(world)
    with pytest.raises(UndoRefusedError, match="partitions 0, 1 into the quarantine together"):
        undo(world, plan_id, 0)
    undo(world, plan_id)
    assert world.read() == read


def test_segment_that_a_sweep_condemned_is_gone_for_an_undo(world: World) -> None:
    plan_id = compact(world)
    read = world.read()
    world.clock.now_ms += 2 * GRACE_MS
    sweep_topics(world.installation, [TOPIC])
    with pytest.raises(UndoRefusedError, match="a sweep has deleted a segment of orders-0") as refused:
        undo(world, plan_id)
    assert "Nothing was changed" in str(refused.value)
    assert world.read() == read
    assert not listed(world)[plan_id].undoable


def test_segment_that_a_sweep_is_deleting_is_gone_for_an_undo(world: World) -> None:
    """The sweep died between its commit and the first deletion: all files are there, and may go at any moment."""
    plan_id = compact(world)
    read = world.read()
    world.clock.now_ms += 2 * GRACE_MS

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("the process died")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("winnow.pipeline.admin.sweep._delete_files", die)
        with pytest.raises(RuntimeError):
            sweep_topics(world.installation, [TOPIC])
    assert world.head().state.condemned
    with pytest.raises(UndoRefusedError, match="a sweep is deleting a segment of orders-0"):
        undo(world, plan_id)
    assert world.read() == read


def test_sweep_between_the_decision_and_the_commit_is_seen(world: World) -> None:
    plan_id = compact(world)
    read = world.read()

    def sweep_late() -> None:
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])

    with run_between_head_and_commit(sweep_late), pytest.raises(UndoRefusedError, match="a sweep"):
        undo(world, plan_id)
    assert world.read() == read


def test_undo_between_a_sweeps_decision_and_its_commit_keeps_its_segments(world: World) -> None:
    read = world.read()
    plan_id = compact(world)
    world.clock.now_ms += 2 * GRACE_MS
    with run_between_head_and_commit(lambda: undo(world, plan_id)):
        sweep_topics(world.installation, [TOPIC])
    assert world.read() == read
    sweep_topics(world.installation, [TOPIC])
    assert world.read() == read


@pytest.mark.parametrize("damage", ["missing", "cut", "offsets"])
def test_damaged_segment_is_not_brought_back(world: World, damage: str) -> None:
    (segment,) = world.segments(0)
    plan_id = compact(world)
    read, path = world.read(), Path(segment.path.removeprefix("file://"))
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        (other,) = (each for each in world.head().state.retired if "00001-" in each.path)
        path.write_bytes(Path(other.path.removeprefix("file://")).read_bytes().ljust(path.stat().st_size, b"\0"))
    with pytest.raises(UndoRefusedError, match="segment of orders-0") as refused:
        undo(world, plan_id)
    assert segment.path in str(refused.value)
    assert world.read() == read
    assert [part.partition for part in undo(world, plan_id, 1).partitions] == [1]


def test_what_the_run_wrote_waits_for_its_grace_and_what_came_back_does_not(world: World) -> None:
    before = {segment.path for number in (0, 1) for segment in world.segments(number)}
    plan_id = compact(world)
    written = {segment.path for number in (0, 1) for segment in world.segments(number)}
    undo(world, plan_id)
    assert {file.path for file in world.head().state.retired} == written - before
    rows = world.installation.store.retired_files.list_retired(TOPIC)
    assert {row.path for row in rows if row.kind == "data"} == written - before
    read = world.read()
    world.clock.now_ms += 2 * GRACE_MS
    sweep_topics(world.installation, [TOPIC])
    assert world.read() == read
    assert not any(Path(path.removeprefix("file://")).exists() for path in written - before)


def test_plan_that_reads_what_the_run_wrote_is_void(world: World) -> None:
    plan_id = compact(world)
    world.ingest(build_versions(9, 3))
    world.clock.now_ms += 1_000
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    undo(world, plan_id)
    resume(world)
    read = world.read()
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == read


def test_plan_from_before_the_run_is_not_published_over_the_segments_that_are_live_again(world: World) -> None:
    """It was made for just these segments; only the fence tells that it is not of this life of them."""
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    world.clock.now_ms += 1_000
    other = world.plan(world.clock(), "a2")
    assert other is not None
    world.stage(other, "a2")
    world.accept(other, "a2")
    publish_attempt(world.installation, other.plan_id, "a2")
    undo(world, other.plan_id)
    resume(world)
    read = world.read()
    with pytest.raises(PlanVoidError, match="fence"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == read


def test_run_that_is_published_again_after_its_undo_stays_undone(world: World) -> None:
    read = world.read()
    plan_id = compact(world)
    undo(world, plan_id)
    assert publish_attempt(world.installation, plan_id, "a1").plan_id == plan_id
    assert world.read() == read
    assert world.state(0).paused_by


def test_store_is_completed_when_the_command_is_repeated_after_a_crash(world: World) -> None:
    plan_id = compact(world)

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("the process died")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Projection, "record_states", die)
        with pytest.raises(RuntimeError):
            undo(world, plan_id)
    assert undo(world, plan_id).was_undone
    store = world.installation.store
    states, rows = store.projection.list_states(TOPIC), store.retired_files.list_retired(TOPIC)
    rebuild_store(world.installation, [TOPIC])
    assert store.projection.list_states(TOPIC) == states
    assert {(row.path, row.plan_id) for row in store.retired_files.list_retired(TOPIC)} == {
        (row.path, row.plan_id) for row in rows
    }


def test_records_are_not_called_removed_by_a_run_that_was_undone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(world.folder / "home"))
    plan_id = compact(world)
    undo(world, plan_id)
    resume(world)
    again = compact(world)
    answer = winnow("why", TOPIC, "--partition", "0", "--offset", "0", "--json").stdout
    assert again in answer
    assert plan_id not in answer


def test_latest_table_follows_where_a_tombstone_is_back_that_fends_off_a_late_record(world: World) -> None:
    """While the tombstone was gone, an older version of its key that came late was the latest of the key."""
    alter_topic(
        world.installation,
        TOPIC,
        {
            "winnow.latest.table": "true",
            "compaction.strategy": "timestamp",
            "delete.retention.ms": "0",
            "winnow.late.arrival.ms": "0",
        },
        [],
    )
    world.ingest([record(9, b"late", b"5", 5_000), record(10, b"late", None, 9_000)])
    compact(world)
    world.ingest([record(11, b"other", b"1")])
    second = compact(world)
    world.ingest([record(12, b"late", b"7", 7_000)])
    update_latest_table(world.installation, TOPIC)
    assert b"late" in latest_keys(world)
    (*_, before) = world.snapshot_ids()
    undo(world, second)
    batches = read_snapshot_changes(world.installation, TOPIC, before)
    changed = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["key"], row["change"]) for row in changed] == [(b"late", "deleted")]
    assert b"late" not in latest_keys(world)
    assert b"other" in latest_keys(world)


def test_run_says_by_whom_it_was_undone_and_stays_published(world: World) -> None:
    plan_id = compact(world)
    undo(world, plan_id, 1)
    undo(world, plan_id)
    run = world.installation.store.runs.get(plan_id)
    assert run.status is RunState.PUBLISHED
    assert run.message.startswith("Undone by ")
    assert "orders-0, orders-1. Before that: Compacted 2 partitions" in run.message


def test_audit_log_names_who_undid_what(world: World) -> None:
    plan_id = compact(world)
    undo(world, plan_id)
    (entry,) = [
        each for each in world.installation.store.audit.list_entries(Window()).rows if each.action == AuditAction.UNDO
    ]
    assert plan_id in entry.detail
    assert entry.topic == TOPIC


def test_list_says_until_when_and_what_would_come_back(world: World) -> None:
    first = compact(world)
    world.ingest(build_versions(9, 3))
    second = compact(world)
    found = listed(world)
    assert list(found) == [second, first]
    assert (found[second].undoable, found[second].needs_later) == (True, ())
    assert (found[first].undoable, found[first].needs_later) == (True, (second,))
    assert found[second].until_ms == world.clock() + GRACE_MS
    assert found[first].until_ms == world.clock() - 1_000 + GRACE_MS
    assert found[first].records == 9 + 3
    undo(world, second)
    assert (listed(world)[second].undoable, listed(world)[second].reason) == (False, "it was undone")
    assert listed(world)[first].needs_later == ()


def test_command_takes_the_beginning_of_a_plans_id_and_names_what_it_does_not_know(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(world.folder / "home"))
    plan_id = compact(world)
    assert plan_id[:12] in winnow("undo", "--list", TOPIC).stdout
    report = winnow("undo", plan_id[:12], "--reason", "wrong strategy", "--json").document
    assert (report["change_id"], report["was_undone"]) == (plan_id, False)
    assert "was undone before. Nothing was changed." in winnow("undo", plan_id).stdout
    assert [each["undoable"] for each in winnow("undo", "--list", "--json").document] == [False]
    assert "There is no published plan" in winnow("undo", "f" * 32, code=2).stderr
    assert "Which run" in winnow("undo", code=2).stderr
    (receipt,) = winnow("receipts", TOPIC, "--json").document
    assert receipt["message"].startswith("Undone by ")
    assert "Undone by " in winnow("receipts", TOPIC).stdout


def test_segments_that_came_back_hold_each_record_once(world: World) -> None:
    segments = world.segments(0)
    assert all(low.last_offset < high.first_offset for low, high in pairwise(segments))
    plan_id = compact(world)
    undo(world, plan_id)
    assert sum(each.records for each in world.segments(0)) == len(FIRST)
