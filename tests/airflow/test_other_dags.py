"""The DAG of docs/airflow.md with Winnow's operators and sensor, in a real Airflow with scheduler and triggerer."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from tests.support.dag_topics import build_old_lines, make_topic, write_lines
from tests.support.embedded_airflow import EmbeddedAirflow
from winnow.pipeline.installation import Installation

DAG_ID, TOPIC = "orders_report", "orders"


def read_returned(airflow: EmbeddedAirflow, run: str, task: str) -> object:
    """What the task returned."""
    path = f"/dags/{DAG_ID}/dagRuns/{quote(run)}/taskInstances/{task}/xcomEntries/return_value"
    return airflow.call("GET", f"{path}?deserialize=true")["value"]


def test_dag_of_the_page_ingests_compacts_waits_and_gets_what_came_of_the_topic(
    real_airflow: EmbeddedAirflow, lake: Installation, tmp_path: Path
) -> None:
    """All of it deferred; a second run, with the same files, appends nothing and finds nothing due."""
    lines = build_old_lines(100, 10)
    make_topic(lake, tmp_path, TOPIC, [])
    incoming = lake.settings.home / "incoming"
    incoming.mkdir(exist_ok=True)
    path = str(write_lines(incoming / "orders.jsonl", lines))
    real_airflow.unpause(DAG_ID, "compact_now", "ingest_topics")
    try:
        run = real_airflow.trigger(DAG_ID, path=path)
        assert real_airflow.wait(DAG_ID, run) == "success", real_airflow.failures(DAG_ID, run)
        assert "100" in str(read_returned(real_airflow, run, "ingest"))
        assert str(read_returned(real_airflow, run, "report")).startswith(f"{TOPIC}: done, 90 records removed, ")

        run = real_airflow.trigger(DAG_ID, path=path)
        assert real_airflow.wait(DAG_ID, run) == "success", real_airflow.failures(DAG_ID, run)
        assert str(read_returned(real_airflow, run, "report")).startswith(f"{TOPIC}: idle, Nothing was due: ")
    finally:
        real_airflow.pause(DAG_ID)


def test_operator_fails_with_its_run(real_airflow: EmbeddedAirflow) -> None:
    """The files are in no folder from which a run may read; nothing after that is started."""
    real_airflow.unpause(DAG_ID, "ingest_topics")
    try:
        run = real_airflow.trigger(DAG_ID, path="/etc/passwd")
        assert real_airflow.wait(DAG_ID, run) == "failed"
        states = real_airflow.tasks(DAG_ID, run)
    finally:
        real_airflow.pause(DAG_ID)
    assert states["ingest", -1] == "failed"
    assert states["compact", -1] == states["report", -1] == "upstream_failed"
