"""Splits work over Spark tasks: small partitions share a task, large ones are cut by key and by offset.

A partition is one task's work until that leaves cores idle. One that is cut has its winners picked by several tasks,
each for a share of the keys, and its groups of segments copied by several, each from a stretch of the offsets. Every
task of the first kind decodes all keys, so a share costs more than its part: cutting pays for giants alone.
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
from winnow.model import PartitionPlan, Plan
from winnow.results import Rewrite, StagedPartition

if TYPE_CHECKING:
    from winnow.engine.task_resources import TaskBudget

MAXIMUM_TASKS_PER_CORE = 4
"""Enough tasks that a slow one does not leave cores idle, few enough that their start is not felt."""

UNIT_OVERHEAD_BYTES = 4 << 20
"""What a unit costs besides its records, as bytes that are read: statements, files, a new segment or two."""


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """One topic partition of one plan, or a range of one.

    ``plan`` is the plan with this partition alone: what a task needs, no more.
    """

    plan_uri: str
    topic: str
    partition: int
    size_bytes: int
    plan: Plan | None = None

    @property
    def range(self) -> str | None:
        """What of its partition it is about, in a log's words; None: all of it."""
        return None


def pack_units(units: Sequence[WorkUnit], cores: int, most: int | None = None) -> list[list[WorkUnit]]:
    """Units into tasks: one each while they are few, else the fullest first into the emptiest of cores x 4 tasks.

    Tasks come in the order in which Spark starts them: the largest first. ``most``: no more tasks than that, so no more
    units at once, whatever the number of cores is now or becomes.
    """
    ordered = sorted(units, key=lambda unit: -unit.size_bytes)
    count = min(len(ordered), max(1, cores) * MAXIMUM_TASKS_PER_CORE if most is None else most)
    heap = [(0, number) for number in range(count)]
    packed: list[list[WorkUnit]] = [[] for _ in range(count)]
    for unit in ordered:
        size_bytes, number = heapq.heappop(heap)
        packed[number].append(unit)
        heapq.heappush(heap, (size_bytes + estimate_unit_bytes(unit), number))
    return sorted(packed, key=lambda task: -sum(estimate_unit_bytes(unit) for unit in task))


def estimate_unit_bytes(unit: WorkUnit) -> int:
    """How long ``unit`` takes, as bytes that are read."""
    return UNIT_OVERHEAD_BYTES + unit.size_bytes


def plan_tasks(
    units: Sequence[WorkUnit], cores: int, budget: TaskBudget, most_tasks: int | None
) -> tuple[list[list[WorkUnit]], TaskBudget]:
    """Units into tasks, and what each task may use: the application's rate is divided, all else is per task."""
    rate = budget.bytes_per_second
    tasks = pack_units(units, cores, most_tasks if rate is None else min(cores, most_tasks or cores))
    if rate is None or not tasks:
        return tasks, budget
    # An equal share each, and no more tasks than cores: they cannot exceed the rate, however many run at a time.
    return tasks, replace(budget, bytes_per_second=rate / len(tasks))


DEFAULT_GIANT_BYTES = 512 << 20
"""Below it, starting further tasks and decoding keys again costs more than idle cores do."""

MAXIMUM_KEY_SHARES = 16
"""More shares of a partition's keys save no time: each decodes all of them, and that outweighs the rest by then."""

MAXIMUM_IMBALANCE = 1.6
"""How many times a core's fair share the fullest core may have before partitions are cut: cut, they take about 1.5."""

MAXIMUM_PARTS_PER_CORE = 2
"""So many parts a core are copied of a partition that is cut, or fewer: a slow one leaves no core idle for long."""

MINIMUM_PART_BYTES = 4 << 20
"""What is estimated to survive of a part, at least: no log falls to pieces because many cores cleaned it."""

COPY_COST_FACTOR = 5
"""How many times as long as passing a byte over it takes to copy one that survives."""


