"""Checks that a plan does no more than the topic's state and configuration allow.

Independent of the planning code, so that a mistake there, or a plan written by hand, does not remove
records: retention is judged segment by segment, tombstones entry by entry of the cleaning history. The only thing taken
from :mod:`winnow.planning.eligibility` is where the cleanable range ends.

A plan is checked against the log as its planner saw it, without later appends. Time has passed since, so more
may be due now than was planned; that is not an excess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.config.topic import TopicConfig
from winnow.errors import PlanVoidError
from winnow.files import storage
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.staged_files import count_misfits
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.topic_view import build_rules
from winnow.planning import cleanable, eligibility
from winnow.planning.cleanable import PartitionLog, Rules
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Segment
from winnow.values.results import StagingManifest
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Append, PartitionState

MAXIMUM_SHOWN_EXCESSES = 3
"""Maximum topic partitions that an error names."""
UNLIMITED_RETENTION = -1
"""Value of ``retention.ms`` and ``retention.bytes`` for no limit."""


@dataclass(frozen=True, slots=True)
class PlanExcess:
    """Counts of the ways in which the plan of one partition exceeds what is allowed; all zero in a sound plan.

    ``unlike_log``: planned segments that the log does not hold with exactly these figures. ``not_configured``: rules of
    the plan that are not the topic's, and locations outside its tables. ``retired_not_due``: retired segments that
    retention may not take, and a log start that they do not explain. ``expired_not_due``: offset ranges with tombstones
    that may not go yet. ``end_not_cleanable``: 1 where the plan ends beyond what may be cleaned.
    """

    unlike_log: int = 0
    not_configured: int = 0
    retired_not_due: int = 0
    expired_not_due: int = 0
    end_not_cleanable: int = 0

    @property
    def words(self) -> str:
        """The excesses as text for people; empty if there are none."""
        said = (
            (self.unlike_log, "segments that the log does not hold so"),
            (self.not_configured, "rules or places that are not the topic's"),
            (self.retired_not_due, "segments removed that retention may not take"),
            (self.expired_not_due, "tombstones dropped that may not go yet"),
            (self.end_not_cleanable, "records cleaned that may not be cleaned yet"),
        )
        return ", ".join(words for count, words in said if count)


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Limits of a plan besides state and configuration.

    ``quarantine_location``: the folder of the topic's own quarantine. ``decided_by_ms``: no earlier than the instant at
    which the plan was made.
    """

    quarantine_location: str
    decided_by_ms: int


def build_limits(installation: Installation, head: Head, *, opened_at_ms: int) -> PlanLimits:
    """Build the limits of plans of the topic of ``head`` whose run was opened at ``opened_at_ms``.

    A plan is made before its run is opened, perhaps by a clock that is ahead of this one. A later plan has
    the same id only if the same is due.
    """
    return PlanLimits(
        installation.log.quarantine(head.state.topic, head).location, max(opened_at_ms, installation.now_ms())
    )


def is_below_own_tables(plan: Plan, location: str, quarantine_location: str) -> bool:
    """Check whether ``plan`` writes only below the topic's tables, at ``location`` and ``quarantine_location``."""
    own = plan.data_location == storage.join(location, "data")
    return own and plan.quarantine_location in {None, quarantine_location}


def find_excesses(
    plan: Plan, log: TopicLog, head: Head, live: Mapping[int, tuple[Segment, ...]], limits: PlanLimits
) -> dict[int, PlanExcess]:
    """Find where ``plan`` exceeds what state and configuration at ``head`` allow, per partition.

    Only a plan that still matches the log can be judged (:func:`winnow.pipeline.compaction.plan_validity.find_void`);
    ``live`` are the segments at ``head``.
    """
    config, states, decided_by_ms = log.config(head), head.state.partitions, limits.decided_by_ms
    rules = build_rules(config)
    wrong_rules = _count_wrong_rules(plan, config, rules) + int(
        not is_below_own_tables(plan, head.location, limits.quarantine_location)
    )
    found: dict[int, PlanExcess] = {}
    for partition in plan.partitions:
        number = partition.partition
        state = states.get(number)
        if state is None:
            found[number] = PlanExcess(not_configured=1)
            continue
        seen = _rebuild_planned_log(plan.topic, partition, live.get(number, ()), state)
        there = {segment.path: segment for segment in seen.segments}
        found[number] = PlanExcess(
            unlike_log=sum(there.get(s.path) != s for s in (*partition.retired, *partition.segments)),
            not_configured=wrong_rules + _count_wrong_compaction(partition, rules),
            retired_not_due=_count_retired_not_due(seen, partition, rules, plan.as_of_ms, decided_by_ms),
            expired_not_due=_count_lifetimes_not_extended(seen, partition, rules)
            + _count_expired_not_due(seen, partition, rules, max(plan.as_of_ms, decided_by_ms)),
            end_not_cleanable=_is_end_too_late(seen, partition, rules, plan.as_of_ms),
        )
    return found


