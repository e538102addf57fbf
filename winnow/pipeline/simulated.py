"""What a run whose as-of lies ahead of the present removes before its time by the wall clock. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.eligibility import (
    PartitionLog,
    Rules,
    find_cleanable_range,
    is_whole_log_dirty,
    list_expired_ranges,
    make_tombstone_expiry,
)
from winnow.model import OffsetRange, PartitionPlan, PartitionState, Segment


@dataclass(frozen=True, slots=True)
class AheadOfTime:
    """What one partition's run does earlier than the wall clock would have it.

    ``tombstones_expired``: tombstones that the run dropped although their delete horizon, or the time for late records,
    has not passed; an upper bound only where a segment holds such tombstones beside due ones. ``offsets_cleaned``:
    offsets that min.compaction.lag.ms or the active segment would still have kept from the cleaning.
    """

    tombstones_expired: int = 0
    offsets_cleaned: int = 0


def count_ahead_of_time(
    topic: str,
    partition: PartitionPlan,
    state: PartitionState,
    live: Sequence[Segment],
    rules: Rules,
    *,
    tombstones_expired: int,
    now_ms: int,
) -> AheadOfTime:
    """Counts what ``partition`` of a plan does earlier than a run at ``now_ms`` would.

    Args:
        topic: the plan's.
        partition: what was planned at the as-of.
        state: the partition's state before the run.
        live: its live segments before the run, in offset order.
        rules: the topic's.
        tombstones_expired: how many tombstones the run dropped.
        now_ms: the present.
    """
    if not partition.compacts:
        return AheadOfTime()
    retired = {segment.path for segment in partition.retired}
    log = PartitionLog(topic, partition.partition, tuple(s for s in live if s.path not in retired), state)
    going_now = list_expired_ranges(
        state.history, make_tombstone_expiry(log, rules, partition.next_first_dirty_offset, cleaning_time_ms=now_ms)
    )
    early = _subtract_ranges(partition.expired, going_now)
    due = sum(s.tombstones for s in partition.segments if _is_overlapping(s, going_now))
    ahead = sum(s.tombstones for s in partition.segments if _is_overlapping(s, early))
    span = find_cleanable_range(log, rules, now_ms, whole_log_dirty=is_whole_log_dirty(log, rules))
    uncleanable = max(span.first_uncleanable_offset, partition.first_dirty_offset)
    return AheadOfTime(
        # Where no tombstone was due, those that were dropped are all early; else the segments' own counts bound them.
        tombstones_expired=tombstones_expired if ahead and not due else min(tombstones_expired, ahead),
        offsets_cleaned=max(0, partition.next_first_dirty_offset - uncleanable),
    )


def _is_overlapping(segment: Segment, ranges: Sequence[OffsetRange]) -> bool:
    return any(each.start <= segment.last_offset and segment.first_offset < each.end for each in ranges)


def _subtract_ranges(ranges: Sequence[OffsetRange], taken: Sequence[OffsetRange]) -> list[OffsetRange]:
    """``ranges`` less what lies in ``taken``; both sorted and disjoint."""
    left: list[OffsetRange] = []
    for each in ranges:
        start = each.start
        for gone in taken:
            if gone.end <= start or gone.start >= each.end:
                continue
            if gone.start > start:
                left.append(OffsetRange(start, gone.start))
            start = max(start, gone.end)
        if start < each.end:
            left.append(OffsetRange(start, each.end))
    return left
