"""The estimate that moves a bar between two reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.cli.progress import format_figures
from winnow.cli.work_pace import ASSUMED_BYTES_PER_SECOND, Estimate, WorkPace

MIB = 1 << 20


def make_pace(total_mib: int = 100, expected_mib: float | None = 10, records: int | None = 1_000) -> WorkPace:
    pace = WorkPace(None if expected_mib is None else expected_mib * MIB)
    pace.start(total_mib * MIB, records, 0.0)
    return pace


def test_time_left_is_there_from_the_first_moment() -> None:
    found = make_pace().estimate(0.0)
    assert found is not None
    assert (found.done_bytes, found.seconds_left, found.records_per_second) == (0, 10.0, 100.0)


def test_it_moves_although_nothing_was_reported() -> None:
    pace = make_pace()
    seen = [pace.estimate(second) for second in (1.0, 2.0, 3.0)]
    assert [found.done_bytes // MIB for found in seen if found] == [10, 20, 30]


def test_a_report_corrects_it() -> None:
    """Twice as slow as expected: the rest takes longer than was thought."""
    pace = make_pace()
    pace.report(50 * MIB, 10.0)
    found = pace.estimate(10.0)
    assert found is not None
    assert found.done_bytes == 50 * MIB
    assert 50 / 10 < found.seconds_left < 50 / 5


def test_work_that_takes_longer_than_expected_is_never_called_done() -> None:
    pace = make_pace()
    found = pace.estimate(1_000.0)
    assert found is not None
    assert found.done_bytes < 100 * MIB
    assert found.seconds_left > 10
    assert found.records_per_second is not None
    assert found.records_per_second < 1


def test_without_a_measured_run_a_usual_pace_is_assumed() -> None:
    found = make_pace(expected_mib=None, records=None).estimate(0.0)
    assert found is not None
    assert found.bytes_per_second == ASSUMED_BYTES_PER_SECOND
    assert found.records_per_second is None


def test_records_counted_on_the_way_are_the_pace_and_do_not_slow_the_estimate() -> None:
    """The records of a file are counted while it is read; its bytes are reported at its end."""
    counted, silent = make_pace(records=None), make_pace(records=None)
    for second in (1.0, 2.0, 3.0):
        counted.report(0, second, int(second) * 5_000)
    found, expected = counted.estimate(3.0), silent.estimate(3.0)
    assert found is not None
    assert expected is not None
    assert (found.records_per_second, found.done_bytes) == (5_000, expected.done_bytes)
    assert expected.records_per_second is None
    counted.report(60 * MIB, 4.0, 20_000)
    later = counted.estimate(4.0)
    assert later is not None
    assert (later.done_bytes, later.records_per_second) == (60 * MIB, 5_000)


def test_figures_have_bytes_and_records_per_second_where_they_are_known() -> None:
    """Of a Kafka topic there are records only."""
    assert format_figures(Estimate(30 * MIB, 10 * MIB, None, 7), 100 * MIB) == (
        "30.0 MiB of 100.0 MiB, 10.0 MiB/s, about 0:00:07 left"
    )
    assert format_figures(Estimate(30 * MIB, 10 * MIB, 250_000, 7), 100 * MIB) == (
        "30.0 MiB of 100.0 MiB, 250,000 records/s, about 0:00:07 left"
    )
    assert format_figures(Estimate(1_000, 500, 480, 2), 2_000, counts_records=True) == (
        "1,000 of 2,000 records, 500 records/s, about 0:00:02 left"
    )


@pytest.mark.parametrize("total", [0, None])
def test_work_of_unknown_size_is_not_estimated(total: int | None) -> None:
    pace = WorkPace()
    assert pace.estimate(0.0) is None
    pace.start(total or 0, None, 0.0)
    assert pace.estimate(1.0) is None


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 30 * MIB)), max_size=8),
    st.floats(0.001, 10_000),
)
def test_it_is_never_behind_its_reports_nor_done_before_them(
    steps: list[tuple[float, int]], expected_mib: float
) -> None:
    pace = make_pace(expected_mib=expected_mib)
    now_s, done, seen = 0.0, 0, 0
    for wait_s, more in steps:
        now_s, done = now_s + wait_s, min(done + more, 100 * MIB)
        pace.report(done, now_s)
        found = pace.estimate(now_s + 1)
        assert found is not None
        assert done <= found.done_bytes <= 100 * MIB
        assert found.done_bytes < 100 * MIB or done == 100 * MIB
        assert found.seconds_left >= 0
        seen = found.done_bytes
    assert seen <= 100 * MIB
