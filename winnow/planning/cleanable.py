"""Finds the cleanable range of a partition: dirty segments, active segment, offsets and times. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from winnow.values.model import Segment
from winnow.values.strategies import Strategy, name_total_order
from winnow.values.topic_state import Append, PartitionState

MAXIMUM_LONG = 2**63 - 1


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
    deletes: bool = False
    retention_ms: int = -1
    retention_bytes: int = -1
    late_arrival_ms: int = 0
    protects_latest: bool = False
    """Whether retention leaves the latest record of each key (winnow.retention.protect.latest)."""

    @property
    def order(self) -> str:
        """The order that decides which record of a key wins."""
        return name_total_order(self.strategy, self.strategy_header)


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """The range of a cleaning: [``first_dirty_offset``, ``first_uncleanable_offset``).

    ``active_offset`` is where the active segment begins, the log end when nothing is active.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    active_offset: int


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One topic partition from manifests and state. ``segments`` are in offset order, ranges disjoint.

    ``closes_active``: the active segment counts as closed, because somebody asked for it.
    """

    topic: str
    partition: int
    segments: tuple[Segment, ...]
    state: PartitionState
    closes_active: bool = False


def find_first_dirty_offset(state: PartitionState) -> int:
    """Return the checkpoint, or the log start if there is none or it lies outside the log (Kafka 2.2, KAFKA-6266)."""
    checkpoint = state.first_dirty_offset
    if checkpoint is None or not state.log_start_offset <= checkpoint <= state.log_end_offset:
        return state.log_start_offset
    return checkpoint


def find_cleaned_offset(state: PartitionState) -> int:
    """Return the offset below which records may have been compacted away.

    A run over part of a log under another strategy lowers the checkpoint; removed records stay removed.
    """
    ends = [entry.end_offset for entry in state.history if entry.cleaning_time_ms is not None]
    return max([find_first_dirty_offset(state), *ends[-1:]])


def find_append_as_of_ms(segment: Segment, appends: Sequence[Append]) -> int | None:
    """Return the as-of of the append that brought ``segment``; it replaces missing timestamps of its records.

    Appends of a log follow one another, so those that cover a segment are found by bisecting.
    """
    number = bisect_left(appends, segment.first_offset, key=LAST_OFFSET_OF)
    as_of_ms: int | None = None
    while number < len(appends) and appends[number].first_offset <= segment.last_offset:
        covering_ms = appends[number].as_of_ms
        as_of_ms = covering_ms if as_of_ms is None else max(as_of_ms, covering_ms)
        number += 1
    return as_of_ms


def find_oldest_ms(segment: Segment, appends: Sequence[Append]) -> int | None:
    """Return the lowest timestamp in ``segment``, or when its records were appended if none has one."""
    return segment.min_timestamp_ms if segment.min_timestamp_ms is not None else find_append_as_of_ms(segment, appends)


def find_youngest_ms(segment: Segment, appends: Sequence[Append]) -> int | None:
    """Return the highest timestamp in ``segment``, or when its records were appended if none has one."""
    return segment.max_timestamp_ms if segment.max_timestamp_ms is not None else find_append_as_of_ms(segment, appends)


def find_active_offset(
    dirty: Sequence[Segment], log_end_offset: int, rules: Rules, appends: Sequence[Append], as_of_ms: int
) -> int:
    """Return where the logical active segment begins; the log end if every dirty segment is closed.

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
        segment_oldest_ms = find_oldest_ms(segment, appends)
        if segment_oldest_ms is not None:
            oldest_ms = segment_oldest_ms if oldest_ms is None else min(oldest_ms, segment_oldest_ms)
        aged = oldest_ms is not None and as_of_ms - oldest_ms > rules.max_segment_ms
        if size_bytes >= rules.segment_bytes or aged:
            start, size_bytes, oldest_ms = None, 0, None
    return log_end_offset if start is None else start


def find_active_closing_ms(
    dirty: Sequence[Segment], active_offset: int, rules: Rules, appends: Sequence[Append]
) -> int | None:
    """Find when the active segment, from ``active_offset`` on, closes by its age; None: nothing in it has a time.

    It closes earlier if it grows to segment.bytes.
    """
    times_ms = [find_oldest_ms(segment, appends) for segment in dirty if segment.first_offset >= active_offset]
    oldest_ms = min((time_ms for time_ms in times_ms if time_ms is not None), default=None)
    return None if oldest_ms is None or rules.max_segment_ms >= MAXIMUM_LONG else oldest_ms + rules.max_segment_ms + 1


def list_dirty_segments(log: PartitionLog, first_dirty: int) -> tuple[Segment, ...]:
    """List the segments from the one that contains the first dirty offset on (Kafka 2.4)."""
    return tuple(segment for segment in log.segments if segment.last_offset >= first_dirty)


def find_cleanable_range(
    log: PartitionLog, rules: Rules, as_of_ms: int, *, whole_log_dirty: bool = False
) -> CleanableRange:
    """Compute the cleanable range: checkpoint resets, active segment and min.compaction.lag.ms (Kafka 2.2).

    A data file whose largest timestamp is younger than the minimum lag blocks itself and everything after it; exactly
    as old as the lag is cleanable. With ``whole_log_dirty`` cleaning begins at the log start, and what was clean before
    stays closed: only segments from the checkpoint on can be active.
    """
    checkpoint = find_first_dirty_offset(log.state)
    first_dirty = log.state.log_start_offset if whole_log_dirty else checkpoint
    appends = log.state.appends
    since_checkpoint = list_dirty_segments(log, checkpoint)
    active = log.state.log_end_offset
    if not log.closes_active:
        active = find_active_offset(since_checkpoint, active, rules, appends, as_of_ms)
    dirty = list_dirty_segments(log, first_dirty)
    upper = active
    if rules.min_compaction_lag_ms > 0:
        for segment in dirty:
            if segment.first_offset >= active:
                break
            youngest_ms = find_youngest_ms(segment, appends)
            if youngest_ms is not None and youngest_ms > as_of_ms - rules.min_compaction_lag_ms:
                upper = segment.first_offset
                break
    return CleanableRange(first_dirty, max(first_dirty, upper), active)


def find_earliest_dirty_timestamp_ms(dirty: Sequence[Segment], rules: Rules, appends: Sequence[Append]) -> int | None:
    """Find the oldest timestamp in ``dirty``: the manifest's exact minimum; KIP-354's estimates only if it is missing.

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
            estimate_ms = _estimate_earliest_ms(segment, previous, rules, appends)
            if estimate_ms is not None and estimate_ms > 0:
                found.append(estimate_ms)
        previous = segment
    return min(found, default=None)


def _estimate_earliest_ms(
    segment: Segment, previous: Segment | None, rules: Rules, appends: Sequence[Append]
) -> int | None:
    if previous is not None:
        return find_youngest_ms(previous, appends)
    as_of_ms = find_append_as_of_ms(segment, appends)
    return None if as_of_ms is None else as_of_ms - rules.max_segment_ms


def is_whole_log_dirty(log: PartitionLog, rules: Rules) -> bool:
    """Check whether the log was cleaned with another order, so that its clean section is dirty under this one."""
    return log.state.strategy is not None and log.state.strategy != rules.order


LAST_OFFSET_OF = attrgetter("last_offset")
