"""Users of an embedded Airflow that runs: what they may do ends with their rights, and disturbs nobody else."""

from __future__ import annotations

import subprocess
import sys

from tests.support.embedded_airflow import EmbeddedAirflow

POOL = "/api/v2/pools"
NEW_POOL = {"name": "of-dora", "slots": 1}


def change_users(airflow: EmbeddedAirflow, *arguments: str) -> str:
    """Run the command as in a shell beside the running Airflow; what it printed."""
    command = [sys.executable, "-m", "winnow.embedded.airflow_home", "users", *arguments]
    ended = subprocess.run(command, env=dict(airflow.environment), capture_output=True, text=True, check=True)
    return ended.stdout


def test_removed_and_demoted_users_lose_their_rights_while_a_task_runs(real_airflow: EmbeddedAirflow) -> None:
    """Their tokens are refused right after the command; a task that runs meanwhile ends well; others stay logged in."""
    real_airflow.unpause("sweep_topics")
    removed, demoted, other = (real_airflow.log_in(name) for name in ("rita", "dora", "otto"))
    assert [real_airflow.try_with(each, "GET", POOL) for each in (removed, demoted, other)] == [200, 200, 200]
    run = real_airflow.trigger("sweep_topics")
    real_airflow.until(lambda: "running" in real_airflow.tasks("sweep_topics", run).values(), "a task runs")
    assert "Sessions of this user have ended" in change_users(real_airflow, "remove", "rita")
    assert real_airflow.try_with(removed, "GET", POOL) == 401
    change_users(real_airflow, "add", "dora", "--role", "viewer")
    assert real_airflow.try_with(demoted, "POST", POOL, NEW_POOL) == 401
    assert real_airflow.try_as("dora", "POST", POOL, NEW_POOL) == 403
    assert real_airflow.try_as("dora", "GET", POOL) == 200
    assert real_airflow.try_with(other, "GET", POOL) == 200
    assert real_airflow.wait("sweep_topics", run) == "success"
    assert real_airflow.failures("sweep_topics", run) == ""
