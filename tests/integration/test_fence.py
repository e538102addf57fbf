"""The fence of a topic: it only grows, every catalog raises it in one commit, and no attempt before it is published."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.rest_catalog import RestCatalogServer, serve_rest_catalog
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
from winnow.errors import CommitUnknownError, ForeignTableError, FormatVersionError, PlanVoidError
from winnow.files import storage
from winnow.log.fence import end_attempts
from winnow.log.state import StateReference
from winnow.log.table import FENCE_PROPERTY
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.topics.leases import hold_lease
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.values import documents
from winnow.values.results import Receipt

GRACE_MS = 3_600_000
RECORDS = build_versions(0, 12)


def filled(world: World) -> World:
    world.create(1, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS))
    world.ingest(RECORDS)
    return world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as opened:
        yield filled(opened)


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[tuple[World, RestCatalogServer]]:
    """The same over a REST catalog."""
    with serve_rest_catalog() as (server, address):
        lake = {"WINNOW_CATALOG__TYPE": "rest", "WINNOW_CATALOG__URI": address}
        with open_world(tmp_path, FakeClock(read_wall_clock_ms()), lake) as opened:
            yield filled(opened), server


def accepted(world: World, attempt: str = "a1") -> PlanReference:
    """A plan whose attempt is staged and validated."""
    plan = world.plan(world.clock(), attempt)
    assert plan is not None
    world.stage(plan, attempt)
    world.accept(plan, attempt)
    return plan


def raise_fence(world: World, plan_id: str = "nobody's") -> Receipt | None:
    log = world.installation.log.open(TOPIC)
    return end_attempts(log, plan_id, log.head().fence, since_ms=0)


# ------------------------------------------------------------------------------------------------------ one commit


def test_an_sql_catalog_raises_the_fence_and_takes_a_snapshot_in_one_commit(world: World) -> None:
    """One metadata file has both, and the one before it has neither."""
    before = world.head()
    raise_fence(world)
    after = world.head()
    logged = [entry.metadata_file for entry in after.table.metadata.metadata_log]
    assert logged[-1] == before.table.metadata_location
    assert FENCE_PROPERTY not in before.table.properties
    assert (after.table.properties[FENCE_PROPERTY], after.fence, after.state.fence) == ("1", 1, 1)
    assert after.snapshot_id != before.snapshot_id
    assert world.read() == RECORDS


def test_a_rest_catalog_is_asked_for_the_fence_and_the_snapshot_in_one_request(
    rest: tuple[World, RestCatalogServer],
) -> None:
    """With the requirement that the newest snapshot is still the one that was looked at."""
    world, server = rest
    head = world.head().snapshot_id
    server.commits.clear()
    raise_fence(world)
    (request,) = server.commits
    updates = {update["action"]: update for update in request["updates"]}
    assert updates["set-properties"]["updates"] == {FENCE_PROPERTY: "1"}
    assert updates.keys() >= {"add-snapshot", "set-snapshot-ref"}
    required = {(each["type"], each.get("ref"), each.get("snapshot-id")) for each in request["requirements"]}
    assert ("assert-ref-snapshot-id", "main", head) in required
    assert world.head().fence == 1


def test_a_publisher_that_has_read_the_head_before_the_fence_meets_it(rest: tuple[World, RestCatalogServer]) -> None:
    world, _ = rest
    plan = accepted(world)
    with run_between_head_and_commit(lambda: raise_fence(world)), pytest.raises(PlanVoidError, match="fence"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == RECORDS
    world.clock.now_ms += 1
    assert world.compact() is not None
    assert world.read() == compute_survivors(RECORDS)


# -------------------------------------------------------------------------------------------------------- it grows


def test_a_rollback_of_the_table_does_not_rewind_the_fence(world: World) -> None:
    """Nor does a tool that removes the property: the state remembers it."""
    plan = accepted(world)
    old = world.head().snapshot_id
    raise_fence(world)
    manage = world.head().table.manage_snapshots()
    manage.set_current_snapshot(snapshot_id=old).commit()
    assert (world.head().snapshot_id, world.head().fence) == (old, 1)
    with pytest.raises(PlanVoidError, match="fence"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    world.ingest(build_versions(12, 1))
    assert world.head().state.fence == 1
    with world.head().table.transaction() as transaction:
        transaction.remove_properties(FENCE_PROPERTY)
    assert world.head().fence == 1
    raise_fence(world)
    assert (world.head().fence, world.head().table.properties[FENCE_PROPERTY]) == (2, "2")


def test_a_fence_that_is_no_number_is_named(world: World) -> None:
    with world.head().table.transaction() as transaction:
        transaction.set_properties({FENCE_PROPERTY: "high"})
    with pytest.raises(ForeignTableError, match=FENCE_PROPERTY):
        world.compact()


def test_normal_runs_raise_no_fence_and_add_no_commit(world: World) -> None:
    """Nor do runs that ended before their commit was begun, nor a sweep that finds nothing of them."""
    world.compact()
    world.ingest(build_versions(12, 6))
    world.plan(world.clock(), "a1")
    count = len(world.snapshot_ids())
    settle_open_runs(world.installation, TOPIC)
    assert (world.head().fence, len(world.snapshot_ids())) == (0, count)


def test_of_threads_that_raise_the_fence_at_once_each_ends_the_attempts_before_it(world: World) -> None:
    plan = accepted(world)
    threads = [threading.Thread(target=raise_fence, args=(world,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.head().fence >= 1
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")


# --------------------------------------------------------------------------------------------------------- settling


def publishing(world: World) -> PlanReference:
    """A run whose publisher has died, or is about to commit: nobody can tell."""
    plan = accepted(world)
    world.installation.store.runs.set_state(plan.plan_id, RunState.PUBLISHING, world.clock(), attempt="a1")
    return plan


def test_a_fence_whose_commit_is_in_doubt_leaves_the_run_open(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run settles it; nothing is void before that is certain."""
    plan = publishing(world)
    catalog = world.installation.log.catalog

    def commit(*_: object, **__: object) -> None:
        raise ConnectionError("reset")

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "commit_table", commit)
        with pytest.raises(CommitUnknownError) as doubt:
            settle_open_runs(world.installation, TOPIC)
    assert doubt.value.exit_code == 5
    run = world.installation.store.runs.find(plan.plan_id)
    assert run is not None
    assert run.status is RunState.PUBLISHING
    assert settle_open_runs(world.installation, TOPIC) == []
    assert world.head().fence == 1


