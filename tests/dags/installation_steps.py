"""What one of two installations does in the Airflow that they share: a run, and two questions to Airflow's scheduler.

The processes are forked from one that has imported what they need (tests/faults/forked_processes.py).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.pool import Pool
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import delete
from sqlalchemy.orm import Session

from winnow.embedded.airflow_scheduler import PRELOADED
from winnow.quality.gx_runtime import import_great_expectations

import_great_expectations()
for _name in (
    "airflow.api_fastapi.execution_api.app",
    "airflow.providers.apache.spark.operators.spark_submit",
    "airflow.sdk.execution_time.supervisor",
    # Not the plugin: its modules read the prefix of the installation's DAGs.
    *(name for name in PRELOADED if not name.startswith("winnow_airflow")),
):
    import_module(_name)


def run_dag(folder: str, dag_id: str) -> str:
    """Run a DAG for the topic ``orders``; return the state of the run."""
    dag = DagBag(dag_folder=folder).dags[dag_id]
    for task in dag.tasks:
        task.retries = 0
    return str(dag.test(run_conf={"topics": ["orders"]}).state)


def list_pools_and_queues(*dag_ids: str) -> list[list[list[str]]]:
    """List pool and queue of each task of each DAG, as Airflow's database has them."""
    with create_session() as session:
        dags = [_read_dag(dag_id, session) for dag_id in dag_ids]
    return [[[task.pool, task.queue] for task in dag.tasks] for dag in dags]


def _read_dag(dag_id: str, session: Session) -> Any:
    stored = SerializedDagModel.get(dag_id, session=session)
    assert stored is not None, dag_id
    return stored.dag


def start_without_a_pool(dag_id: str) -> list[object]:
    """Let the scheduler start a run of a DAG that lacks a pool; return the run's state and configuration."""
    with create_session(scoped=False) as session:
        due = datetime.now(UTC) - timedelta(minutes=1)  # SQLite's present has no fractions of a second
        run = _read_dag(dag_id, session).create_dagrun(
            run_id="manual__pools",
            run_type=DagRunType.MANUAL,
            run_after=due,
            conf={},
            state=DagRunState.QUEUED,
            triggered_by=DagRunTriggeredByType.TEST,
            session=session,
        )
        session.execute(delete(Pool).where(Pool.pool == "winnow_commit"))
        session.flush()
        scheduler = SchedulerJobRunner(Job())  # type: ignore[no-untyped-call]
        scheduler._start_queued_dagruns(session)
        session.flush()
        session.refresh(run)
        answer = [str(run.state), run.conf]
        session.rollback()
    return answer


STEPS: Mapping[str, Callable[..., object]] = {
    "run": run_dag,
    "tasks": list_pools_and_queues,
    "start": start_without_a_pool,
}


def main() -> None:
    """Do the step that the arguments name; the first one is the environment of the installation, as JSON."""
    _, environment, step, *arguments = sys.argv
    os.environ.update(json.loads(environment))
    print(json.dumps(STEPS[step](*arguments)))
