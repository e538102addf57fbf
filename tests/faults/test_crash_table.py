"""The crash table of ARCHITECTURE.md, row by row: a process killed -9, and what the next run makes of it.

The dead process held the topic; the next run takes it over at once.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.forked_processes import ForkServer
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    open_world,
    write_jsonl,
)
from winnow.files import storage
from winnow.log.installation import read_installation
from winnow.log.latest_tables import LatestHead
from winnow.log.state import PLAN_PROPERTY
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.installation import is_process_dead
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.definition import create_topic
from winnow.pipeline.topics.deletion import delete_topic, restore_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.store import Run, RunState
from winnow.values.results import Receipt

GRACE_MS = 3_600_000
RECORDS = build_versions(0, 12)
NO_MANIFEST = ["compact before its files", "compact before its manifest"]
STAGED = [
    "between compact and validate",
    "validate after its verdict",
    "publish between a document and its copy",
    "publish before the commit",
]
LANDED = ["publish after the commit", "publish before the checkpoint", "publish within the checkpoint"]
SWEEPS = ["sweep before expiry", "sweep after expiry", "sweep amid deletion", "sweep before forgetting"]


world = define_world(
    1, RECORDS, in_the_present=True, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS)
)


Kill = Callable[[World, str], None]


@pytest.fixture
def killed(fork_server: ForkServer) -> Kill:
    """Lets another process work on the log until a moment, at which it is killed."""

    def kill(world: World, moment: str) -> None:
        process = fork_server.start(world.folder, moment, str(world.folder), str(world.clock()))
        assert process.wait() == -signal.SIGKILL, process.errors

    return kill


def open_runs(world: World) -> list[Run]:
    return world.installation.store.runs.list_open(TOPIC)


def the_run(world: World) -> Run:
    (run,) = world.installation.store.runs.list_runs(TOPIC)
    return run


def snapshots_of(world: World, plan_id: str) -> list[int]:
    return [
        snapshot.snapshot_id
        for snapshot in world.head().table.metadata.snapshots
        if snapshot.summary is not None and snapshot.summary.additional_properties.get(PLAN_PROPERTY) == plan_id
    ]


def assert_held_by_the_dead(world: World) -> None:
    lease = world.installation.store.leases.find(TOPIC)
    assert lease is not None
    assert lease.expires_ms > world.clock()
    assert is_process_dead(lease.holder)


def assert_clean(world: World, records: int = 12) -> None:
    """The log, its checkpoint and its receipts are those of one undisturbed compaction."""
    assert world.read() == compute_survivors(RECORDS[:records])
    assert world.state().first_dirty_offset == records
    receipts = world.installation.store.projection.list_receipts(TOPIC)
    assert len(receipts) == len(world.head().state.receipts) == 1
    assert [row.first_dirty_offset for row in world.installation.store.projection.list_checkpoints([TOPIC])] == [
        records
    ]
    assert snapshots_of(world, str(receipts[0].plan_id)) == [receipts[0].snapshot_id]
    assert open_runs(world) == []
    assert world.installation.store.leases.find(TOPIC) is None


# ----------------------------------------------------------------------------------------------------------- ingest


@pytest.mark.parametrize("with_offset", [True, False])
def test_ingest_before_its_commit_lands_once_when_it_is_run_again(
    world: World, killed: Kill, with_offset: bool
) -> None:
    path = write_jsonl(world.folder / "late.jsonl", build_versions(12, 4), with_offset=with_offset)
    killed(world, "ingest before its commit")
    assert world.read() == RECORDS
    report = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    assert (report.records_appended, report.records_skipped) == (4, 0)
    assert world.read() == build_versions(0, 16)


@pytest.mark.parametrize("with_offset", [True, False])
def test_ingest_after_its_commit_skips_every_record_when_it_is_run_again(
    world: World, killed: Kill, with_offset: bool
) -> None:
    path = write_jsonl(world.folder / "late.jsonl", build_versions(12, 4), with_offset=with_offset)
    killed(world, "ingest after its commit")
    assert world.read() == build_versions(0, 16)
    report = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    assert (report.records_appended, report.records_skipped, report.snapshot_id) == (0, 4, None)
    assert world.read() == build_versions(0, 16)


def test_a_sweep_keeps_everything_of_an_ingest_that_died_after_its_commit(world: World, killed: Kill) -> None:
    """Its row is still there; its records and its ledger are in the log."""
    path = write_jsonl(world.folder / "late.jsonl", build_versions(12, 4))
    killed(world, "ingest after its commit")
    world.clock.now_ms += 2 * GRACE_MS
    assert [each.voided_at_ms for each in world.installation.store.ingests.list_open(TOPIC)] == [None]
    sweep_topics(world.installation, [TOPIC])
    assert world.installation.store.ingests.list_open(TOPIC) == []
    assert world.read() == build_versions(0, 16)
    world.compact()
    sweep_topics(world.installation, [TOPIC])
    # What the compaction removed is known by the ledger alone.
    report = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    assert (report.records_appended, report.records_skipped) == (0, 4)


def test_what_a_dead_ingest_left_goes_with_the_sweep_and_its_row_after_two_graces(world: World, killed: Kill) -> None:
    write_jsonl(world.folder / "late.jsonl", build_versions(12, 4))
    killed(world, "ingest before its commit")
    for _ in range(3):
        assert world.installation.store.ingests.list_open(TOPIC)
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
    live = {segment.path.split("/data/")[1] for segment in world.segments()}
    assert set(world.listing(below=f"{world.log_folder()}/data")) == live
    assert world.installation.store.ingests.list_open(TOPIC) == []
    assert (world.head().state.voided_ingests, world.head().state.first_valid_ingest) == ((), 1)


# ------------------------------------------------------------------------------------------------------ the way back


def test_undo_before_its_commit_changes_nothing_and_can_be_run_again(world: World, killed: Kill) -> None:
    trial = world.ingest(build_versions(12, 4))
    assert trial.ingest_id is not None
    killed(world, "undo before its commit")
    assert world.read() == build_versions(0, 16)
    assert not undo_ingest(world.installation, TOPIC, trial.ingest_id).was_undone
    assert world.read() == RECORDS


def test_undo_after_its_commit_is_done_and_says_so_when_it_is_run_again(world: World, killed: Kill) -> None:
    trial = world.ingest(build_versions(12, 4))
    assert trial.ingest_id is not None
    files = {segment.path for segment in world.segments()}
    killed(world, "undo after its commit")
    assert world.read() == RECORDS
    gone = files - {segment.path for segment in world.segments()}
    assert undo_ingest(world.installation, TOPIC, trial.ingest_id).was_undone
    assert {row.path for row in world.installation.store.retired_files.list_retired(TOPIC)} == gone
    world.clock.now_ms += 2 * GRACE_MS
    sweep_topics(world.installation, [TOPIC])
    assert not any(storage.exists(path) for path in gone)
    assert world.ingest(build_versions(12, 4)).records_appended == 4
    assert world.read() == build_versions(0, 16)


@pytest.mark.parametrize("moment", ["deletion before its commit", "deletion after its commit"])
def test_dead_deletion_is_done_or_not_and_both_ways_are_open(world: World, killed: Kill, moment: str) -> None:
    killed(world, moment)
    done = moment == "deletion after its commit"
    assert world.installation.log.names() == ([] if done else [TOPIC])
    assert restore_topic(world.installation, TOPIC) == done
    assert world.read() == RECORDS
    killed(world, moment)
    delete_topic(world.installation, TOPIC)
    assert world.installation.log.names() == []


@pytest.mark.parametrize(
    "moment", ["removal amid deletion", "removal before the entry goes", "removal after the entry went"]
)
def test_dead_removal_is_completed_by_a_sweep_and_the_name_is_free(world: World, killed: Kill, moment: str) -> None:
    folder = world.log_folder()
    killed(world, moment)
    sweep_topics(world.installation)
    assert (world.installation.log.names(), world.installation.log.list_deleted()) == ([], [])
    assert not world.listing(below=f"{folder}/data")
    world.create(1)
    assert world.read() == []
    world.ingest(RECORDS)
    assert world.read() == RECORDS


# ------------------------------------------------------------------------------------------------------- compaction


@pytest.mark.kafka("76", "78", "G21")
@pytest.mark.parametrize("moment", [*NO_MANIFEST, *STAGED])
def test_before_the_publish_the_plan_is_void_and_the_next_run_plans_anew(
    world: World, killed: Kill, moment: str
) -> None:
    """Readers saw no change, and what was left behind goes with the sweep."""
    before = world.head().state
    killed(world, moment)
    assert_held_by_the_dead(world)
    dead = the_run(world)
    assert (world.read(), world.head().state) == (RECORDS, before)
    world.clock.now_ms += 1
    receipt = world.compact()
    assert receipt is not None
    assert receipt.plan_id != dead.plan_id
    assert [run.status for run in world.installation.store.runs.list_runs(TOPIC) if run.plan_id == dead.plan_id] == [
        RunState.VOID
    ]
    assert snapshots_of(world, dead.plan_id) == []
    assert_clean(world)
    world.clock.now_ms += 2 * GRACE_MS
    sweep_topics(world.installation, [TOPIC])
    live = {segment.path.split("/data/")[1] for segment in world.segments()}
    assert set(world.listing(below=f"{world.log_folder()}/data")) == live


@pytest.mark.kafka("76")
@pytest.mark.parametrize("moment", [*NO_MANIFEST, *STAGED])
def test_the_same_decision_may_be_carried_out_again_at_the_same_instant(
    world: World, killed: Kill, moment: str
) -> None:
    """A backfill runs again with the same as-of: the plan has the same id, and its new attempt is published."""
    killed(world, moment)
    receipt = world.compact()
    assert receipt is not None
    assert receipt.plan_id == the_run(world).plan_id
    assert_clean(world)


@pytest.mark.kafka("76", "G21")
@pytest.mark.parametrize("moment", LANDED)
def test_after_the_commit_the_next_run_finds_the_plan_and_gives_the_same_receipt(
    world: World, killed: Kill, moment: str
) -> None:
    killed(world, moment)
    assert_held_by_the_dead(world)
    dead = the_run(world)
    (landed,) = snapshots_of(world, dead.plan_id)
    assert dead.status is RunState.PUBLISHING
    assert world.read() == compute_survivors(RECORDS)
    with hold_lease(world.installation, TOPIC):
        (receipt,) = settle_open_runs(world.installation, TOPIC)
    assert (receipt.plan_id, receipt.snapshot_id) == (dead.plan_id, landed)
    assert the_run(world).status is RunState.PUBLISHED
    assert_clean(world)
    assert [
        publish_attempt(world.installation, dead.plan_id, "a1"),
        *world.installation.store.projection.list_receipts(TOPIC),
    ] == [
        receipt,
        receipt,
    ]
    assert world.compact() is None
    assert_clean(world)


@pytest.mark.parametrize("moment", ["latest table before its commit", "latest table after its commit"])
def test_table_of_the_latest_state_is_as_before_or_up_to_date_and_then_completed(
    world: World, killed: Kill, moment: str
) -> None:
    """The publish stands and its checkpoint has moved; what the dead update wrote goes with the next sweep."""
    set_config(world.installation.log.open(TOPIC), {"winnow.latest.table": "true"}, [])
    update_latest_table(world.installation, TOPIC)
    before = read_latest_rows(world)
    assert before == [(9, b"value-0-9"), (10, b"value-0-10"), (11, b"value-0-11")]
    world.ingest(build_versions(12, 2))
    killed(world, moment)
    assert_held_by_the_dead(world)
    assert the_run(world).status is RunState.PUBLISHED
    after = [(11, b"value-0-11"), (12, b"value-0-12"), (13, b"value-0-13")]
    assert read_latest_rows(world) == (before if "before" in moment else after)
    with hold_lease(world.installation, TOPIC):
        assert settle_open_runs(world.installation, TOPIC) == []
        assert update_latest_table(world.installation, TOPIC).changed == ("before" in moment)
    assert read_latest_rows(world) == after
    world.clock.now_ms += 2 * GRACE_MS
    sweep_topics(world.installation, [TOPIC])
    assert read_latest_rows(world) == after
    (live,) = world.installation.log.latest_table(TOPIC).segments(load_latest(world))[0]
    files = [name for name in world.listing(below="winnow_latest") if name.endswith(".parquet")]
    assert [name.rpartition("/")[2] for name in files] == [live.path.rpartition("/")[2]]


def load_latest(world: World) -> LatestHead:
    head = world.installation.log.latest_table(TOPIC).load()
    assert head is not None
    return head


def read_latest_rows(world: World) -> list[tuple[int, bytes]]:
    """Offset and value of each row, as PyIceberg reads the table."""
    rows = load_latest(world).table.scan().to_arrow().to_pylist()
    return sorted((row["offset"], row["value"]) for row in rows)


def test_after_the_commit_and_an_append_the_receipt_is_still_found(world: World, killed: Kill) -> None:
    """The plan id is looked for in the whole history, not at the head."""
    killed(world, "publish after the commit")
    (landed,) = snapshots_of(world, the_run(world).plan_id)
    more = build_versions(12, 6)
    world.ingest(more)
    receipts: list[Receipt] = []
    with hold_lease(world.installation, TOPIC):
        receipts += settle_open_runs(world.installation, TOPIC)
    assert [receipt.snapshot_id for receipt in receipts] == [landed]
    assert world.read() == [*compute_survivors(RECORDS), *more]
    assert [
        (row.first_dirty_offset, row.log_end_offset) for row in world.installation.store.projection.list_checkpoints()
    ] == [(12, 18)]


def test_after_the_commit_and_its_snapshot_expired_the_receipt_is_still_found(world: World, killed: Kill) -> None:
    """Receipts rest in the carried state, which outlives snapshots."""
    killed(world, "publish after the commit")
    dead = the_run(world)
    (landed,) = snapshots_of(world, dead.plan_id)
    world.ingest(build_versions(12, 1))
    world.head().table.maintenance.expire_snapshots().by_ids([landed]).commit()
    assert snapshots_of(world, dead.plan_id) == []
    with hold_lease(world.installation, TOPIC):
        (receipt,) = settle_open_runs(world.installation, TOPIC)
    assert (receipt.plan_id, receipt.snapshot_id) == (dead.plan_id, landed)


# ------------------------------------------------------------------------------------------------------------ sweep


@pytest.mark.kafka("83")
@pytest.mark.parametrize("moment", SWEEPS)
def test_a_dead_sweep_is_finished_by_the_next_one(world: World, killed: Kill, moment: str) -> None:
    """Exactly the recorded files go, and nothing that a reader can reach."""
    world.compact()
    world.ingest(build_versions(12, 6))
    world.compact()
    expected = compute_survivors(build_versions(0, 18))
    world.clock.now_ms += 2 * GRACE_MS
    old = [snapshot.manifest_list for snapshot in world.head().table.metadata.snapshots[:-1]]
    killed(world, moment)
    assert_held_by_the_dead(world)
    assert world.read() == expected
    sweep_topics(world.installation, [TOPIC])
    assert world.read() == expected
    live = {segment.path.split("/data/")[1] for segment in world.segments()}
    assert set(world.listing(below=f"{world.log_folder()}/data")) == live
    metadata = world.listing(below=f"{world.log_folder()}/metadata")
    assert not [path for path in old if path.rsplit("/", 1)[1] in metadata]
    assert world.head().state.retired == ()
    assert world.installation.store.retired_files.list_retired(TOPIC) == []
    world.ingest(build_versions(18, 6))
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 24))


# -------------------------------------------------------------------------------------------------------- the store


@pytest.mark.parametrize("moment", ["publish before the commit", "publish after the commit"])
def test_a_store_lost_together_with_a_dying_publish_costs_nothing(world: World, killed: Kill, moment: str) -> None:
    """Rebuilt from the table, it has the receipt exactly when the publish landed."""
    killed(world, moment)
    plan_id = the_run(world).plan_id
    landed = snapshots_of(world, plan_id)
    path = Path(world.installation.settings.store_url.removeprefix("sqlite:///"))
    world.installation.store.close()
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    with open_world(world.folder, world.clock) as fresh:
        rebuild_store(fresh.installation)
        assert [receipt.snapshot_id for receipt in fresh.installation.store.projection.list_receipts(TOPIC)] == landed
        assert (fresh.compact() is None) == bool(landed)
        assert_clean(fresh)


def test_creation_killed_before_its_entry_is_done_in_another_folder(world: World, killed: Kill) -> None:
    """What it left lies in a folder of its own, which no topic gets."""
    before = world.listing()
    killed(world, "creation before its entry")
    (left,) = [path for path in world.listing() if path not in before]
    create_topic(world.installation, "created", 1, {})
    assert left.startswith("winnow/created-")
    assert not left.startswith(f"{world.log_folder('created')}/")


def test_first_command_killed_before_the_document_of_the_installation_is_completed_by_the_next(
    world: World, killed: Kill
) -> None:
    """The id in the store is the one that is written."""
    document = storage.parse_local_path(world.installation.guard.document)
    noted = world.installation.store.installation.find()
    assert noted is not None
    killed(world, "creation before the installation's document")
    assert not document.exists()
    with open_world(world.folder, world.clock):
        assert read_installation(world.installation.guard.document) == noted
