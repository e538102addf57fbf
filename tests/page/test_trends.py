"""The overview, the trends and the health of tables, over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.page.conftest import Visitor
from tests.page.sample_rows import DAY_MS, HOUR_MS, put, put_marks, put_run, receipt, topic_picture
from winnow.clock import read_wall_clock_ms
from winnow.store import RunState, Store
from winnow.store.assessments import AssessedTopic
from winnow.store.run_progress import PlanProgress, SparkJob
from winnow.store.segment_checks import FileCheck
from winnow.store.table_health import SizeClass, TableHealth, TopicSweep


@pytest.fixture
def now_ms() -> int:
    """The present, to which the page's answers refer."""
    return read_wall_clock_ms()


def test_overview_of_an_empty_lake_has_zeros_and_no_rows(viewer: Visitor) -> None:
    seen = viewer.json("api/overview")
    assert seen["totals"] == {
        "topics": 0,
        "partitions": 0,
        "records": 0,
        "files": 0,
        "size_bytes": 0,
        "reclaimable_bytes": None,
        "topics_unestimated": 0,
        "waiting_bytes": 0,
        "saved_bytes": 0,
        "assessed_at_ms": None,
    }
    assert (
        seen["next"] == seen["longest"] == seen["dearest"] == seen["working"]["runs"] == seen["alerts"]["alerts"] == []
    )
    assert (seen["deadlines"]["kept"], seen["deadlines"]["missed"]) == (0, 0)
    assert len(seen["deadlines"]["days"]) == 30


def test_overview_sums_up_topics_and_counts_their_states(viewer: Visitor, home_store: Store, now_ms: int) -> None:
    put(home_store, "orders", size_bytes=1_000, reclaimable_bytes=100, recorded_at_ms=now_ms - 7)
    put(home_store, "users", [{}, {"eligible": True}], size_bytes=500, reclaimable_bytes=None, recorded_at_ms=now_ms)
    put_marks(home_store, "orders", uncleanable=(0,))
    put_run(home_store, published=True)
    seen = viewer.json("api/overview")
    assert seen["totals"] == {
        "topics": 2,
        "partitions": 3,
        "records": 24,
        "files": 6,
        "size_bytes": 1_500,
        "reclaimable_bytes": 100,
        "topics_unestimated": 1,
        "waiting_bytes": 14,
        "saved_bytes": 3_083,
        "assessed_at_ms": now_ms - 7,
    }
    assert seen["topic_states"] == {"uncleanable": 1, "overdue": 0, "due": 1, "paused": 0, "healthy": 0}
    assert seen["partition_states"] == {"uncleanable": 1, "overdue": 0, "due": 1, "paused": 0, "healthy": 1}


def test_overview_tells_what_is_wrong_what_runs_and_what_is_next(
    viewer: Visitor, home_store: Store, now_ms: int
) -> None:
    put(home_store, "orders", [{"deadline_ms": now_ms + HOUR_MS}])
    put(home_store, "users", [{"deadline_ms": now_ms - HOUR_MS}])
    put(home_store, "idle")
    put_run(home_store, "plan-w", at_ms=now_ms - 5)
    put_run(home_store, "plan-i", at_ms=now_ms - 4, state=RunState.BROKEN)
    put_run(home_store, "plan-o", at_ms=now_ms - 2 * DAY_MS, state=RunState.BROKEN)
    home_store.segment_checks.record(
        [FileCheck("orders", "/a", "segment", 0, 5, now_ms, "damaged", "It is damaged.", now_ms)]
    )
    seen = viewer.json("api/overview")
    assert [(each["topic"], each["state"]) for each in seen["next"]] == [("users", "overdue"), ("orders", "healthy")]
    assert seen["working"]["total"] == 1
    assert seen["working"]["runs"] == [
        {
            "plan_id": "plan-w",
            "topic": "orders",
            "status": "planned",
            "opened_at_ms": now_ms - 5,
            "updated_at_ms": now_ms - 5,
        }
    ]
    assert seen["runs_failed"] == {"broken": 1}
    assert seen["damaged_files"] == 1


