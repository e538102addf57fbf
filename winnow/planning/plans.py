"""Makes immutable plans of eligible partitions and packs plans into batches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from winnow.planning.cleanable import PartitionLog, Rules
from winnow.planning.eligibility import (
    Retention,
    apply_retention,
    find_covered_end,
    is_backing_off,
    list_expired_ranges,
    make_tombstone_expiry,
    remove_retired,
)
from winnow.values.documents import compute_plan_id
from winnow.values.model import Assessment, PartitionPlan, Plan, Reason, Segment
from winnow.values.strategies import Strategy


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Facts about a topic that its plans contain besides the partitions."""

    topic: str
    table_uuid: str
    data_location: str
    """Folder below which new segments are written: ``<table>/data``."""
    delete_retention_ms: int
    """How long a tombstone stays after the first run that covered it."""
    winnow_version: str
    partition_count: int | None = None
    """Number of partitions of the topic, if some were added."""
    quarantine_location: str | None = None
    """Folder of the quarantine's table, for keyless records that leave the log."""
    configuration: str | None = None
    """Digest of the rules the plan is made under."""
    undone_ms: int | None = None
    """When something of the log was last taken back; None: nothing was."""


@dataclass(frozen=True, slots=True)
class PlanReference:
    """A reference that tasks exchange instead of a plan. ``sha256``: of the plan's bytes; None in older references."""

    topic: str
    plan_id: str
    uri: str
    partitions: int
    size_bytes: int
    deadline_ms: int | None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Plans that one Spark application carries out. ``label``: a name for people."""

    label: str
    plans: tuple[PlanReference, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the planned segments of all plans."""
        return sum(plan.size_bytes for plan in self.plans)


def plan_partition(
    log: PartitionLog,
    rules: Rules,
    assessment: Assessment,
    *,
    as_of_ms: int,
    now_ms: int,
    taken: Retention | None = None,
) -> PartitionPlan:
    """Plan one eligible partition: the segments that retention removes, and those that a compaction reads.

    A compaction reads every segment that ends below the first uncleanable offset, and ends where such a segment could
    begin: segments are cleaned whole, also when a checkpoint lies inside one (Kafka 2.2, rounding). Retention alone
    reads nothing.

    ``taken``: what retention takes at that as-of and present, if known already.
    """
    taken = apply_retention(log, rules, as_of_ms=as_of_ms, now_ms=now_ms) if taken is None else taken
    left = remove_retired(log, taken)
    end = _round_to_segment(left.segments, assessment.first_uncleanable_offset)
    compacts = assessment.reason is not Reason.RETENTION or _is_cleaned_for_retention(left, taken, assessment, now_ms)
    return PartitionPlan(
        partition=log.partition,
        reason=assessment.reason,
        log_start_offset=taken.log_start_offset,
        first_dirty_offset=assessment.first_dirty_offset,
        next_first_dirty_offset=end if compacts else assessment.first_dirty_offset,
        log_end_offset=assessment.log_end_offset,
        segments=tuple(segment for segment in left.segments if compacts and segment.last_offset < end),
        expired=list_expired_ranges(log.state.history, make_tombstone_expiry(left, rules, end, max(as_of_ms, now_ms)))
        if compacts
        else (),
        deadline_ms=assessment.deadline_ms,
        retired=taken.retired,
        previous_log_start_offset=log.state.log_start_offset,
        compacts=compacts,
        covered_end=find_covered_end(log.state.history, rules, end) if compacts else 0,
        closes_active=log.closes_active,
    )


def _round_to_segment(segments: Sequence[Segment], offset: int) -> int:
    """Return ``offset``, or the beginning of the segment that it lies inside."""
    return next((s.first_offset for s in segments if s.first_offset < offset <= s.last_offset), offset)


def _is_cleaned_for_retention(left: PartitionLog, taken: Retention, assessment: Assessment, now_ms: int) -> bool:
    """Check whether the latest records are protected and something cleanable is due, so the cleaner does the work."""
    if is_backing_off(left.state, now_ms) or assessment.cleanable_bytes == 0:
        return False
    return any(
        s.last_offset >= assessment.first_dirty_offset and s.first_offset < assessment.first_uncleanable_offset
        for s in taken.protected
    )


def make_urgency_key(plan: PartitionPlan) -> tuple[int, int, int]:
    """Make the sort key: overdue partitions first, the most overdue before the others, then the largest."""
    overdue = plan.reason is Reason.MAX_COMPACTION_LAG and plan.deadline_ms is not None
    return (0 if overdue else 1, plan.deadline_ms if overdue and plan.deadline_ms is not None else 0, -plan.size_bytes)


def make_plan(facts: TopicFacts, rules: Rules, partitions: Iterable[PartitionPlan], *, as_of_ms: int) -> Plan:
    """Make the plan of one topic. Its id is a digest of the inputs, the configuration, the as-of and the version.

    For the fields that the id leaves out see :func:`winnow.values.documents.compute_plan_id`.
    """
    ordered = tuple(sorted(partitions, key=make_urgency_key))
    plan = Plan(
        plan_id="",
        topic=facts.topic,
        table_uuid=facts.table_uuid,
        data_location=facts.data_location,
        as_of_ms=as_of_ms,
        strategy=Strategy(rules.strategy),
        strategy_header=rules.strategy_header,
        delete_retention_ms=facts.delete_retention_ms,
        segment_bytes=rules.segment_bytes,
        partitions=ordered,
        winnow_version=facts.winnow_version,
        partition_count=facts.partition_count,
        quarantine_location=facts.quarantine_location,
        configuration=facts.configuration,
        undone_ms=facts.undone_ms,
    )
    return replace(plan, plan_id=compute_plan_id(plan))


def pack_batches(plans: Sequence[PlanReference], *, batch_bytes: int, batch_partitions: int = 2_000) -> list[Batch]:
    """Pack plans into batches, one Spark application each: by deadline, then in order, up to ``batch_bytes`` a batch.

    A plan larger than the limit has a batch of its own. Starting an application costs seconds: small topics share one.
    """
    ordered = sorted(plans, key=lambda p: (p.deadline_ms is None, p.deadline_ms or 0, p.topic))
    groups: list[list[PlanReference]] = []
    size_bytes = partitions = 0
    for plan in ordered:
        fits = size_bytes + plan.size_bytes <= batch_bytes and partitions + plan.partitions <= batch_partitions
        if not groups or not fits:
            groups.append([])
            size_bytes = partitions = 0
        groups[-1].append(plan)
        size_bytes += plan.size_bytes
        partitions += plan.partitions
    return [Batch(label=make_batch_label([p.topic for p in group]), plans=tuple(group)) for group in groups]


def make_batch_label(topics: Sequence[str]) -> str:
    """Make the label of a mapped task: the topic, or how many topics share the application."""
    return topics[0] if len(topics) == 1 else f"{len(topics)} topics"
