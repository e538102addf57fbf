"""Users of an embedded Airflow that runs: what they may do ends with their rights, and disturbs nobody else."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.support.embedded_airflow import EmbeddedAirflow
from winnow.embedded.airflow_users import LOGIN
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import create_topic
from winnow.store.rows import Window

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


def test_change_that_can_remove_records_waits_for_another_user(
    real_airflow: EmbeddedAirflow, lake: Installation
) -> None:
    """Who asked cannot approve it, nor can a viewer; another user's approval makes the change, and both are named."""
    create_topic(lake, "salaries", 1, {"cleanup.policy": "delete", "retention.ms": "604800000"})
    real_airflow.unpause("change_topics")
    config = {"retention.ms": "86400000"}

    def ask() -> str:
        run = real_airflow.trigger("change_topics", action="alter", topic="salaries", config=config, reason="space")
        real_airflow.until(lambda: find_request(real_airflow, run), "the run waits for a person")
        # Airflow 3.3.2 takes the task for lost if the answer is there before its scheduler has heard that the process
        # has ended, which takes up to socket_cleanup_timeout; a person is slower than that.
        time.sleep(8)
        return run

    def answer(run: str, user: str, option: str) -> int:
        path = f"/api/v2/dags/change_topics/dagRuns/{run}/taskInstances/change/-1/hitlDetails"
        return real_airflow.try_as(user, "PATCH", path, {"chosen_options": [option], "params_input": {}})

    run = ask()
    body = find_request(real_airflow, run)
    assert f"`{LOGIN}` asks to change topic `salaries`, because: `space`" in body
    assert "| `retention.ms` | `604800000` | `86400000` |" in body
    assert answer(run, "vera", "Approve") == 403
    assert answer(run, LOGIN, "Approve") == 200
    assert real_airflow.wait("change_topics", run) == "failed"
    assert "asked for it" in str(find_outcome(real_airflow, run)), real_airflow.last_words()
    run = ask()
    assert answer(run, "uma", "Reject") == 200
    assert real_airflow.wait("change_topics", run) == "success"
    assert "Nothing was changed: uma rejected it." in str(find_outcome(real_airflow, run))
    assert read_overrides(lake.log.open("salaries").newest_head().table.properties)["retention.ms"] == "604800000"
    run = ask()
    assert "Waits for a second person" in str(find_outcome(real_airflow, run))
    assert answer(run, "uma", "Approve") == 200
    assert real_airflow.wait("change_topics", run) == "success", real_airflow.failures("change_topics", run)
    assert read_overrides(lake.log.open("salaries").newest_head().table.properties)["retention.ms"] == "86400000"
    entries = lake.store.audit.list_entries(Window(), topic="salaries", action="alter").rows
    assert [(each.actor, each.detail) for each in entries] == [(LOGIN, "retention.ms=86400000, approved by uma")]
    asked = lake.store.audit.list_entries(Window(), topic="salaries", action="change_request").rows
    assert [each.actor for each in asked] == [LOGIN] * 3


def find_request(airflow: EmbeddedAirflow, run: str) -> str:
    """What the run shows to the person for whom it waits; empty: it waits for nobody."""
    waiting = airflow.call("GET", f"/dags/change_topics/dagRuns/{run}/hitlDetails")["hitl_details"]
    return next((str(each["body"]) for each in waiting if not each["response_received"]), "")


def find_outcome(airflow: EmbeddedAirflow, run: str) -> object:
    """What the task said came of it."""
    path = f"/dags/change_topics/dagRuns/{run}/taskInstances/change/xcomEntries/outcome"
    return airflow.call("GET", path)["value"]
