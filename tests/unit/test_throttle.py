"""The throttle: never more bytes than the rate allows, no burst after a pause, and no wait without a rate."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.engine.task_planning import WorkUnit, pack_units, plan_tasks
from winnow.engine.task_resources import MAXIMUM_BURST_SECONDS, TaskBudget, Throttle, ThrottleMeter


class Clock:
    """A clock that only sleeping and working move."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.slept.append(seconds)
        self.seconds += seconds

    def work(self, seconds: float) -> None:
        """Time goes by without sleep."""
        self.seconds += seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.seconds - 100.0


def test_bytes_are_paid_for_before_they_move() -> None:
    """At 100 bytes a second, 250 bytes take two and a half seconds, and 50 more half of one."""
    clock = Clock()
    throttle = Throttle(100, clock, clock.sleep)
    throttle.take(250)
    throttle.take(50)
    assert clock.slept == [2.5, 0.5]


def test_time_spent_working_counts() -> None:
    """Who worked for as long as the bytes need does not wait at all."""
    clock = Clock()
    throttle = Throttle(100, clock, clock.sleep)
    clock.work(0.4)
    throttle.take(100)
    assert clock.slept == [pytest.approx(0.6)]
    clock.work(0.5)
    throttle.take(50)
    assert len(clock.slept) == 1


def test_long_pause_earns_one_second_and_no_more() -> None:
    """An hour of computing is not followed by an hour's worth of bytes at once."""
    clock = Clock()
    throttle = Throttle(100, clock, clock.sleep)
    clock.work(3600)
    throttle.take(300)
    assert clock.slept == [pytest.approx(300 / 100 - MAXIMUM_BURST_SECONDS)]


def test_without_a_rate_nothing_waits() -> None:
    """It is off by default."""
    clock = Clock()
    throttle = Throttle(None, clock, clock.sleep)
    throttle.take(2**60)
    assert clock.slept == []


@given(
    st.floats(1, 1e9),
    st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 100)), max_size=30),
)
def test_average_is_never_above_the_rate(rate: float, steps: Sequence[tuple[int, float]]) -> None:
    """Whenever a take returns, no more was taken since the start than the rate allows, whatever work lies between."""
    clock = Clock()
    throttle = Throttle(rate, clock, clock.sleep)
    taken = 0
    for size_bytes, work_seconds in steps:
        throttle.take(size_bytes)
        taken += size_bytes
        assert taken <= rate * clock.elapsed * (1 + 1e-9) + rate * 1e-6
        clock.work(work_seconds)


def test_meter_spreads_bytes_over_records_and_settles_the_rest() -> None:
    """Half of the records carry half of the announced bytes; what was more in the end is taken last."""
    clock = Clock()
    meter = ThrottleMeter(Throttle(100, clock, clock.sleep), 200, 4)
    meter.throttle(2)
    assert clock.elapsed == pytest.approx(1.0)
    meter.throttle(2)
    assert clock.elapsed == pytest.approx(2.0)
    meter.finish(350)
    assert clock.elapsed == pytest.approx(3.5)


def test_meter_does_not_give_back_what_was_announced_too_high() -> None:
    """Fewer bytes than announced cost what was announced."""
    clock = Clock()
    meter = ThrottleMeter(Throttle(100, clock, clock.sleep), 200, 2)
    meter.throttle(2)
    meter.finish(100)
    assert clock.elapsed == pytest.approx(2.0)


def test_meter_of_nothing_takes_what_there_was_in_the_end() -> None:
    """No records are no division by zero."""
    clock = Clock()
    ThrottleMeter(Throttle(100, clock, clock.sleep), 0, 0).finish(100)
    assert clock.elapsed == pytest.approx(1.0)


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (3, 3), (100, 10), (None, 8)])
def test_units_are_packed_into_no_more_tasks_than_allowed(most: int | None, expected: int) -> None:
    """log.cleaner.threads: so many partitions at once at most, whatever the number of cores; none is left out."""
    units = [WorkUnit("u", "t", number, 10) for number in range(10)]
    tasks = pack_units(units, 2, most)
    assert len(tasks) == expected
    assert sorted(unit.partition for task in tasks for unit in task) == list(range(10))


@pytest.mark.parametrize(("most", "tasks"), [(None, 2), (1, 1), (5, 2)])
def test_rate_is_divided_among_tasks_that_are_no_more_than_cores(most: int | None, tasks: int) -> None:
    """All shares together are the rate of the application, for compactions and comparisons alike."""
    units = [WorkUnit("u", "t", number, 10) for number in range(10)]
    packed, share = plan_tasks(units, 2, TaskBudget(1, 1, "spill", 100.0), most)
    assert (len(packed), share) == (tasks, TaskBudget(1, 1, "spill", 100.0 / tasks))


def test_without_a_rate_every_task_has_the_whole_budget() -> None:
    """Then cores do not bound the number of tasks either."""
    budget = TaskBudget(1, 1, "spill")
    packed, share = plan_tasks([WorkUnit("u", "t", number, 10) for number in range(10)], 2, budget, None)
    assert (len(packed), share) == (8, budget)