def require_within_limits(
    log: TopicLog,
    head: Head,
    plan: Plan,
    manifest: StagingManifest,
    live: Mapping[int, tuple[Segment, ...]],
    limits: PlanLimits,
) -> None:
    """Refuse a plan that exceeds state and configuration at ``head``, and files that are not the attempt's own.

    Raises:
        PlanVoidError: naming the topic partitions and what is wrong.
    """
    excesses = find_excesses(plan, log, head, live, limits)
    staged = count_misfits(plan, manifest, location=head.location, quarantine_location=limits.quarantine_location)
    wrong = {number: [excess.words] for number, excess in excesses.items() if excess.words}
    for number, (foreign, others) in staged.items():
        if foreign or others:
            wrong.setdefault(number, []).append(f"{foreign} foreign and {others} unfit new files")
    if wrong:
        named = "; ".join(
            f"{plan.topic}-{number}: {', '.join(words)}"
            for number, words in sorted(wrong.items())[:MAXIMUM_SHOWN_EXCESSES]
        )
        raise PlanVoidError(
            f"Plan {plan.plan_id} of topic {plan.topic} goes beyond what the topic's state and configuration allow "
            f"({named}).",
            left="It is void and nothing was published.",
            next="Find out what else writes to the staging area, then run it again: the next run plans the topic anew.",
        )


def _count_wrong_rules(plan: Plan, config: TopicConfig, rules: Rules) -> int:
    return (
        int(plan.strategy is not Strategy(rules.strategy))
        + int(plan.strategy_header != rules.strategy_header)
        + int(plan.delete_retention_ms != config.delete_retention_ms)
    )


def _count_wrong_compaction(partition: PartitionPlan, rules: Rules) -> int:
    if partition.compacts:
        return int(not rules.compacts)
    # Retention alone reads and cleans nothing.
    return len(partition.segments) + len(partition.expired)


def _rebuild_planned_log(
    topic: str, partition: PartitionPlan, live: Sequence[Segment], state: PartitionState
) -> PartitionLog:
    """Rebuild the partition as it was planned from: without later appends."""
    end = min(partition.log_end_offset, state.log_end_offset)
    appends = tuple(append for append in state.appends if append.first_offset < end)
    segments = tuple(segment for segment in live if segment.first_offset < end)
    seen = replace(state, log_end_offset=end, appends=appends)
    return PartitionLog(topic, partition.partition, segments, seen, partition.closes_active)


def _count_retired_not_due(
    log: PartitionLog, partition: PartitionPlan, rules: Rules, as_of_ms: int, decided_by_ms: int
) -> int:
    """Count retired segments that retention may not take, plus 1 if the log start does not follow from them."""
    state = log.state
    oldest_kept_ms = min(as_of_ms, decided_by_ms) - rules.retention_ms
    remaining_bytes = sum(s.size_bytes for s in log.segments if s.last_offset >= state.log_start_offset)
    start = state.log_start_offset
    count = 0
    for number, segment in enumerate(partition.retired):
        if number >= len(log.segments) or log.segments[number] != segment:
            count += 1  # not the oldest of the log
            continue
        if segment.last_offset < state.log_start_offset:
            continue
        remaining_bytes -= segment.size_bytes
        start = segment.last_offset + 1
        too_many = rules.retention_bytes != UNLIMITED_RETENTION and remaining_bytes >= rules.retention_bytes
        youngest_ms = _find_youngest_ms(segment, state.appends)
        too_old = rules.retention_ms != UNLIMITED_RETENTION and youngest_ms is not None and youngest_ms < oldest_kept_ms
        allowed = rules.deletes and not (rules.compacts and rules.protects_latest)
        if not (allowed and (too_many or too_old) and _is_outlived(segment, log, rules, max(as_of_ms, decided_by_ms))):
            count += 1
    if len(partition.retired) == len(log.segments) and start > state.log_start_offset:
        start = state.log_end_offset
    return count + int(partition.log_start_offset != start)


