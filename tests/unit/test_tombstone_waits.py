"""Tombstones that superseded a record wait for late ones anew: where they lie, and what becomes of the history."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.surviving_records import find_history_entry
from tests.support.random_logs import HEADER, Row, build_records, version_headers, write_segment_file
from tests.unit.staging_builder import MEMORY_LIMIT_BYTES
from winnow.engine.rewrite import compact_partition
from winnow.engine.survivors import MAXIMUM_EXTENDED_RANGES, join_nearest_ranges
from winnow.engine.task_resources import TaskBudget
from winnow.pipeline.compaction.partition_states import MAXIMUM_HISTORY_ENTRIES, apply_cleaning
from winnow.quality.recomputation import IndependentFacts, recompute_facts
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Reason, Record, Segment
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Cleaning, PartitionState

_rows = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([b"", b"a", b"b", b"c"]),
        st.none() | st.just(b"x"),
        st.none() | st.integers(0, 3),
        version_headers,
    ),
    min_size=1,
    max_size=20,
)


# Where they lie


@given(starts=st.sets(st.integers(0, 200), max_size=40), most=st.integers(1, 12))
def test_few_ranges_hold_all_that_they_are_made_of_and_join_the_smallest_gaps(starts: set[int], most: int) -> None:
    """None of the gaps that are left is smaller than one that was closed."""
    given_ranges = [OffsetRange(start, start + 1) for start in sorted(starts)]
    found = join_nearest_ranges(given_ranges, most)
    assert len(found) <= most
    assert all(any(start in each for each in found) for start in starts)
    assert {each.start for each in found} | {each.end - 1 for each in found} <= starts
    left = [after.start - before.end for before, after in itertools.pairwise(found)]
    closed = [
        after - before - 1
        for before, after in itertools.pairwise(sorted(starts))
        if any(before in each and after in each for each in found)
    ]
    assert not left or not closed or min(left) >= max(closed)
    assert len(found) == most or not any(closed)


def _plan(folder: str, inputs: list[list[Record]], strategy: Strategy, covered_end: int, expired_below: int) -> Plan:
    segments = tuple(write_segment_file(folder, number, records) for number, records in enumerate(inputs))
    end = segments[-1].last_offset + 1
    expired = (OffsetRange(0, expired_below),) if expired_below else ()
    partition = PartitionPlan(0, Reason.DIRTY_RATIO, 0, 0, end, end, segments, expired, covered_end=covered_end)
    header = HEADER if strategy is Strategy.HEADER else None
    return Plan("plan", "t", "u", f"{folder}/data", 0, strategy, header, 0, 1 << 30, (partition,), "1")


def test_more_of_them_than_the_history_can_name_are_held_by_ranges_with_the_widest_gaps_between(
    tmp_path: Path,
) -> None:
    """Every second offset, with a hole in the middle: the hole stays open, and nothing is left out."""
    count = 3 * MAXIMUM_EXTENDED_RANGES
    offsets = [2 * number + (1_000 if number >= count // 2 else 0) for number in range(count)]
    clean = [Record(offset, b"%d" % offset, None, 9) for offset in offsets]
    late = [Record(9_000 + number, b"%d" % offset, b"x", 1) for number, offset in enumerate(offsets)]
    plan = _plan(str(tmp_path), [clean, late], Strategy.TIMESTAMP, 9_000, 0)
    budget = TaskBudget(1 << 28, 1, str(tmp_path / "spill"))
    extended = compact_partition(plan, plan.partitions[0], attempt="a", budget=budget).facts.extended
    assert len(extended) == MAXIMUM_EXTENDED_RANGES
    assert all(any(offset in each for each in extended) for offset in offsets)
    assert not any(count + 500 in each for each in extended)


# What becomes of the history


TOMBSTONES = Segment("s", 0, 0, 9_999, 10, 10, None, None, 10)


def _after(
    history: tuple[Cleaning, ...], extended: tuple[OffsetRange, ...], *, end: int, now_ms: int, expired_below: int = 0
) -> tuple[Cleaning, ...]:
    expired = (OffsetRange(0, expired_below),) if expired_below else ()
    partition = PartitionPlan(0, Reason.DIRTY_RATIO, 0, 0, end, end, (TOMBSTONES,), expired)
    plan = Plan("p", "t", "u", "d", now_ms, Strategy.TIMESTAMP, None, 5, 1, (partition,), "1")
    state = PartitionState(log_end_offset=end, first_dirty_offset=0, history=history)
    return apply_cleaning(state, partition, plan, [TOMBSTONES], cleaning_time_ms=now_ms, extended=extended).history


def test_a_range_that_waits_anew_gets_this_runs_time_and_keeps_its_delete_horizon() -> None:
    """Across two entries; what this run covers for the first time begins now anyhow."""
    history = (Cleaning(4, 10, 15), Cleaning(9, 20, 25))
    assert _after(history, (OffsetRange(3, 6), OffsetRange(8, 11)), end=12, now_ms=100) == (
        Cleaning(3, 10, 15),
        Cleaning(4, 100, 15),
        Cleaning(6, 100, 25),
        Cleaning(8, 20, 25),
        Cleaning(9, 100, 25),
        Cleaning(12, 100, 105),
    )


def test_entries_whose_tombstones_all_went_leave_the_history_behind_one_that_stays() -> None:
    """The next entry takes over their offsets, where no tombstone is left; the last one is never dropped."""
    history = (Cleaning(2, 10, 15), Cleaning(4, 20, 25), Cleaning(6, 30, 35), Cleaning(8, 95, 100))
    assert _after(history, (OffsetRange(1, 2),), end=8, now_ms=100, expired_below=6) == (
        Cleaning(1, 10, 15),
        Cleaning(2, 100, 15),
        Cleaning(8, 95, 100),
    )


@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=12),
    offsets=st.sets(st.integers(0, 4_000), min_size=1, max_size=30),
    most=st.integers(2, 10),
)
def test_a_history_that_is_cut_short_never_ends_a_life_earlier(times: list[int], offsets: set[int], most: int) -> None:
    """Whatever is joined: each offset waits at least as long as it would in the whole history."""
    ends = [400 * (number + 1) for number in range(len(times))]
    history = tuple(Cleaning(end, time_ms, time_ms + 5) for end, time_ms in zip(ends, times, strict=True))
    ranges = tuple(OffsetRange(offset, offset + 1) for offset in sorted(offsets))
    whole = _after(history, ranges, end=ends[-1] + 1, now_ms=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("winnow.pipeline.compaction.partition_states.MAXIMUM_HISTORY_ENTRIES", most)
        short = _after(history, ranges, end=ends[-1] + 1, now_ms=60)
    assert len(short) <= most
    assert short[-1].end_offset == whole[-1].end_offset
    for offset in range(0, ends[-1] + 1, 7):
        mine, full = find_history_entry(offset, short), find_history_entry(offset, whole)
        assert mine is not None
        assert full is not None
        assert (mine.cleaning_time_ms or 0) >= (full.cleaning_time_ms or 0)
        assert (mine.delete_horizon_ms or 0) >= (full.delete_horizon_ms or 0)


def test_a_history_stays_short_although_other_tombstones_wait_anew_in_every_run() -> None:
    """The most a run can name, at other offsets each time, in many runs within one wait."""
    history: tuple[Cleaning, ...] = ()
    for run in range(60):
        ranges = tuple(OffsetRange(at, at + 1) for at in range(run % 7, 9_000, 9_000 // MAXIMUM_EXTENDED_RANGES))[
            :MAXIMUM_EXTENDED_RANGES
        ]
        history = _after(history, ranges if run else (), end=9_000 + run, now_ms=run)
        assert len(history) <= MAXIMUM_HISTORY_ENTRIES


# What validation says


def _recompute(plan: Plan, partition: PartitionPlan, staged: object, folder: str, memory: int) -> IndependentFacts:
    return recompute_facts(
        plan,
        partition,
        staged,  # type: ignore[arg-type]
        attempt="a",
        memory_limit_bytes=memory,
        threads=1,
        spill_folder=f"{folder}/spill",
    )


@given(
    rows=_rows,
    cuts=st.sets(st.integers(1, 19), max_size=3),
    strategy=st.sampled_from([Strategy.TIMESTAMP, Strategy.HEADER]),
    expired_below=st.integers(0, 30),
    covered_end=st.integers(1, 60),
    memory=st.sampled_from([MEMORY_LIMIT_BYTES, 1]),
)
@settings(max_examples=max(15, settings().max_examples // 10))
def test_validation_finds_the_same_tombstones_and_misses_none_that_is_left_out(
    rows: list[Row], cuts: set[int], strategy: Strategy, expired_below: int, covered_end: int, memory: int
) -> None:
    """Looked up or grouped; each that the engine named is missed where it does not name it, and so is one too many."""
    records = build_records(rows)
    edges = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    with tempfile.TemporaryDirectory() as folder:
        inputs = [records[start:stop] for start, stop in itertools.pairwise(edges)]
        plan = _plan(folder, inputs, strategy, max(covered_end, expired_below), expired_below)
        (partition,) = plan.partitions
        staged = compact_partition(plan, partition, attempt="a", budget=TaskBudget(1 << 28, 1, f"{folder}/spill"))
        facts = _recompute(plan, partition, staged, folder, memory)
        assert (facts.wrong_extensions, facts.duplicate_keys, facts.stale_winners) == (0, 0, 0)
        assert facts.most_tombstones_expired == staged.facts.tombstones_expired == facts.keys_in - facts.keys_kept
        for ranges in ((), (*staged.facts.extended, OffsetRange(70, 71))):
            if ranges != staged.facts.extended:
                other = replace(staged, facts=replace(staged.facts, extended=ranges))
                assert _recompute(plan, partition, other, folder, memory).wrong_extensions > 0


def test_a_tombstone_that_went_with_the_record_that_it_superseded_fails(tmp_path: Path) -> None:
    """An engine that knows the horizon only: the counts add up, and an older record could come back."""
    late = [[Record(0, b"k", None, 9), Record(1, b"stays", b"v", 1)], [Record(2, b"k", b"late", 1)]]
    with_rule = _plan(str(tmp_path), late, Strategy.TIMESTAMP, 2, 2)
    without = _plan(str(tmp_path), late, Strategy.TIMESTAMP, 0, 2)
    budget = TaskBudget(1 << 28, 1, str(tmp_path / "spill"))
    staged = compact_partition(without, without.partitions[0], attempt="a", budget=budget)
    assert staged.facts.tombstones_expired == 1
    for memory in (MEMORY_LIMIT_BYTES, 1):
        facts = _recompute(with_rule, with_rule.partitions[0], staged, str(tmp_path), memory)
        assert (facts.keys_in - facts.keys_kept, facts.most_tombstones_expired) == (1, 0)
