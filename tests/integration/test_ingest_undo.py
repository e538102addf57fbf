"""Undoing an ingest call: the log is what it was before, the same files can come again, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, winnow
from tests.support.foreign_tables import create_kafka_table, make_catalog, make_rows
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    list_visible_rows,
    open_world,
    record,
    run_between_head_and_commit,
    write_jsonl,
)
from winnow.errors import CommitConflictError, PlanVoidError, ServiceError, UndoRefusedError, UsageError
from winnow.files import storage
from winnow.log import reference_chains
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.plan_validity import explain_void
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.history import IngestCall, list_ingests
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.ingest.table import TableRequest, ingest_table
from winnow.pipeline.ingest.undo import UndoReport, undo_ingest
from winnow.pipeline.topics.definition import alter_topic
from winnow.sources.choices import Choices
from winnow.store.projection import Projection
from winnow.values.model import Record
from winnow.values.topic_state import PartitionState

GRACE_MS = 3_600_000
FIRST = build_versions(0, 6)
TRIAL = build_versions(6, 5)


world = define_world(
    2,
    FIRST,
    in_the_present=True,
    min_cleanable_dirty_ratio="0",
    winnow_retired_grace_ms=str(GRACE_MS),
    winnow_keyless="quarantine",
)
"""Two partitions, the first with records. Snapshots carry the catalog's own time, so the clock begins now."""


def undo(world: World, ingest_id: str | None) -> UndoReport:
    assert ingest_id is not None
    return undo_ingest(world.installation, TOPIC, ingest_id)


def calls(world: World) -> list[IngestCall]:
    return list(list_ingests(world.installation, TOPIC).calls)


def aside(world: World) -> list[bytes]:
    rows = list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state).to_pylist()
    return sorted(row["value"] for row in rows)


def data_files(world: World) -> set[str]:
    return {path for path in world.listing() if path.endswith(".parquet")}


def test_log_is_as_before_the_call_and_the_same_file_gives_the_same_log_again(world: World) -> None:
    before = world.head().state
    path = write_jsonl(world.path(), [*TRIAL, *build_versions(40, 3, partition=1)])
    first = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    read = world.read()
    report = undo(world, first.ingest_id)
    assert (report.records_removed, report.was_undone) == (8, False)
    assert world.read() == FIRST
    after = world.head().state
    assert after.partitions == before.partitions
    assert after.ingests == before.ingests
    again = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    assert (again.records_appended, again.records_skipped) == (8, 0)
    assert world.read() == read
    assert again.ingest_id != first.ingest_id


def test_several_calls_are_undone_from_the_newest_on(world: World) -> None:
    one, two = world.ingest(TRIAL), world.ingest(build_versions(11, 2))
    with pytest.raises(UndoRefusedError, match=f"orders-0; undo {two.ingest_id} first"):
        undo(world, one.ingest_id)
    assert len(world.read()) == 13
    undo(world, two.ingest_id)
    undo(world, one.ingest_id)
    undo(world, calls(world)[0].ingest_id)
    assert (world.read(), calls(world), world.state()) == ([], [], PartitionState())


def test_call_of_which_one_partition_moved_on_is_refused_as_a_whole(world: World) -> None:
    both = world.ingest([*TRIAL, *build_versions(0, 3, partition=1)])
    world.ingest(build_versions(3, 1, partition=1))
    before, read = world.snapshot_ids(), world.read()
    with pytest.raises(UndoRefusedError, match="orders-1"):
        undo(world, both.ingest_id)
    assert (world.snapshot_ids(), world.read()) == (before, read)


def test_call_whose_records_a_later_call_found_there_already_waits_for_that_one(world: World) -> None:
    """What the later call left out as known has to be there while that call is in the ledgers."""
    trial = world.ingest(TRIAL)
    later = world.ingest([*TRIAL, *build_versions(0, 1, partition=1)])
    assert (later.records_appended, later.records_skipped) == (1, 5)
    with pytest.raises(UndoRefusedError, match=f"orders-0; undo {later.ingest_id} first"):
        undo(world, trial.ingest_id)


def test_call_of_other_partitions_does_not_stand_in_the_way(world: World) -> None:
    one = world.ingest(TRIAL)
    world.ingest(build_versions(0, 3, partition=1))
    undo(world, one.ingest_id)
    assert world.read() == [*FIRST, *build_versions(0, 3, partition=1)]


