"""The sweep: bytes go only after their grace, only those that were recorded, and never one that a reader can reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import time_machine
from pyiceberg.table import Table

from tests.support.world import (
    TOPIC,
    FakeClock,
    World,
    build_versions,
    compute_survivors,
    open_world,
    run_between_head_and_commit,
)
from winnow.clock import read_wall_clock_ms
from winnow.errors import CommitConflictError, CommitUnknownError, DamagedMetadataError, PlanVoidError
from winnow.files import storage
from winnow.log.head import Head
from winnow.log.snapshot_expiry import FileReferences, list_kept_states, list_state_places
from winnow.log.snapshot_expiry import collect_references as references_of
from winnow.log.state import STATE_PROPERTY, StateReference
from winnow.pipeline.admin import leftovers
from winnow.pipeline.admin import sweep as sweeping
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.admin.sweep_report import SweepReport
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.values.topic_state import RetiredFile

GRACE_MS = 3_600_000
DAY_MS = 86_400_000
FIRST = build_versions(0, 12)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A compacted log. Snapshots carry the catalog's own time, so the clock begins at the present."""
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as opened:
        opened.create(1, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS))
        opened.ingest(FIRST)
        opened.compact()
        yield opened


def swept(world: World) -> SweepReport:
    (report,) = sweep_topics(world.installation, [TOPIC])
    return report


def after(world: World, ms: int) -> SweepReport:
    """Sweep when ``ms`` have passed."""
    world.clock.now_ms += ms
    return swept(world)


def data_files(world: World) -> set[str]:
    return set(world.listing(below=f"{world.log_folder()}/data"))


def live_files(world: World) -> set[str]:
    return {segment.path.split("/data/")[1] for segment in world.segments()}


@pytest.mark.kafka("83")
def test_nothing_goes_before_the_grace_and_all_that_was_retired_goes_after_it(world: World) -> None:
    retired = {file.path.split("/data/")[1] for file in world.head().state.retired}
    before, read = data_files(world), world.read()
    assert retired
    assert retired < before
    early = after(world, GRACE_MS - 1)
    assert (early.files_deleted, early.files_waiting, data_files(world)) == (0, len(retired), before)
    assert early.bytes_waiting == sum(file.size_bytes for file in world.head().state.retired)
    late = after(world, 60_000)
    assert data_files(world) == before - retired == live_files(world)
    assert (late.files_waiting, late.bytes_waiting) == (0, 0)
    assert world.head().state.retired == ()
    assert world.installation.store.retired_files.list_retired(TOPIC) == []
    assert world.read() == read == compute_survivors(FIRST)


def test_the_grace_holds_although_somebody_else_expired_the_snapshots(world: World) -> None:
    """A reader that began before the compaction is protected by the grace itself, not only by the metadata."""
    retired = [file.path for file in world.head().state.retired]
    old = world.snapshot_ids()[0]
    world.head().table.maintenance.expire_snapshots().by_ids([old]).commit()
    after(world, GRACE_MS - 1)
    assert all(storage.exists(path) for path in retired)
    after(world, 1)
    assert not any(storage.exists(path) for path in retired)


def test_files_that_were_never_recorded_stay(world: World) -> None:
    """Somebody's own file in the table's folder is not found by listing."""
    location = storage.parse_local_path(world.head().location)
    stray = location / "data" / "notes.txt"
    stray.write_text("mine")
    other = location / "metadata" / "backup.avro"
    other.write_text("mine too")
    after(world, 2 * GRACE_MS)
    after(world, 30 * DAY_MS)
    assert (stray.read_text(), other.read_text()) == ("mine", "mine too")


def test_sweeping_again_removes_nothing_more(world: World) -> None:
    """The first one commits too, at a time that the catalog gives; so that one moves here as well."""
    with time_machine.travel((world.clock() + 2 * GRACE_MS) / 1000):
        first = after(world, 2 * GRACE_MS)
        assert first.files_deleted > 0
        before = world.listing()
        again = after(world, 60_000)
    assert (again.files_deleted, again.snapshots_expired, again.files_waiting) == (0, 0, 0)
    assert world.listing() == before


