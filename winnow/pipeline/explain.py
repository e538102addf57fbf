"""What a compaction would read, write and remove, from the manifests alone. Runs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.model import Assessment, Reason
from winnow.pipeline.assess import assess_view, view_topic
from winnow.pipeline.context import Context
from winnow.pipeline.plan import decide


@dataclass(frozen=True, slots=True)
class PartitionExplanation:
    """One partition: the decision and, when it is eligible, what the plan covers."""

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


@dataclass(frozen=True, slots=True)
class Explanation:
    """What one compaction of a topic would do. ``plan_id`` None: nothing is eligible."""

    topic: str
    plan_id: str | None
    as_of_ms: int
    strategy: str
    partitions: tuple[PartitionExplanation, ...]


def explain(ctx: Context, topic: str, *, as_of_ms: int) -> Explanation:
    """The real plan, printed instead of carried out. Writes nothing anywhere."""
    view = view_topic(ctx, topic)
    assessments = assess_view(ctx, view, as_of_ms=as_of_ms)
    plan = decide(ctx, view, assessments, as_of_ms=as_of_ms)
    planned = {p.partition: p for p in plan.partitions} if plan is not None else {}

    def one(assessment: Assessment) -> PartitionExplanation:
        partition = planned.get(assessment.partition)
        segments = partition.segments if partition is not None else ()
        expired = partition.expired if partition is not None else ()
        due = sum(
            s.tombstones for s in segments if any(r.start <= s.first_offset and s.last_offset < r.end for r in expired)
        )
        slack = None if assessment.deadline_ms is None else assessment.deadline_ms - as_of_ms
        return PartitionExplanation(
            partition=assessment.partition,
            eligible=assessment.eligible,
            reason=assessment.reason,
            segments=len(segments),
            records=sum(s.records for s in segments),
            bytes_to_read=sum(s.size_bytes for s in segments),
            at_most_bytes_to_write=sum(s.size_bytes for s in segments),
            tombstones_in_expired_ranges=due,
            next_first_dirty_offset=assessment.first_uncleanable_offset,
            deadline_slack_ms=slack,
        )

    return Explanation(
        topic=topic,
        plan_id=plan.plan_id if plan is not None else None,
        as_of_ms=as_of_ms,
        strategy=view.rules.strategy.value,
        partitions=tuple(one(assessment) for assessment in assessments),
    )
