"""Publish: done, refused or unknown; once whatever happens, and never over a log that moved."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    record,
    run_between_head_and_commit,
    write_jsonl,
)
from winnow.engine import staging
from winnow.errors import (
    CommitUnknownError,
    PlanVoidError,
    RunAgainError,
    TopicBusyError,
    ValidationFailedError,
    WinnowError,
)
from winnow.files import storage
from winnow.log.head import Change, Head
from winnow.log.state import PLAN_PROPERTY
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.leases import hold_lease
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.values.model import Status
from winnow.values.results import Receipt

world = define_world(2, [*build_versions(0, 12), *build_versions(0, 6, partition=1)], min_cleanable_dirty_ratio="0")


def prepared(world: World, as_of_ms: int | None = None, attempt: str = "a1") -> PlanReference:
    """A plan whose result is staged and accepted, not published yet."""
    plan = world.plan(world.clock() if as_of_ms is None else as_of_ms, attempt)
    assert plan is not None
    world.stage(plan, attempt)
    world.accept(plan, attempt)
    return plan


def status(world: World, plan: PlanReference) -> RunState:
    run = world.installation.store.runs.find(plan.plan_id)
    assert run is not None
    return run.status


def snapshots_of(world: World, plan: PlanReference) -> list[int]:
    """Snapshots whose summary names the plan."""
    return [
        snapshot.snapshot_id
        for snapshot in world.head().table.metadata.snapshots
        if snapshot.summary is not None and snapshot.summary.additional_properties.get(PLAN_PROPERTY) == plan.plan_id
    ]


ALL = [*build_versions(0, 12), *build_versions(0, 6, partition=1)]


def test_a_publish_is_one_snapshot_that_swaps_exactly_the_planned_files(world: World) -> None:
    before = world.snapshot_ids()
    old = {segment.path for partition in range(2) for segment in world.segments(partition)}
    plan = prepared(world)
    assert world.read() == ALL
    receipt = publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.snapshot_ids() == [*before, receipt.snapshot_id]
    assert world.read() == compute_survivors(ALL)
    assert {file.path for file in world.head().state.retired} == old
    assert all(storage.exists(path) for path in old)
    assert (receipt.status, status(world, plan)) == (Status.PUBLISHED, RunState.PUBLISHED)


def test_the_receipt_adds_up_and_says_what_the_oracle_says(world: World) -> None:
    receipt = world.compact()
    assert receipt is not None
    for part in receipt.partitions:
        mine = [each for each in ALL if each.partition == part.partition]
        kept = compute_survivors(mine)
        assert (part.records_in, part.records_kept, part.records_superseded) == (
            len(mine),
            len(kept),
            len(mine) - len(kept),
        )
        assert part.records_in == (
            part.records_kept + part.records_superseded + part.tombstones_expired + part.records_keyless
        )
        assert (part.first_dirty_offset, part.next_first_dirty_offset) == (0, len(mine))


@pytest.mark.kafka("92")
def test_publishing_twice_gives_the_same_receipt_and_one_snapshot(world: World) -> None:
    plan = prepared(world)
    first = publish_attempt(world.installation, plan.plan_id, "a1")
    state, files = world.head().state, world.listing()
    world.clock.now_ms += 1_000
    assert publish_attempt(world.installation, plan.plan_id, "a1") == first
    assert snapshots_of(world, plan) == [first.snapshot_id]
    assert (world.head().state, world.listing()) == (state, files)
    assert world.installation.store.projection.list_receipts(TOPIC) == [first]


def test_another_attempt_at_a_published_plan_gives_the_first_receipt(world: World) -> None:
    """A duplicate task that staged its own files finds the plan in the history."""
    plan = prepared(world)
    world.stage(plan, "a2")
    world.stage(plan, "a1")
    world.accept(plan, "a1")
    first = publish_attempt(world.installation, plan.plan_id, "a1")
    assert publish_attempt(world.installation, plan.plan_id, "a2") == first
    assert not [s for p in range(2) for s in world.segments(p) if "/a2/" in s.path]


def test_an_error_after_the_commit_says_that_the_plan_is_published(world: World) -> None:
    """The store, which fails, knows nothing of the commit and says what became of its own transaction."""
    plan = prepared(world)
    path = world.folder / "home" / "store.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("ALTER TABLE winnow_receipt RENAME TO hidden")
    with pytest.raises(WinnowError) as failed:
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert len(snapshots_of(world, plan)) == 1
    assert failed.value.left == (
        f"Plan {plan.plan_id} is published, and readers see its result; the next run completes the store."
    )
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("ALTER TABLE hidden RENAME TO winnow_receipt")
    assert publish_attempt(world.installation, plan.plan_id, "a1").status is Status.PUBLISHED
    assert status(world, plan) is RunState.PUBLISHED


def test_two_publishes_of_one_plan_at_once_make_one_snapshot(world: World) -> None:
    """The lease failed, say: the second finds the plan id when it begins again."""
    plan = prepared(world)
    found: list[Receipt] = []

    def zombie() -> None:
        with open_installation(world.installation.settings, now_ms=world.clock) as installation:
            found.append(publish_attempt(installation, plan.plan_id, "a1"))

    with run_between_head_and_commit(zombie):
        mine = publish_attempt(world.installation, plan.plan_id, "a1")
    assert found == [mine]
    assert snapshots_of(world, plan) == [mine.snapshot_id]
    assert [reference.plan_id for reference in world.head().state.receipts] == [plan.plan_id]
    assert world.read() == compute_survivors(ALL)


@pytest.mark.kafka("92")
def test_what_has_not_passed_validation_is_not_published(world: World) -> None:
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    before = world.snapshot_ids()
    with pytest.raises(ValidationFailedError, match=r"has not passed validation\. Nothing was published"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.snapshot_ids() == before


@pytest.mark.kafka("77")
def test_a_plan_is_void_when_another_compaction_published_first(world: World) -> None:
    first = prepared(world)
    second = prepared(world, world.clock() + 1)
    assert first.plan_id != second.plan_id
    publish_attempt(world.installation, first.plan_id, "a1")
    before, state, read = world.snapshot_ids(), world.head().state, world.read()
    with pytest.raises(PlanVoidError, match="the plan is void and nothing was published") as refused:
        publish_attempt(world.installation, second.plan_id, "a1")
    assert refused.value.exit_code == 5
    assert status(world, second) is RunState.REFUSED
    assert (world.snapshot_ids(), world.head().state, world.read()) == (before, state, read)


def test_a_plan_is_void_when_the_other_compaction_comes_between_look_and_commit(world: World) -> None:
    first, second = prepared(world), prepared(world, world.clock() + 1)

    def other() -> None:
        publish_attempt(world.installation, first.plan_id, "a1")

    with run_between_head_and_commit(other), pytest.raises(PlanVoidError):
        publish_attempt(world.installation, second.plan_id, "a1")
    assert world.read() == compute_survivors(ALL)
    assert snapshots_of(world, second) == []


@pytest.mark.kafka("77")
def test_a_plan_is_void_when_a_planned_file_was_kept_by_reference_and_is_gone(world: World) -> None:
    """Nothing of the plan removes that file, so only the comparison of the log with the plan can see it."""
    world.compact()
    world.ingest([record(12, b"new", b"x"), record(13, b"newer", b"x")])
    kept = world.segments(0)[0].path
    plan = prepared(world)
    manifest = staging.read_manifest(plan.uri, "a1")
    assert manifest is not None
    assert not any(part.rewrites for part in manifest.partitions)
    with run_between_head_and_commit(lambda: remove_by_commit(world, kept)), pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert snapshots_of(world, plan) == []


def remove_by_commit(world: World, path: str) -> None:
    """As delete-records would: the file leaves the log, state carried forward."""
    world.installation.log.open(TOPIC).commit(lambda head: Change(state=head.state, remove=[path]))


@pytest.mark.kafka("77")
def test_a_plan_is_void_when_the_log_start_moved(world: World) -> None:
    def advance(head: Head) -> Change:
        moved = replace(head.state.partitions[0], log_start_offset=5)
        return Change(state=replace(head.state, partitions={**head.state.partitions, 0: moved}))

    plan = prepared(world)
    world.installation.log.open(TOPIC).commit(advance)
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.state().log_start_offset == 5


def test_a_plan_is_void_when_the_topic_was_dropped_and_created_again(world: World, tmp_path: Path) -> None:
    plan = prepared(world)
    world.installation.log.catalog.drop_table(("winnow", TOPIC))
    world.create(2)
    with pytest.raises(PlanVoidError, match="its topic was removed, and perhaps created again"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == []


def test_after_a_refusal_the_next_run_compacts_the_log_as_it_is(world: World) -> None:
    first, second = prepared(world), prepared(world, world.clock() + 1)
    publish_attempt(world.installation, first.plan_id, "a1")
    world.ingest(build_versions(12, 6))
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, second.plan_id, "a1")
    world.compact()
    assert world.read() == compute_survivors([*build_versions(0, 18), *build_versions(0, 6, partition=1)])


# ------------------------------------------------------------------------------------------------- unknown outcomes


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch, world: World) -> Callable[..., None]:
    """Make the catalog lose the answer to the next table commit: before or after it landed, and be gone or not."""
    catalog = world.installation.log.catalog
    genuine_commit, genuine_load = catalog.commit_table, catalog.load_table

    def arm(*, landed: bool, unreachable: bool) -> None:
        def commit(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(catalog, "commit_table", genuine_commit)
            if landed:
                genuine_commit(*arguments, **named)
            if unreachable:
                monkeypatch.setattr(catalog, "load_table", gone)
            raise ConnectionError("connection reset by peer")

        def gone(*_: Any, **__: Any) -> Any:
            monkeypatch.setattr(catalog, "load_table", genuine_load)
            raise ConnectionError("connection refused")

        monkeypatch.setattr(catalog, "commit_table", commit)

    return arm


def test_a_lost_answer_to_a_commit_that_landed_is_a_publish(world: World, lose: Callable[..., None]) -> None:
    plan = prepared(world)
    lose(landed=True, unreachable=False)
    receipt = publish_attempt(world.installation, plan.plan_id, "a1")
    assert snapshots_of(world, plan) == [receipt.snapshot_id]
    assert status(world, plan) is RunState.PUBLISHED
    assert publish_attempt(world.installation, plan.plan_id, "a1") == receipt


def test_a_commit_whose_outcome_is_unknown_cleans_nothing_up(world: World, lose: Callable[..., None]) -> None:
    plan = prepared(world)
    before = world.listing()
    lose(landed=False, unreachable=False)
    with pytest.raises(CommitUnknownError, match="Nothing was cleaned up") as unknown:
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert unknown.value.exit_code == 5
    assert status(world, plan) is RunState.UNKNOWN
    after = world.listing()
    assert before.items() <= after.items()
    for kind in ("receipts", "state"):
        written = [path for path in after.keys() - before.keys() if f"/_winnow/{kind}/" in path]
        assert len(written) == 2, "the document and its copy"
    assert world.read() == ALL


def test_the_run_after_an_unknown_outcome_that_did_not_land_voids_it_and_compacts(
    world: World, lose: Callable[..., None]
) -> None:
    plan = prepared(world)
    lose(landed=False, unreachable=True)
    with pytest.raises(CommitUnknownError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    world.clock.now_ms += 1_000
    receipt = world.compact()
    assert receipt is not None
    assert receipt.plan_id != plan.plan_id
    assert status(world, plan) is RunState.VOID
    assert (snapshots_of(world, plan), world.read()) == ([], compute_survivors(ALL))


def test_the_run_after_an_unknown_outcome_that_landed_finds_its_receipt(
    world: World, lose: Callable[..., None]
) -> None:
    """Also when others have committed since."""
    plan = prepared(world)
    lose(landed=True, unreachable=True)
    with pytest.raises(CommitUnknownError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    (landed,) = snapshots_of(world, plan)
    assert world.installation.store.projection.list_checkpoints([TOPIC]) == []
    world.ingest(build_versions(12, 1))
    with hold_lease(world.installation, TOPIC):
        (receipt,) = settle_open_runs(world.installation, TOPIC)
    assert (receipt.plan_id, receipt.snapshot_id) == (plan.plan_id, landed)
    assert status(world, plan) is RunState.PUBLISHED
    assert [row.first_dirty_offset for row in world.installation.store.projection.list_checkpoints([TOPIC])] == [12, 6]
    assert publish_attempt(world.installation, plan.plan_id, "a1") == receipt
    assert snapshots_of(world, plan) == [landed]


def test_a_run_of_unknown_outcome_is_not_planned_over(world: World, lose: Callable[..., None]) -> None:
    """The same decision again, without settling first, is refused."""
    plan = prepared(world)
    lose(landed=False, unreachable=True)
    with pytest.raises(CommitUnknownError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    with pytest.raises(RunAgainError, match="A compaction determines the outcome first"):
        world.plan(world.clock(), attempt="a2")


def test_an_ingest_whose_outcome_is_unknown_is_told_apart_when_it_comes_again(
    world: World, lose: Callable[..., None], tmp_path: Path
) -> None:
    """Landed: everything is skipped. Not landed: it lands now. Either way the records are there once."""
    for number, landed in enumerate((True, False)):
        before = world.read(1)
        path = write_jsonl(
            tmp_path / f"{number}.jsonl", build_versions(50 + 10 * number, 3, partition=1), with_offset=False
        )
        lose(landed=landed, unreachable=True)
        with pytest.raises(CommitUnknownError):
            ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
        again = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
        assert again.records_appended == (0 if landed else 3)
        assert len(world.read(1)) == len(before) + 3


# -------------------------------------------------------------------------------------------------------- who works


def test_a_topic_held_by_a_living_run_is_busy_and_by_a_dead_one_is_taken_over(world: World) -> None:
    with open_installation(world.installation.settings, now_ms=world.clock) as other, hold_lease(other, TOPIC):
        with pytest.raises(TopicBusyError, match="is held by") as busy:
            world.compact()
        assert busy.value.exit_code == 5
    world.installation.store.leases.acquire(TOPIC, name_of_dead_process(), world.clock(), 3_600_000)
    assert world.compact() is not None


def name_of_dead_process() -> str:
    """The name that a process which has ended had in leases."""
    program = "from winnow.pipeline.installation import name_process; print(name_process())"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
