"""What of the embedded Airflow is killed starts again, and what it was doing goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg

from tests.support.dag_topics import build_old_lines, make_topic, read_topic
from tests.support.embedded_airflow import EmbeddedAirflow
from winnow.embedded.postgres import locate_socket_folder
from winnow.pipeline.installation import Installation
from winnow.store import RunState

COMPACT, SWEEP = "compact_topics", "sweep_topics"


def find_server(airflow: EmbeddedAirflow) -> psutil.Process:
    """PostgreSQL's first process."""
    host = str(locate_socket_folder(airflow.settings.home / "postgres"))
    with psycopg.connect(host=host, user="winnow", dbname="postgres") as connection:
        return psutil.Process(connection.info.backend_pid).parent()


def is_said(airflow: EmbeddedAirflow, text: str) -> bool:
    """Whether the command's output has ``text``."""
    return text in airflow.log.read_text()


def test_run_that_a_killed_scheduler_left_goes_on(
    real_airflow: EmbeddedAirflow, lake: Installation, tmp_path: Path
) -> None:
    """Killed with its workers in the middle of a compaction; the run ends green, and the log is right."""
    make_topic(lake, tmp_path, "killed", [build_old_lines(100, 10)])
    real_airflow.unpause(COMPACT)
    run = real_airflow.trigger(COMPACT, topics=["killed"])
    real_airflow.until(lambda: lake.store.runs.list_open("killed"), "the topic is planned")
    scheduler = real_airflow.find_component("scheduler")
    os.killpg(scheduler.pid, signal.SIGKILL)
    real_airflow.until(lambda: is_said(real_airflow, "Airflow's scheduler was ended by SIGKILL"), "it is said")
    assert real_airflow.wait(COMPACT, run) == "success"
    assert [each.status for each in lake.store.runs.list_runs("killed")].count(RunState.PUBLISHED) == 1
    assert lake.store.leases.find("killed") is None
    assert [row["offset"] for row in read_topic(lake, "killed")] == list(range(90, 100))
    assert real_airflow.find_component("scheduler") != scheduler


def test_killed_postgresql_starts_again_with_what_was_committed(real_airflow: EmbeddedAirflow) -> None:
    """Components that lost their connections start again too; runs from before are known, and a new one ends green."""
    real_airflow.unpause(SWEEP)
    before = real_airflow.trigger(SWEEP)
    assert real_airflow.wait(SWEEP, before) == "success"
    server = find_server(real_airflow)
    server.kill()
    real_airflow.until(lambda: is_said(real_airflow, "PostgreSQL was ended; it is started again"), "it is said")
    real_airflow.until(real_airflow.is_healthy, "Airflow is healthy again")
    assert find_server(real_airflow) != server
    assert real_airflow.state(SWEEP, before) == "success"
    after = real_airflow.trigger(SWEEP)
    assert real_airflow.wait(SWEEP, after) == "success"


def test_users_may_what_their_role_says(real_airflow: EmbeddedAirflow) -> None:
    """A viewer looks, at Winnow's page too; a user starts runs; an op sets variables."""
    run: tuple[str, str, object] = ("POST", f"/api/v2/dags/{SWEEP}/dagRuns", {"logical_date": None, "conf": {}})
    variable: tuple[str, str, object] = ("POST", "/api/v2/variables", {"key": "colour", "value": "green"})
    page: tuple[str, str, object] = ("GET", "/winnow/api/topics", None)
    tried = {
        name: [real_airflow.try_as(name, *each) for each in (page, run, variable)] for name in ("vera", "uma", "otto")
    }
    assert tried == {"vera": [200, 403, 403], "uma": [200, 200, 403], "otto": [200, 200, 201]}
