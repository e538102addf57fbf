"""A topic that a DAG run held when somebody ended that run is free for the next one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk.execution_time.comms import DagRunStateResult

from winnow.pipeline.installation import Installation
from winnow_airflow.tasks.ended_runs import release_topics_of_ended_runs

MANUAL = "airflow:compact_now:manual__2026-11-23T01:00:00+00:00"
STATES = {
    ("compact_topics", "ended"): "failed",
    ("compact_topics", "done"): "success",
    ("compact_topics", "going"): "running",
    ("compact_topics", "waiting"): "queued",
    ("compact_now", "manual__2026-11-23T01:00:00+00:00"): "failed",
}


def find_state(dag_id: str, run_id: str) -> str:
    """What Airflow says of a run, as a task gets it."""
    return DagRunStateResult.model_validate({"state": STATES[dag_id, run_id]}).state


@pytest.mark.parametrize(
    ("holder", "is_free"),
    [
        ("airflow:compact_topics:ended", True),
        ("airflow:compact_topics:done", True),
        (MANUAL, True),
        ("airflow:compact_topics:going", False),
        ("airflow:compact_topics:waiting", False),
        ("airflow:compact_topics:deleted", False),
        ("host:17:night", False),
    ],
)
def test_topic_is_released_only_when_the_run_that_holds_it_has_ended(
    installation: Installation, holder: str, is_free: bool
) -> None:
    """By its state in Airflow; a run that Airflow does not know, and a process at a shell, keep their topics."""
    lease = installation.store.leases.acquire("orders", holder, installation.now_ms(), 3_600_000)
    context = {"ti": SimpleNamespace(get_dagrun_state=find_state)}
    assert release_topics_of_ended_runs(installation, context, ["orders", "clicks"]) == (["orders"] if is_free else [])
    assert installation.store.leases.find("orders") == (None if is_free else lease)


def test_lease_of_the_run_itself_is_not_asked_about(installation: Installation) -> None:
    """Its state is running, and it needs its topics."""
    installation.store.leases.acquire("orders", installation.holder, installation.now_ms(), 3_600_000)
    assert release_topics_of_ended_runs(installation, {}, ["orders"]) == []
