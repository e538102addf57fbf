"""A topic partition whose compaction is cut over several tasks: first shares of its keys, then stretches of offsets.

No record travels between the tasks, and none to the driver: each share of the keys leaves the offsets of its winners in
a scratch file beside the new segments, whose names the driver hands on. A retried or speculative task writes files of
its own; those count that the result names which reached the driver. What is left of the others goes with the sweep,
like all that an attempt leaves behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from winnow.engine.connections import ConnectionPool
from winnow.engine.cutting import estimate_copy_bytes, split_groups
from winnow.engine.rewrite import (
    CopiedGroup,
    PartitionWinners,
    SegmentGroup,
    TaskBudget,
    build_segment_groups,
    build_staged_partition,
    copy_group,
    find_partition_winners,
    merge_winners,
)
from winnow.engine.slices import WorkUnit
from winnow.engine.survivors import load_survivors, write_survivors
from winnow.engine.throttle import Throttle
from winnow.engine.winners import KeyShare
from winnow.files import storage
from winnow.files.fingerprint import combine_fingerprints
from winnow.model import PartitionPlan, Plan, Rewrite, StagedPartition


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
    return [
        PartUnit(
            unit.plan_uri, unit.topic, unit.partition, estimate_copy_bytes(part), _build_part_plan(plan, partition, part),
            part=part, survivors=survivors,
        )
        for part in split_groups(build_segment_groups(partition, _merge_share_winners(found).counts, plan.segment_bytes), cores)
    ]  # fmt: skip


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
