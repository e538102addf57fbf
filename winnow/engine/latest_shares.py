"""Divides the latest state of one large partition: tasks find the winners of shares of its keys, then read ranges.

As a compaction of such a partition: the files between the two have offsets alone, and each value is read once. The two
rounds are those of one application; the partitions that stay whole are in the first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import pyarrow as pa

from winnow.engine.events import emit_event
from winnow.engine.latest_records import check_local_pages, list_surviving, read_survivors
from winnow.engine.rewrite import SegmentGroup
from winnow.engine.strategy_diff import RecordOrder
from winnow.engine.survivors import load_survivors, write_survivors
from winnow.engine.task_planning import WorkUnit, estimate_copy_bytes, split_groups
from winnow.engine.task_resources import TaskBudget, open_connection
from winnow.engine.winners import KeyShare, WinnerCounts, merge_counts, pick_winners
from winnow.values.model import PartitionPlan

Result = dict[str, Any]
"""What came of a unit: ``result`` or ``share``, or ``error`` and ``exit_code``; with ``partition``."""
RunUnits = Callable[[Sequence[WorkUnit]], list[Result]]
"""Runs units in tasks; returns what came of each, in any order."""


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


@dataclass(frozen=True, slots=True)
class StateUnit(WorkUnit, ABC):
    """The latest state of one partition, or a part of it.

    ``share``: its winners among these keys are looked for. ``group``: the range of offsets to read of it, the
    ``range_number``-th; ``survivors``: the files of its shares.
    """

    share: KeyShare | None = None
    group: SegmentGroup | None = None
    range_number: int = 0
    survivors: tuple[str, ...] = ()

    @property
    def range(self) -> str | None:
        """The part of the partition, as text for logs; None: all of it."""
        if self.share is not None:
            return f"share {self.share.number + 1} of {self.share.of}"
        return None if self.group is None else f"range {self.range_number}"

    @property
    @abstractmethod
    def log(self) -> PartitionPlan:
        """The plan of the partition, of :func:`winnow.engine.latest_records.build_latest_plan`."""

    @abstractmethod
    def narrow(self, log: PartitionPlan) -> Self:
        """Return the unit with ``log`` in the place of its plan."""


Unit = TypeVar("Unit", bound=StateUnit)


def run_rounds(units: Sequence[Unit], counts: Sequence[int], run: RunUnits, cores: int) -> tuple[list[Result], int]:
    """Have ``units`` run, those with more than one share of ``counts`` in two rounds.

    Returns:
        What came of units and ranges, or of shares that failed; and how many there are if all is well.
    """
    first = [part for unit, count in zip(units, counts, strict=True) for part in _split_by_keys(unit, count)]
    divided = {unit.partition: unit for unit, count in zip(units, counts, strict=True) if count > 1}
    wanted = dict(zip((unit.partition for unit in units), counts, strict=True))
    found: dict[int, list[LatestShare]] = {}
    done = []
    for result in run(first):
        if "share" in result:
            found.setdefault(result["partition"], []).append(result["share"])
        else:
            done.append(result)
    ranges = [
        part
        for partition, shares in found.items()
        if len(shares) == wanted[partition]
        for part in _split_by_offsets(divided[partition], shares, cores)
    ]
    done += run(ranges) if ranges else []
    for unit in divided.values():
        emit_event({"event": "partition", "topic": unit.topic, "partition": unit.partition})
    return done, len(units) - len(divided) + len(ranges)


def _split_by_keys(unit: Unit, shares: int) -> list[Unit]:
    if shares == 1:
        return [unit]
    size_bytes = unit.size_bytes // shares
    return [replace(unit, size_bytes=size_bytes, share=KeyShare(number, shares)) for number in range(shares)]


def _split_by_offsets(unit: Unit, found: Sequence[LatestShare], cores: int) -> Iterator[Unit]:
    """Build the second tasks of a divided partition; the plan of each has only the segments that it reads."""
    survivors = tuple(each.survivors for each in found)
    for number, group in enumerate(split_latest_ranges(unit.log, found, cores)):
        log = replace(unit.log, segments=tuple(member.segment for member in group.members))
        yield replace(
            unit.narrow(log),
            size_bytes=estimate_copy_bytes(group),
            group=group,
            range_number=number,
            survivors=survivors,
        )
