"""Divides the latest state of one large partition: tasks find the winners of shares of its keys, then read ranges.

As a compaction of such a partition: the files between the two have offsets alone, and each value is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from winnow.engine.latest_records import check_local_pages, list_surviving, read_survivors
from winnow.engine.rewrite import SegmentGroup
from winnow.engine.strategy_diff import RecordOrder
from winnow.engine.survivors import load_survivors, write_survivors
from winnow.engine.task_planning import split_groups
from winnow.engine.task_resources import TaskBudget, open_connection
from winnow.engine.winners import KeyShare, WinnerCounts, merge_counts, pick_winners
from winnow.values.model import PartitionPlan


@dataclass(frozen=True, slots=True)
class LatestShare:
    """The winners of one share of a partition's keys, and the file with their offsets."""

    share: KeyShare
    counts: WinnerCounts
    survivors: str


def find_latest_share(
    plan: PartitionPlan, order: RecordOrder, share: KeyShare, budget: TaskBudget, uri: str, *, below: str
) -> LatestShare:
    """Find the latest record of each key of ``share`` and write the offsets to ``uri``; ``below``: its root.

    Each share checks the pages of some segments, and all shares those of all.

    Raises:
        DamagedSegmentError: a segment on a local disk is not what was written.
        duckdb.Error, OSError: a segment cannot be read, or the file not be written.
    """
    check_local_pages(plan.segments[share.number :: share.of])
    with open_connection(budget, plan.segments) as connection:
        counts = pick_winners(connection, plan, order.strategy, order.header, share=share)
        write_survivors(connection, uri, below=below)
    return LatestShare(share, counts, uri)


def split_latest_ranges(plan: PartitionPlan, found: Sequence[LatestShare], cores: int) -> list[SegmentGroup]:
    """Split what all shares ``found`` into ranges of about equal work; one range without segments if nothing is left.

    Each range has neighbouring segments, in offset order.
    """
    counts = merge_counts([each.counts for each in sorted(found, key=lambda each: each.share.number)])
    members = tuple(list_surviving(plan, counts))
    return split_groups([SegmentGroup(0, members)], cores) if members else [SegmentGroup(0, ())]


def read_latest_range(
    plan: PartitionPlan, part: SegmentGroup, survivors: Sequence[str], budget: TaskBudget
) -> Iterator[pa.RecordBatch]:
    """Yield the latest records of ``part`` in offset order; ``survivors``: the files of all shares.

    Raises:
        CopyCountError: other records were found than survive.
        duckdb.Error, OSError: a segment cannot be read.
    """
    if not part.members:
        return
    with open_connection(budget, [member.segment for member in part.members]) as connection:
        load_survivors(connection, survivors, first_offset=part.first_offset, last_offset=part.last_offset)
        yield from read_survivors(connection, part.members, plan.log_start_offset)