def test_a_run_that_commits_while_it_is_being_voided_is_published(world: World) -> None:
    """The commit that raises the fence looks for the receipt on each of its turns."""
    plan = publishing(world)

    def publish_now() -> None:
        publish_attempt(world.installation, plan.plan_id, "a1")

    with run_between_head_and_commit(publish_now):
        (receipt,) = settle_open_runs(world.installation, TOPIC)
    assert (receipt.plan_id, world.head().fence) == (plan.plan_id, 0)
    assert world.read() == compute_survivors(RECORDS)


def test_a_run_that_moved_on_while_it_was_being_settled_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was validated when it was seen, and is publishing when it is to be closed: then the fence comes first."""
    plan = accepted(world)
    runs = type(world.installation.store.runs)
    genuine = runs.list_open

    def then_publishing(*arguments: Any) -> Any:
        found = genuine(*arguments)
        world.installation.store.runs.set_state(plan.plan_id, RunState.PUBLISHING, world.clock(), attempt="a1")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(runs, "list_open", then_publishing)
        settle_open_runs(world.installation, TOPIC)
    assert world.head().fence == 1


def test_a_replaced_attempt_changes_nothing_of_the_run(world: World) -> None:
    plan = accepted(world, "a1")
    world.installation.store.runs.begin_attempt(plan.plan_id, "a2", world.clock())
    before = world.installation.store.runs.find(plan.plan_id)
    for state in (RunState.STAGED, RunState.INVALID, RunState.PUBLISHING, RunState.VOID):
        with pytest.raises(PlanVoidError, match="replaced"):
            world.installation.store.runs.set_state(plan.plan_id, state, world.clock(), attempt="a1")
    with pytest.raises(PlanVoidError, match="replaced"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.installation.store.runs.find(plan.plan_id) == before


def test_a_commit_that_a_proxy_sent_twice_is_one_commit(rest: tuple[World, RestCatalogServer]) -> None:
    """The answer to the second request is that the head has moved: by the first one."""
    world, server = rest
    server.repeats = True
    world.ingest(build_versions(12, 3))
    server.repeats = False
    assert world.read() == build_versions(0, 15)
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 15))


def test_a_sweep_that_could_not_raise_the_fence_deletes_nothing_of_an_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of the run is wrong, say from a backup of the store: the attempt is alive, and only a commit ends it."""
    plan = accepted(world)
    world.installation.store.runs.set_state(
        plan.plan_id, RunState.VOID, world.clock(), attempt="a1", seen=RunState.VALIDATED
    )
    files = {path for path in world.listing(below=f"{world.log_folder()}/data") if path.startswith(plan.plan_id)}
    world.clock.now_ms += 2 * GRACE_MS
    with monkeypatch.context() as patch:
        patch.setattr("winnow.pipeline.admin.sweep._commit_removals", lambda *_, **__: (False, []))
        sweep_topics(world.installation, [TOPIC])
    assert files <= world.listing(below=f"{world.log_folder()}/data").keys()
    sweep_topics(world.installation, [TOPIC])
    assert not files & world.listing(below=f"{world.log_folder()}/data").keys()
    assert world.head().fence == 1


