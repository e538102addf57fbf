"""Which topic partitions are cut over several tasks, and into what. Pure.

A partition is one task's work until that leaves cores idle. One that is cut has its winners picked by several tasks,
each for a share of the keys, and its groups of segments copied by several, each from a stretch of the offsets. Every
task of the first kind decodes all keys, so a share costs more than its part: cutting pays for giants alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace

from winnow.engine.grouping import SegmentSurvivors
from winnow.engine.rewrite import SegmentGroup
from winnow.engine.slices import UNIT_OVERHEAD_BYTES

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
