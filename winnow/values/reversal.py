"""What taking a published run back needs: it lies with the run's receipt beside the table, and nobody else reads it."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.values.model import Segment
from winnow.values.results import Receipt
from winnow.values.topic_state import Append, PartitionState


@dataclass(frozen=True, slots=True)
class PartitionReversal:
    """One topic partition before and after a change of its log.

    ``before``, ``after``: offsets, strategy and history; of the appends only those that the change dropped, in
    ``before``. ``removed``: segments that left the log; ``added``: paths of those that came. ``compacts``: it moved the
    checkpoint; False: it took whole segments, or raised the log start.
    """

    partition: int
    before: PartitionState
    after: PartitionState
    compacts: bool
    removed: tuple[Segment, ...] = ()
    added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedRun(Receipt):
    """A receipt as it lies beside the table. ``reversal`` None: an older Winnow did not record it."""

    reversal: tuple[PartitionReversal, ...] | None = None


def make_reversal(
    partition: int,
    before: PartitionState,
    after: PartitionState,
    *,
    compacts: bool,
    removed: tuple[Segment, ...] = (),
    added: tuple[str, ...] = (),
) -> PartitionReversal:
    """Make what taking back a change of one partition needs, from its states before and after."""
    dropped = tuple(entry for entry in before.appends if entry not in after.appends)
    return PartitionReversal(partition, _trim(before, dropped), _trim(after, ()), compacts, removed, added)


def _trim(state: PartitionState, appends: tuple[Append, ...]) -> PartitionState:
    return PartitionState(
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        first_dirty_offset=state.first_dirty_offset,
        strategy=state.strategy,
        history=state.history,
        appends=appends,
    )
