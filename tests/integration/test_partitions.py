"""Pausing, resuming, releasing and listing partitions, beside runs that are at work on them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, winnow
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    run_between_head_and_commit,
)
from winnow.errors import PlanVoidError, UsageError
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.audit import get_user_name
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.marks import mark_uncleanable
from winnow.pipeline.topics.partitions import list_partitions, pause_partitions, resume_partitions
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.store import RunState
from winnow.values.model import Reason, TopicPartition
from winnow.values.topic_state import PartitionState

ALL = [*build_versions(0, 12), *build_versions(0, 12, partition=1)]
ROW_KEYS = [
    "topic", "partition", "state", "reason", "since_ms", "attempts", "next_attempt_ms", "paused_by",
    "paused_since_ms", "changed",
]  # fmt: skip


world = define_world(2, ALL, min_cleanable_dirty_ratio="0")


def reasons(world: World) -> list[Reason]:
    return [a.reason for a in assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)]


def states(world: World) -> list[str]:
    return [row.state for row in list_partitions(world.installation, TOPIC)]


@pytest.mark.kafka("94")
def test_paused_partition_is_left_alone_until_the_last_name_has_resumed_it(world: World) -> None:
    started_ms = world.clock()
    assert [row.changed for row in pause_partitions(world.installation, TOPIC, [0], by="restore")] == [True]
    world.clock.now_ms += 1
    pause_partitions(world.installation, TOPIC, [0], by="audit")
    assert reasons(world) == [Reason.PAUSED, Reason.DIRTY_RATIO]
    assert (world.state().paused_by, world.state().paused_since_ms) == (("restore", "audit"), started_ms)
    receipt = world.compact()
    assert receipt is not None
    assert [part.partition for part in receipt.partitions] == [1]

    resume_partitions(world.installation, TOPIC, [0], by="restore")
    assert reasons(world) == [Reason.PAUSED, Reason.CLEAN]
    assert (world.state().paused_by, world.state().paused_since_ms) == (("audit",), started_ms)
    resume_partitions(world.installation, TOPIC, [0], by="audit")
    assert world.state().paused_since_ms is None
    assert reasons(world) == [Reason.DIRTY_RATIO, Reason.CLEAN]
    world.compact()
    assert world.read() == compute_survivors(ALL)


def test_pausing_twice_under_one_name_makes_no_second_snapshot(world: World) -> None:
    pause_partitions(world.installation, TOPIC, by="audit")
    before = (world.snapshot_ids(), world.head().state)
    world.clock.now_ms += 1
    assert [row.changed for row in pause_partitions(world.installation, TOPIC, by="audit")] == [False, False]
    assert (world.snapshot_ids(), world.head().state) == before


def test_resuming_what_that_name_did_not_pause_makes_no_snapshot(world: World) -> None:
    pause_partitions(world.installation, TOPIC, [0], by="audit")
    before = (world.snapshot_ids(), world.head().state)
    assert [row.changed for row in resume_partitions(world.installation, TOPIC, by="restore")] == [False, False]
    assert (world.snapshot_ids(), world.head().state) == before


def test_resume_of_everybody_takes_all_names_back(world: World) -> None:
    for name in ("audit", "restore"):
        pause_partitions(world.installation, TOPIC, by=name)
    assert [row.changed for row in resume_partitions(world.installation, TOPIC, by="ops", everybody=True)] == [
        True,
        True,
    ]
    assert states(world) == ["none", "none"]


def test_pause_without_a_name_is_taken_back_by_anyone(world: World) -> None:
    """As an older state may carry it."""
    from winnow.log.head import Change, Head

    def change(head: Head) -> Change:
        state: PartitionState = replace(head.state.partitions[0], paused_since_ms=1)
        return Change(state=replace(head.state, partitions={**head.state.partitions, 0: state}))

    world.installation.log.open(TOPIC).commit(change)
    (row,) = list_partitions(world.installation, TOPIC, [0])
    assert (row.state, row.reason) == ("paused", "paused by somebody")
    resume_partitions(world.installation, TOPIC, [0], by="ops")
    assert states(world) == ["none", "none"]


def test_pauses_survive_the_loss_of_the_store(world: World) -> None:
    pause_partitions(world.installation, TOPIC, [1], by="audit")
    pause_partitions(world.installation, TOPIC, [1], by="restore")
    world.installation.store.projection.forget_topic(TOPIC)
    assert world.installation.store.projection.list_paused() == {}
    rebuild_store(world.installation, [TOPIC])
    assert world.installation.store.projection.list_paused() == {TopicPartition(TOPIC, 1): world.clock()}
    assert world.installation.store.projection.list_paused_by(TOPIC) == {1: ("audit", "restore")}


def test_append_beside_a_pause_loses_neither(world: World) -> None:
    with run_between_head_and_commit(lambda: world.ingest(build_versions(12, 2))):
        pause_partitions(world.installation, TOPIC, [0], by="audit")
    assert (world.state().paused_by, world.state().log_end_offset) == (("audit",), 14)


def test_partition_that_is_not_there_and_an_empty_name_are_refused(world: World) -> None:
    before = world.snapshot_ids()
    with pytest.raises(UsageError, match="partitions 0 to 1, not 5"):
        pause_partitions(world.installation, TOPIC, [0, 5], by="audit")
    for name in ("", "  ", "a\nb", "x" * 101):
        with pytest.raises(UsageError, match="Nothing was changed"):
            pause_partitions(world.installation, TOPIC, by=name)
    assert world.snapshot_ids() == before
    assert get_user_name()


@pytest.mark.parametrize("when", ["before the publish", "between its look at the head and its commit"])
def test_run_whose_partition_was_paused_meanwhile_publishes_nothing(world: World, when: str) -> None:
    """Kafka's aborted: nothing is checkpointed, and the partition is paused when the run has ended."""
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    snapshots = len(world.snapshot_ids())
    if when == "before the publish":
        pause_partitions(world.installation, TOPIC, [0], by="audit")
        meanwhile: AbstractContextManager[object] = nullcontext()
    else:
        meanwhile = run_between_head_and_commit(lambda: pause_partitions(world.installation, TOPIC, [0], by="audit"))
    with meanwhile, pytest.raises(PlanVoidError, match="orders-0 was paused"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == ALL
    assert len(world.snapshot_ids()) == snapshots + 1
    assert [world.state(number).first_dirty_offset for number in (0, 1)] == [None, None]
    run = world.installation.store.runs.find(plan.plan_id)
    assert run is not None
    assert run.status is RunState.REFUSED
    receipt = world.compact()
    assert receipt is not None
    assert [part.partition for part in receipt.partitions] == [1]


def test_pause_that_was_taken_back_in_time_lets_the_run_publish(world: World) -> None:
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    pause_partitions(world.installation, TOPIC, [0], by="audit")
    resume_partitions(world.installation, TOPIC, [0], by="audit")
    publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == compute_survivors(ALL)


@pytest.mark.kafka("94", "95")
def test_list_follows_a_partition_through_its_states(world: World) -> None:
    """None, in progress while another run holds the topic, aborted when it is paused then, paused, none."""
    with open_installation(world.installation.settings, now_ms=world.clock, holder="backfill") as other:
        assert states(world) == ["none", "none"]
        with hold_lease(other, TOPIC):
            assert states(world) == ["in_progress", "in_progress"]
            pause_partitions(world.installation, TOPIC, [0], by="audit")
            assert states(world) == ["aborted", "in_progress"]
            (row, _) = list_partitions(world.installation, TOPIC)
            assert (row.reason or "").startswith("held by backfill until ")
            assert (row.paused_by, row.since_ms) == (("audit",), world.clock())
        assert states(world) == ["paused", "none"]
    resume_partitions(world.installation, TOPIC, [0], by="audit")
    assert states(world) == ["none", "none"]


def test_uncleanable_partition_is_listed_with_reason_and_next_attempt(world: World) -> None:
    """Also when it is paused besides."""
    mark_uncleanable(world.installation, TOPIC, "plan-1", {0: "the segment is gone"})
    pause_partitions(world.installation, TOPIC, [0], by="audit")
    (row, other) = list_partitions(world.installation, TOPIC)
    assert (row.state, row.reason, row.attempts) == ("uncleanable", "the segment is gone", 1)
    assert row.next_attempt_ms == world.clock() + 15 * 60_000
    assert row.paused_by == ("audit",)
    assert (other.state, other.attempts, other.next_attempt_ms) == ("none", 0, None)


def test_mark_is_shown_while_a_run_holds_the_topic(world: World) -> None:
    """Whoever looks for the reason finds it, and who is at work on the topic."""
    mark_uncleanable(world.installation, TOPIC, "plan-1", {0: "the segment is gone"})
    with (
        open_installation(world.installation.settings, now_ms=world.clock, holder="backfill") as other,
        hold_lease(other, TOPIC),
    ):
        (row, beside) = list_partitions(world.installation, TOPIC)
    assert (row.state, row.attempts) == ("uncleanable", 1)
    assert (row.reason or "").startswith("the segment is gone; the topic is held by backfill until ")
    assert beside.state == "in_progress"


# ------------------------------------------------------------------------------------------------------ command line


def test_commands_pause_list_resume_and_release(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    rows = winnow("partitions", "pause", "orders", "--partition", 1, "--by", "audit", "--json").document
    assert [list(row) for row in rows] == [ROW_KEYS]
    assert [(row["partition"], row["state"], row["paused_by"], row["changed"]) for row in rows] == [
        (1, "paused", ["audit"], True)
    ]
    assert (
        "they are already paused under that name"
        in winnow("partitions", "pause", "orders", "--partition", 1, "--by", "audit").stdout
    )
    listed = winnow("partitions", "list", "orders", "--json").document
    assert [(row["partition"], row["state"], row["reason"]) for row in listed] == [
        (0, "none", None),
        (1, "paused", "paused by audit"),
    ]
    assert (
        "none of them is paused under that name." in winnow("partitions", "resume", "orders", "--by", "restore").stdout
    )
    assert "Resumed: orders-1." in winnow("partitions", "resume", "orders", "--all").stdout

    with open_installation() as installation:
        mark_uncleanable(installation, "orders", "plan-1", {0: "the segment is gone"})
    text = winnow("partitions", "list", "orders").stdout
    assert "the segment is gone" in text
    assert "uncleanable" in text
    assert winnow("assess", "orders", "--json").document[0]["reason"] == "uncleanable"
    (released,) = winnow("partitions", "release", "orders", "--partition", 0, "--json").document
    assert (released["state"], released["changed"]) == ("none", True)
    assert "Nothing was marked" in winnow("partitions", "release", "orders").stdout


def test_the_user_of_the_system_pauses_when_no_name_is_given(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    (row,) = json.loads(winnow("partitions", "pause", "orders", "--json").stdout)
    assert row["paused_by"] == [get_user_name()]
    winnow("partitions", "resume", "orders")
    assert winnow("partitions", "list", "orders", "--json").document[0]["paused_by"] == []


@pytest.mark.parametrize("command", ["list", "pause", "resume", "release"])
def test_unknown_topic_and_partition_end_with_two(tmp_path: Path, command: str) -> None:
    answer = winnow("partitions", command, "orders", "--json", code=2)
    assert (answer.stdout, "There is no topic orders" in answer.stderr) == ("", True)
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("partitions", command, "orders", "--partition", 4, "--json", code=2)
    assert (answer.stdout, "has partitions 0 to 0, not 4" in answer.stderr) == ("", True)
