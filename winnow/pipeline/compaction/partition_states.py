"""Computes a partition's state after a run: log start, checkpoint and cleaning history."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

from winnow.planning.cleanable import (
    PartitionLog,
    Rules,
    find_cleanable_range,
    find_first_dirty_offset,
    is_whole_log_dirty,
)
from winnow.planning.eligibility import list_expired_ranges, make_tombstone_expiry
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Segment
from winnow.values.strategies import name_total_order
from winnow.values.topic_state import Cleaning, PartitionState


@dataclass(frozen=True, slots=True)
class AheadOfTime:
    """Removals and cleanings of one partition's run that the wall clock would not allow yet.

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
    """Count what ``partition`` of a plan does earlier than a run at ``now_ms`` would.

    Args:
        topic: the plan's topic.
        partition: the partition's plan, made at the as-of.
        state: the partition's state before the run.
        live: its live segments before the run, in offset order.
        rules: the topic's rules.
        tombstones_expired: how many tombstones the run dropped.
        now_ms: the present.
    """
    if not partition.compacts:
        return AheadOfTime()
    retired = {segment.path for segment in partition.retired}
    left = tuple(segment for segment in live if segment.path not in retired)
    log = PartitionLog(topic, partition.partition, left, state, partition.closes_active)
    going_now = list_expired_ranges(
        state.history, make_tombstone_expiry(log, rules, partition.next_first_dirty_offset, cleaning_time_ms=now_ms)
    )
    early = _subtract_ranges(partition.expired, going_now)
    due = sum(s.tombstones for s in partition.segments if _is_overlapping(s, going_now))
    ahead = sum(s.tombstones for s in partition.segments if _is_overlapping(s, early))
    span = find_cleanable_range(log, rules, now_ms, whole_log_dirty=is_whole_log_dirty(log, rules))
    uncleanable = max(span.first_uncleanable_offset, partition.first_dirty_offset)
    return AheadOfTime(
        # If no tombstone was due, all that were dropped are early; else the segments' own counts are the bound.
        tombstones_expired=tombstones_expired if ahead and not due else min(tombstones_expired, ahead),
        offsets_cleaned=max(0, partition.next_first_dirty_offset - uncleanable),
    )


def _is_overlapping(segment: Segment, ranges: Sequence[OffsetRange]) -> bool:
    return any(each.start <= segment.last_offset and segment.first_offset < each.end for each in ranges)


def _subtract_ranges(ranges: Sequence[OffsetRange], taken: Sequence[OffsetRange]) -> list[OffsetRange]:
    """Return ``ranges`` without the offsets in ``taken``; both sorted and disjoint."""
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


_GET_START, _GET_END = attrgetter("start"), attrgetter("end")

MAXIMUM_HISTORY_ENTRIES = 512
"""Maximum entries of a cleaning history after tombstone lives are extended; a run's own entry may exceed it."""


def apply_retention(state: PartitionState, partition: PartitionPlan, after: list[Segment]) -> PartitionState:
    """Return the partition's state after retention: the new log start, without data about offsets below it."""
    start = partition.log_start_offset
    checkpoint = state.first_dirty_offset
    return replace(
        state,
        log_start_offset=start,
        first_dirty_offset=None if checkpoint is None else max(checkpoint, start),
        history=_drop_needless(state.history, after),
        appends=tuple(entry for entry in state.appends if entry.last_offset >= start),
    )


def apply_cleaning(
    state: PartitionState,
    partition: PartitionPlan,
    plan: Plan,
    after: list[Segment],
    *,
    cleaning_time_ms: int,
    extended: Sequence[OffsetRange] = (),
) -> PartitionState:
    """Return the partition's state after its cleaning: checkpoint, history, and appends that are still dirty.

    ``extended``: sorted ranges of tombstones that superseded a record in this run and restart their wait for late ones.
    """
    end = partition.next_first_dirty_offset
    order = name_total_order(plan.strategy, plan.strategy_header)
    stamped = Cleaning(end, cleaning_time_ms, cleaning_time_ms + plan.delete_retention_ms)
    history = _stamp_ranges(state.history, stamped)
    if extended:
        history = _drop_emptied(history, partition, extended)
        history = _extend_lifetimes(history, extended, cleaning_time_ms)
    return replace(
        state,
        first_dirty_offset=max(end, find_first_dirty_offset(state) if state.strategy == order else end),
        strategy=order,
        history=_drop_needless(history, after),
        appends=tuple(entry for entry in state.appends if entry.last_offset >= end),
        uncleanable=None,
    )


