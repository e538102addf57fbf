"""Which partitions are split over several tasks, into how many shares of keys, and how their groups are divided."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.engine.read_ranges import SegmentSurvivors
from winnow.engine.rewrite import SegmentGroup
from winnow.engine.task_planning import (
    MAXIMUM_KEY_SHARES,
    MAXIMUM_PARTS_PER_CORE,
    MINIMUM_PART_BYTES,
    UNIT_OVERHEAD_BYTES,
    ShareUnit,
    WorkUnit,
    build_share_units,
    count_key_shares,
    pack_units,
    split_groups,
)
from winnow.values.model import Segment

MIB = 1 << 20


def fullest(sizes: Sequence[int], cut: Sequence[int], cores: int) -> float:
    """Bytes of the fullest core."""
    loads = [0.0] * cores
    for piece in sorted(
        ((UNIT_OVERHEAD_BYTES + s) / n for s, n in zip(sizes, cut, strict=True) for _ in range(n)), reverse=True
    ):
        heapq.heapreplace(loads, loads[0] + piece)
    return max(loads)


def group_of(number: int, first: int, sizes_bytes: Sequence[int], kept: int = 10) -> SegmentGroup:
    """Segments of ten records each, of which ``kept`` survive."""
    members = [
        SegmentSurvivors(
            Segment(f"s{first + n}", 0, 10 * (first + n), 10 * (first + n) + 9, 10, size, None, None, 0), kept
        )
        for n, size in enumerate(sizes_bytes)
    ]
    return SegmentGroup(number, tuple(members))


def test_one_giant_among_small_partitions_is_cut_for_every_core() -> None:
    """Alone it would keep one core at work long after the others are done."""
    assert count_key_shares([1_000 * MIB, *[MIB] * 10], 2, MIB) == [2, *[1] * 10]
    assert count_key_shares([1_000 * MIB, *[MIB] * 10], 8, 2 * MIB) == [8, *[1] * 10]


def test_partitions_that_fill_all_cores_evenly_are_not_cut() -> None:
    """Every share decodes all keys, so nothing is cut that does not have to be."""
    assert count_key_shares([1_000 * MIB] * 4, 2, MIB) == [1] * 4
    assert count_key_shares([450 * MIB, *[MIB] * 550], 2, MIB) == [1] * 551


def test_many_small_partitions_count_for_more_than_their_bytes() -> None:
    """200 of 1 MiB keep the other core busy for as long as a giant of 1,000 MiB takes."""
    assert count_key_shares([1_000 * MIB, *[MIB] * 200], 2, MIB) == [1] * 201


def test_imbalance_that_costs_less_than_cutting_is_left() -> None:
    """Three equal partitions on two cores: cut, they would decode their keys twice for nothing; two on four are cut."""
    assert count_key_shares([1_000 * MIB] * 3, 2, MIB) == [1, 1, 1]
    assert count_key_shares([1_000 * MIB] * 2, 4, MIB) == [4, 4]


def test_partitions_below_a_fair_share_are_cut_where_they_fill_one_core_twice() -> None:
    """Nine equal ones on eight cores: one core would do two of them, the others one."""
    assert count_key_shares([1_000 * MIB] * 9, 8, MIB) == [2] * 9


@pytest.mark.parametrize(("cores", "giant_bytes"), [(1, 1), (8, 1_000 * MIB + 1)])
def test_nothing_is_cut_for_one_core_or_below_the_size_of_a_giant(cores: int, giant_bytes: int) -> None:
    assert count_key_shares([1_000 * MIB, 10], cores, giant_bytes) == [1, 1]


def test_keys_are_cut_into_no_more_shares_than_pay_however_many_cores_there_are() -> None:
    assert count_key_shares([10_000 * MIB], 1_000, MIB) == [MAXIMUM_KEY_SHARES]
    assert count_key_shares([], 4, 1) == []
    assert count_key_shares([0, 0], 4, 1) == [1, 1]


@given(st.lists(st.integers(0, 1 << 40), max_size=40), st.integers(1, 16), st.integers(1, 1 << 38))
def test_cutting_never_fills_one_core_more_and_cuts_giants_alone(
    sizes: list[int], cores: int, giant_bytes: int
) -> None:
    cut = count_key_shares(sizes, cores, giant_bytes)
    assert len(cut) == len(sizes)
    assert all(
        number == 1 or (size >= giant_bytes and number <= cores) for size, number in zip(sizes, cut, strict=True)
    )
    before, after = fullest(sizes, [1] * len(sizes), cores), fullest(sizes, cut, cores)
    assert after <= before


def test_shares_of_a_giant_start_before_small_partitions_and_each_in_a_task_of_its_own() -> None:
    """Longest first: the second wave can begin no sooner than the last share has ended."""
    giant, small = WorkUnit("u", "t", 0, 1_000 * MIB), [WorkUnit("u", "t", n, MIB) for n in range(1, 61)]
    tasks = pack_units([*small, *build_share_units(giant, 2)], cores=2)
    assert [len(task) for task in tasks[:2]] == [1, 1]
    assert all(isinstance(task[0], ShareUnit) for task in tasks[:2])
    assert {unit.share.number for task in tasks[:2] for unit in task if isinstance(unit, ShareUnit)} == {0, 1}


def test_parts_of_a_large_group_are_even_ranges_of_its_segments() -> None:
    """One group of 24 segments: as many parts as two cores are given, none smaller than the others by more than one."""
    found = split_groups([group_of(0, 0, [100 * MIB] * 24)], 2)
    assert [len(part.members) for part in found] == [24 // (2 * MAXIMUM_PARTS_PER_CORE)] * (2 * MAXIMUM_PARTS_PER_CORE)
    assert {part.number for part in found} == {0}


def test_parts_are_even_by_what_is_read_and_what_is_copied() -> None:
    """Of eight old segments nearly nothing survives; the newest, all of which does, takes as several of them."""
    old, new = group_of(0, 0, [100 * MIB] * 8, kept=1).members, group_of(0, 8, [100 * MIB] * 2).members
    assert [len(part.members) for part in split_groups([SegmentGroup(0, old + new)], 1)] == [8, 2]


def test_group_of_which_little_survives_is_not_cut_into_small_segments() -> None:
    """A tenth of 1,600 MiB makes parts of 40 MiB; a tenth of 60 MiB makes no part worth a file."""
    tenth = group_of(0, 0, [100 * MIB] * 16, kept=1)
    assert [len(part.members) for part in split_groups([tenth], 2)] == [4, 4, 4, 4]
    little = group_of(0, 0, [10 * MIB] * 6, kept=1)
    assert split_groups([little], 2) == [little]


@given(
    st.lists(st.lists(st.integers(0, 200 * MIB), min_size=1, max_size=12), max_size=6),
    st.integers(1, 64),
    st.integers(0, 10),
)
def test_parts_cover_every_segment_once_in_order_and_keep_to_their_group(
    sizes: list[list[int]], cores: int, kept: int
) -> None:
    groups = []
    for number, of_group in enumerate(sizes):
        groups.append(group_of(number, sum(map(len, sizes[:number])), of_group, kept))
    found = split_groups(groups, cores)
    for group in groups:
        mine = [part for part in found if part.number == group.number]
        assert tuple(member for part in mine for member in part.members) == group.members
        if len(mine) > 1:
            assert all(sum(member.size_bytes for member in part.members) >= MINIMUM_PART_BYTES for part in mine)
    assert [part.first_offset for part in found] == sorted(part.first_offset for part in found)
    assert len(found) <= len(groups) + cores * MAXIMUM_PARTS_PER_CORE