def _find_youngest_ms(segment: Segment, appends: Sequence[Append]) -> int | None:
    """Find the youngest record's timestamp; without timestamps, the as-of of the latest append among them."""
    if segment.max_timestamp_ms is not None:
        return segment.max_timestamp_ms
    covering = (a for a in appends if a.first_offset <= segment.last_offset and segment.first_offset <= a.last_offset)
    return max((append.as_of_ms for append in covering), default=None)


def _is_outlived(segment: Segment, log: PartitionLog, rules: Rules, cleaning_time_ms: int) -> bool:
    """Check that no record that is dirty or may still arrive could lose to a record of ``segment``."""
    if not rules.compacts or rules.strategy is Strategy.OFFSET:
        return True
    state = log.state
    cleaned_otherwise = state.strategy is not None and state.strategy != rules.order
    dirty_from = state.log_start_offset if cleaned_otherwise else cleanable.find_first_dirty_offset(state)
    if segment.last_offset >= dirty_from:
        return False
    span = OffsetRange(segment.first_offset, segment.last_offset + 1)
    return not segment.tombstones or _may_expire(span, log, rules, dirty_from, cleaning_time_ms)


def _count_expired_not_due(log: PartitionLog, partition: PartitionPlan, rules: Rules, cleaning_time_ms: int) -> int:
    end = partition.next_first_dirty_offset
    return sum(not _may_expire(span, log, rules, end, cleaning_time_ms) for span in partition.expired)


def _count_lifetimes_not_extended(log: PartitionLog, partition: PartitionPlan, rules: Rules) -> int:
    """Return 1 if tombstones that supersede a record in this run would not restart their wait for late ones, else 0."""
    if not partition.compacts:
        return 0
    end = eligibility.find_covered_end(log.state.history, rules, partition.next_first_dirty_offset)
    return int(partition.covered_end != end)


def _may_expire(span: OffsetRange, log: PartitionLog, rules: Rules, end: int, cleaning_time_ms: int) -> bool:
    """Check whether every tombstone of ``span`` may go in a run that cleans below ``end`` at ``cleaning_time_ms``."""
    start = 0
    for entry in log.state.history:
        if start < span.end and span.start < entry.end_offset:
            if entry.delete_horizon_ms is None or entry.cleaning_time_ms is None:
                return False
            due_ms = entry.delete_horizon_ms
            if rules.strategy is not Strategy.OFFSET:
                due_ms = max(due_ms, entry.cleaning_time_ms + rules.late_arrival_ms)
                # Records above the end were not cleaned; one that came before the horizon may be outranked.
                if any(a.last_offset >= end and a.appended_ms < due_ms for a in log.state.appends):
                    return False
            if due_ms > cleaning_time_ms:
                return False
        start = entry.end_offset
    return span.end <= start


def _is_end_too_late(log: PartitionLog, partition: PartitionPlan, rules: Rules, as_of_ms: int) -> int:
    if not partition.compacts:
        return 0
    retired = {segment.path for segment in partition.retired}
    left = PartitionLog(
        log.topic,
        log.partition,
        tuple(segment for segment in log.segments if segment.path not in retired),
        replace(log.state, log_start_offset=partition.log_start_offset),
        log.closes_active,
    )
    span = cleanable.find_cleanable_range(
        left, rules, as_of_ms, whole_log_dirty=cleanable.is_whole_log_dirty(left, rules)
    )
    return int(partition.next_first_dirty_offset > span.first_uncleanable_offset)
