"""Backfill runs that meet other runs on one topic, and the schedule that is for backfills alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException
from sqlalchemy import make_url

from winnow.errors import WinnowError
from winnow.pipeline.installation import Installation, open_installation
from winnow_airflow.tasks.backfill_order import MAXIMUM_WAIT_MS, MINIMUM_WAIT_MS, lock_topics_in_as_of_order
from winnow_airflow.xcom_values import TopicCheck

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

AS_OF_MS = 1_700_000_000_000
NOW_MS = 1_760_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def run(installation: Installation) -> Iterator[Installation]:
    """The lake as the backfill run sees it."""
    with open_installation(holder="airflow:backfill_topics:mine", now_ms=lambda: NOW_MS) as opened:
        yield opened


@pytest.fixture
def other(installation: Installation) -> Iterator[Installation]:
    """The lake as another run sees it."""
    with open_installation(holder="airflow:compact_topics:theirs", now_ms=lambda: NOW_MS) as opened:
        yield opened


def found(topic: str, reason: str) -> TopicCheck:
    """What the check of a topic with one partition found."""
    return TopicCheck(topic=topic, eligible=reason == "dirty_ratio", reasons={reason: 1}, would=None)


def hold(other: Installation, topic: str, *, as_of_ms: int | None, for_ms: int = 0) -> None:
    """``other`` holds ``topic``, and planned it ``for_ms`` ago as of ``as_of_ms``; None: it has not planned yet."""
    other.store.leases.acquire(topic, other.holder, NOW_MS, HOUR_MS)
    if as_of_ms is not None:
        began_ms = NOW_MS - for_ms
        other.store.runs.open(
            f"plan-{topic}", topic, attempt="a", as_of_ms=as_of_ms, plan_uri="", now_ms=began_ms, holder=other.holder
        )


def holder(installation: Installation, topic: str) -> str | None:
    """Who holds ``topic``."""
    lease = installation.store.leases.find(topic)
    return None if lease is None else lease.holder


def waits_ms(run: Installation, *checks: TopicCheck) -> float:
    """For how long the run leaves its worker."""
    with pytest.raises(AirflowRescheduleException) as raised:
        lock_topics_in_as_of_order(run, checks, as_of_ms=AS_OF_MS)
    again: datetime = raised.value.reschedule_date
    return again.timestamp() * 1000 - NOW_MS


def test_a_free_topic_is_taken_when_it_is_due_or_was_in_progress(run: Installation) -> None:
    """What another run did meanwhile is seen when it is planned; what is idle is left alone."""
    mine = lock_topics_in_as_of_order(
        run, [found("due", "dirty_ratio"), found("was-busy", "in_progress"), found("idle", "clean")], as_of_ms=AS_OF_MS
    )
    assert [(each["topic"], each["eligible"]) for each in mine] == [("due", True), ("was-busy", True)]
    assert [holder(run, topic) for topic in ("due", "was-busy", "idle")] == [run.holder, run.holder, None]


@pytest.mark.parametrize("later_ms", [0, 1, HOUR_MS])
def test_a_topic_is_left_to_a_run_that_looks_from_the_same_instant_or_a_later_one(
    run: Installation, other: Installation, later_ms: int
) -> None:
    """It does what this run would."""
    hold(other, "theirs", as_of_ms=AS_OF_MS + later_ms)
    mine = lock_topics_in_as_of_order(
        run, [found("due", "dirty_ratio"), found("theirs", "in_progress")], as_of_ms=AS_OF_MS
    )
    assert [each["topic"] for each in mine] == ["due"]
    assert holder(run, "theirs") == other.holder


def test_a_run_waits_for_one_that_looks_from_earlier_and_holds_nothing_meanwhile(
    run: Installation, other: Installation
) -> None:
    """Otherwise two runs that wait could hold what the other waits for."""
    hold(other, "theirs", as_of_ms=AS_OF_MS - 1)
    assert waits_ms(run, found("due", "dirty_ratio"), found("theirs", "dirty_ratio")) == MINIMUM_WAIT_MS
    assert holder(run, "due") is None
    assert holder(run, "theirs") == other.holder


def test_a_run_that_cannot_take_a_topic_keeps_no_other(run: Installation) -> None:
    """The store refuses the second lease: the first is given back, not left to lapse in an hour."""
    second = "BEFORE INSERT ON winnow_lease WHEN NEW.topic = 'second'"
    with closing(sqlite3.connect(str(make_url(run.settings.store_url).database))) as database:
        database.execute(f"CREATE TRIGGER refuse {second} BEGIN SELECT RAISE(ABORT, 'refused'); END")
    with pytest.raises(WinnowError, match="refused a statement"):
        lock_topics_in_as_of_order(
            run, [found("first", "dirty_ratio"), found("second", "dirty_ratio")], as_of_ms=AS_OF_MS
        )
    assert holder(run, "first") is None


def test_a_run_waits_for_one_that_has_planned_nothing_yet(run: Installation, other: Installation) -> None:
    """Nobody knows from when it looks."""
    hold(other, "theirs", as_of_ms=None)
    assert waits_ms(run, found("theirs", "in_progress")) == MINIMUM_WAIT_MS


@pytest.mark.parametrize(("for_ms", "wait_ms"), [(10 * 60_000, 5 * 60_000), (24 * HOUR_MS, MAXIMUM_WAIT_MS)])
def test_what_takes_long_is_looked_at_rarely(run: Installation, other: Installation, for_ms: int, wait_ms: int) -> None:
    """After half of the time that it took so far, ten minutes at most."""
    hold(other, "theirs", as_of_ms=AS_OF_MS - 1, for_ms=for_ms)
    assert waits_ms(run, found("theirs", "in_progress")) == wait_ms


def test_backfills_of_the_daily_dag_have_a_run_per_day_and_the_scheduler_has_none(dagbag: DagBag) -> None:
    """As the scheduler reads the DAG: serialized, and back."""
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.timetables.base import TimeRestriction

    dag = DagSerialization.from_dict(DagSerialization.to_dict(dagbag.dags["backfill_topics"]))
    first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC)
    dates = [info.run_after.day for info in dag.iter_dagrun_infos_between(first, last)]
    assert dates == list(range(1, 32))
    restriction = TimeRestriction(earliest=None, latest=None, catchup=dag.catchup)
    assert dag.timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction) is None
