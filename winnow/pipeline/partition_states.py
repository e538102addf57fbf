"""What a published run makes of a partition's carried state: log start, checkpoint, cleaning history. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from winnow.eligibility import find_first_dirty_offset
from winnow.model import Cleaning, OffsetRange, PartitionPlan, PartitionState, Plan, Segment, name_total_order

_GET_START, _GET_END = attrgetter("start"), attrgetter("end")
MAXIMUM_HISTORY_ENTRIES = 512
"""Entries of a cleaning history that extended lives may bring it to; one entry a run is added whatever its length."""


def apply_retention(state: PartitionState, partition: PartitionPlan, after: list[Segment]) -> PartitionState:
    """The partition's state behind retention: the log start, and nothing that is only about what lies below it."""
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
    """The partition's state after its cleaning: checkpoint, history, and appends that are still dirty.

    ``extended``: in order, where tombstones lie that superseded a record in this run and wait for late ones anew.
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
    """Stamp what no earlier run covered. An entry with unknown time (an imported checkpoint) counts as not covered."""
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
    """Each of ``ranges`` (in order, disjoint) as entries of its own with this run's time; delete horizons stay."""
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
    """Those of ``ranges`` (in order, disjoint) that share an offset with [``start``, ``end``)."""
    return ranges[bisect_right(ranges, start, key=_GET_END) : bisect_left(ranges, end, key=_GET_START)]


def _join_equal_neighbours(history: Sequence[Cleaning]) -> list[Cleaning]:
    """Neighbours that say the same as one."""
    joined: list[Cleaning] = []
    for entry in history:
        if joined and replace(joined[-1], end_offset=entry.end_offset) == entry:
            joined.pop()
        joined.append(entry)
    return joined


def _limit_entries(history: Sequence[Cleaning]) -> tuple[Cleaning, ...]:
    """At most :data:`MOST_ENTRIES`: neighbours whose times differ least become one, with the later of their times.

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
    """Without entries whose last tombstones went in this run: the next one takes over their offsets; the last stays.

    Of a tombstone that is extended again and again earlier entries would otherwise pile up behind it.
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
    """Without leading entries below whose end no tombstone remains; the last entry stays."""
    tombstones_from = min((s.first_offset for s in after if s.tombstones), default=None)
    needless = 0
    while needless < len(history) - 1 and (tombstones_from is None or history[needless].end_offset <= tombstones_from):
        needless += 1
    return history[needless:]
