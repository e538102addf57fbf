"""Erasing a key while others are at work on the topic, or die: nothing of it comes back, nothing else is lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.erasing import (
    FIRST,
    GRACE_MS,
    KEY,
    SECOND,
    compact,
    define_erasing_world,
    erase,
    list_holding,
    list_unused,
    without,
)
from tests.support.world import (
    TOPIC,
    World,
    record,
    run_between_head_and_commit,
)
from winnow.errors import (
    PlanVoidError,
    RunAgainError,
    TopicBusyError,
    UnknownTopicError,
)
from winnow.pipeline.admin import erased_versions, erasure_progress
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.erase import complete, rewriting
from winnow.pipeline.erase.erase import EraseRequest, commit_erasure
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.undo.undo import undo_change

world = define_erasing_world()
"""Two partitions with records of three keys each."""


def test_plan_from_before_is_void_and_what_it_staged_goes_with_the_key(world: World) -> None:
    with hold_lease(world.installation, TOPIC):
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        world.accept(plan)
    assert any("/a1/" in path for path in list_holding(world, KEY))
    report = erase(world)
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert list_holding(world, KEY) == []
    assert report.deleted


def test_plan_from_before_is_void_even_where_no_key_was(world: World) -> None:
    """Whatever was begun before is behind the fence, so it can be said when the last of it has ended."""
    world.ingest([record(9, b"solo", b"x")])
    compact(world)
    world.ingest([record(6, b"key-0", b"x", partition=1)])
    with hold_lease(world.installation, TOPIC):
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        world.accept(plan)
    before = world.head().fence
    commit_erasure(world.installation, EraseRequest(TOPIC, [b"solo"], "request 4711"))
    (erasure,) = world.head().state.erasures
    assert (world.head().fence, erasure.fence) == (before + 1, before + 1)
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")


def test_run_that_is_at_work_lets_readers_forget_at_once_and_disk_when_it_has_ended(world: World) -> None:
    with (
        open_installation(world.installation.settings, now_ms=world.clock, holder="elsewhere:17:night") as other,
        hold_lease(other, TOPIC),
        pytest.raises(RunAgainError, match=r"not yet from disk: 2 files"),
    ):
        erase(world)
    assert without(world.read()) == world.read()
    assert list_holding(world, KEY)
    report = erase(world)
    assert (report.was_erased, report.deleted) == (True, True)
    assert list_holding(world, KEY) == []


def test_any_sweep_goes_on_where_the_deletion_was_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise TopicBusyError("It was stopped here.")

    with monkeypatch.context() as patch:
        patch.setattr(complete, "sweep_topics", die)
        with pytest.raises(RunAgainError):
            erase(world)
    assert list_holding(world, KEY)
    sweep_topics(world.installation, [TOPIC])
    assert list_holding(world, KEY) == []
    assert world.head().state.unfinished_erasures == ()


def test_erasure_that_comes_amid_a_sweep_is_left_to_the_next_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key is in no file, so none waits for deletion; but the sweep looked for versions before it came."""
    genuine = erased_versions.remove_erased_versions

    def look_and_erase(*arguments: Any) -> str:
        found = genuine(*arguments)
        commit_erasure(world.installation, EraseRequest(TOPIC, [b"nobody"], "request 4711"))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(erasure_progress, "remove_erased_versions", look_and_erase)
        sweep_topics(world.installation, [TOPIC])
    assert len(world.head().state.unfinished_erasures) == 1
    sweep_topics(world.installation, [TOPIC])
    assert world.head().state.unfinished_erasures == ()


def test_record_that_is_appended_meanwhile_is_erased_too(world: World) -> None:
    late = record(9, KEY, b"meanwhile")
    with run_between_head_and_commit(lambda: world.ingest([late])):
        report = erase(world)
    assert report.records == 6
    assert len([path for path in world.listing(below=world.log_folder()) if "/erasures/" in path]) == 1
    assert world.read() == without([*FIRST, *SECOND])
    assert list_holding(world, b"meanwhile") == []


def test_erasure_that_a_sweep_took_for_dead_commits_nothing(world: World) -> None:
    """It was paused, and its files are gone; run again, it ends."""
    before = world.read()

    def sweep_much_later() -> None:
        world.clock.now_ms += world.installation.settings.lease_ms + 10 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])

    with run_between_head_and_commit(sweep_much_later), pytest.raises(RunAgainError, match="took it for dead"):
        erase(world)
    assert world.read() == before
    assert erase(world).records == 5
    assert world.read() == without(before)


def test_two_erasures_at_once_end_one_after_the_other(world: World) -> None:
    with run_between_head_and_commit(lambda: erase(world, b"key-2")), pytest.raises(RunAgainError):
        erase(world)
    erase(world)
    assert {each.key for each in world.read()} == {b"key-0"}
    assert list_holding(world, KEY, b"key-2") == []


def test_topic_that_is_created_again_meanwhile_keeps_its_records(world: World) -> None:
    def create_again() -> None:
        delete_topic(world.installation, TOPIC, now=True)
        world.create(2)
        world.ingest(FIRST)

    with run_between_head_and_commit(create_again), pytest.raises(UnknownTopicError, match="created again"):
        erase(world)
    assert world.read() == FIRST


def test_compaction_meanwhile_makes_it_begin_again(world: World) -> None:
    with run_between_head_and_commit(lambda: compact(world)):
        erase(world)
    assert [each.key for each in world.read()] == [b"key-0", b"key-2"] * 2
    assert list_holding(world, KEY) == []


def test_what_it_wrote_of_a_segment_that_was_replaced_meanwhile_goes(world: World) -> None:
    """Nothing names such a file, and it may hold what the other process erased."""
    with run_between_head_and_commit(lambda: compact(world)):
        report = erase(world)
    assert list_unused(world, report) == []


def test_sweep_removes_what_an_erasure_that_died_after_its_commit_had_written_in_vain(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(rewriting.Rewriting, "remove_unused", lambda *_: False)
        with run_between_head_and_commit(lambda: compact(world)):
            report = erase(world)
    assert list_unused(world, report)
    before = world.read()
    for _ in range(2):
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
    assert list_unused(world, report) == []
    assert world.installation.store.ingests.list_open(TOPIC) == []
    assert world.read() == before


def test_undo_meanwhile_brings_nothing_back(world: World) -> None:
    plan_id = compact(world)
    with run_between_head_and_commit(lambda: undo_change(world.installation, TOPIC, plan_id)):
        erase(world)
    assert world.read() == without([*FIRST, *SECOND])
    assert list_holding(world, KEY) == []


def test_call_that_died_after_its_commit_is_closed_by_a_sweep(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from winnow.store.ingests import Ingests

    with monkeypatch.context() as patch:
        patch.setattr(Ingests, "close", lambda *_: None)
        report = erase(world)
    assert [each.ingest_id for each in world.installation.store.ingests.list_open(TOPIC)] == [report.erasure_id]
    world.clock.now_ms += 2 * GRACE_MS
    before = world.read()
    sweep_topics(world.installation, [TOPIC])
    assert world.installation.store.ingests.list_open(TOPIC) == []
    assert world.read() == before
