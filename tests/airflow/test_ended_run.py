"""Somebody marks a DAG run failed while it works and others run: over the API, as a click in the UI does."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from tests.support.dag_topics import build_old_lines, make_topic, read_topic
from tests.support.embedded_airflow import EmbeddedAirflow
from winnow.embedded.airflow_users import LOGIN
from winnow.pipeline.installation import Installation
from winnow.store import RunState

NOW = "compact_now"
"""Without a schedule, and with several runs at a time."""


def test_ending_a_run_changes_no_other_and_its_topics_are_free_for_the_next(
    real_airflow: EmbeddedAirflow, lake: Installation, tmp_path: Path
) -> None:
    """The other run ends green with its topic compacted; the ended one published nothing, and a new run does it."""
    for topic in ("ended-stopped", "ended-beside"):
        make_topic(lake, tmp_path, topic, [build_old_lines(100, 10)])
    real_airflow.unpause(NOW)
    beside = real_airflow.trigger(NOW, topics=["ended-beside"])
    real_airflow.until(lambda: lake.store.runs.list_open("ended-beside"), "the other topic is planned")
    stopped = real_airflow.trigger(NOW, topics=["ended-stopped"])
    real_airflow.until(lambda: lake.store.runs.list_open("ended-stopped"), "the topic is planned")

    # Airflow answers 500 while the scheduler has the run in a transaction; whoever presses the button again ends it.
    place = f"/api/v2/dags/{NOW}/dagRuns/{quote(stopped)}?update_mask=state"
    real_airflow.until(
        lambda: real_airflow.try_as(LOGIN, "PATCH", place, {"state": "failed"}) == HTTPStatus.OK, "the run is ended"
    )

    assert real_airflow.wait(NOW, beside) == "success"
    # A scheduler that is at work on the run at that moment may call it success: its last tasks are skipped.
    assert real_airflow.state(NOW, stopped) in ("failed", "success")
    assert [row["offset"] for row in read_topic(lake, "ended-beside")] == list(range(90, 100))
    assert lake.store.leases.find("ended-beside") is None
    assert len(read_topic(lake, "ended-stopped")) == 100

    again = real_airflow.trigger(NOW, topics=["ended-stopped"])
    assert real_airflow.wait(NOW, again) == "success"
    assert [row["offset"] for row in read_topic(lake, "ended-stopped")] == list(range(90, 100))
    assert [run.status for run in lake.store.runs.list_runs("ended-stopped")].count(RunState.PUBLISHED) == 1
    assert lake.store.leases.find("ended-stopped") is None
    assert real_airflow.state(NOW, beside) == "success"
