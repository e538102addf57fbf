"""Is a topic partition worth compacting now, and why not. Pure: values in, a value out; no clock, no file, no database.

Follows Kafka's LogCleanerManager (cleanable range, dirty ratio, compaction lags), KIP-354, and the design's additions:
the active segment is rolled by the clock, so max.compaction.lag.ms holds on idle partitions, and expired tombstones of
a quiet partition are a reason of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.model import (
    ELIGIBLE_REASONS,
    Append,
    Assessment,
    Cleaning,
    OffsetRange,
    PartitionState,
    Reason,
    Segment,
    Strategy,
    total_order,
)

LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The part of a topic's configuration that decides eligibility. Times in ms, sizes in bytes."""

    compacts: bool
    strategy: Strategy
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    segment_bytes: int
    max_segment_ms: int
    """min(segment.ms, max.compaction.lag.ms) when the policy compacts."""
    strategy_header: str | None = None

    @property
    def order(self) -> str:
        """The order that decides which record of a key wins."""
        return total_order(self.strategy, self.strategy_header)


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """Where a cleaning would begin and end: [``first_dirty_offset``, ``first_uncleanable_offset``).

    ``active_offset`` is where the active segment begins, the log end when nothing is active.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    active_offset: int


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One topic partition as the manifests and the state show it. ``segments`` are in offset order, ranges disjoint."""

    topic: str
    partition: int
    segments: tuple[Segment, ...]
    state: PartitionState


def first_dirty_offset(state: PartitionState) -> int:
    """The checkpoint, or the log start where there is none or it lies outside the log (Kafka 2.2, KAFKA-6266)."""
    checkpoint = state.first_dirty_offset
    if checkpoint is None or not state.log_start_offset <= checkpoint <= state.log_end_offset:
        return state.log_start_offset
    return checkpoint


def append_as_of_ms(segment: Segment, appends: Sequence[Append]) -> int | None:
    """The as-of of the append that brought ``segment``: stands in where its records carry no timestamp."""
    covering = [
        a.as_of_ms for a in appends if a.first_offset <= segment.last_offset and segment.first_offset <= a.last_offset
    ]
    return max(covering, default=None)


def _oldest_ms(segment: Segment, appends: Sequence[Append]) -> int | None:
    return segment.min_timestamp_ms if segment.min_timestamp_ms is not None else append_as_of_ms(segment, appends)


def _youngest_ms(segment: Segment, appends: Sequence[Append]) -> int | None:
    return segment.max_timestamp_ms if segment.max_timestamp_ms is not None else append_as_of_ms(segment, appends)


def active_offset(
    dirty: Sequence[Segment], log_end_offset: int, rules: Rules, appends: Sequence[Append], as_of_ms: int
) -> int:
    """Where the logical active segment begins; the log end when every dirty segment is closed.

    From the first dirty offset on, files join the open segment; it closes when its bytes reach segment.bytes or its
    oldest timestamp is older than ``max_segment_ms`` at ``as_of_ms`` (strictly, as Kafka rolls); the rest is
    active.
    """
    start: int | None = None
    size_bytes = 0
    oldest_ms: int | None = None
    for segment in dirty:
        start = segment.first_offset if start is None else start
        size_bytes += segment.size_bytes
        segment_oldest_ms = _oldest_ms(segment, appends)
        if segment_oldest_ms is not None:
            oldest_ms = segment_oldest_ms if oldest_ms is None else min(oldest_ms, segment_oldest_ms)
        aged = oldest_ms is not None and as_of_ms - oldest_ms > rules.max_segment_ms
        if size_bytes >= rules.segment_bytes or aged:
            start, size_bytes, oldest_ms = None, 0, None
    return log_end_offset if start is None else start


def dirty_segments(log: PartitionLog, first_dirty: int) -> tuple[Segment, ...]:
    """Segments from the one that contains the first dirty offset on (Kafka 2.4)."""
    return tuple(segment for segment in log.segments if segment.last_offset >= first_dirty)


def cleanable_range(log: PartitionLog, rules: Rules, as_of_ms: int, *, whole_log_dirty: bool = False) -> CleanableRange:
    """Kafka 2.2: the lower bound with its checkpoint resets, the upper by active segment and min.compaction.lag.ms.

    A data file whose largest timestamp is younger than the minimum lag blocks itself and everything after it; exactly
    as old as the lag is cleanable. With ``whole_log_dirty`` cleaning begins at the log start, and what was clean before
    stays closed: only segments from the checkpoint on can be active.
    """
    checkpoint = first_dirty_offset(log.state)
    first_dirty = log.state.log_start_offset if whole_log_dirty else checkpoint
    appends = log.state.appends
    since_checkpoint = dirty_segments(log, checkpoint)
    active = active_offset(since_checkpoint, log.state.log_end_offset, rules, appends, as_of_ms)
    dirty = dirty_segments(log, first_dirty)
    upper = active
    if rules.min_compaction_lag_ms > 0:
        for segment in dirty:
            if segment.first_offset >= active:
                break
            youngest_ms = _youngest_ms(segment, appends)
            if youngest_ms is not None and youngest_ms > as_of_ms - rules.min_compaction_lag_ms:
                upper = segment.first_offset
                break
    return CleanableRange(first_dirty, max(first_dirty, upper), active)


