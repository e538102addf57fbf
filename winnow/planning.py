"""From eligible partitions to immutable plans, and from plans to batches. Pure: the same inputs, the same plan id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from winnow.eligibility import PartitionLog, Rules, expired_ranges, late_bound_ms
from winnow.model import Assessment, PartitionPlan, Plan, Reason, Strategy


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What of a topic goes into its plans besides the partitions."""

    topic: str
    table_uuid: str
    data_location: str
    """Folder below which new segments are written: ``<table>/data``."""
    delete_retention_ms: int
    """How long a tombstone stays after the first run that covered it."""
    winnow_version: str


@dataclass(frozen=True, slots=True)
class PlanReference:
    """What travels between tasks instead of a plan."""

    topic: str
    plan_id: str
    uri: str
    partitions: int
    size_bytes: int
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Plans that one Spark application carries out. ``label`` names it for people."""

    label: str
    plans: tuple[PlanReference, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the planned segments of all plans."""
        return sum(plan.size_bytes for plan in self.plans)


def plan_partition(log: PartitionLog, rules: Rules, assessment: Assessment, *, cleaning_time_ms: int) -> PartitionPlan:
    """What a compaction of one eligible partition reads: every segment below the first uncleanable offset."""
    end = assessment.first_uncleanable_offset
    return PartitionPlan(
        partition=log.partition,
        reason=assessment.reason,
        log_start_offset=assessment.log_start_offset,
        first_dirty_offset=assessment.first_dirty_offset,
        next_first_dirty_offset=end,
        log_end_offset=assessment.log_end_offset,
        segments=tuple(segment for segment in log.segments if segment.last_offset < end),
        expired=expired_ranges(log.state.history, cleaning_time_ms, late_bound_ms(log, rules, end)),
        deadline_ms=assessment.deadline_ms,
    )


def urgency(plan: PartitionPlan) -> tuple[int, int, int]:
    """Sort key: overdue partitions first and the most overdue before the others, then the largest."""
    overdue = plan.reason is Reason.MAX_COMPACTION_LAG and plan.deadline_ms is not None
    return (0 if overdue else 1, plan.deadline_ms if overdue and plan.deadline_ms is not None else 0, -plan.size_bytes)


def make_plan(facts: TopicFacts, rules: Rules, partitions: Iterable[PartitionPlan], *, as_of_ms: int) -> Plan:
    """The plan of one topic. Its id is a digest of the inputs, the configuration, the as-of and the version.

    The log end offset is left out of the digest: an append between two identical decisions changes nothing planned.
    """
    ordered = tuple(sorted(partitions, key=urgency))
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
    )
    return replace(plan, plan_id=_digest(plan))


def _digest(plan: Plan) -> str:
    stable = replace(plan, partitions=tuple(replace(p, log_end_offset=0) for p in plan.partitions))
    document = json.dumps(asdict(stable), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()[:32]


def pack(plans: Sequence[PlanReference], *, batch_bytes: int, batch_partitions: int = 2_000) -> list[Batch]:
    """Plans into batches, one Spark application each: deadline first, then in order, up to ``batch_bytes`` a batch.

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
    return [Batch(label=label_for([p.topic for p in group]), plans=tuple(group)) for group in groups]


def label_for(topics: Sequence[str]) -> str:
    """What a person reads on a mapped task: the topic, or how many topics share the application."""
    return topics[0] if len(topics) == 1 else f"{len(topics)} topics"