def _stamp_ranges(history: tuple[Cleaning, ...], stamped: Cleaning) -> tuple[Cleaning, ...]:
    """Stamp offsets that no earlier run covered. An entry with unknown time (an imported checkpoint) does not count."""
    known: list[Cleaning] = []
    start = 0
    for entry in history:
        covered_now = entry.delete_horizon_ms is None and start < stamped.end_offset
        if covered_now:
            known.append(replace(stamped, end_offset=min(entry.end_offset, stamped.end_offset)))
        if not covered_now or entry.end_offset > stamped.end_offset:
            known.append(entry)
        start = entry.end_offset
    if not known or known[-1].end_offset < stamped.end_offset:
        known.append(stamped)
    return tuple(known)


def _extend_lifetimes(
    history: tuple[Cleaning, ...], ranges: Sequence[OffsetRange], cleaning_time_ms: int
) -> tuple[Cleaning, ...]:
    """Give each of ``ranges`` (sorted, disjoint) entries of its own with this run's time; delete horizons stay."""
    pieces: list[Cleaning] = []
    start = 0
    for entry in history:
        time_ms = entry.cleaning_time_ms
        earlier = time_ms is not None and time_ms < cleaning_time_ms
        for each in _find_overlapping(ranges, start, entry.end_offset) if earlier else ():
            inside = OffsetRange(max(start, each.start), min(entry.end_offset, each.end))
            if start < inside.start:
                pieces.append(replace(entry, end_offset=inside.start))
            pieces.append(replace(entry, end_offset=inside.end, cleaning_time_ms=cleaning_time_ms))
            start = inside.end
        if start < entry.end_offset:
            pieces.append(entry)
        start = entry.end_offset
    return _limit_entries(_join_equal_neighbours(pieces))


def _find_overlapping(ranges: Sequence[OffsetRange], start: int, end: int) -> Sequence[OffsetRange]:
    """Return those of ``ranges`` (sorted, disjoint) that share an offset with [``start``, ``end``)."""
    return ranges[bisect_right(ranges, start, key=_GET_END) : bisect_left(ranges, end, key=_GET_START)]


def _join_equal_neighbours(history: Sequence[Cleaning]) -> list[Cleaning]:
    """Join neighbouring entries that are equal apart from their offsets."""
    joined: list[Cleaning] = []
    for entry in history:
        if joined and replace(joined[-1], end_offset=entry.end_offset) == entry:
            joined.pop()
        joined.append(entry)
    return joined


def _limit_entries(history: Sequence[Cleaning]) -> tuple[Cleaning, ...]:
    """Limit the entries to the maximum: join neighbours whose times differ least, with the later of their times.

    So some tombstones stay a little longer, and none goes earlier. Entries with unknown time stay as they are.
    """
    costs = sorted(
        (abs(after.cleaning_time_ms - entry.cleaning_time_ms), at)
        for at, (entry, after) in enumerate(pairwise(history))
        if entry.cleaning_time_ms is not None and after.cleaning_time_ms is not None
    )
    into_next = {at for _, at in costs[: max(0, len(history) - MAXIMUM_HISTORY_ENTRIES)]}
    shortened: list[Cleaning] = []
    for at, entry in enumerate(history):
        if at - 1 in into_next:
            before = shortened.pop()
            time_ms = _get_later_time(before.cleaning_time_ms, entry.cleaning_time_ms)
            horizon_ms = _get_later_time(before.delete_horizon_ms, entry.delete_horizon_ms)
            shortened.append(Cleaning(entry.end_offset, time_ms, horizon_ms))
        else:
            shortened.append(entry)
    return tuple(shortened)


def _get_later_time(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _drop_emptied(
    history: tuple[Cleaning, ...], partition: PartitionPlan, extended: Sequence[OffsetRange]
) -> tuple[Cleaning, ...]:
    """Drop entries whose last tombstones went in this run, except the last: the next entry takes over their offsets.

    Otherwise a tombstone that is extended repeatedly would leave a growing row of old entries.
    """
    kept: list[Cleaning] = []
    start = 0
    for entry in history:
        covered = entry.end_offset <= partition.next_first_dirty_offset
        gone = covered and any(each.start <= start and entry.end_offset <= each.end for each in partition.expired)
        stays = bool(_find_overlapping(extended, start, entry.end_offset))
        if stays or not gone or entry is history[-1]:
            kept.append(entry)
        start = entry.end_offset
    return tuple(kept)


def _drop_needless(history: tuple[Cleaning, ...], after: list[Segment]) -> tuple[Cleaning, ...]:
    """Drop leading entries below whose end no tombstone remains; the last entry stays."""
    tombstones_from = min((s.first_offset for s in after if s.tombstones), default=None)
    needless = 0
    while needless < len(history) - 1 and (tombstones_from is None or history[needless].end_offset <= tombstones_from):
        needless += 1
    return history[needless:]