def test_call_whose_records_were_compacted_is_refused(world: World) -> None:
    trial = world.ingest(TRIAL)
    receipt = world.compact()
    assert receipt is not None
    with pytest.raises(UndoRefusedError, match=f"compacted: plan {receipt.plan_id}"):
        undo(world, trial.ingest_id)
    assert world.read() == compute_survivors([*FIRST, *TRIAL])


@pytest.mark.parametrize("first_offset", [6, 9], ids=["right after", "after a gap"])
def test_call_after_what_was_compacted_can_be_undone_and_come_again(tmp_path: Path, first_offset: int) -> None:
    """Transactions leave gaps: then the cleaning ends at the first offset that the call brought."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", segment_ms="1000")
        world.ingest([record(r.offset, r.key, r.value, timestamp_ms=world.clock() - 5_000) for r in FIRST])
        trial = [record(first_offset + n, b"key-0", b"trial", timestamp_ms=world.clock()) for n in range(3)]
        done = world.ingest(trial)
        assert world.compact() is not None
        compacted = world.read()
        undo(world, done.ingest_id)
        assert world.read() == compacted[:-3]
        assert world.state().log_end_offset == first_offset == world.state().first_dirty_offset
        assert world.ingest(trial).records_appended == 3
        assert world.read() == compacted


def test_call_that_took_part_in_a_cleaning_is_refused_also_after_the_checkpoint_was_lowered(tmp_path: Path) -> None:
    """Its segment is as it was, but it superseded an older record, of which nothing would be left."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", segment_ms="1")
        old_ms = world.clock() - 10 * GRACE_MS
        world.ingest([record(n, key, b"old", timestamp_ms=old_ms) for n, key in enumerate([b"a", b"b"])])
        trial = world.ingest([record(2, b"a", b"trial", timestamp_ms=world.clock() - 5_000)])
        segment = world.segments()[-1]
        assert world.compact() is not None
        alter_topic(
            world.installation, TOPIC, {"compaction.strategy": "timestamp", "min.compaction.lag.ms": str(GRACE_MS)}, []
        )
        assert world.compact(attempt="a2") is not None
        assert (world.state().first_dirty_offset, world.segments()[-1]) == (2, segment)
        with pytest.raises(UndoRefusedError, match="compacted"):
            undo(world, trial.ingest_id)
        assert [each.value for each in world.read()] == [b"old", b"trial"]


def test_call_of_which_records_were_deleted_is_refused(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        world.create(1, cleanup_policy="delete")
        world.ingest(FIRST)
        trial = world.ingest(TRIAL)
        delete_records(world.installation, TOPIC, {0: 6})
        assert calls(world)[0].undoable
        delete_records(world.installation, TOPIC, {0: 7})
        with pytest.raises(UndoRefusedError, match="begins at offset 7 now"):
            undo(world, trial.ingest_id)
        assert not calls(world)[0].undoable


def test_quarantined_records_go_with_the_call_and_only_with_it(world: World) -> None:
    world.ingest([record(6, None, b"stays")])
    mixed = [record(7, None, b"trial-1"), *build_versions(8, 2), record(20, None, b"trial-2")]
    trial = world.ingest(mixed)
    assert (aside(world), world.state().log_end_offset) == ([b"stays", b"trial-1", b"trial-2"], 21)
    undo(world, trial.ingest_id)
    assert (aside(world), world.state().log_end_offset, world.read()) == ([b"stays"], 7, FIRST)
    assert world.ingest(mixed).records_quarantined == 2
    assert aside(world) == [b"stays", b"trial-1", b"trial-2"]


def test_call_that_brought_keyless_records_alone_can_be_undone(world: World) -> None:
    trial = world.ingest([record(2, None, b"trial", partition=1)])
    assert world.state(1).log_end_offset == 3
    undo(world, trial.ingest_id)
    assert (world.state(1), aside(world)) == (PartitionState(), [])


def test_file_without_offsets_is_unknown_again_unless_another_call_ingested_it_too(world: World) -> None:
    path = write_jsonl(world.path(), TRIAL, with_offset=False)

    def ingest(again: bool = False) -> str | None:
        return ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock(), again=again).ingest_id

    one, two = ingest(), ingest(again=True)
    undo(world, two)
    assert ingest() is None  # the first call has it
    undo(world, one)
    assert world.head().state.file_digests == {}
    assert ingest() is not None
    assert [each.value for each in world.read()] == [each.value for each in [*FIRST, *TRIAL]]