def test_deadlines_count_on_the_day_they_were_due(viewer: Visitor, home_store: Store, now_ms: int) -> None:
    look = {"first_dirty_offset": 5}
    late_ms, kept_ms = now_ms - 3 * DAY_MS, now_ms - HOUR_MS
    for partition, deadline_ms, at_ms in ((0, late_ms, late_ms + DAY_MS), (1, kept_ms, kept_ms)):
        topic = f"topic-{partition}"
        put(home_store, topic, [{**look, "deadline_ms": deadline_ms}], recorded_at_ms=at_ms - 9)
        put(home_store, topic, [{"first_dirty_offset": 6, "deadline_ms": None}], recorded_at_ms=at_ms)
    found = viewer.json("api/overview")["deadlines"]
    assert (found["kept"], found["missed"]) == (1, 1)
    missed = [day["day_ms"] for day in found["days"] if day["missed"]]
    assert missed == [late_ms // DAY_MS * DAY_MS]
    assert found["missed_latest"] == [
        {"topic": "topic-0", "partition": 0, "deadline_ms": late_ms, "settled_at_ms": late_ms + DAY_MS}
    ]


def test_longest_and_most_expensive_runs_of_thirty_days(viewer: Visitor, home_store: Store, now_ms: int) -> None:
    for number in range(7):
        at_ms = now_ms - number * HOUR_MS
        home_store.runs.open(f"plan-{number}", "orders", as_of_ms=0, plan_uri="/p", now_ms=at_ms - number, attempt="a")
        done = receipt(f"plan-{number}", finished_at_ms=at_ms)
        home_store.projection.record_publication(done, {}, [], at_ms)
    seen = viewer.json("api/overview")
    assert [each["plan_id"] for each in seen["longest"]] == [f"plan-{number}" for number in (6, 5, 4, 3, 2)]
    assert seen["dearest"][0] == {
        "plan_id": "plan-0",
        "topic": "orders",
        "finished_at_ms": now_ms,
        "duration_ms": 0,
        "partitions": 2,
        "bytes_in": 4_160,
        "bytes_saved": 3_083,
        "task_seconds": 1.5,
        "cpu_seconds": None,
        "runs": 1,
    }


def test_runs_of_one_spark_application_are_one_of_the_longest(viewer: Visitor, home_store: Store, now_ms: int) -> None:
    """Twenty topics that waited for one another are not twenty slow ones; what each cost stays apart."""
    for job, topics in (("job-1", ("orders", "clicks", "users")), ("job-2", ("devices",))):
        for number, topic in enumerate(topics):
            plan_id = f"{job}-{topic}"
            home_store.runs.open(
                plan_id, topic, as_of_ms=0, plan_uri="/p", now_ms=now_ms - 10_000 - number, attempt=f"{job}-a"
            )
            home_store.projection.record_publication(receipt(plan_id, topic, finished_at_ms=now_ms), {}, [], now_ms)
        failed = SparkJob(f"{job}-0", f"{job}-b", "h:1", now_ms, now_ms, 1, 1)
        plans = [PlanProgress(f"{job}-{topic}", topic, 1, 1) for topic in topics]
        home_store.job_progress.record(failed, plans[:1])
        home_store.job_progress.record(replace(failed, job_id=f"{job}-1", attempt=f"{job}-a"), plans)
    seen = viewer.json("api/overview")
    assert [(each["topic"], each["runs"]) for each in seen["longest"]] == [("users", 3), ("devices", 1)]
    assert len(seen["dearest"]) == 4


def test_a_failed_run_after_which_its_topic_was_published_needs_no_attention(
    viewer: Visitor, home_store: Store, now_ms: int
) -> None:
    """The next run of the topic has put it right; that of another topic has not."""
    for topic in ("orders", "clicks"):
        put_run(home_store, f"bad-{topic}", topic, at_ms=now_ms - 10, state=RunState.BROKEN)
    put_run(home_store, "before", "clicks", at_ms=now_ms - 20, published=True)
    assert viewer.json("api/overview")["runs_failed"] == {"broken": 2}
    put_run(home_store, "good", "orders", at_ms=now_ms - 5, published=True)
    assert viewer.json("api/overview")["runs_failed"] == {"broken": 1}


def test_trends_have_a_row_for_each_sample_and_for_each_day(viewer: Visitor, home_store: Store, now_ms: int) -> None:
    for ago, end_offsets in ((3, 10), (2, 25), (0, 20)):
        put(home_store, recorded_at_ms=now_ms - ago * HOUR_MS, end_offsets=end_offsets, size_bytes=end_offsets * 10)
    done = receipt("plan-1", finished_at_ms=now_ms)
    home_store.projection.record_publication(done, {}, [], now_ms)
    seen = viewer.json("api/topics/orders/trends", days=7)
    assert [each["size_bytes"] for each in seen["samples"]] == [100, 250, 200]
    assert sum(day["records_appended"] or 0 for day in seen["days"]) == 15, "a smaller log end appends nothing"
    assert "end_offsets" not in seen["samples"][0]
    assert len(seen["days"]) == 7
    assert {**seen["days"][-1], "records_appended": None} == {
        "records_appended": None,
        "day_ms": now_ms // DAY_MS * DAY_MS,
        "runs": 1,
        "records_removed": 65,
        "bytes_read": 4_160,
        "bytes_written": 1_088,
        "bytes_saved": 3_083,
        "task_seconds": 1.5,
        "cpu_seconds": 0.0,
    }
    assert [day["runs"] for day in seen["days"][:-1]] == [0] * 6
    together = viewer.json("api/trends", days=7)
    assert together["days"] == seen["days"]
    assert [each["topics"] for each in together["samples"]] == [1, 1, 1]


def test_a_year_of_trends_has_at_most_four_hundred_samples(viewer: Visitor, home_store: Store, now_ms: int) -> None:
    for ago in range(14 * 24):
        put(home_store, recorded_at_ms=now_ms - (14 * 24 - ago) * HOUR_MS)
    assert len(viewer.json("api/topics/orders/trends", days=366)["samples"]) < 20
    assert 300 < len(viewer.json("api/topics/orders/trends", days=14)["samples"]) <= 400


def test_records_ingested_a_day_do_not_depend_on_the_minute_of_the_look(
    viewer: Visitor, home_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days are summed up before samples are left out of the chart: 100 an hour are 2,400 on each whole day."""
    from winnow_airflow.page.app import app

    today_ms = 1_760_000_000_000 // DAY_MS * DAY_MS
    start_ms = today_ms - 10 * DAY_MS
    for hour in range(10 * 24 + 12):
        put(home_store, recorded_at_ms=start_ms + hour * HOUR_MS + 59 * 60_000, end_offsets=100 * hour)
    for minutes in (0, 1, 7, 13, 29, 44):
        at_ms = today_ms + 12 * HOUR_MS + minutes * 60_000
        monkeypatch.setitem(app.dependency_overrides, read_wall_clock_ms, lambda at_ms=at_ms: at_ms)
        days = {day["day_ms"]: day for day in viewer.json("api/topics/orders/trends", days=366)["days"]}
        found = [days[start_ms + number * DAY_MS]["records_appended"] for number in range(11)]
        assert found == [2_300, *[2_400] * 9, 1_200]


@pytest.mark.parametrize("days", [0, 367, "many"])
def test_trends_take_one_to_366_days(viewer: Visitor, days: Any) -> None:
    assert viewer.get("api/trends", days=days).status_code == 422


@pytest.mark.parametrize("what", ["trends", "health"])
def test_a_topic_that_was_never_assessed_has_neither_trends_nor_health(viewer: Visitor, what: str) -> None:
    answer = viewer.get(f"api/topics/none/{what}")
    assert answer.status_code == 404
    assert "winnow assess none" in answer.json()["detail"]


def test_health_of_a_table_with_its_last_sweep_and_scrub(viewer: Visitor, home_store: Store, now_ms: int) -> None:
    put(home_store)
    assert viewer.json("api/topics/orders/health") == {
        "now_ms": pytest.approx(now_ms, abs=60_000),
        "health": None,
        "sweep": None,
        "scrub": None,
    }
    classes = (SizeClass(500, 8, 100), SizeClass(None, 1, 800))
    figures = (now_ms, 1_000, 9, 900, 8, 100, 800, classes, 4, 3, now_ms - 5, 2, 1, 70, now_ms - 3, 0, 0)
    health = TableHealth("orders", *figures)
    home_store.overview.record_topic(AssessedTopic(picture=topic_picture(recorded_at_ms=now_ms), health=health))
    home_store.table_health.record_sweep(TopicSweep("orders", now_ms, 5, 600, 2, 1, 50, 3))
    home_store.segment_checks.record([FileCheck("orders", "/a", "segment", 0, 5, now_ms)])
    seen = viewer.json("api/topics/orders/health")
    assert seen["health"]["file_sizes"] == [
        {"below_bytes": 500, "files": 8, "size_bytes": 100},
        {"below_bytes": None, "files": 1, "size_bytes": 800},
    ]
    assert (seen["health"]["manifests"], seen["health"]["snapshots"], seen["health"]["retired_bytes"]) == (4, 3, 70)
    assert seen["sweep"] == {
        "swept_at_ms": now_ms,
        "files_deleted": 5,
        "bytes_deleted": 600,
        "snapshots_expired": 2,
        "orphaned_files": 1,
        "orphaned_bytes": 50,
        "unnamed_files": 3,
    }
    assert seen["scrub"] == {"files": 1, "last_checked_ms": now_ms, "oldest_checked_ms": now_ms, "findings": 0}
