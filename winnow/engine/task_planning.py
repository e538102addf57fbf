"""Splits work over Spark tasks: small partitions share a task, large ones are split by key and by offset.

A partition is one task's work unless that leaves cores idle. The winners of a split partition are picked by several
tasks, each for a share of the keys, and its groups of segments are copied by several, each for a range of offsets.
Every share decodes all keys, so a share costs more than its fraction of the work: splitting pays only for giants.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from winnow.engine.read_ranges import SegmentSurvivors
from winnow.engine.rewrite import (
    CopiedGroup,
    PartitionWinners,
    SegmentGroup,
    build_segment_groups,
    build_staged_partition,
    copy_group,
    find_partition_winners,
    merge_winners,
)
from winnow.engine.survivors import load_survivors, write_survivors
from winnow.engine.task_resources import ConnectionPool, TaskBudget, Throttle
from winnow.engine.winners import KeyShare
from winnow.files import storage
from winnow.files.fingerprint import combine_fingerprints
from winnow.values.model import PartitionPlan, Plan
from winnow.values.results import Rewrite, StagedPartition

if TYPE_CHECKING:
    from winnow.engine.task_resources import TaskBudget

MAXIMUM_TASKS_PER_CORE = 4
"""Enough tasks that a slow one does not leave cores idle, few enough that starting them costs little."""

UNIT_OVERHEAD_BYTES = 4 << 20
"""Cost of a unit besides its records, as bytes read: statements, files, a new segment or two."""


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """One partition of one plan, or a part of one.

    ``plan`` is the plan with this partition alone.
    """

    plan_uri: str
    topic: str
    partition: int
    size_bytes: int
    plan: Plan | None = None

    @property
    def range(self) -> str | None:
        """The part of the partition, as text for logs; None: all of it."""
        return None


def pack_units(units: Sequence[WorkUnit], cores: int, maximum_tasks: int | None = None) -> list[list[WorkUnit]]:
    """Pack units into tasks: one each while they are few, else the largest first into the emptiest of cores x 4 tasks.

    Tasks come in the order in which Spark starts them: the largest first. ``maximum_tasks`` also limits the units at a
    time, even if the number of cores grows.
    """
    ordered = sorted(units, key=lambda unit: -unit.size_bytes)
    count = min(len(ordered), max(1, cores) * MAXIMUM_TASKS_PER_CORE if maximum_tasks is None else maximum_tasks)
    heap = [(0, number) for number in range(count)]
    packed: list[list[WorkUnit]] = [[] for _ in range(count)]
    for unit in ordered:
        size_bytes, number = heapq.heappop(heap)
        packed[number].append(unit)
        heapq.heappush(heap, (size_bytes + estimate_unit_bytes(unit), number))
    return sorted(packed, key=lambda task: -sum(estimate_unit_bytes(unit) for unit in task))


def estimate_unit_bytes(unit: WorkUnit) -> int:
    """Estimate the cost of ``unit``, as bytes read."""
    return UNIT_OVERHEAD_BYTES + unit.size_bytes


def plan_tasks(
    units: Sequence[WorkUnit], cores: int, budget: TaskBudget, maximum_tasks: int | None
) -> tuple[list[list[WorkUnit]], TaskBudget]:
    """Return units per task and each task's budget: the application's rate is divided, the rest is per task."""
    rate = budget.bytes_per_second
    tasks = pack_units(units, cores, maximum_tasks if rate is None else min(cores, maximum_tasks or cores))
    if rate is None or not tasks:
        return tasks, budget
    # Equal shares, and no more tasks than cores: together they cannot exceed the rate.
    return tasks, replace(budget, bytes_per_second=rate / len(tasks))


DEFAULT_GIANT_BYTES = 512 << 20
"""Below it, starting more tasks and decoding keys again costs more than idle cores."""

MAXIMUM_KEY_SHARES = 16
"""More shares of a partition's keys save no time: each decodes all of them, which then costs most of it."""

MAXIMUM_IMBALANCE = 1.6
"""Maximum load of the fullest core, in fair shares, before partitions are split; then it is about 1.5."""

MAXIMUM_PARTS_PER_CORE = 2
"""Maximum parts per core of a split partition: enough that a slow one leaves no core idle for long."""

MINIMUM_PART_BYTES = 4 << 20
"""Minimum estimated survivors of a part in bytes: many cores must not cut a log into small files."""

COPY_COST_FACTOR = 5
"""Cost of copying a surviving byte, in bytes read."""