def count_key_shares(sizes_bytes: Sequence[int], cores: int, giant_bytes: int) -> list[int]:
    """Into how many shares the keys of each partition are cut, given the sizes of all; 1: it stays whole.

    The largest are cut when the fullest of ``cores`` would otherwise have :data:`TOLERATED` times its fair share: those
    above a fair share, else those above half of one, and so on; never one below ``giant_bytes``.
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
    """The load of the fullest core, when the largest pieces go first to the emptiest."""
    pieces = [each / number for each, number in zip(work, cut, strict=True) for _ in range(number)]
    loads = [0.0] * cores
    for piece in sorted(pieces, reverse=True):
        heapq.heapreplace(loads, loads[0] + piece)
    return max(loads)


def split_groups(groups: Sequence[SegmentGroup], cores: int) -> list[SegmentGroup]:
    """``groups`` of one partition, large ones cut between their segments, in offset order.

    Parts of a group keep its number. Each is about as much work as the others, at most :data:`PARTS_PER_CORE` for each
    of ``cores`` and one more for each group, and is estimated to leave :data:`PART_BYTES` or more, or is a whole group.
    """
    work = sum(map(estimate_copy_bytes, groups)) / (cores * MAXIMUM_PARTS_PER_CORE)
    return [part for group in groups for part in _split_group(group, work)]


def estimate_copy_bytes(group: SegmentGroup) -> int:
    """How long copying ``group`` takes, as bytes that are read; a segment of which nothing survives is not read."""
    return sum(_estimate_member_bytes(member) for member in group.members)


def _estimate_member_bytes(member: SegmentSurvivors) -> int:
    return member.segment.size_bytes + COPY_COST_FACTOR * member.size_bytes if member.records else 0


def _split_group(group: SegmentGroup, part_work: float) -> Iterator[SegmentGroup]:
    """Cut where a part has become large enough, unless what is left would be too small for one of its own."""
    start = work = kept_bytes = 0
    left_bytes = sum(member.size_bytes for member in group.members)
    for number, member in enumerate(group.members, 1):
        work += _estimate_member_bytes(member)
        kept_bytes += member.size_bytes
        if work >= part_work and kept_bytes >= MINIMUM_PART_BYTES and left_bytes - kept_bytes >= MINIMUM_PART_BYTES:
            yield replace(group, members=group.members[start:number])
            left_bytes -= kept_bytes
            start, work, kept_bytes = number, 0, 0
    yield replace(group, members=group.members[start:])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUnit(WorkUnit):
    """Picking the winners of one share of a partition's keys."""

    share: KeyShare

    @property
    def range(self) -> str:
        """Which keys."""
        return f"keys {self.share.number + 1} of {self.share.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUnit(WorkUnit):
    """Copying one group of a partition's segments, or a part of one; ``survivors``: the files of all shares."""

    part: SegmentGroup
    survivors: tuple[str, ...]

    @property
    def range(self) -> str:
        """Which offsets."""
        return f"offsets {self.part.first_offset} to {self.part.last_offset}"


@dataclass(frozen=True, slots=True)
class ShareWinners:
    """The winners of one share, and the file with their offsets."""

    number: int
    winners: PartitionWinners
    survivors: str


def build_share_units(unit: WorkUnit, shares: int) -> list[ShareUnit]:
    """The first tasks of a partition that is cut: one for each of ``shares`` shares of its keys."""
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
    """Pick the winners of one share and leave their offsets in a file below ``folder``."""
    plan, partition = _get_plan_and_partition(unit)
    name = f"{partition.partition:05d}-survivors-{unit.share.number:03d}-of-{unit.share.of:03d}.parquet"
    uri = storage.join(plan.data_location, plan.plan_id, folder, name)
    with connections.open(partition.segments) as connection:
        throttle = Throttle(budget.bytes_per_second)
        found = find_partition_winners(
            connection, plan, partition, attempt=attempt, folder=folder, throttle=throttle, share=unit.share
        )
        write_survivors(connection, uri)
    return ShareWinners(unit.share.number, found, uri)


def build_part_units(unit: WorkUnit, found: Sequence[ShareWinners], cores: int) -> list[PartUnit]:
    """The second tasks of a partition that is cut: each copies what survives of a stretch of its offsets.

    A task's plan holds the segments that it reads, no others.
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
    """Copy what survives of one group, or of a part of it, into new segments below ``folder``.

    Raises:
        MiscountError: not as many records were copied as the shares of the keys counted: a segment is not in order,
            or a scratch file is not whole.
    """
    plan, partition = _get_plan_and_partition(unit)
    part = unit.part
    with connections.open(partition.segments) as connection:
        load_survivors(connection, unit.survivors, first_offset=part.first_offset, last_offset=part.last_offset)
        return copy_group(connection, plan, partition, part, folder=folder, throttle=Throttle(budget.bytes_per_second))


def combine_partition(
    unit: WorkUnit, found: Sequence[ShareWinners], copied: Iterable[tuple[SegmentGroup, CopiedGroup]]
) -> StagedPartition:
    """What all shares and parts of a partition amount to; ``seconds`` is the work of all its tasks.

    The same as of a partition in one piece, but that a large group may have more and smaller new segments.
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


def remove_survivor_files(found: Iterable[ShareWinners]) -> None:
    """Remove the files with survivors; one that cannot be removed now is left to the sweep."""
    for each in found:
        with contextlib.suppress(Exception):  # the partition is compacted, whatever becomes of its scratch
            storage.delete(each.survivors)


def _merge_share_winners(found: Sequence[ShareWinners]) -> PartitionWinners:
    return merge_winners([each.winners for each in sorted(found, key=lambda each: each.number)])


def _merge_parts(copied: Sequence[CopiedGroup]) -> CopiedGroup:
    """The parts of one group as the group."""
    return CopiedGroup(
        Rewrite(
            tuple(path for each in copied for path in each.rewrite.inputs),
            tuple(segment for each in copied for segment in each.rewrite.outputs),
        ),
        combine_fingerprints(each.content_fingerprint for each in copied),
        sum(each.seconds for each in copied),
    )


def _build_part_plan(plan: Plan, partition: PartitionPlan, part: SegmentGroup) -> Plan:
    segments = tuple(member.segment for member in part.members)
    return replace(plan, partitions=(replace(partition, segments=segments, retired=()),))


def _get_plan_and_partition(unit: WorkUnit) -> tuple[Plan, PartitionPlan]:
    assert unit.plan is not None
    (partition,) = unit.plan.partitions
    return unit.plan, partition
