"""A result that does not pass: nothing is published, the partition is marked, the others go on, and it recovers.

Real files, real facts, real Great Expectations.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    run_between_head_and_commit,
)
from winnow.engine import staging
from winnow.errors import ServiceError, ValidationBrokenError, ValidationFailedError
from winnow.files import storage
from winnow.pipeline.compaction import validate as validation
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.facts import FactRecomputer
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.validate import compute_fact_table, validate_attempt
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.marks import MINIMUM_BACK_OFF_MS
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.values.model import Reason, TopicPartition
from winnow.values.results import Receipt, StagingManifest

ALL = [*build_versions(0, 12), *build_versions(0, 12, partition=1)]


world = define_world(2, ALL, min_cleanable_dirty_ratio="0")


def staged(world: World, attempt: str = "a1") -> tuple[PlanReference, StagingManifest]:
    plan = world.plan(world.clock(), attempt)
    assert plan is not None
    return plan, world.stage(plan, attempt)


def damage(manifest: StagingManifest, partition: int) -> None:
    """Flip one byte of a page of the new file of ``partition``."""
    (part,) = [part for part in manifest.partitions if part.partition == partition]
    path = storage.parse_local_path(part.rewrites[0].outputs[0].path)
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 0xFF
    path.write_bytes(bytes(content))


def reasons(world: World) -> dict[int, Reason]:
    return {
        a.partition: a.reason for a in assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    }


def run_state(world: World, plan: PlanReference) -> RunState:
    run = world.installation.store.runs.find(plan.plan_id)
    assert run is not None
    return run.status


def compact(world: World) -> Receipt:
    """A whole run with real validation."""
    with hold_lease(world.installation, TOPIC):
        settle_open_runs(world.installation, TOPIC)
        plan, _ = staged(world)
        validate_attempt(world.installation, plan.plan_id, "a1")
        return publish_attempt(world.installation, plan.plan_id, "a1")


def test_a_damaged_result_is_not_published_marks_its_partition_and_heals_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """From the failure over the back-off to the recovery, step by step."""
    started_ms = world.clock()
    plan, manifest = staged(world)
    damage(manifest, 0)
    with caplog.at_level(logging.WARNING, "winnow.alerts"), pytest.raises(ValidationFailedError) as failed:
        validate_attempt(world.installation, plan.plan_id, "a1")
    assert failed.value.exit_code == 4
    assert "Nothing was published" in str(failed.value)
    assert "orders-0: " in str(failed.value)
    assert "orders-1: " not in str(failed.value)
    assert caplog.messages == [str(failed.value)]

    assert run_state(world, plan) is RunState.INVALID
    assert world.read() == ALL
    assert [run.plan_id for run in world.installation.store.runs.list_open(TOPIC)] == []
    with pytest.raises(ValidationFailedError):
        publish_attempt(world.installation, plan.plan_id, "a1")

    mark = world.state(0).uncleanable
    assert mark is not None
    assert (mark.plan_id, mark.attempts, mark.since_ms) == (plan.plan_id, 1, started_ms)
    assert mark.next_attempt_ms == started_ms + MINIMUM_BACK_OFF_MS
    assert world.state(1).uncleanable is None
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {TopicPartition(TOPIC, 0): mark}
    assert reasons(world) == {0: Reason.UNCLEANABLE, 1: Reason.DIRTY_RATIO}

    # The next run takes the others; the mark outlives it.
    receipt = compact(world)
    assert [part.partition for part in receipt.partitions] == [1]
    assert world.read() == [*build_versions(0, 12), *compute_survivors(build_versions(0, 12, partition=1))]
    assert world.state(0).uncleanable == mark

    # A second failure doubles the wait and keeps the beginning.
    world.clock.now_ms += MINIMUM_BACK_OFF_MS - 1
    assert reasons(world)[0] is Reason.UNCLEANABLE
    world.clock.now_ms += 1
    assert reasons(world)[0] is Reason.DIRTY_RATIO
    again, manifest = staged(world)
    damage(manifest, 0)
    with pytest.raises(ValidationFailedError):
        validate_attempt(world.installation, again.plan_id, "a1")
    second = world.state(0).uncleanable
    assert second is not None
    assert (second.attempts, second.since_ms) == (2, started_ms)
    assert second.next_attempt_ms == world.clock() + 2 * MINIMUM_BACK_OFF_MS

    # A good result clears the mark everywhere, and whoever was alerted is told.
    world.clock.now_ms += 2 * MINIMUM_BACK_OFF_MS
    caplog.clear()
    with caplog.at_level(logging.WARNING, "winnow.alerts"):
        compact(world)
    assert world.read() == compute_survivors(ALL)
    assert world.state(0).uncleanable is None
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}
    assert [message for message in caplog.messages if message.startswith("Recovered: orders")] != []


def test_an_attempt_that_was_staged_again_after_it_passed_is_not_published(world: World) -> None:
    """A program that was thought dead goes on and writes another manifest under the name that was judged."""
    plan, manifest = staged(world)
    assert validate_attempt(world.installation, plan.plan_id, "a1").passed
    first, *others = manifest.partitions
    emptied = replace(first, rewrites=tuple(replace(rewrite, outputs=()) for rewrite in first.rewrites))
    before = world.head().snapshot_id
    staging.write_manifest(plan.uri, replace(manifest, partitions=(emptied, *others)))
    with pytest.raises(ValidationFailedError, match="is not the one that passed validation"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.head().snapshot_id == before
    assert world.read() == ALL
    staging.write_manifest(plan.uri, manifest)
    assert publish_attempt(world.installation, plan.plan_id, "a1").plan_id == plan.plan_id
    assert world.read() == [
        *compute_survivors(build_versions(0, 12)),
        *compute_survivors(build_versions(0, 12, partition=1)),
    ]


def test_facts_that_were_begun_before_the_attempt_was_staged_again_are_not_its_own(world: World) -> None:
    """They are of files that the manifest names no longer, and everything about those was right."""
    plan, manifest = staged(world)
    first, *others = manifest.partitions
    emptied = replace(first, rewrites=tuple(replace(rewrite, outputs=()) for rewrite in first.rewrites))
    with FactRecomputer(world.installation) as facts:
        facts.begin(plan, "a1")
        staging.write_manifest(plan.uri, replace(manifest, partitions=(emptied, *others)))
        with pytest.raises(ValidationFailedError, match="orders-0: "):
            validate_attempt(world.installation, plan.plan_id, "a1", facts=facts)


def test_a_missing_staged_file_fails_its_partition_as_a_damaged_one_does(world: World) -> None:
    plan, manifest = staged(world)
    storage.delete(manifest.partitions[1].rewrites[0].outputs[0].path)
    with pytest.raises(ValidationFailedError, match="orders-1: "):
        validate_attempt(world.installation, plan.plan_id, "a1")
    assert (world.state(0).uncleanable, world.state(1).uncleanable is None) == (None, False)
    assert world.read() == ALL


def test_judging_the_same_failure_again_does_not_count_twice(world: World) -> None:
    plan, manifest = staged(world)
    damage(manifest, 0)
    for _ in range(2):
        with pytest.raises(ValidationFailedError):
            validate_attempt(world.installation, plan.plan_id, "a1")
    mark = world.state(0).uncleanable
    assert mark is not None
    assert mark.attempts == 1


def test_a_backfill_that_fails_again_at_the_same_as_of_waits_longer(world: World) -> None:
    """The same as-of gives the same plan id; it is another failure all the same."""
    as_of_ms = world.clock()
    for attempt in range(1, 4):
        plan = world.plan(as_of_ms, f"a{attempt}")
        assert plan is not None
        damage(world.stage(plan, f"a{attempt}"), 0)
        with pytest.raises(ValidationFailedError):
            validate_attempt(world.installation, plan.plan_id, f"a{attempt}")
        mark = world.state(0).uncleanable
        assert mark is not None
        assert mark.next_attempt_ms == world.clock() + MINIMUM_BACK_OFF_MS * 2 ** (attempt - 1)
        world.clock.now_ms += MINIMUM_BACK_OFF_MS * 2 ** (attempt - 1)


def test_an_append_beside_the_mark_loses_neither(world: World) -> None:
    """The mark is a commit like every other: it begins again from the head it finds."""
    plan, manifest = staged(world)
    damage(manifest, 0)
    with (
        run_between_head_and_commit(lambda: world.ingest(build_versions(12, 2))),
        pytest.raises(ValidationFailedError),
    ):
        validate_attempt(world.installation, plan.plan_id, "a1")
    assert world.state(0).uncleanable is not None
    assert world.state(0).log_end_offset == 14
    assert len(world.read(0)) == 14


def test_a_check_that_raises_marks_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known about the data then, and the mended check may judge the same attempt."""
    plan, _ = staged(world)
    snapshots = world.snapshot_ids()

    def rows_with_a_gap(*arguments: Any, **named: Any) -> list[dict[str, int | str]]:
        rows = [dict(row) for row in compute_fact_table(*arguments, **named)]
        rows[0].popitem()
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(validation, "compute_fact_table", rows_with_a_gap)
        with pytest.raises(ValidationBrokenError, match="raised instead of judging"):
            validate_attempt(world.installation, plan.plan_id, "a1")
    assert run_state(world, plan) is RunState.BROKEN
    assert world.snapshot_ids() == snapshots
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}
    with pytest.raises(ValidationFailedError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert validate_attempt(world.installation, plan.plan_id, "a1").passed
    publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == compute_survivors(ALL)


def test_a_recomputation_that_breaks_down_is_recorded_and_alerted_as_a_broken_check(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Out of spill space, say."""
    plan, _ = staged(world)

    def out_of_space(*_: object, **__: object) -> object:
        raise ValidationBrokenError("The facts of orders-0 could not be recomputed (OutOfMemoryException).")

    monkeypatch.setattr(validation, "compute_fact_table", out_of_space)
    with caplog.at_level(logging.ERROR, "winnow.alerts"), pytest.raises(ValidationBrokenError) as broken:
        validate_attempt(world.installation, plan.plan_id, "a1")
    assert caplog.messages == [str(broken.value)]
    assert run_state(world, plan) is RunState.BROKEN
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}


def test_a_store_of_objects_that_does_not_answer_marks_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = staged(world)

    def gone(*_: object, **__: object) -> object:
        raise ServiceError("The object store does not give the file. Nothing was judged or published.")

    monkeypatch.setattr(validation, "compute_fact_table", gone)
    with pytest.raises(ServiceError):
        validate_attempt(world.installation, plan.plan_id, "a1")
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}
    assert world.read() == ALL