def earliest_dirty_timestamp_ms(dirty: Sequence[Segment], rules: Rules, appends: Sequence[Append]) -> int | None:
    """The oldest timestamp in ``dirty``: the manifest's exact minimum; KIP-354's estimates only where it is missing.

    A first segment without timestamps: its append's as-of minus ``max_segment_ms``; a later one: the largest timestamp
    of the segment before it. Values at or below 0 count as missing, as in Kafka.
    """
    found: list[int] = []
    previous: Segment | None = None
    for segment in dirty:
        exact_ms = segment.min_timestamp_ms
        if exact_ms is not None and exact_ms > 0:
            found.append(exact_ms)
        elif segment.max_timestamp_ms is None:
            estimate_ms = _estimate_ms(segment, previous, rules, appends)
            if estimate_ms is not None and estimate_ms > 0:
                found.append(estimate_ms)
        previous = segment
    return min(found, default=None)


def _estimate_ms(segment: Segment, previous: Segment | None, rules: Rules, appends: Sequence[Append]) -> int | None:
    if previous is not None:
        return _youngest_ms(previous, appends)
    as_of_ms = append_as_of_ms(segment, appends)
    return None if as_of_ms is None else as_of_ms - rules.max_segment_ms


def covering_entries(first_offset: int, last_offset: int, history: Sequence[Cleaning]) -> list[Cleaning | None]:
    """The history entries whose ranges meet [first, last]; None where offsets are covered by no entry."""
    entries: list[Cleaning | None] = []
    start = 0
    for entry in history:
        if start <= last_offset and first_offset < entry.end_offset:
            entries.append(entry)
        start = entry.end_offset
    if last_offset >= start:
        entries.append(None)
    return entries


def late_bound_ms(log: PartitionLog, rules: Rules, end_offset: int) -> int | None:
    """The oldest append a run up to ``end_offset`` leaves uncovered; tombstones stay whose horizon is after it.

    Under timestamp and header a late record of a lower version may lie above the first uncleanable offset: appended
    before the tombstone's horizon, it must still meet the tombstone that outranks it. Under offset it outranks the
    tombstone itself, so there is no bound (None), as where nothing is left uncovered.
    """
    if rules.strategy is Strategy.OFFSET:
        return None
    return min((a.as_of_ms for a in log.state.appends if a.last_offset >= end_offset), default=None)


def _may_go(entry: Cleaning | None, cleaning_time_ms: int, late_ms: int | None) -> bool:
    """Whether the tombstones that ``entry`` covers may go: Kafka 2.8.2 row 9 (``currentTime >= horizon``)."""
    if entry is None or entry.delete_horizon_ms is None or entry.delete_horizon_ms > cleaning_time_ms:
        return False
    return late_ms is None or late_ms >= entry.delete_horizon_ms


def expired_ranges(
    history: Sequence[Cleaning], cleaning_time_ms: int, late_ms: int | None = None
) -> tuple[OffsetRange, ...]:
    """The offset ranges whose tombstones may go: covered by a run whose delete horizon has passed.

    Neighbouring ranges are joined. ``late_ms``: see :func:`late_bound_ms`.
    """
    ranges: list[OffsetRange] = []
    start = 0
    for entry in history:
        if _may_go(entry, cleaning_time_ms, late_ms):
            if ranges and ranges[-1].end == start:
                ranges[-1] = OffsetRange(ranges[-1].start, entry.end_offset)
            else:
                ranges.append(OffsetRange(start, entry.end_offset))
        start = entry.end_offset
    return tuple(ranges)


def _tombstones_due(log: PartitionLog, first_dirty: int, cleaning_time_ms: int, late_ms: int | None) -> bool:
    return any(
        all(
            _may_go(entry, cleaning_time_ms, late_ms)
            for entry in covering_entries(segment.first_offset, segment.last_offset, log.state.history)
        )
        for segment in log.segments
        if segment.tombstones and segment.last_offset < first_dirty
    )


def uncovered_tombstones(log: PartitionLog, first_dirty: int) -> bool:
    """Whether a clean segment holds tombstones whose cleaning time is unknown (an imported checkpoint)."""
    return any(
        segment.tombstones > 0
        and segment.last_offset < first_dirty
        and any(
            entry is None or entry.delete_horizon_ms is None
            for entry in covering_entries(segment.first_offset, segment.last_offset, log.state.history)
        )
        for segment in log.segments
    )


