"""What every DAG owes its readers and the scheduler."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import CronTriggerTimetable

from tests.dags.conftest import ENVIRONMENT
from winnow.airflow_home import POOLS, migrate
from winnow.config.settings import Settings

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk import DAG

DAGS = ("compact_topics", "ingest_topics", "sweep_topics")

PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1])
heavy = {"pyspark", "pyiceberg", "great_expectations", "duckdb", "pyarrow", "pandas", "winnow.store", "winnow.pipeline"}
seconds = max(each.duration.total_seconds() for each in bag.dagbag_stats)
print(json.dumps({"errors": bag.import_errors, "heavy": sorted(heavy & sys.modules.keys()), "seconds": seconds}))
"""


@pytest.fixture(params=DAGS)
def dag(request: pytest.FixtureRequest, dagbag: DagBag) -> DAG:
    return dagbag.dags[request.param]


def test_every_dag_file_parses(dagbag: DagBag) -> None:
    """No import error, and the DAGs are the three that are documented."""
    assert dagbag.import_errors == {}
    assert sorted(dagbag.dags) == sorted(DAGS)


def test_parsing_loads_no_heavy_library(airflow_home: Settings) -> None:
    """What a DAG file imports is paid for at every parse, so Spark, Iceberg and GX wait until a task runs."""
    ended = subprocess.run(
        [sys.executable, "-c", PARSE, ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"]],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(ended.stdout.splitlines()[-1])
    assert said["errors"] == {}
    assert said["heavy"] == []
    assert said["seconds"] < 20


def test_a_dag_says_whose_it_is_and_what_it_does(dag: DAG) -> None:
    """Owner, tags and a text for people, on the DAG and on each of its tasks."""
    assert "winnow" in dag.tags
    assert dag.doc_md
    assert [t.task_id for t in dag.tasks if t.owner != "winnow"] == []
    assert [t.task_id for t in dag.tasks if not (t.doc_md or "").strip()] == []


def test_a_dag_does_not_catch_up(dag: DAG) -> None:
    """An archive is compacted as it is now; the past is compacted by a backfill that somebody asks for."""
    assert dag.catchup is False


def test_tasks_are_tried_again_with_growing_delay_and_only_when_it_can_help(dag: DAG) -> None:
    """All but the task that fails the run on purpose have retries, back-off and the retry policy."""
    for each in dag.tasks:
        assert (each.retries or 0) >= (0 if each.task_id == "outcome" else 1)
        assert each.retry_exponential_backoff == 2.0
        assert each.retry_policy is not None


def test_pools_of_all_tasks_exist_after_migrate(airflow_home: Settings, dagbag: DagBag) -> None:
    """A pool that does not exist fails nothing: its tasks wait for ever."""
    with sqlite3.connect(airflow_home.airflow_home / "airflow.db") as database:
        pools = dict(database.execute("SELECT pool, slots FROM slot_pool").fetchall())
    assert {each.pool for dag in dagbag.dags.values() for each in dag.tasks} <= pools.keys()
    assert {name: pools[name] for name in POOLS} == {name: pool["slots"] for name, pool in POOLS.items()}
    assert pools["winnow_spark"] == 2


def test_a_second_migrate_changes_nothing(airflow_home: Settings) -> None:
    """It finds its stamp and starts no Airflow command."""
    log = airflow_home.airflow_home / "prepare.log"
    before = log.stat().st_size
    migrate(airflow_home)
    assert log.stat().st_size == before


def test_compactions_run_one_at_a_time_every_quarter_of_an_hour(dagbag: DagBag) -> None:
    """One run at a time, and a run's data interval ends where the next begins."""
    dag = dagbag.dags["compact_topics"]
    assert dag.max_active_runs == 1
    assert isinstance(dag.timetable, CronTriggerTimetable)
    assert dag.timetable.expression == "*/15 * * * *"
    assert dag.timetable.interval == timedelta(minutes=15)


def test_spark_waits_in_its_own_pool(dagbag: DagBag) -> None:
    """Two applications at a time, and one that hangs is ended."""
    compact = dagbag.dags["compact_topics"].task_dict["compact_batch.compact"]
    assert compact.pool == "winnow_spark"
    assert compact.execution_timeout is not None
