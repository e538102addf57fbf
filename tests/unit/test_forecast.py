"""Which partitions will miss their deadline at the present pace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.config.settings import load_settings
from winnow.pipeline.monitor.metrics import estimate_parallelism
from winnow.report.forecast import Outlook, PendingPartition, forecast_deadlines, measure_pace
from winnow.values.model import Status
from winnow.values.results import PartitionReceipt, Receipt

NOW_MS = 1_000_000


def work(partition: int, in_seconds: float, size_bytes: int, *, blocked: bool = False) -> PendingPartition:
    return PendingPartition("orders", partition, NOW_MS + round(1000 * in_seconds), size_bytes, blocked)


def outlooks(
    *items: PendingPartition, bytes_per_second: float | None = 100.0, tasks: int = 1
) -> dict[int, tuple[str, float | None]]:
    found = forecast_deadlines(items, bytes_per_second=bytes_per_second, parallelism=tasks, as_of_ms=NOW_MS)
    return {
        p.partition: (p.outlook.value, None if p.done_at_ms is None else (p.done_at_ms - NOW_MS) / 1000) for p in found
    }


def test_work_is_done_in_the_order_of_deadlines_at_the_pace_of_one_task() -> None:
    """10 s each: the second one's deadline passes after 15 s, the third one's is far."""
    found = outlooks(work(2, 100, 1000), work(0, 12, 1000), work(1, 15, 1000))
    assert found == {0: ("in_time", 10.0), 1: ("late", 20.0), 2: ("in_time", 30.0)}


def test_a_second_task_makes_the_deadline() -> None:
    """The same work, two at a time."""
    found = outlooks(work(2, 100, 1000), work(0, 12, 1000), work(1, 15, 1000), tasks=2)
    assert found == {0: ("in_time", 10.0), 1: ("in_time", 10.0), 2: ("in_time", 20.0)}


def test_done_exactly_at_its_deadline_is_in_time() -> None:
    """One millisecond later is late."""
    assert outlooks(work(0, 10, 1000))[0][0] == "in_time"
    assert outlooks(work(0, 9.999, 1000))[0][0] == "late"


def test_overdue_partitions_go_first_and_the_most_overdue_before_the_others() -> None:
    """Their work delays the rest, whatever the order in which they are given."""
    found = outlooks(work(0, 15, 3000), work(1, -1, 2000), work(2, -9, 1000))
    assert found == {2: ("overdue", 10.0), 1: ("overdue", 30.0), 0: ("late", 60.0)}
    assert list(found) == [2, 1, 0]


def test_blocked_partitions_are_not_worked_on_and_take_no_time() -> None:
    """Paused or uncleanable: the others gain by it, its own deadline passes."""
    found = outlooks(work(0, 5, 1000, blocked=True), work(1, 10, 1000), work(2, -1, 1000, blocked=True))
    assert found == {0: ("blocked", None), 1: ("in_time", 10.0), 2: ("overdue", None)}


def test_without_a_pace_only_what_has_passed_is_known() -> None:
    """No guess."""
    found = outlooks(work(0, 5, 1), work(1, -5, 1), bytes_per_second=None)
    assert found == {0: ("unknown", None), 1: ("overdue", None)}


def test_pace_is_bytes_read_per_second_of_task_time_over_all_runs() -> None:
    """Parts without a time, and runs that published nothing, tell none."""

    def run(status: Status, *parts: tuple[int, float]) -> Receipt:
        made = tuple(
            PartitionReceipt(
                partition=0,
                first_dirty_offset=0,
                next_first_dirty_offset=0,
                records_in=0,
                records_kept=0,
                records_superseded=0,
                tombstones_expired=0,
                records_keyless=0,
                records_retired=0,
                bytes_in=b,
                bytes_out=0,
                seconds=s,
            )
            for b, s in parts
        )
        return Receipt("t", "p", status, 1, made, "", 0, 0)

    timed = run(Status.PUBLISHED, (1000, 1.0), (2000, 5.0), (777, 0.0))
    assert measure_pace([timed, run(Status.INVALID, (9999, 0.1)), run(Status.PUBLISHED, (600, 3.0))]) == 400.0
    assert measure_pace([run(Status.PUBLISHED, (777, 0.0))]) is None
    assert measure_pace([]) is None


@given(
    items=st.lists(st.tuples(st.integers(-5, 50), st.integers(0, 5000), st.booleans()), max_size=12),
    tasks=st.integers(1, 4),
)
def test_late_is_done_after_the_deadline_and_more_tasks_finish_no_later(
    items: list[tuple[int, int, bool]], tasks: int
) -> None:
    """Of every partition, and everything is told about once."""
    given_work = [work(n, seconds, size, blocked=blocked) for n, (seconds, size, blocked) in enumerate(items)]
    found = forecast_deadlines(given_work, bytes_per_second=100.0, parallelism=tasks, as_of_ms=NOW_MS)
    assert sorted(p.partition for p in found) == list(range(len(items)))
    for p in found:
        if p.outlook in (Outlook.LATE, Outlook.IN_TIME):
            assert p.late_by_ms is not None
            assert (p.outlook is Outlook.LATE) == (p.late_by_ms > 0)
    last = max((p.done_at_ms or 0 for p in found), default=0)
    alone = forecast_deadlines(given_work, bytes_per_second=100.0, parallelism=1, as_of_ms=NOW_MS)
    assert last <= max((p.done_at_ms or 0 for p in alone), default=0)


@pytest.mark.parametrize(
    ("environment", "tasks"),
    [
        ({"WINNOW_SPARK__MASTER": "local[3]"}, 3),
        ({"WINNOW_SPARK__MASTER": "local[4,2]"}, 4),
        ({"WINNOW_SPARK__MASTER": "local[8]", "WINNOW_ENGINE__TASKS": "5"}, 5),
        ({"WINNOW_SPARK__MASTER": "local"}, 1),
        ({"WINNOW_SPARK__MASTER": "yarn"}, 1),
    ],
)
def test_parallelism_is_what_the_settings_say_of_spark(environment: dict[str, str], tasks: int) -> None:
    """Never more than the engine's own limit; one where nothing is said."""
    assert estimate_parallelism(load_settings(env=environment)) == tasks


def test_parallelism_of_a_cluster_is_its_cores() -> None:
    """Executors times their cores, or the cap on all cores."""
    base = load_settings(env={"WINNOW_SPARK__MASTER": "spark://master:7077"})

    def of(**conf: str) -> int:
        named = {name.replace("_", "."): value for name, value in conf.items()}
        return estimate_parallelism(base.model_copy(update={"spark": base.spark.model_copy(update={"conf": named})}))

    assert of(spark_executor_instances="4", spark_executor_cores="2") == 8
    assert of(spark_cores_max="6", spark_executor_instances="4", spark_executor_cores="2") == 6
    assert of(spark_cores_max="8", spark_task_cpus="3") == 2
    assert of(spark_executor_instances="many") == 1