def assess(
    log: PartitionLog,
    rules: Rules,
    *,
    as_of_ms: int,
    cleaning_time_ms: int,
    now_ms: int | None = None,
    in_progress: bool = False,
) -> Assessment:
    """Whether ``log`` would be compacted at ``as_of_ms``, with the first reason that holds.

    Args:
        log: segments from the manifests and the carried state.
        rules: the topic's configuration.
        as_of_ms: the instant that decides lags and the roll of the active segment.
        cleaning_time_ms: the later of as-of and the present; decides which delete horizons have passed.
        now_ms: the present, for the back-off of uncleanable partitions; the cleaning time when left out.
        in_progress: another run holds this partition.
    """
    whole_log_dirty = log.state.strategy is not None and log.state.strategy != rules.order
    state = log.state
    span = cleanable_range(log, rules, as_of_ms, whole_log_dirty=whole_log_dirty)
    clean_bytes = sum(s.size_bytes for s in log.segments if s.first_offset < span.first_dirty_offset)
    dirty = dirty_segments(log, span.first_dirty_offset)
    # Nothing is cleanable where the range is empty, also when the first dirty offset lies inside a segment (Kafka 2.3).
    advances = span.first_uncleanable_offset > span.first_dirty_offset
    cleanable = [s for s in dirty if advances and s.first_offset < span.first_uncleanable_offset]
    cleanable_bytes = sum(s.size_bytes for s in cleanable)
    total_bytes = clean_bytes + cleanable_bytes
    ratio = cleanable_bytes / total_bytes if total_bytes else 0.0
    deadline_ms, delay_ms = _deadline(log, dirty, span, rules, as_of_ms)
    reason = _reason(
        log,
        rules,
        in_progress=in_progress,
        backing_off=_backing_off(state, cleaning_time_ms if now_ms is None else now_ms),
        whole_log_dirty=whole_log_dirty,
        has_dirty=bool(dirty),
        has_closed=any(s.first_offset < span.active_offset for s in dirty),
        cleanable_bytes=cleanable_bytes,
        overdue=delay_ms > 0,
        ratio=ratio,
        tombstones_due=_tombstones_due(
            log, span.first_dirty_offset, cleaning_time_ms, late_bound_ms(log, rules, span.first_uncleanable_offset)
        )
        or uncovered_tombstones(log, span.first_dirty_offset),
    )
    return Assessment(
        topic=log.topic,
        partition=log.partition,
        eligible=reason in ELIGIBLE_REASONS,
        reason=reason,
        log_start_offset=state.log_start_offset,
        first_dirty_offset=span.first_dirty_offset,
        first_uncleanable_offset=span.first_uncleanable_offset,
        log_end_offset=state.log_end_offset,
        dirty_ratio=ratio,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        max_compaction_delay_ms=delay_ms,
        deadline_ms=deadline_ms,
    )


def _backing_off(state: PartitionState, now_ms: int) -> bool:
    mark = state.uncleanable
    return mark is not None and (mark.next_attempt_ms is None or now_ms < mark.next_attempt_ms)


def _deadline(
    log: PartitionLog, dirty: Sequence[Segment], span: CleanableRange, rules: Rules, as_of_ms: int
) -> tuple[int | None, int]:
    if rules.max_compaction_lag_ms >= LONG_MAX:
        return None, 0
    earliest_ms = earliest_dirty_timestamp_ms(dirty, rules, log.state.appends)
    closed = [segment for segment in dirty if segment.first_offset < span.active_offset]
    closed_earliest_ms = earliest_dirty_timestamp_ms(closed, rules, log.state.appends)
    delay_ms = 0
    if closed_earliest_ms is not None:
        delay_ms = max(0, as_of_ms - rules.max_compaction_lag_ms - closed_earliest_ms)
    return (None if earliest_ms is None else earliest_ms + rules.max_compaction_lag_ms), delay_ms


def _reason(
    log: PartitionLog,
    rules: Rules,
    *,
    in_progress: bool,
    backing_off: bool,
    whole_log_dirty: bool,
    has_dirty: bool,
    has_closed: bool,
    cleanable_bytes: int,
    overdue: bool,
    ratio: float,
    tombstones_due: bool,
) -> Reason:
    """The first reason that holds; the order of :class:`winnow.model.Reason`."""
    looked_at = (
        (in_progress, Reason.IN_PROGRESS),
        (backing_off, Reason.UNCLEANABLE),
        (log.state.paused_since_ms is not None, Reason.PAUSED),
        (not rules.compacts, Reason.POLICY_DELETE_ONLY),
        (not log.segments, Reason.EMPTY),
        (whole_log_dirty and cleanable_bytes > 0, Reason.STRATEGY_CHANGED),
        (overdue and cleanable_bytes > 0, Reason.MAX_COMPACTION_LAG),
        (cleanable_bytes > 0 and ratio > rules.min_cleanable_dirty_ratio, Reason.DIRTY_RATIO),
        (tombstones_due, Reason.TOMBSTONES_EXPIRED),
        (not has_dirty, Reason.CLEAN),
        (not has_closed, Reason.NO_CLOSED_SEGMENT),
        (cleanable_bytes == 0, Reason.INSIDE_MIN_LAG),
    )
    return next((reason for holds, reason in looked_at if holds), Reason.NOT_DIRTY_ENOUGH)