def test_a_sweep_that_died_while_it_remembered_a_swept_folder_is_no_trouble(world: World) -> None:
    """What it left in the ledger names a folder, and no sweep removes folders."""
    folder = storage.join(world.head().location, "data", world.installation.store.runs.list_runs(TOPIC)[0].plan_id)
    world.installation.store.retired_files.record(TOPIC, [RetiredFile(folder, 0, world.clock(), "plan")], "attempts")
    after(world, 2 * GRACE_MS)
    assert world.read() == compute_survivors(FIRST)
    assert data_files(world) == live_files(world)


def test_a_sweep_every_day_leaves_exactly_what_the_log_needs(world: World) -> None:
    """Over many rounds of ingest, compaction and sweep: no data file too many, none too few, no pile of states."""
    records = list(FIRST)
    for _ in range(4):
        world.clock.now_ms += DAY_MS
        more = build_versions(len(records), 6)
        records += more
        world.ingest(more)
        world.compact()
        after(world, 2 * GRACE_MS)
    after(world, 2 * GRACE_MS)
    assert data_files(world) == live_files(world)
    assert world.read() == compute_survivors(records)
    assert len(world.listing(below=f"{world.log_folder()}/_winnow/state")) <= len(world.snapshot_ids()) + 1


def test_old_states_and_manifests_go_and_the_heads_stay(world: World) -> None:
    old_snapshot = world.head().table.metadata.snapshots[0]
    old_state = state_path(world, 0)
    assert storage.exists(old_snapshot.manifest_list)
    report = after(world, 2 * GRACE_MS)
    assert report.snapshots_expired == 1
    assert not storage.exists(old_snapshot.manifest_list)
    assert not storage.exists(old_state)
    table = world.head().table
    for snapshot in table.metadata.snapshots:
        assert storage.exists(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            assert storage.exists(manifest.manifest_path)
    assert storage.exists(state_path(world, -1))


def state_path(world: World, number: int) -> str:
    summary = world.head().table.metadata.snapshots[number].summary
    assert summary is not None
    assert STATE_PROPERTY in summary.additional_properties
    return StateReference.from_summary(TOPIC, summary.additional_properties).path


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_named_snapshot_keeps_everything_it_refers_to(world: World, kind: str) -> None:
    """Whoever tags a snapshot before its grace is over can read it for ever."""
    table = world.head().table
    old = table.metadata.snapshots[0]
    manage = table.manage_snapshots()
    named = (
        manage.create_tag(old.snapshot_id, "audit") if kind == "tag" else manage.create_branch(old.snapshot_id, "audit")
    )
    named.commit()
    old_state = state_path(world, 0)
    report = after(world, 2 * GRACE_MS)
    assert report.snapshots_expired == 0
    again = world.head().table
    rows = again.scan(snapshot_id=old.snapshot_id).to_arrow().sort_by("offset")
    assert rows.column("offset").to_pylist() == [each.offset for each in FIRST]
    assert storage.exists(old_state)
    assert world.head().state.retired != ()

    remove = world.head().table.manage_snapshots()
    (remove.remove_tag("audit") if kind == "tag" else remove.remove_branch("audit")).commit()
    after(world, 60_000)
    assert data_files(world) == live_files(world)
    assert world.head().state.retired == ()


def test_a_file_named_in_the_ledger_that_a_snapshot_still_refers_to_stays(world: World) -> None:
    """Every reference is checked right before bytes go, whatever the ledger says."""
    newest = world.head().table.metadata.snapshots[-1]
    manifest = newest.manifests(world.head().table.io)[0].manifest_path
    wrong = {
        "manifest_list": newest.manifest_list,
        "manifest": manifest,
        "state": state_path(world, -1),
        "metadata": world.segments()[0].path,
    }
    for kind, path in wrong.items():
        world.installation.store.retired_files.record(TOPIC, [RetiredFile(path, 1, world.clock(), "wrong")], kind)
    after(world, 2 * GRACE_MS)
    assert all(storage.exists(path) for path in wrong.values())
    assert world.read() == compute_survivors(FIRST)


def staged(world: World, as_of_ms: int, attempt: str = "a1") -> PlanReference:
    plan = world.plan(as_of_ms, attempt)
    assert plan is not None
    world.stage(plan, attempt)
    return plan


def attempt_files(world: World, plan: PlanReference) -> set[str]:
    return {name for name in data_files(world) if name.startswith(f"{plan.plan_id}/")}


@pytest.mark.kafka("83")
def test_files_of_a_void_run_go_after_the_grace_since_it_was_closed(world: World) -> None:
    world.ingest(build_versions(12, 6))
    plan = staged(world, world.clock())
    assert attempt_files(world, plan)
    settle_open_runs(world.installation, TOPIC)
    after(world, GRACE_MS - 1)
    assert attempt_files(world, plan)
    read = world.read()
    after(world, 1)
    assert attempt_files(world, plan) == set()
    assert world.read() == read


def test_files_of_an_attempt_that_was_not_the_published_one_go_and_the_published_ones_stay(world: World) -> None:
    world.ingest(build_versions(12, 6))
    plan = staged(world, world.clock(), "a1")
    world.stage(plan, "a2")
    world.accept(plan, "a2")
    publish_attempt(world.installation, plan.plan_id, "a2")
    assert {name.split("/")[1] for name in attempt_files(world, plan)} == {"a1", "a2"}
    after(world, 2 * GRACE_MS)
    assert {name.split("/")[1] for name in attempt_files(world, plan)} == {"a2"}
    assert world.read() == compute_survivors(build_versions(0, 18))


def test_files_of_a_refused_run_go_too(world: World) -> None:
    world.ingest(build_versions(12, 6))
    first, second = staged(world, world.clock()), staged(world, world.clock() + 1)
    for plan in (first, second):
        world.accept(plan)
    publish_attempt(world.installation, first.plan_id, "a1")
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, second.plan_id, "a1")
    after(world, 2 * GRACE_MS)
    assert attempt_files(world, second) == set()
    assert world.read() == compute_survivors(build_versions(0, 18))


