"""Decides whether a partition is compacted now, which tombstones expire and what retention removes. Pure.

Follows Kafka's LogCleanerManager (cleanable range, dirty ratio, compaction lags), KIP-354, and the design's additions:
the active segment is rolled by the clock, so max.compaction.lag.ms holds on idle partitions, and expired tombstones of
a quiet partition are a reason of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from winnow.planning.cleanable import (
    MAXIMUM_LONG,
    CleanableRange,
    PartitionLog,
    Rules,
    find_active_closing_ms,
    find_cleanable_range,
    find_earliest_dirty_timestamp_ms,
    find_youngest_ms,
    is_whole_log_dirty,
    list_dirty_segments,
)
from winnow.values.model import ELIGIBLE_REASONS, Assessment, OffsetRange, Reason, Segment
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Cleaning, PartitionState


@dataclass(frozen=True, slots=True)
class Retention:
    """The oldest segments that retention removes whole, and the log start after them (Kafka 2.12).

    ``protected``: segments that it leaves to the cleaner, to keep the latest record of each key.
    """

    retired: tuple[Segment, ...]
    log_start_offset: int
    protected: tuple[Segment, ...] = ()


def find_covering_entries(first_offset: int, last_offset: int, history: Sequence[Cleaning]) -> list[Cleaning | None]:
    """Find the history entries whose ranges meet [first, last]; None if no entry covers some of the offsets."""
    entries: list[Cleaning | None] = []
    start = 0
    for entry in history:
        if start <= last_offset and first_offset < entry.end_offset:
            entries.append(entry)
        start = entry.end_offset
    if last_offset >= start:
        entries.append(None)
    return entries


@dataclass(frozen=True, slots=True)
class TombstoneExpiry:
    """Decides in a run whether a tombstone may go.

    Under timestamp and header a late record of a lower version may still come, or lie above the first uncleanable
    offset: the tombstone stays for winnow.late.arrival.ms after the run that first covered it, also when another
    strategy was in force then, and after every run in which it superseded a record; and until a run covers every record
    that was appended before its horizon. Under offset a late record outranks the tombstone, so none of this counts.

    Args:
        cleaning_time_ms: the run's cleaning time.
        late_arrival_ms: minimum time that a tombstone stays after its first cleaning; 0 under offset.
        uncovered_since_ms: the oldest append that the run leaves uncovered; None under offset, and where there is none.
    """

    cleaning_time_ms: int
    late_arrival_ms: int = 0
    uncovered_since_ms: int | None = None

    def horizon_ms(self, entry: Cleaning | None) -> int | None:
        """Return the delete horizon of tombstones in ``entry``; None if no run covered them at a known time."""
        if entry is None or entry.delete_horizon_ms is None or entry.cleaning_time_ms is None:
            return None
        return max(entry.delete_horizon_ms, entry.cleaning_time_ms + self.late_arrival_ms)

    def may_expire(self, entry: Cleaning | None) -> bool:
        """Check whether the tombstones that ``entry`` covers may go: Kafka 2.8.2 row 9 (``currentTime >= horizon``)."""
        horizon_ms = self.horizon_ms(entry)
        if horizon_ms is None or horizon_ms > self.cleaning_time_ms:
            return False
        return self.uncovered_since_ms is None or self.uncovered_since_ms >= horizon_ms


def make_tombstone_expiry(log: PartitionLog, rules: Rules, end_offset: int, cleaning_time_ms: int) -> TombstoneExpiry:
    """Make the tombstone expiry of a run that covers ``log`` up to ``end_offset`` at ``cleaning_time_ms``."""
    if rules.strategy is Strategy.OFFSET:
        return TombstoneExpiry(cleaning_time_ms)
    uncovered = (a.appended_ms for a in log.state.appends if a.last_offset >= end_offset)
    return TombstoneExpiry(cleaning_time_ms, rules.late_arrival_ms, min(uncovered, default=None))


def list_expired_ranges(history: Sequence[Cleaning], going: TombstoneExpiry) -> tuple[OffsetRange, ...]:
    """List the offset ranges whose tombstones may go: covered by a run whose delete horizon has passed.

    Neighbouring ranges are joined.
    """
    ranges: list[OffsetRange] = []
    start = 0
    for entry in history:
        if going.may_expire(entry):
            if ranges and ranges[-1].end == start:
                ranges[-1] = OffsetRange(ranges[-1].start, entry.end_offset)
            else:
                ranges.append(OffsetRange(start, entry.end_offset))
        start = entry.end_offset
    return tuple(ranges)


def find_covered_end(history: Sequence[Cleaning], rules: Rules, end_offset: int) -> int:
    """Return the offset below which a tombstone that supersedes a record restarts its wait for late records.

    The run cleans up to ``end_offset``; tombstones at or above the result begin their wait in that run. 0: no waits.
    """
    if rules.strategy is Strategy.OFFSET or rules.late_arrival_ms <= 0:
        return 0
    return min(end_offset, max((e.end_offset for e in history if e.cleaning_time_ms is not None), default=0))


def _may_expire_tombstones(segment: Segment, history: Sequence[Cleaning], going: TombstoneExpiry) -> bool:
    return all(
        going.may_expire(entry) for entry in find_covering_entries(segment.first_offset, segment.last_offset, history)
    )


def _has_expired_tombstones(log: PartitionLog, first_dirty: int, going: TombstoneExpiry) -> bool:
    return any(
        _may_expire_tombstones(segment, log.state.history, going)
        for segment in log.segments
        if segment.tombstones and segment.last_offset < first_dirty
    )


def has_uncovered_tombstones(log: PartitionLog, first_dirty: int) -> bool:
    """Check whether a clean segment holds tombstones whose cleaning time is unknown (an imported checkpoint)."""
    return any(
        segment.tombstones > 0
        and segment.last_offset < first_dirty
        and any(
            entry is None or entry.delete_horizon_ms is None
            for entry in find_covering_entries(segment.first_offset, segment.last_offset, log.state.history)
        )
        for segment in log.segments
    )


def apply_retention(log: PartitionLog, rules: Rules, *, as_of_ms: int, now_ms: int) -> Retention:
    """Find the segments that leave the log whole, oldest first; each scan stops at the first that does not qualify.

    Segments wholly below the log start go under every policy. With delete in the policy follow those by which the log
    is larger than retention.bytes, then those whose youngest record is older than retention.ms at the earlier of as-of
    and the present. Under timestamp and header only clean segments go, and none with a tombstone that may not go yet:
    it outranks records that may still arrive.
    """
    state = log.state
    below = _take_while(log.segments, lambda segment: segment.last_offset < state.log_start_offset)
    readable = log.segments[len(below) :]
    due = _list_due_segments(log, readable, rules, as_of_ms=as_of_ms, now_ms=now_ms) if rules.deletes else ()
    protects = rules.protects_latest and rules.compacts
    retired = below if protects else (*below, *due)
    log_start = state.log_start_offset
    if due and not protects:
        log_start = due[-1].last_offset + 1 if len(due) < len(readable) else state.log_end_offset
    return Retention(retired, log_start, due if protects else ())


def remove_retired(log: PartitionLog, taken: Retention) -> PartitionLog:
    """Return ``log`` without the segments that retention removes."""
    if not taken.retired and taken.log_start_offset == log.state.log_start_offset:
        return log
    state = replace(log.state, log_start_offset=taken.log_start_offset)
    return replace(log, segments=log.segments[len(taken.retired) :], state=state)


def _take_while(segments: Sequence[Segment], qualifies: Callable[[Segment], bool]) -> tuple[Segment, ...]:
    return tuple(takewhile(qualifies, segments))


def _list_due_segments(
    log: PartitionLog, readable: tuple[Segment, ...], rules: Rules, *, as_of_ms: int, now_ms: int
) -> tuple[Segment, ...]:
    # The present alone decides which tombstones have expired: a simulated future retires nothing.
    free = _is_free_to_retire(log, rules, as_of_ms, now_ms)
    too_many: list[Segment] = []
    excess_bytes = sum(segment.size_bytes for segment in readable) - rules.retention_bytes
    for segment in readable if rules.retention_bytes >= 0 else ():
        if excess_bytes < segment.size_bytes or not free(segment):
            break
        excess_bytes -= segment.size_bytes
        too_many.append(segment)
    left = readable[len(too_many) :]
    if rules.retention_ms < 0:
        return tuple(too_many)
    oldest_kept_ms = min(as_of_ms, now_ms) - rules.retention_ms
    too_old = _take_while(left, lambda segment: _is_older(segment, log.state, oldest_kept_ms) and free(segment))
    return (*too_many, *too_old)


def _is_older(segment: Segment, state: PartitionState, oldest_kept_ms: int) -> bool:
    """Check whether even its youngest record is older; a clean segment without timestamps has no age any more."""
    youngest_ms = find_youngest_ms(segment, state.appends)
    return youngest_ms is not None and youngest_ms < oldest_kept_ms


def _is_free_to_retire(
    log: PartitionLog, rules: Rules, as_of_ms: int, cleaning_time_ms: int
) -> Callable[[Segment], bool]:
    if not rules.compacts or rules.strategy is Strategy.OFFSET or rules.protects_latest:
        return lambda _: True
    span = find_cleanable_range(log, rules, as_of_ms, whole_log_dirty=is_whole_log_dirty(log, rules))
    # Dirty records have not met the tombstone yet, and retention runs before compaction, or alone.
    going = make_tombstone_expiry(log, rules, span.first_dirty_offset, cleaning_time_ms)

    def free(segment: Segment) -> bool:
        outlived = not segment.tombstones or _may_expire_tombstones(segment, log.state.history, going)
        return segment.last_offset < span.first_dirty_offset and outlived

    return free


@dataclass(frozen=True, slots=True)
class Decision:
    """An assessment with its basis: the segments that retention removes, and the cleanable range of the rest."""

    assessment: Assessment
    taken: Retention
    span: CleanableRange


def assess(
    log: PartitionLog,
    rules: Rules,
    *,
    as_of_ms: int,
    cleaning_time_ms: int,
    now_ms: int | None = None,
    in_progress: bool = False,
) -> Assessment:
    """Return the assessment of :func:`decide_eligibility`."""
    return decide_eligibility(
        log,
        rules,
        as_of_ms=as_of_ms,
        cleaning_time_ms=cleaning_time_ms,
        now_ms=now_ms,
        in_progress=in_progress,
    ).assessment


def decide_eligibility(
    log: PartitionLog,
    rules: Rules,
    *,
    as_of_ms: int,
    cleaning_time_ms: int,
    now_ms: int | None = None,
    in_progress: bool = False,
) -> Decision:
    """Decide whether ``log`` would be compacted at ``as_of_ms``, with the first reason that holds.

    All figures but the log start are those of the log that retention leaves.

    Args:
        log: segments from the manifests and the carried state.
        rules: the topic's configuration.
        as_of_ms: the instant that decides lags and the roll of the active segment.
        cleaning_time_ms: the later of as-of and the present; decides which delete horizons have passed.
        now_ms: the present, for retention and the back-off of uncleanable partitions; the cleaning time when left out.
        in_progress: another run holds this partition.
    """
    now_ms = cleaning_time_ms if now_ms is None else now_ms
    taken = apply_retention(log, rules, as_of_ms=as_of_ms, now_ms=now_ms)
    left = remove_retired(log, taken)
    look = _collect_figures(left, rules, as_of_ms=as_of_ms, cleaning_time_ms=cleaning_time_ms)
    reason = _find_reason(
        left,
        rules,
        look,
        retires=bool(taken.retired),
        protected_due=not {segment.path for segment in taken.protected}.isdisjoint(s.path for s in look.cleanable),
        in_progress=in_progress,
        backs_off=is_backing_off(log.state, now_ms),
    )
    assessment = Assessment(
        topic=log.topic,
        partition=log.partition,
        eligible=reason in ELIGIBLE_REASONS,
        reason=reason,
        log_start_offset=log.state.log_start_offset,
        first_dirty_offset=look.span.first_dirty_offset,
        first_uncleanable_offset=look.span.first_uncleanable_offset,
        log_end_offset=log.state.log_end_offset,
        dirty_ratio=look.dirty_ratio,
        clean_bytes=look.clean_bytes,
        cleanable_bytes=look.cleanable_bytes,
        max_compaction_delay_ms=look.delay_ms,
        deadline_ms=look.deadline_ms,
        active_closes_ms=look.active_closes_ms,
    )
    return Decision(assessment, taken, look.span)


@dataclass(frozen=True, slots=True)
class _Figures:
    """Figures for the decision, about the log after retention."""

    span: CleanableRange
    dirty: tuple[Segment, ...]
    cleanable: tuple[Segment, ...]
    clean_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    delay_ms: int
    deadline_ms: int | None
    tombstones_due: bool
    active_closes_ms: int | None


def _collect_figures(log: PartitionLog, rules: Rules, *, as_of_ms: int, cleaning_time_ms: int) -> _Figures:
    span = find_cleanable_range(log, rules, as_of_ms, whole_log_dirty=is_whole_log_dirty(log, rules))
    clean_bytes = sum(s.size_bytes for s in log.segments if s.first_offset < span.first_dirty_offset)
    dirty = list_dirty_segments(log, span.first_dirty_offset)
    # Nothing is cleanable in an empty range, even if the first dirty offset lies inside a segment (Kafka 2.3).
    advances = span.first_uncleanable_offset > span.first_dirty_offset
    cleanable = tuple(s for s in dirty if advances and s.first_offset < span.first_uncleanable_offset)
    cleanable_bytes = sum(s.size_bytes for s in cleanable)
    total_bytes = clean_bytes + cleanable_bytes
    deadline_ms, delay_ms = _compute_deadline(log, dirty, span, rules, as_of_ms)
    going = make_tombstone_expiry(log, rules, span.first_uncleanable_offset, cleaning_time_ms)
    return _Figures(
        span=span,
        dirty=dirty,
        cleanable=cleanable,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        dirty_ratio=cleanable_bytes / total_bytes if total_bytes else 0.0,
        delay_ms=delay_ms,
        deadline_ms=deadline_ms,
        tombstones_due=_has_expired_tombstones(log, span.first_dirty_offset, going)
        or has_uncovered_tombstones(log, span.first_dirty_offset),
        active_closes_ms=find_active_closing_ms(dirty, span.active_offset, rules, log.state.appends),
    )


def is_backing_off(state: PartitionState, now_ms: int) -> bool:
    """Check whether the partition is marked uncleanable and its next attempt is not due yet."""
    mark = state.uncleanable
    return mark is not None and (mark.next_attempt_ms is None or now_ms < mark.next_attempt_ms)


def _compute_deadline(
    log: PartitionLog, dirty: Sequence[Segment], span: CleanableRange, rules: Rules, as_of_ms: int
) -> tuple[int | None, int]:
    if rules.max_compaction_lag_ms >= MAXIMUM_LONG:
        return None, 0
    earliest_ms = find_earliest_dirty_timestamp_ms(dirty, rules, log.state.appends)
    closed = [segment for segment in dirty if segment.first_offset < span.active_offset]
    closed_earliest_ms = find_earliest_dirty_timestamp_ms(closed, rules, log.state.appends)
    delay_ms = 0
    if closed_earliest_ms is not None:
        delay_ms = max(0, as_of_ms - rules.max_compaction_lag_ms - closed_earliest_ms)
    return (None if earliest_ms is None else earliest_ms + rules.max_compaction_lag_ms), delay_ms


def _find_reason(
    log: PartitionLog,
    rules: Rules,
    look: _Figures,
    *,
    retires: bool,
    protected_due: bool,
    in_progress: bool,
    backs_off: bool,
) -> Reason:
    """Find the first reason that holds, in the order of :class:`winnow.values.model.Reason`.

    Retention also runs where the cleaner does not: for uncleanable partitions and for policies without compact.
    """
    paused = log.state.paused_since_ms is not None
    some = look.cleanable_bytes > 0
    looked_at = (
        (in_progress, Reason.IN_PROGRESS),
        (backs_off and (paused or not retires), Reason.UNCLEANABLE),
        (paused, Reason.PAUSED),
        (backs_off or (retires and not rules.compacts), Reason.RETENTION),
        (not rules.compacts, Reason.POLICY_DELETE_ONLY),
        (not log.segments and not retires, Reason.EMPTY),
        (is_whole_log_dirty(log, rules) and some, Reason.STRATEGY_CHANGED),
        (look.delay_ms > 0 and some, Reason.MAX_COMPACTION_LAG),
        (some and look.dirty_ratio > rules.min_cleanable_dirty_ratio, Reason.DIRTY_RATIO),
        (look.tombstones_due, Reason.TOMBSTONES_EXPIRED),
        (retires or protected_due, Reason.RETENTION),
        (not look.dirty, Reason.CLEAN),
        (not any(s.first_offset < look.span.active_offset for s in look.dirty), Reason.NO_CLOSED_SEGMENT),
        (not some, Reason.INSIDE_MIN_LAG),
    )
    return next((reason for holds, reason in looked_at if holds), Reason.NOT_DIRTY_ENOUGH)
