"""Finds when time alone changes a decision about a partition, so that nobody has to look at it again before. Pure.

Every comparison of :mod:`winnow.planning.eligibility` and :mod:`winnow.planning.cleanable` with the clock changes its
outcome at one instant, and this module lists those instants. It may list some at which nothing changes; one that is
missing would make a compaction late.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from winnow.planning.cleanable import (
    MAXIMUM_LONG,
    PartitionLog,
    Rules,
    find_append_as_of_ms,
    find_first_dirty_offset,
    find_oldest_ms,
    find_youngest_ms,
    is_whole_log_dirty,
    list_dirty_segments,
)
from winnow.planning.eligibility import Decision, find_covering_entries
from winnow.values.model import Segment
from winnow.values.topic_state import PartitionState


def find_next_change_ms(log: PartitionLog, rules: Rules, decision: Decision, *, decided_ms: int) -> int | None:
    """Find the first instant after ``decided_ms`` at which ``decision`` about ``log`` may be another one.

    Args:
        log: the partition as it was decided about, before retention.
        rules: the topic's configuration.
        decision: what was decided.
        decided_ms: the earlier of as-of and present of the decision.

    Returns:
        The instant (ms); None if the clock alone never changes the decision. The next millisecond where a figure
        changes with every tick of the clock.
    """
    if decision.assessment.max_compaction_delay_ms > 0:
        return decided_ms + 1
    instants = chain(
        _list_mark_changes(log.state),
        _list_tombstone_changes(log, rules),
        _list_dirty_changes(log, rules),
        _list_retention_changes(log, rules),
    )
    return min((ms for ms in instants if ms > decided_ms), default=None)


def _list_mark_changes(state: PartitionState) -> Iterator[int]:
    """Yield the end of the back-off of an uncleanable partition."""
    if state.uncleanable is not None and state.uncleanable.next_attempt_ms is not None:
        yield state.uncleanable.next_attempt_ms


def _list_tombstone_changes(log: PartitionLog, rules: Rules) -> Iterator[int]:
    """Yield when tombstones may go: the delete horizon, and the end of the wait for late records."""
    for segment in log.segments:
        if not segment.tombstones:
            continue
        for entry in find_covering_entries(segment.first_offset, segment.last_offset, log.state.history):
            if entry is not None and entry.delete_horizon_ms is not None:
                yield entry.delete_horizon_ms
            if entry is not None and entry.cleaning_time_ms is not None:
                yield entry.cleaning_time_ms + rules.late_arrival_ms


def _list_dirty_changes(log: PartitionLog, rules: Rules) -> Iterator[int]:
    """Yield when dirty segments close, leave the minimum lag, and exceed the maximum lag."""
    appends = log.state.appends
    start = log.state.log_start_offset if is_whole_log_dirty(log, rules) else find_first_dirty_offset(log.state)
    dirty = list_dirty_segments(log, start)
    for segment, previous in zip(dirty, (None, *dirty), strict=False):
        oldest_ms, youngest_ms = find_oldest_ms(segment, appends), find_youngest_ms(segment, appends)
        if oldest_ms is not None and rules.max_segment_ms < MAXIMUM_LONG:
            yield oldest_ms + rules.max_segment_ms + 1
        if youngest_ms is not None:
            yield youngest_ms + rules.min_compaction_lag_ms
        if rules.max_compaction_lag_ms < MAXIMUM_LONG:
            yield from (ms + rules.max_compaction_lag_ms + 1 for ms in _list_lag_starts(segment, previous, log, rules))


def _list_lag_starts(segment: Segment, previous: Segment | None, log: PartitionLog, rules: Rules) -> Iterator[int]:
    """Yield the times from which a segment's lag may count: its own oldest, or KIP-354's estimates if it has none."""
    if segment.min_timestamp_ms is not None:
        yield segment.min_timestamp_ms
    if segment.max_timestamp_ms is not None:
        return
    appended_ms = find_append_as_of_ms(segment, log.state.appends)
    if appended_ms is not None:
        yield appended_ms - rules.max_segment_ms
    youngest_ms = None if previous is None else find_youngest_ms(previous, log.state.appends)
    if youngest_ms is not None:
        yield youngest_ms


def _list_retention_changes(log: PartitionLog, rules: Rules) -> Iterator[int]:
    """Yield when segments become older than retention.ms."""
    if not rules.deletes or rules.retention_ms < 0:
        return
    for segment in log.segments:
        youngest_ms = find_youngest_ms(segment, log.state.appends)
        if youngest_ms is not None:
            yield youngest_ms + rules.retention_ms + 1