@pytest.mark.parametrize("status", [RunState.UNKNOWN, RunState.PUBLISHING, RunState.STAGED])
def test_files_of_a_run_that_is_not_closed_are_never_listed(
    world: World, monkeypatch: pytest.MonkeyPatch, status: RunState
) -> None:
    """Whatever it wrote may yet become visible. Settling is what closes it, so here it cannot settle."""
    world.ingest(build_versions(12, 6))
    plan = staged(world, world.clock())
    if status is not RunState.STAGED:
        world.accept(plan)
        world.installation.store.runs.set_state(plan.plan_id, status, world.clock(), attempt="a1")
    files = attempt_files(world, plan)
    assert files
    monkeypatch.setattr("winnow.pipeline.admin.sweep.settle_open_runs", lambda *_: [])
    after(world, 30 * DAY_MS)
    assert attempt_files(world, plan) == files


def test_an_unknown_run_is_settled_before_its_files_are_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit had landed: the sweep finds it in the history and keeps every file."""
    world.ingest(build_versions(12, 6))
    plan = staged(world, world.clock())
    world.accept(plan)
    catalog = world.installation.log.catalog
    genuine = catalog.commit_table, catalog.load_table

    def commit(*arguments: object, **named: object) -> None:
        genuine[0](*arguments, **named)  # type: ignore[arg-type]
        monkeypatch.setattr(catalog, "load_table", gone)
        raise ConnectionError("reset")

    def gone(*_: object) -> None:
        raise ConnectionError("refused")

    with monkeypatch.context():
        monkeypatch.setattr(catalog, "commit_table", commit)
        with pytest.raises(CommitUnknownError):
            publish_attempt(world.installation, plan.plan_id, "a1")
    monkeypatch.setattr(catalog, "commit_table", genuine[0])
    monkeypatch.setattr(catalog, "load_table", genuine[1])
    after(world, 30 * DAY_MS)
    assert world.read() == compute_survivors(build_versions(0, 18))
    assert live_files(world) == data_files(world)


def test_a_plan_that_is_tried_again_after_its_folder_was_swept_is_swept_again(world: World) -> None:
    """The same decision has the same plan id, and every attempt at it may leave files."""
    world.ingest(build_versions(12, 6))
    as_of_ms = world.clock()
    plan = staged(world, as_of_ms, "a1")
    settle_open_runs(world.installation, TOPIC)
    after(world, 2 * GRACE_MS)
    assert attempt_files(world, plan) == set()
    again = staged(world, as_of_ms, "a2")
    assert again.plan_id == plan.plan_id
    settle_open_runs(world.installation, TOPIC)
    after(world, 2 * GRACE_MS)
    assert attempt_files(world, plan) == set()


def test_an_append_during_the_sweep_survives(world: World, tmp_path: Path) -> None:
    """Between expiring, deleting and forgetting: the sweep's own commit begins again from the append."""
    world.clock.now_ms += 2 * GRACE_MS
    with run_between_head_and_commit(lambda: world.ingest(build_versions(12, 3))):
        swept(world)
    assert world.read() == [*compute_survivors(FIRST), *build_versions(12, 3)]
    assert world.head().state.retired == ()
    assert data_files(world) == live_files(world)
    path = tmp_path / "in-2.jsonl"
    assert path.is_file()
    assert ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock()).records_skipped == 3


