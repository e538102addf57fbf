"""What a published run makes of a partition's carried state: log start, checkpoint, cleaning history. Pure."""

from __future__ import annotations

from dataclasses import replace

from winnow.eligibility import first_dirty_offset
from winnow.model import Cleaning, PartitionPlan, PartitionState, Plan, Segment, total_order


def behind_retention(state: PartitionState, partition: PartitionPlan, after: list[Segment]) -> PartitionState:
    """The partition's state behind retention: the log start, and nothing that is only about what lies below it."""
    start = partition.log_start_offset
    checkpoint = state.first_dirty_offset
    return replace(
        state,
        log_start_offset=start,
        first_dirty_offset=None if checkpoint is None else max(checkpoint, start),
        history=_without_needless(state.history, after),
        appends=tuple(entry for entry in state.appends if entry.last_offset >= start),
    )


def after_cleaning(
    state: PartitionState, partition: PartitionPlan, plan: Plan, after: list[Segment], *, cleaning_time_ms: int
) -> PartitionState:
    """The partition's state after its cleaning: checkpoint, history, and appends that are still dirty."""
    end = partition.next_first_dirty_offset
    order = total_order(plan.strategy, plan.strategy_header)
    stamped = Cleaning(end, cleaning_time_ms, cleaning_time_ms + plan.delete_retention_ms)
    return replace(
        state,
        first_dirty_offset=max(end, first_dirty_offset(state) if state.strategy == order else end),
        strategy=order,
        history=_history(state.history, stamped, after),
        appends=tuple(entry for entry in state.appends if entry.last_offset >= end),
        uncleanable=None,
    )


def _history(history: tuple[Cleaning, ...], stamped: Cleaning, after: list[Segment]) -> tuple[Cleaning, ...]:
    """Stamp what no earlier run covered, then drop leading entries below whose end no tombstone remains.

    An entry with unknown time (an imported checkpoint) counts as not covered: this run covers it. The last entry stays,
    so that the time of the last cleaning is known.
    """
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
    return _without_needless(tuple(known), after)


def _without_needless(history: tuple[Cleaning, ...], after: list[Segment]) -> tuple[Cleaning, ...]:
    """Without leading entries below whose end no tombstone remains; the last entry stays."""
    tombstones_from = min((s.first_offset for s in after if s.tombstones), default=None)
    needless = 0
    while needless < len(history) - 1 and (tombstones_from is None or history[needless].end_offset <= tombstones_from):
        needless += 1
    return history[needless:]