def count_key_shares(sizes_bytes: Sequence[int], cores: int, giant_bytes: int) -> list[int]:
    """Return the number of shares for the keys of each partition, given all sizes; 1: it stays whole.

    The largest are split if the fullest of ``cores`` would otherwise have :data:`MAXIMUM_IMBALANCE` times its fair
    share: those above a fair share, else those above half of one, and so on; never one below ``giant_bytes``.
    """
    whole = [1] * len(sizes_bytes)
    if cores == 1 or max(sizes_bytes, default=0) < giant_bytes:
        return whole
    work = [UNIT_OVERHEAD_BYTES + size for size in sizes_bytes]
    fair = sum(work) / cores
    best, least = whole, _compute_fullest_load(work, whole, cores)
    for part in (1, 2, 4):
        if least <= MAXIMUM_IMBALANCE * fair:
            break
        cut = [
            _count_shares(each, fair, cores) if size >= giant_bytes and each >= fair / part else 1
            for size, each in zip(sizes_bytes, work, strict=True)
        ]
        full = _compute_fullest_load(work, cut, cores)
        if full < least:
            best, least = cut, full
    return best


def _count_shares(work: int, fair: float, cores: int) -> int:
    return max(2, min(cores, MAXIMUM_KEY_SHARES, -int(-2 * work // fair)))


def _compute_fullest_load(work: Sequence[int], cut: Sequence[int], cores: int) -> float:
    """Return the load of the fullest core if the largest pieces go first to the emptiest."""
    pieces = [each / number for each, number in zip(work, cut, strict=True) for _ in range(number)]
    loads = [0.0] * cores
    for piece in sorted(pieces, reverse=True):
        heapq.heapreplace(loads, loads[0] + piece)
    return max(loads)


def split_groups(groups: Sequence[SegmentGroup], cores: int) -> list[SegmentGroup]:
    """Split large ``groups`` of one partition between their segments, in offset order.

    Parts of a group keep its number. They are about equal work, at most :data:`MAXIMUM_PARTS_PER_CORE` per core and one
    more per group, and leave an estimated :data:`MINIMUM_PART_BYTES` or more, or are a whole group.
    """
    work = sum(map(estimate_copy_bytes, groups)) / (cores * MAXIMUM_PARTS_PER_CORE)
    return [part for group in groups for part in _split_group(group, work)]


def estimate_copy_bytes(group: SegmentGroup) -> int:
    """Estimate the cost of copying ``group``, as bytes read; segments without survivors are not read."""
    return sum(_estimate_member_bytes(member) for member in group.members)


def _estimate_member_bytes(member: SegmentSurvivors) -> int:
    return member.segment.size_bytes + COPY_COST_FACTOR * member.size_bytes if member.records else 0


def _split_group(group: SegmentGroup, part_work: float) -> Iterator[SegmentGroup]:
    """Cut where a part is large enough, unless the rest would be too small for a part."""
    start = work = kept_bytes = 0
    remaining_bytes = sum(member.size_bytes for member in group.members)
    for number, member in enumerate(group.members, 1):
        work += _estimate_member_bytes(member)
        kept_bytes += member.size_bytes
        if (
            work >= part_work
            and kept_bytes >= MINIMUM_PART_BYTES
            and remaining_bytes - kept_bytes >= MINIMUM_PART_BYTES
        ):
            yield replace(group, members=group.members[start:number])
            remaining_bytes -= kept_bytes
            start, work, kept_bytes = number, 0, 0
    yield replace(group, members=group.members[start:])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUnit(WorkUnit):
    """Picks the winners of one share of a partition's keys."""

    share: KeyShare

    @property
    def range(self) -> str:
        """The keys, as text for logs."""
        return f"keys {self.share.number + 1} of {self.share.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUnit(WorkUnit):
    """Copies one group of a partition's segments, or a part of one; ``survivors``: the files of all shares."""

    part: SegmentGroup
    survivors: tuple[str, ...]

    @property
    def range(self) -> str:
        """The offsets, as text for logs."""
        return f"offsets {self.part.first_offset} to {self.part.last_offset}"


@dataclass(frozen=True, slots=True)
class ShareWinners:
    """The winners of one share, and the file with their offsets."""

    number: int
    winners: PartitionWinners
    survivors: str


def build_share_units(unit: WorkUnit, shares: int) -> list[ShareUnit]:
    """Build the first tasks of a split partition: one for each of ``shares`` shares of its keys."""
    size_bytes = unit.size_bytes // shares
    return [
        ShareUnit(
            unit.plan_uri, unit.topic, unit.partition, size_bytes, unit.plan, share=KeyShare(number, shares)
        )
        for number in range(shares)
    ]  # fmt: skip


def find_share_winners(
    unit: ShareUnit, attempt: str, budget: TaskBudget, connections: ConnectionPool, *, folder: str
) -> ShareWinners:
    """Pick the winners of one share and write their offsets to a file below ``folder``."""
    plan, partition = _get_plan_and_partition(unit)
    name = f"{partition.partition:05d}-survivors-{unit.share.number:03d}-of-{unit.share.of:03d}.parquet"
    uri = storage.join(plan.data_location, plan.plan_id, folder, name)
    with connections.open(partition.segments) as connection:
        throttle = Throttle(budget.bytes_per_second)
        found = find_partition_winners(
            connection, plan, partition, attempt=attempt, folder=folder, throttle=throttle, share=unit.share
        )
        write_survivors(connection, uri, below=plan.table_location)
    return ShareWinners(unit.share.number, found, uri)


def build_part_units(unit: WorkUnit, found: Sequence[ShareWinners], cores: int) -> list[PartUnit]:
    """Build the second tasks of a split partition: each copies the survivors of a range of its offsets.

    A task's plan has only the segments that it reads.
    """
    plan, partition = _get_plan_and_partition(unit)
    survivors = tuple(each.survivors for each in found)
    groups = build_segment_groups(partition, _merge_share_winners(found).counts, plan.segment_bytes)
    return [
        PartUnit(
            unit.plan_uri,
            unit.topic,
            unit.partition,
            estimate_copy_bytes(part),
            _build_part_plan(plan, partition, part),
            part=part,
            survivors=survivors,
        )
        for part in split_groups(groups, cores)
    ]


def copy_part(unit: PartUnit, budget: TaskBudget, connections: ConnectionPool, *, folder: str) -> CopiedGroup:
    """Copy the survivors of one group, or of a part of it, into new segments below ``folder``.

    Raises:
        CopyCountError: the number of copied records differs from the shares' count: a segment is disordered, or a file
            with survivors is incomplete.
    """
    plan, partition = _get_plan_and_partition(unit)
    part = unit.part
    with connections.open(partition.segments) as connection:
        load_survivors(connection, unit.survivors, first_offset=part.first_offset, last_offset=part.last_offset)
        return copy_group(connection, plan, partition, part, folder=folder, throttle=Throttle(budget.bytes_per_second))


def combine_partition(
    unit: WorkUnit, found: Sequence[ShareWinners], copied: Iterable[tuple[SegmentGroup, CopiedGroup]]
) -> StagedPartition:
    """Combine all shares and parts of a partition; ``seconds`` is the total work of its tasks.

    The result is that of an unsplit partition, except that a large group may have more and smaller new segments.
    """
    _, partition = _get_plan_and_partition(unit)
    winners = _merge_share_winners(found)
    in_order = sorted(copied, key=lambda each: each[0].first_offset)
    groups = [
        _merge_parts([copy for _, copy in of_group])
        for _, of_group in groupby(in_order, key=lambda each: each[0].number)
    ]
    seconds = winners.seconds + sum(each.seconds for each in groups)
    return build_staged_partition(partition, winners, groups, seconds=seconds)


def remove_survivor_files(unit: WorkUnit, found: Iterable[ShareWinners]) -> None:
    """Remove the files with survivors of a split partition; the sweep removes those that cannot be removed now."""
    plan, _ = _get_plan_and_partition(unit)
    for each in found:
        with contextlib.suppress(Exception):  # the partition is compacted; scratch files do not matter
            storage.delete(each.survivors, below=plan.table_location)


def _merge_share_winners(found: Sequence[ShareWinners]) -> PartitionWinners:
    return merge_winners([each.winners for each in sorted(found, key=lambda each: each.number)])


def _merge_parts(copied: Sequence[CopiedGroup]) -> CopiedGroup:
    """Merge the parts of one group."""
    return CopiedGroup(
        Rewrite(
            tuple(path for each in copied for path in each.rewrite.inputs),
            tuple(segment for each in copied for segment in each.rewrite.outputs),
        ),
        combine_fingerprints(each.content_fingerprint for each in copied),
        sum(each.seconds for each in copied),
        sum(each.cpu_seconds for each in copied),
    )


def _build_part_plan(plan: Plan, partition: PartitionPlan, part: SegmentGroup) -> Plan:
    segments = tuple(member.segment for member in part.members)
    return replace(plan, partitions=(replace(partition, segments=segments, retired=()),))


def _get_plan_and_partition(unit: WorkUnit) -> tuple[Plan, PartitionPlan]:
    assert unit.plan is not None
    (partition,) = unit.plan.partitions
    return unit.plan, partition
