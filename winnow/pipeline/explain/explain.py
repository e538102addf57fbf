"""Explains what a compaction would read, write and remove, from manifests and earlier receipts alone."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.pipeline.compaction.assess import assess_view
from winnow.pipeline.compaction.plan import build_plan
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.topic_view import EarlierRuns, TopicView, load_topic_view
from winnow.planning.estimates import Basis, Estimate, Memory, NewKeyEstimator, estimate_plan
from winnow.values.model import Assessment, PartitionPlan, Reason


@dataclass(frozen=True, slots=True)
class PartitionExplanation:
    """One partition: the decision and, if it is eligible, what the plan covers and its expected result.

    ``at_most_bytes_to_write``: if everything is rewritten. ``expected_*`` and ``reclaimed_bytes`` are None if no
    earlier run gives an estimate (``basis`` unknown) and if the partition is idle. ``reclaimed_bytes`` includes
    retention, and is negative if larger files are expected. ``at_most_winners_bytes``: memory for picking winners, of
    ``memory_budget_bytes``. ``strategy_before``: the order of the last cleaning, if it differs from the current one.
    """

    partition: int
    eligible: bool
    reason: Reason
    segments: int
    records: int
    bytes_to_read: int
    at_most_bytes_to_write: int
    tombstones_in_expired_ranges: int
    next_first_dirty_offset: int
    deadline_slack_ms: int | None
    at_most_keys: int = 0
    at_least_records_kept: int = 0
    at_most_records_kept: int = 0
    expected_records_kept: int | None = None
    expected_bytes_out: int | None = None
    basis: Basis = Basis.UNKNOWN
    reclaimed_bytes: int | None = None
    at_most_winners_bytes: int = 0
    memory_budget_bytes: int = 0
    memory: Memory = Memory.FITS
    records_to_quarantine: int = 0
    segments_retired: int = 0
    records_retired: int = 0
    bytes_retired: int = 0
    strategy_before: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The effect of one compaction of a topic. ``plan_id`` None: nothing is eligible."""

    topic: str
    plan_id: str | None
    as_of_ms: int
    strategy: str
    partitions: tuple[PartitionExplanation, ...]


def explain_compaction(
    installation: Installation, topic: str, *, as_of_ms: int, closes_active: bool = False
) -> Explanation:
    """Build the real plan and describe it instead of carrying it out. Writes nothing.

    ``closes_active``: the active segments count as closed.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    view = load_topic_view(installation, topic)
    return explain_view(installation, view.close_active() if closes_active else view, as_of_ms=as_of_ms)


def explain_view(installation: Installation, view: TopicView, *, as_of_ms: int) -> Explanation:
    """Explain a compaction of a topic as ``view`` has it, perhaps with another configuration. Writes nothing."""
    topic = view.log.topic
    assessments = assess_view(installation, view, as_of_ms=as_of_ms)
    runs = EarlierRuns(installation, topic)
    plan = build_plan(installation, view, assessments, as_of_ms=as_of_ms, earlier=runs)
    planned = {p.partition: p for p in plan.partitions} if plan is not None else {}
    budget_bytes = installation.settings.engine.memory_bytes
    return Explanation(
        topic=topic,
        plan_id=plan.plan_id if plan is not None else None,
        as_of_ms=as_of_ms,
        strategy=view.rules.strategy.value,
        partitions=tuple(
            _explain_planned_partition(view, planned[a.partition], a, runs.shares, budget_bytes, as_of_ms)
            if a.partition in planned
            else _explain_idle_partition(a, as_of_ms)
            for a in assessments
        ),
    )


def _compute_slack_ms(assessment: Assessment, as_of_ms: int) -> int | None:
    return None if assessment.deadline_ms is None else assessment.deadline_ms - as_of_ms


def _explain_idle_partition(assessment: Assessment, as_of_ms: int) -> PartitionExplanation:
    return PartitionExplanation(
        partition=assessment.partition,
        eligible=assessment.eligible,
        reason=assessment.reason,
        segments=0,
        records=0,
        bytes_to_read=0,
        at_most_bytes_to_write=0,
        tombstones_in_expired_ranges=0,
        next_first_dirty_offset=assessment.first_uncleanable_offset,
        deadline_slack_ms=_compute_slack_ms(assessment, as_of_ms),
    )


def _explain_planned_partition(
    view: TopicView,
    plan: PartitionPlan,
    assessment: Assessment,
    earlier: NewKeyEstimator,
    budget_bytes: int,
    as_of_ms: int,
) -> PartitionExplanation:
    state = view.head.state.partitions[plan.partition]
    expected = estimate_plan(plan, state.history, earlier)
    bytes_retired = sum(segment.size_bytes for segment in plan.retired)
    changed = plan.compacts and state.strategy is not None and state.strategy != view.rules.order
    return PartitionExplanation(
        partition=plan.partition,
        eligible=assessment.eligible,
        reason=assessment.reason,
        segments=len(plan.segments),
        records=expected.records_in,
        bytes_to_read=plan.size_bytes,
        at_most_bytes_to_write=plan.size_bytes,
        tombstones_in_expired_ranges=expected.tombstones_due,
        next_first_dirty_offset=plan.next_first_dirty_offset,
        deadline_slack_ms=_compute_slack_ms(assessment, as_of_ms),
        at_most_keys=expected.at_most_keys,
        at_least_records_kept=expected.at_least_records_kept,
        at_most_records_kept=expected.at_most_records_kept,
        expected_records_kept=expected.expected_records_kept,
        expected_bytes_out=expected.expected_bytes_out,
        basis=expected.basis,
        reclaimed_bytes=_estimate_reclaimed_bytes(plan, expected, bytes_retired),
        at_most_winners_bytes=expected.at_most_winners_bytes,
        memory_budget_bytes=budget_bytes,
        memory=expected.memory(budget_bytes),
        records_to_quarantine=expected.records_keyless,
        segments_retired=len(plan.retired),
        records_retired=sum(segment.records for segment in plan.retired),
        bytes_retired=bytes_retired,
        strategy_before=state.strategy if changed else None,
    )


def _estimate_reclaimed_bytes(plan: PartitionPlan, expected: Estimate, bytes_retired: int) -> int | None:
    if expected.expected_bytes_out is None:
        return None
    return plan.size_bytes - expected.expected_bytes_out + bytes_retired