def test_call_that_only_recognised_records_can_be_undone_and_goes_first(world: World) -> None:
    """Its ledger says that a file was seen; the file must not count as seen once its records are gone."""
    trial = world.ingest(TRIAL)
    recognised = world.ingest(TRIAL[:3])
    assert (recognised.records_appended, recognised.ingest_id is None) == (0, False)
    with pytest.raises(UndoRefusedError, match=f"undo {recognised.ingest_id} first"):
        undo(world, trial.ingest_id)
    assert undo(world, recognised.ingest_id).files_retired == 0
    assert world.read() == [*FIRST, *TRIAL]
    undo(world, trial.ingest_id)
    assert world.read() == FIRST


def test_call_whose_reference_is_in_a_link_can_be_undone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 2)
    world.ingest(build_versions(6, 1))
    trial = world.ingest(build_versions(0, 1, partition=1))
    for number in range(7, 14):
        world.ingest(build_versions(number, 1))
    order = [call.ingest_id for call in calls(world)]
    link = world.head().state.older_ingests
    assert link is not None
    assert link.count > 2
    assert trial.ingest_id in order[-3:]
    undo(world, trial.ingest_id)
    assert [call.ingest_id for call in calls(world)] == [each for each in order if each != trial.ingest_id]
    assert world.read() == build_versions(0, 14)
    world.ingest(build_versions(14, 1))
    assert len(calls(world)) == len(order)


def test_undoing_twice_says_so_and_an_unknown_call_is_wrong_usage(world: World) -> None:
    trial = world.ingest(TRIAL)
    first = undo(world, trial.ingest_id)
    world.ingest(build_versions(6, 1))
    again = undo(world, trial.ingest_id)
    assert (again.was_undone, again.snapshot_id) == (True, first.snapshot_id)
    assert world.read() == build_versions(0, 7)
    with pytest.raises(UsageError, match="has no ingest call nothing"):
        undo(world, "nothing")


def test_failure_before_the_commit_leaves_everything_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = world.ingest(TRIAL)
    before, read = world.head().state, world.read()

    def fail(*_: object) -> None:
        raise ServiceError("the catalog is away")

    with monkeypatch.context() as patch:
        patch.setattr(TopicLog, "_try", fail)
        with pytest.raises(ServiceError):
            undo(world, trial.ingest_id)
    assert (world.head().state, world.read()) == (before, read)
    undo(world, trial.ingest_id)
    assert world.read() == FIRST


def test_failure_after_the_commit_is_repaired_by_undoing_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = world.ingest(TRIAL)
    with monkeypatch.context() as patch:
        failure = ServiceError("the store is away")
        patch.setattr(Projection, "record_states", lambda *_, **__: (_ for _ in ()).throw(failure))
        with pytest.raises(ServiceError):
            undo(world, trial.ingest_id)
    assert world.read() == FIRST
    assert undo(world, trial.ingest_id).was_undone
    ends = [row.log_end_offset for row in world.installation.store.projection.list_checkpoints([TOPIC])]
    assert ends == [6, 0]


def test_files_stay_for_the_grace_and_a_sweep_removes_them_after_it(world: World) -> None:
    kept = data_files(world)
    trial = world.ingest([*TRIAL, record(30, None, b"keyless")])
    files = data_files(world) - kept
    assert len(files) == 2
    undo(world, trial.ingest_id)
    world.clock.now_ms += GRACE_MS - 1
    sweep_topics(world.installation, [TOPIC])
    assert files <= data_files(world)
    world.clock.now_ms += 60_000
    (report,) = sweep_topics(world.installation, [TOPIC])
    assert data_files(world) == kept
    assert report.files_waiting == 0
    assert world.installation.log.quarantine(TOPIC).files() == []
    assert world.read() == FIRST


