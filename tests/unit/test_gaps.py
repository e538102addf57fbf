"""Gaps between records: found, cut into ranges of one answer each, and never told better than the history is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from winnow.pipeline.explain.gaps import MAXIMUM_RANGES, NOT_KNOWN, KnownHistory, explain_gap, find_gaps
from winnow.pipeline.explain.removals import PartitionHistory, RemovalRun, decide_absence
from winnow.values.topic_state import Append

END = 60
offsets = st.integers(0, END)


def make_run(number: int, end: int, counts: tuple[int, int, int, int], log_start: int = 0) -> RemovalRun:
    """A run that read records below ``end``."""
    superseded, expired, keyless, retired = counts
    return RemovalRun(
        f"plan-{number}", number, number, number, 0, end, 9, superseded, expired, keyless, retired, log_start
    )


@st.composite
def histories(draw: st.DrawFn) -> PartitionHistory:
    """Calls with gaps within and between them, runs with any counts, erasures, a log start."""
    bounds = sorted(draw(st.lists(offsets, max_size=8, unique=True)))
    slices = [
        Append("d", first, behind - 1, draw(st.integers(1, behind - first)), 0)
        for first, behind in zip(bounds[::2], bounds[1::2], strict=False)
    ]
    counts = st.tuples(*[st.integers(0, 1)] * 4)
    runs = [make_run(number, draw(offsets), draw(counts), draw(offsets)) for number in range(draw(st.integers(0, 5)))]
    erasures = [(f"erasure-{number}", draw(offsets)) for number in range(draw(st.integers(0, 2)))]
    return PartitionHistory(draw(offsets), END, tuple(slices), tuple(runs), tuple(erasures))


def know(history: PartitionHistory, first: int = 0, end: int = END, *, has_all_runs: bool = True) -> KnownHistory:
    """What was read of ``history``."""
    return KnownHistory(history, first, end, has_all_runs, False)


@given(st.sets(offsets), offsets, offsets)
def test_gaps_are_what_records_leave_out(there: set[int], start: int, end: int) -> None:
    """Every offset of the span is a record or in one gap, and gaps do not touch."""
    gaps = find_gaps(sorted(offset for offset in there if start <= offset < end), start, end)
    missing = [offset for first, last in gaps for offset in range(first, last + 1)]
    assert missing == [offset for offset in range(start, end) if offset not in there]
    assert all(first <= last for first, last in gaps)
    assert all(gaps[index][1] + 1 < gaps[index + 1][0] for index in range(len(gaps) - 1))


@given(histories(), offsets, offsets)
def test_a_range_says_of_each_of_its_offsets_what_holds_for_it(history: PartitionHistory, one: int, two: int) -> None:
    """Ranges cover the gap; neighbours differ, and none names a run that cannot have removed its records."""
    first, last = sorted((one, two))
    ranges = explain_gap(know(history), first, min(last, END - 1)) if first < END else []
    told = [(offset, part) for part in ranges for offset in range(part.first_offset, part.last_offset + 1)]
    assert [offset for offset, _ in told] == list(range(first, min(last, END - 1) + 1)) or first == END
    for offset, part in told:
        why = decide_absence(history, offset)
        assert (part.verdict, part.causes) == (why.verdict.value, tuple(cause.value for cause in why.causes))
        assert part.erasures == why.erasures
        if len(ranges) <= MAXIMUM_RANGES:
            ends = [run.plan_id for run in (*why.runs[:1], *why.runs[-1:])]
            assert [run.plan_id for run in part.runs] == list(dict.fromkeys(ends))
        assert part.runs_total >= len(why.runs)


@given(histories(), offsets, offsets, st.booleans())
def test_what_was_not_read_is_not_known(history: PartitionHistory, one: int, two: int, has_all_runs: bool) -> None:
    """Never an answer that a longer history could refute: only what no call brought is told without all runs."""
    low, high = sorted((one, two))
    for part in explain_gap(know(history, low, high, has_all_runs=has_all_runs), 0, END - 1):
        for offset in range(part.first_offset, part.last_offset + 1):
            is_outside = not low <= offset < high
            brought = any(each.first_offset <= offset <= each.last_offset for each in history.slices)
            assert (part.verdict == NOT_KNOWN) == (is_outside or (brought and not has_all_runs))


def test_a_gap_of_many_runs_is_told_in_few_rows_with_the_first_and_the_last() -> None:
    """Each run covered one offset more: one row for all, since each lost its record in one of them."""
    runs = tuple(make_run(number, number, (1, 0, 0, 0)) for number in range(1, 40))
    history = PartitionHistory(0, END, (Append("d", 0, END - 1, END, 0),), runs, ())
    (gone, never) = explain_gap(know(history), 0, END - 1)
    assert (gone.first_offset, gone.last_offset, gone.verdict, gone.runs_total) == (0, 38, "superseded", 39)
    assert [run.plan_id for run in gone.runs] == ["plan-1", "plan-39"]
    assert (never.verdict, never.runs_total) == ("never_ingested", 0)