def test_a_reader_of_the_old_snapshot_can_finish_within_the_grace(world: World) -> None:
    """What it planned to read before the compaction is still there."""
    old = world.head().table.metadata.snapshots[0].snapshot_id
    scan = world.head().table.scan(snapshot_id=old)
    after(world, GRACE_MS - 60_000)
    assert scan.to_arrow().num_rows == len(FIRST)


def test_a_sweep_that_read_metadata_which_another_one_removed_says_run_it_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was paused between loading the table after its commit and reading what its snapshots name."""
    genuine = references_of
    looks = 0

    def look(table: Table) -> FileReferences:
        nonlocal looks
        looks += 1
        if looks == 2:  # the first one is within its commit, which starts again from the newest head
            for snapshot in table.metadata.snapshots[:1]:
                storage.delete(snapshot.manifest_list)
            world.head().table.maintenance.expire_snapshots().by_ids([table.metadata.snapshots[0].snapshot_id]).commit()
        return genuine(table)

    monkeypatch.setattr(sweeping, "collect_references", look)
    with pytest.raises(CommitConflictError, match="Run it again"):
        after(world, GRACE_MS - 1)
    assert after(world, 2 * GRACE_MS).files_deleted > 0
    assert world.read() == compute_survivors(FIRST)


@pytest.mark.parametrize(
    ("is_expired", "error"), [(True, CommitConflictError), (False, DamagedMetadataError)], ids=["swept", "lost"]
)
def test_a_state_that_another_sweep_removed_is_not_taken_for_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[Exception], *, is_expired: bool
) -> None:
    """It is read late, where it is asked whether a kept snapshot names an ingest call that died."""
    genuine = leftovers.delete_of_ingests

    def overtake(installation: Installation, head: Head, *more: Any) -> Any:
        (oldest, *_) = head.table.metadata.snapshots
        for place in list_state_places(head.table, oldest):
            storage.delete(place)
        if is_expired:
            world.head().table.maintenance.expire_snapshots().by_ids([oldest.snapshot_id]).commit()
        list(list_kept_states(TOPIC, head.table))
        return genuine(installation, head, *more)

    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "delete_of_ingests", overtake)
        with pytest.raises(error):
            after(world, GRACE_MS - 1)
    assert world.read() == compute_survivors(FIRST)