def test_file_of_an_undone_call_stays_while_a_kept_snapshot_names_its_quarantined_records(world: World) -> None:
    trial = world.ingest([record(6, None, b"keyless")])
    table = world.head().table
    table.manage_snapshots().create_tag(world.snapshot_ids()[-1], "keep").commit()
    undo(world, trial.ingest_id)
    for _ in range(2):
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
    assert len(world.installation.log.quarantine(TOPIC).files()) == 1
    assert all(storage.exists(file.path) for file in world.installation.log.quarantine(TOPIC).files())


def test_ingest_that_left_out_records_of_the_undone_call_as_known_does_not_land(world: World) -> None:
    """Between its look at the log and its commit the call is undone, and other records take those offsets."""
    trial = world.ingest(TRIAL)
    others = [record(6 + n, b"other", b"other") for n in range(5)]

    def replace_trial() -> None:
        undo(world, trial.ingest_id)
        world.ingest(others)

    with run_between_head_and_commit(replace_trial), pytest.raises(CommitConflictError, match="undone"):
        world.ingest([*TRIAL, *build_versions(11, 1)])
    assert world.read() == [*FIRST, *others]


def test_objects_of_an_archive_are_read_again_after_their_call_is_undone(world: World, tmp_path: Path) -> None:
    """A later call that read them under the same or another name is in the way until it is undone itself."""
    folder = tmp_path / "kcat"
    folder.mkdir()

    def write(name: str, records: list[Record]) -> None:
        lines = [
            f'{{"topic":"{TOPIC}","partition":{r.partition},"offset":{r.offset},"tstype":"create","ts":1000,'
            f'"key":"{(r.key or b"").decode()}","payload":"{(r.value or b"").decode()}"}}\n'
            for r in records
        ]
        (folder / name).write_text("".join(lines))

    def ingest() -> IngestReport:
        return ingest_files(world.installation, TOPIC, [str(folder)], as_of_ms=world.clock(), layout="kcat")

    write("a.json", TRIAL)
    trial = ingest()
    assert ingest().ingest_id is None
    write("a.json", [*TRIAL, *build_versions(0, 1, partition=1)])
    grown = ingest()
    assert (grown.records_appended, grown.records_skipped) == (1, 5)
    with pytest.raises(UndoRefusedError, match=f"undo {grown.ingest_id} first"):
        undo(world, trial.ingest_id)
    undo(world, grown.ingest_id)
    undo(world, trial.ingest_id)
    assert world.read() == FIRST
    assert ingest().records_appended == 6


def test_ingest_that_comes_between_look_and_commit_makes_the_undo_refused(world: World) -> None:
    trial = world.ingest(TRIAL)
    more = build_versions(11, 2)
    with run_between_head_and_commit(lambda: world.ingest(more)), pytest.raises(UndoRefusedError):
        undo(world, trial.ingest_id)
    assert world.read() == [*FIRST, *TRIAL, *more]


def test_compaction_that_comes_between_look_and_commit_makes_the_undo_refused(world: World) -> None:
    trial = world.ingest(TRIAL)
    with run_between_head_and_commit(world.compact), pytest.raises(UndoRefusedError, match="compacted"):
        undo(world, trial.ingest_id)
    assert world.read() == compute_survivors([*FIRST, *TRIAL])


