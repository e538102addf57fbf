"""The contract of the route of a run's progress, over HTTP."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from tests.page.conftest import Visitor
from tests.page.sample_rows import NOW_MS, put_run
from winnow.clock import read_wall_clock_ms
from winnow.store import RunState, Store
from winnow.store.run_progress import PlanProgress, SparkJob

JOB = SparkJob(
    "job-1", "a-1", "airflow:compact_topics:run-1", NOW_MS, NOW_MS + 9, 3, 3_000, dag_id="compact_topics",
    run_id="run-1", task_id="compact_batch.compact", map_index=0, try_number=1, started_at_ms=NOW_MS + 5,
    application_id="local-1", partitions_done=1, bytes_read=1_000, bytes_written=400,
)  # fmt: skip
PLANS = [PlanProgress("plan-1", "orders", 2, 2_000, 1, 0, 1_000, 400), PlanProgress("plan-2", "clicks", 1, 1_000)]


@pytest.fixture(autouse=True)
def present(airflow_client: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's present stands still."""
    from winnow_airflow.page.app import app

    monkeypatch.setitem(app.dependency_overrides, read_wall_clock_ms, lambda: NOW_MS)


def test_progress_of_a_run_has_its_stages_and_its_application_with_all_topics(
    admin: Visitor, home_store: Store
) -> None:
    """The document is exactly that of the contract."""
    put_run(home_store)
    home_store.runs.begin_attempt("plan-1", "a-1", NOW_MS + 4)
    home_store.job_progress.record(JOB, PLANS)
    stages = [
        {"name": "wait", "state": "done", "started_at_ms": NOW_MS, "ended_at_ms": NOW_MS + 4},
        {"name": "spark", "state": "running", "started_at_ms": NOW_MS + 4, "ended_at_ms": None},
        *(
            {"name": name, "state": "pending", "started_at_ms": None, "ended_at_ms": None}
            for name in ("validate", "publish")
        ),
    ]
    own = {name: value for name, value in asdict(PLANS[0]).items() if name not in {"plan_id", "topic"}}
    assert admin.json("api/runs/plan-1/progress") == {
        "now_ms": NOW_MS,
        "stages": stages,
        "job": {name: value for name, value in asdict(JOB).items() if name != "job_id"},
        "own": own,
        "topics": ["clicks", "orders"],
        "may_cancel": True,
    }


def test_who_may_only_look_may_not_cancel_and_nobody_what_a_shell_began(
    viewer: Visitor, admin: Visitor, home_store: Store
) -> None:
    """Airflow decides by the right to change tasks of that DAG; a shell's application is no task."""
    home_store.job_progress.record(JOB, PLANS)
    shell = SparkJob("job-2", "a-2", "host:7:abc", NOW_MS, NOW_MS, 1, 1)
    home_store.job_progress.record(shell, [PlanProgress("plan-3", "orders", 1, 1)])
    assert viewer.json("api/runs/plan-1/progress")["may_cancel"] is False
    assert admin.json("api/runs/plan-1/progress")["may_cancel"] is True
    assert admin.json("api/runs/plan-3/progress")["may_cancel"] is False


def test_latest_application_counts_and_a_run_without_any_has_none(viewer: Visitor, home_store: Store) -> None:
    """A retry is an application of its own; an unknown run has no progress."""
    home_store.job_progress.record(JOB, PLANS)
    again = SparkJob("job-0", "a-2", "host", NOW_MS + 50, NOW_MS + 50, 3, 3_000, try_number=2)
    home_store.job_progress.record(again, PLANS)
    assert viewer.json("api/runs/plan-1/progress")["job"]["attempt"] == "a-2"
    nothing = viewer.json("api/runs/nothing/progress")
    assert (nothing["stages"], nothing["job"], nothing["own"], nothing["topics"]) == ([], None, None, [])


def test_run_that_failed_in_spark_is_found_by_that_state(viewer: Visitor, home_store: Store) -> None:
    """It is not among those that validation rejected."""
    put_run(home_store)
    home_store.runs.begin_attempt("plan-1", "a-1", NOW_MS)
    home_store.runs.set_state("plan-1", RunState.SPARK_FAILED, NOW_MS, message="No disk.", attempt="a-1")
    assert viewer.json("api/runs", status="invalid")["total"] == 0
    (row,) = viewer.json("api/runs", status="spark_failed")["runs"]
    assert (row["status"], row["message"]) == ("spark_failed", "No disk.")
