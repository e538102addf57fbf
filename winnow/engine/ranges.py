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

from winnow.engine.connections import Connections
from winnow.engine.cutting import parts, work_bytes
from winnow.engine.rewrite import (
    Budget,
    Copied,
    Group,
    Winners,
    copy_group,
    find_winners,
    groups_of,
    merged_winners,
    staged_partition,
)
from winnow.engine.slices import Unit
from winnow.engine.survivors import load_survivors, write_survivors
from winnow.engine.throttle import Throttle
from winnow.engine.winners import KeyShare
from winnow.files import storage
from winnow.files.fingerprint import combined
from winnow.model import PartitionPlan, Plan, Rewrite, StagedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUnit(Unit):
    """Picking the winners of one share of a partition's keys."""

    share: KeyShare

    @property
    def range(self) -> str:
        """Which keys."""
        return f"keys {self.share.number + 1} of {self.share.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUnit(Unit):
    """Copying one group of a partition's segments, or a part of one; ``survivors``: the files of all shares."""

    part: Group
    survivors: tuple[str, ...]

    @property
    def range(self) -> str:
        """Which offsets."""
        return f"offsets {self.part.first_offset} to {self.part.last_offset}"


@dataclass(frozen=True, slots=True)
class FoundShare:
    """The winners of one share, and the file with their offsets."""

    number: int
    winners: Winners
    survivors: str


def share_units(unit: Unit, shares: int) -> list[ShareUnit]:
    """The first tasks of a partition that is cut: one for each of ``shares`` shares of its keys."""
    size_bytes = unit.size_bytes // shares
    return [
        ShareUnit(
            unit.plan_uri, unit.topic, unit.partition, size_bytes, unit.plan, share=KeyShare(number, shares)
        )
        for number in range(shares)
    ]  # fmt: skip


def find_share(unit: ShareUnit, attempt: str, budget: Budget, connections: Connections, *, folder: str) -> FoundShare:
    """Pick the winners of one share and leave their offsets in a file below ``folder``."""
    plan, partition = _of(unit)
    name = f"{partition.partition:05d}-survivors-{unit.share.number:03d}-of-{unit.share.of:03d}.parquet"
    uri = storage.join(plan.data_location, plan.plan_id, folder, name)
    with connections.open(partition.segments) as connection:
        throttle = Throttle(budget.bytes_per_second)
        found = find_winners(
            connection, plan, partition, attempt=attempt, folder=folder, throttle=throttle, share=unit.share
        )
        write_survivors(connection, uri)
    return FoundShare(unit.share.number, found, uri)


def part_units(unit: Unit, found: Sequence[FoundShare], cores: int) -> list[PartUnit]:
    """The second tasks of a partition that is cut: each copies what survives of a stretch of its offsets.

    A task's plan holds the segments that it reads, no others.
    """
    plan, partition = _of(unit)
    survivors = tuple(each.survivors for each in found)
    return [
        PartUnit(
            unit.plan_uri, unit.topic, unit.partition, work_bytes(part), _reading(plan, partition, part),
            part=part, survivors=survivors,
        )
        for part in parts(groups_of(partition, _winners(found).counts, plan.segment_bytes), cores)
    ]  # fmt: skip


def copy_part(unit: PartUnit, budget: Budget, connections: Connections, *, folder: str) -> Copied:
    """Copy what survives of one group, or of a part of it, into new segments below ``folder``.

    Raises:
        MiscountError: not as many records were copied as the shares of the keys counted: a segment is not in order,
            or a scratch file is not whole.
    """
    plan, partition = _of(unit)
    part = unit.part
    with connections.open(partition.segments) as connection:
        load_survivors(connection, unit.survivors, first_offset=part.first_offset, last_offset=part.last_offset)
        return copy_group(connection, plan, partition, part, folder=folder, throttle=Throttle(budget.bytes_per_second))


def combined_partition(
    unit: Unit, found: Sequence[FoundShare], copied: Iterable[tuple[Group, Copied]]
) -> StagedPartition:
    """What all shares and parts of a partition amount to; ``seconds`` is the work of all its tasks.

    The same as of a partition in one piece, but that a large group may have more and smaller new segments.
    """
    _, partition = _of(unit)
    winners = _winners(found)
    in_order = sorted(copied, key=lambda each: each[0].first_offset)
    groups = [
        _one([copy for _, copy in of_group]) for _, of_group in groupby(in_order, key=lambda each: each[0].number)
    ]
    seconds = winners.seconds + sum(each.seconds for each in groups)
    return staged_partition(partition, winners, groups, seconds=seconds)


def remove_scratch(found: Iterable[FoundShare]) -> None:
    """Remove the files with survivors; one that cannot be removed now is left to the sweep."""
    for each in found:
        with contextlib.suppress(Exception):  # the partition is compacted, whatever becomes of its scratch
            storage.delete(each.survivors)


def _winners(found: Sequence[FoundShare]) -> Winners:
    return merged_winners([each.winners for each in sorted(found, key=lambda each: each.number)])


def _one(copied: Sequence[Copied]) -> Copied:
    """The parts of one group as the group."""
    return Copied(
        Rewrite(
            tuple(path for each in copied for path in each.rewrite.inputs),
            tuple(segment for each in copied for segment in each.rewrite.outputs),
        ),
        combined(each.content_fingerprint for each in copied),
        sum(each.seconds for each in copied),
    )


def _reading(plan: Plan, partition: PartitionPlan, part: Group) -> Plan:
    segments = tuple(member.segment for member in part.members)
    return replace(plan, partitions=(replace(partition, segments=segments, retired=()),))


def _of(unit: Unit) -> tuple[Plan, PartitionPlan]:
    assert unit.plan is not None
    (partition,) = unit.plan.partitions
    return unit.plan, partition
