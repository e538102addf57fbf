"""Which topic partitions are cut over several tasks, and into what. Pure.

A partition is one task's work until that leaves cores idle. One that is cut has its winners picked by several tasks,
each for a share of the keys, and its groups of segments copied by several, each from a stretch of the offsets. Every
task of the first kind decodes all keys, so a share costs more than its part: cutting pays for giants alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace

from winnow.engine.grouping import Surviving
from winnow.engine.rewrite import Group
from winnow.engine.slices import UNIT_BYTES

GIANT_BYTES = 512 << 20
"""Below it, starting further tasks and decoding keys again costs more than idle cores do."""
MOST_SHARES = 16
"""More shares of a partition's keys save no time: each decodes all of them, and that outweighs the rest by then."""
TOLERATED = 1.6
"""How many times a core's fair share the fullest core may have before partitions are cut: cut, they take about 1.5."""
PARTS_PER_CORE = 2
"""So many parts a core are copied of a partition that is cut, or fewer: a slow one leaves no core idle for long."""
PART_BYTES = 4 << 20
"""What is estimated to survive of a part, at least: no log falls to pieces because many cores cleaned it."""
COPYING = 5
"""How many times as long as passing a byte over it takes to copy one that survives."""


def shares(sizes_bytes: Sequence[int], cores: int, giant_bytes: int) -> list[int]:
    """Into how many shares the keys of each partition are cut, given the sizes of all; 1: it stays whole.

    The largest are cut when the fullest of ``cores`` would otherwise have :data:`TOLERATED` times its fair share: those
    above a fair share, else those above half of one, and so on; never one below ``giant_bytes``.
    """
    whole = [1] * len(sizes_bytes)
    if cores == 1 or max(sizes_bytes, default=0) < giant_bytes:
        return whole
    work = [UNIT_BYTES + size for size in sizes_bytes]
    fair = sum(work) / cores
    best, least = whole, _fullest(work, whole, cores)
    for part in (1, 2, 4):
        if least <= TOLERATED * fair:
            break
        cut = [
            _shares_of(each, fair, cores) if size >= giant_bytes and each >= fair / part else 1
            for size, each in zip(sizes_bytes, work, strict=True)
        ]
        full = _fullest(work, cut, cores)
        if full < least:
            best, least = cut, full
    return best


def _shares_of(work: int, fair: float, cores: int) -> int:
    return max(2, min(cores, MOST_SHARES, -int(-2 * work // fair)))


def _fullest(work: Sequence[int], cut: Sequence[int], cores: int) -> float:
    """The load of the fullest core, when the largest pieces go first to the emptiest."""
    pieces = [each / number for each, number in zip(work, cut, strict=True) for _ in range(number)]
    loads = [0.0] * cores
    for piece in sorted(pieces, reverse=True):
        heapq.heapreplace(loads, loads[0] + piece)
    return max(loads)


def parts(groups: Sequence[Group], cores: int) -> list[Group]:
    """``groups`` of one partition, large ones cut between their segments, in offset order.

    Parts of a group keep its number. Each is about as much work as the others, at most :data:`PARTS_PER_CORE` for each
    of ``cores`` and one more for each group, and is estimated to leave :data:`PART_BYTES` or more, or is a whole group.
    """
    work = sum(map(work_bytes, groups)) / (cores * PARTS_PER_CORE)
    return [part for group in groups for part in _parts_of(group, work)]


def work_bytes(group: Group) -> int:
    """How long copying ``group`` takes, as bytes that are read; a segment of which nothing survives is not read."""
    return sum(_work_bytes(member) for member in group.members)


def _work_bytes(member: Surviving) -> int:
    return member.segment.size_bytes + COPYING * member.size_bytes if member.records else 0


def _parts_of(group: Group, part_work: float) -> Iterator[Group]:
    """Cut where a part has become large enough, unless what is left would be too small for one of its own."""
    start = work = kept_bytes = 0
    left_bytes = sum(member.size_bytes for member in group.members)
    for number, member in enumerate(group.members, 1):
        work += _work_bytes(member)
        kept_bytes += member.size_bytes
        if work >= part_work and kept_bytes >= PART_BYTES and left_bytes - kept_bytes >= PART_BYTES:
            yield replace(group, members=group.members[start:number])
            left_bytes -= kept_bytes
            start, work, kept_bytes = number, 0, 0
    yield replace(group, members=group.members[start:])