def test_plan_that_reads_the_undone_records_is_void_and_the_next_run_takes_the_topic(world: World) -> None:
    trial = world.ingest(TRIAL)
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    undo(world, trial.ingest_id)
    with pytest.raises(PlanVoidError, match="was undone"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert "the next run takes the topic" in (explain_void(world.installation, plan.plan_id) or "")
    assert world.read() == FIRST
    world.compact(attempt="a2")
    assert world.read() == compute_survivors(FIRST)


def test_plan_that_ends_beyond_the_log_after_an_undo_is_void(tmp_path: Path) -> None:
    """It reads nothing of the call, but ends at the call's first offset, behind a gap."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", segment_ms="1000")
        old = [record(each.offset, each.key, each.value, timestamp_ms=world.clock() - 5_000) for each in FIRST]
        world.ingest(old)
        trial = world.ingest([record(9, b"key-0", b"trial", timestamp_ms=world.clock())])
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        world.accept(plan)
        undo(world, trial.ingest_id)
        with pytest.raises(PlanVoidError, match="ends at offset 6 now"):
            publish_attempt(world.installation, plan.plan_id, "a1")
        assert "the next run takes the topic" in (explain_void(world.installation, plan.plan_id) or "")
        late = [record(6 + n, b"key-0", b"late", timestamp_ms=world.clock() - 5_000) for n in range(3)]
        world.ingest(late)
        world.clock.now_ms += 10_000
        world.compact(attempt="a2")
        assert world.read() == compute_survivors([*old, *late])


def test_list_says_what_each_call_did_and_which_can_be_undone(world: World) -> None:
    both = world.ingest([*TRIAL, *build_versions(3, 2, partition=1)])
    newest, oldest = calls(world)
    assert (newest.ingest_id, newest.snapshot_id, newest.as_of_ms) == (both.ingest_id, both.snapshot_id, world.clock())
    assert (newest.files, newest.records_appended, newest.records_skipped) == (1, 7, 0)
    parts = [(part.partition, part.records_appended, part.first_offset, part.last_offset) for part in newest.partitions]
    assert parts == [(0, 5, 6, 10), (1, 2, 3, 4)]
    assert (newest.undoable, newest.reason) == (True, None)
    assert (oldest.undoable, oldest.reason) == (
        False,
        f"a later call read records of orders-0; undo {both.ingest_id} first",
    )
    limited = list_ingests(world.installation, TOPIC, limit=1)
    assert ([call.ingest_id for call in limited.calls], limited.total) == ([both.ingest_id], 2)


def test_a_sweep_forgets_nothing_that_an_undo_needs(world: World) -> None:
    """Snapshots expire; the ledgers that the state names stay."""
    trial = world.ingest(TRIAL)
    world.ingest(build_versions(0, 1, partition=1))
    world.clock.now_ms += 2 * GRACE_MS
    sweep_topics(world.installation, [TOPIC])
    assert calls(world)[1].snapshot_id is None
    undo(world, trial.ingest_id)
    assert world.read() == [*FIRST, *build_versions(0, 1, partition=1)]


def test_calls_that_read_on_from_one_table_are_undone_from_the_newest_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest position says how far the table was read in all, also where the calls have no partition in common."""
    table = create_kafka_table(make_catalog(tmp_path / "lake", monkeypatch))
    wanted = TableRequest("lake.shop.orders", {}, None, Choices(), False)
    table.append(make_rows(TRIAL))
    trial = ingest_table(world.installation, TOPIC, wanted, as_of_ms=world.clock())
    more = build_versions(0, 2, partition=1)
    table.append(make_rows(more))
    later = ingest_table(world.installation, TOPIC, wanted, as_of_ms=world.clock())
    assert (trial.records_appended, later.records_appended) == (5, 2)
    with pytest.raises(UndoRefusedError, match=f"continued to read the same source; undo {later.ingest_id} first"):
        undo(world, trial.ingest_id)
    undo(world, later.ingest_id)
    undo(world, trial.ingest_id)
    assert world.read() == FIRST
    assert ingest_table(world.installation, TOPIC, wanted, as_of_ms=world.clock()).records_appended == 7


def test_commands_list_and_undo_a_call(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl", partitions=1)
    (call,) = winnow("ingest", "list", "orders", "--json").document
    assert (call["topic"], call["records_appended"], call["undoable"], call["reason"]) == ("orders", 6, True, None)
    assert call["partitions"] == [{"partition": 0, "records_appended": 6, "first_offset": 0, "last_offset": 5}]
    text = winnow("ingest", "list", "orders").stdout
    assert f"To take one back: winnow ingest undo orders {call['ingest_id']}" in text
    undone = winnow("ingest", "undo", "orders", call["ingest_id"]).stdout
    assert "6 records left the log (orders-0 ends at 0)" in undone
    again = winnow("ingest", "undo", "orders", call["ingest_id"], "--json").document
    assert (again["was_undone"], again["records_removed"]) == (True, 0)
    assert "Nothing was ingested into orders yet" in winnow("ingest", "list", "orders").stdout
    assert "winnow ingest list orders" in winnow("ingest", "undo", "orders", "other", code=2).stderr
    done = winnow("ingest", "files", "orders", tmp_path / "orders.jsonl")
    assert "To take it back: winnow ingest undo orders" in done.stdout
