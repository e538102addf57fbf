"""From eligible partitions to plans and batches."""

from __future__ import annotations

from dataclasses import replace

from winnow.engine.task_planning import WorkUnit, pack_units
from winnow.planning.cleanable import Rules
from winnow.planning.plans import PlanReference, TopicFacts, make_batch_label, make_plan, pack_batches
from winnow.values.model import PartitionPlan, Reason, Segment
from winnow.values.strategies import Strategy

RULES = Rules(True, Strategy.OFFSET, 0.5, 0, 1_000, 1 << 20, 1_000)
FACTS = TopicFacts("orders", "uuid", "file:///t/data", 86_400_000, "1.0")


def _partition(number: int, reason: Reason = Reason.DIRTY_RATIO, deadline_ms: int | None = None) -> PartitionPlan:
    segment = Segment(f"p{number}", number, 0, 9, 10, 100 + number, None, None, 0)
    return PartitionPlan(number, reason, 0, 0, 10, 12, (segment,), (), deadline_ms)


def test_the_same_decision_has_the_same_plan_id() -> None:
    """The id is a digest of the inputs: planning twice gives one plan."""
    first = make_plan(FACTS, RULES, [_partition(0), _partition(1)], as_of_ms=5)
    second = make_plan(FACTS, RULES, [_partition(1), _partition(0)], as_of_ms=5)
    assert first == second


def test_an_append_between_two_identical_decisions_changes_no_plan_id() -> None:
    """The log end offset is not an input of what is compacted."""
    grown = replace(_partition(0), log_end_offset=99)
    first = make_plan(FACTS, RULES, [_partition(0)], as_of_ms=5)
    assert make_plan(FACTS, RULES, [grown], as_of_ms=5).plan_id == first.plan_id


def test_every_input_is_part_of_the_plan_id() -> None:
    """As-of, configuration, version and segments each change it."""
    plan = make_plan(FACTS, RULES, [_partition(0)], as_of_ms=5)
    others = [
        make_plan(FACTS, RULES, [_partition(0)], as_of_ms=6),
        make_plan(replace(FACTS, delete_retention_ms=1), RULES, [_partition(0)], as_of_ms=5),
        make_plan(replace(FACTS, winnow_version="2"), RULES, [_partition(0)], as_of_ms=5),
        make_plan(FACTS, replace(RULES, segment_bytes=7), [_partition(0)], as_of_ms=5),
        make_plan(FACTS, RULES, [_partition(1)], as_of_ms=5),
    ]
    assert len({plan.plan_id, *(other.plan_id for other in others)}) == 6


def test_overdue_partitions_come_first_the_most_overdue_before_the_others() -> None:
    """KIP-354 gives eligibility; Winnow gives priority too."""
    plan = make_plan(
        FACTS,
        RULES,
        [
            _partition(0),
            _partition(1, Reason.MAX_COMPACTION_LAG, 50),
            _partition(2, Reason.MAX_COMPACTION_LAG, 10),
        ],
        as_of_ms=5,
    )
    assert [p.partition for p in plan.partitions] == [2, 1, 0]


def _reference(topic: str, size_bytes: int, deadline_ms: int | None = None, partitions: int = 1) -> PlanReference:
    return PlanReference(topic, topic, f"file:///{topic}", partitions, size_bytes, deadline_ms)


def test_small_topics_share_a_batch_and_a_large_one_has_its_own() -> None:
    """An application costs seconds to start, so it is shared up to a size."""
    batches = pack_batches([_reference("a", 10), _reference("b", 500), _reference("c", 10)], batch_bytes=100)
    assert [[p.topic for p in batch.plans] for batch in batches] == [["a"], ["b"], ["c"]]
    batches = pack_batches([_reference("a", 10), _reference("c", 10)], batch_bytes=100)
    assert [batch.label for batch in batches] == ["2 topics"]


def test_topics_with_the_nearest_deadline_are_in_the_first_batch() -> None:
    """Deadline first, then by name."""
    batches = pack_batches([_reference("a", 90), _reference("b", 90, 7), _reference("c", 90, 3)], batch_bytes=100)
    assert [batch.label for batch in batches] == ["c", "b", "a"]


def test_a_batch_is_named_by_its_topic_or_by_their_number() -> None:
    """What a person reads on a mapped task."""
    assert (make_batch_label(["orders"]), make_batch_label(["a", "b"])) == ("orders", "2 topics")


def test_one_giant_partition_and_many_small_ones_keep_all_cores_busy() -> None:
    """The giant has a task of its own and starts first; every unit is in exactly one task."""
    units = [WorkUnit("u", "t", 0, 10_000 << 20), *(WorkUnit("u", "t", n, 10 << 20) for n in range(1, 101))]
    tasks = pack_units(units, cores=2)
    assert tasks[0] == [units[0]]
    assert len(tasks) == 8
    assert sorted(unit.partition for task in tasks for unit in task) == list(range(101))


def test_few_partitions_have_a_task_each() -> None:
    """One Spark task per topic partition while they are few."""
    units = [WorkUnit("u", "t", n, 10) for n in range(4)]
    assert sorted(len(task) for task in pack_units(units, cores=2)) == [1, 1, 1, 1]


def test_no_partitions_need_no_task() -> None:
    """An empty batch is no task at all."""
    assert pack_units([], cores=2) == []