# ------------------------------------------------------------------------------------------------------- the listing


@pytest.mark.parametrize("damage", ["gone", "cut off"])
def test_a_staged_file_that_is_not_there_with_its_length_is_not_published(world: World, damage: str) -> None:
    plan = world.plan(world.clock(), "a1")
    assert plan is not None
    manifest = world.stage(plan)
    world.accept(plan)
    path = storage.parse_local_path(manifest.partitions[0].rewrites[0].outputs[0].path)
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PlanVoidError, match="Gone, or of another length"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == RECORDS
    world.clock.now_ms += 1
    world.compact()
    assert world.read() == compute_survivors(RECORDS)


# ---------------------------------------------------------------------------------------------------------- versions


def test_a_winnow_that_knows_no_fence_refuses_the_table(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads documents up to format 3."""
    monkeypatch.setattr(documents, "FORMAT_VERSION", 3)
    with pytest.raises(FormatVersionError, match="format 9"):
        world.ingest(build_versions(12, 1))


def test_a_lake_of_the_version_before_is_upgraded_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state has format 2 and names no fence; a run was open, staged below a folder of the former name."""
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as world:
        with monkeypatch.context() as patch:
            patch.setattr("winnow.log.state.documents", _FormerDocuments)
            filled(world)
            plan = publishing(world)
        snapshot = world.head().table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        reference = StateReference.from_summary(TOPIC, snapshot.summary.additional_properties)
        state = json.loads(storage.read_bytes(reference.path))
        assert (state["format_version"], "fence" in state) == (2, False)
        with hold_lease(world.installation, TOPIC):
            assert settle_open_runs(world.installation, TOPIC) == []
        assert world.head().fence == 1
        with pytest.raises(PlanVoidError):
            publish_attempt(world.installation, plan.plan_id, "a1")
        world.clock.now_ms += 1
        world.compact()
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
        assert world.read() == compute_survivors(RECORDS)
        assert world.head().state.format_version == 9


class _FormerDocuments:
    """What the version before wrote of a state."""

    load_json = staticmethod(documents.load_json)

    @staticmethod
    def dump_json(value: object) -> bytes:
        plain = json.loads(documents.dump_json(value))
        for later in ("fence", "condemned", "voided_ingests", "first_valid_ingest"):
            plain.pop(later, None)
        return json.dumps({**plain, "format_version": 2} if "partitions" in plain else plain, sort_keys=True).encode()
