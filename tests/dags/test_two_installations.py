"""Two installations in one Airflow: a DAG processor for each, one database, prefixes that tell their DAGs apart."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import copy_home
from tests.dags.test_parsing import DAGS
from tests.support.airflow_environment import ENVIRONMENT
from tests.support.dag_topics import build_old_lines, make_topic, read_topic
from winnow.config.settings import Settings, load_settings
from winnow.embedded.airflow_env import DATABASE_VARIABLE, make_sqlite_url
from winnow.embedded.airflow_home import POOLS
from winnow.pipeline.installation import open_installation
from winnow_airflow.pool_checks import MISSING_POOLS_KEY

NAMES = ("sales", "stock")

RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
dag = DagBag(dag_folder=sys.argv[1]).dags[sys.argv[2]]
for task in dag.tasks:
    task.retries = 0
print(json.dumps(str(dag.test(run_conf={"topics": ["orders"]}).state)))
"""


TASKS = """
import json, sys
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
with create_session() as session:
    dags = [SerializedDagModel.get(name, session=session).dag for name in sys.argv[1:]]
print(json.dumps([[[task.pool, task.queue] for task in dag.tasks] for dag in dags]))
"""


START = """
import json, sys
from datetime import UTC, datetime, timedelta
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.pool import Pool
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import delete
with create_session(scoped=False) as session:
    due = datetime.now(UTC) - timedelta(minutes=1)  # SQLite's present has no fractions of a second
    run = SerializedDagModel.get(sys.argv[1], session=session).dag.create_dagrun(
        run_id="manual__pools", run_type=DagRunType.MANUAL, run_after=due, conf={}, state=DagRunState.QUEUED,
        triggered_by=DagRunTriggeredByType.TEST, session=session,
    )
    session.execute(delete(Pool).where(Pool.pool == "winnow_commit"))
    session.flush()
    SchedulerJobRunner(Job())._start_queued_dagruns(session)
    session.flush()
    session.refresh(run)
    found = [str(run.state), run.conf]
    session.rollback()
print(json.dumps(found))
"""


class TwoInstallations:
    """One Airflow, and what each of :data:`NAMES` is started with."""

    def __init__(self, airflow_home: Settings, folder: Path) -> None:
        copy_home(airflow_home, folder / "airflow-home")
        shared = load_settings(env={**ENVIRONMENT, "WINNOW_HOME": str(folder / "airflow-home")})
        self.database = shared.airflow_home / "airflow.db"
        place = {
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"]},
        }
        self.environments = {
            name: {
                **os.environ,
                **ENVIRONMENT,
                "AIRFLOW_HOME": str(shared.airflow_home),
                DATABASE_VARIABLE: make_sqlite_url(shared),
                "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
                    [{"name": each, **place} for each in NAMES]
                ),
                "AIRFLOW__OPERATORS__DEFAULT_QUEUE": name,
                "WINNOW_HOME": str(folder / name),
                "WINNOW_SPARK__MASTER": "local[2]",
                "WINNOW_AIRFLOW__DAG_PREFIX": f"{name}_",
            }
            for name in NAMES
        }

    def run(self, name: str, *command: str) -> str:
        """What Python prints in that installation."""
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", *command], env=self.environments[name], capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def select(self, query: str) -> list[Any]:
        """Rows of Airflow's database."""
        with closing(sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(query).fetchall()


@pytest.fixture(scope="module")
def installations(airflow_home: Settings, tmp_path_factory: pytest.TempPathFactory) -> TwoInstallations:
    """Each with a topic ``orders`` of its own, and with its DAGs read by a DAG processor of its own."""
    folder = tmp_path_factory.mktemp("two")
    made = TwoInstallations(airflow_home, folder)
    for number, name in enumerate(NAMES, 1):
        with open_installation(load_settings(env=made.environments[name])) as installation:
            make_topic(installation, folder, "orders", [build_old_lines(20 * number, 4)], segment_ms="1000")
        made.run(name, "-m", "airflow", "dag-processor", "--bundle-name", name, "--num-runs", "1")
    return made


def test_a_dag_processor_each_lists_both_installations_dags_without_a_clash(installations: TwoInstallations) -> None:
    """Every DAG is there twice, for workers of its own queue, as is the asset that one waits for; pools are shared."""
    dags = dict(
        installations.select("SELECT dag_id, bundle_name FROM dag WHERE NOT is_stale AND bundle_name != 'dags-folder'")
    )
    assert dags == {f"{name}_{dag}": name for name in NAMES for dag in DAGS}
    assert installations.select("SELECT filename, stacktrace FROM import_error") == []
    listed = json.loads(installations.run("sales", "-c", TASKS, *(f"{name}_compact_topics" for name in NAMES)))
    for name, tasks in zip(NAMES, listed, strict=True):
        assert {queue for _, queue in tasks} == {name}
        assert {pool for pool, _ in tasks} <= {*POOLS, "default_pool"}
    waited_for = installations.select(
        "SELECT dag_id, name FROM dag_schedule_asset_reference JOIN asset ON asset.id = asset_id"
    )
    assert {row for row in waited_for if row[0] != "example_consumer"} == {
        (f"{name}_example_consumer", f"winnow://{name}_topic/aircraft") for name in NAMES
    }


def test_a_run_of_each_compacts_its_own_lake_and_sends_its_own_asset_event(installations: TwoInstallations) -> None:
    """Topics of the same name: neither run touches the other's, nor starts what waits for the other's."""
    left = {name: 20 * number for number, name in enumerate(NAMES, 1)}
    for name in NAMES:
        ran = installations.run(name, "-c", RUN, ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"], f"{name}_compact_now")
        assert json.loads(ran.splitlines()[-1]) == "success"
        left[name] = 4
        for each in NAMES:
            with open_installation(load_settings(env=installations.environments[each])) as installation:
                assert len(read_topic(installation, "orders")) == left[each], (name, each)
        runs = installations.select("SELECT dag_id, state FROM dag_run")
        assert (f"{name}_compact_now", "success") in runs
    # The copied database has events of other tests, of DAGs and assets without a prefix.
    events = [
        (dag, asset)
        for dag, asset in installations.select(
            "SELECT source_dag_id, name FROM asset_event JOIN asset ON asset.id = asset_id"
        )
        if any(dag.startswith(f"{name}_") or asset.startswith(f"winnow://{name}_") for name in NAMES)
    ]
    assert sorted(events) == [(f"{name}_compact_now", f"winnow://{name}_topic/orders") for name in NAMES]


def test_the_scheduler_of_one_finds_the_pools_that_runs_of_the_other_lack(installations: TwoInstallations) -> None:
    """Without that they would wait for ever: one scheduler starts the runs of both, with the settings of one."""
    started = installations.run("stock", "-c", START, "sales_sweep_topics")
    assert json.loads(started.splitlines()[-1]) == ["running", {MISSING_POOLS_KEY: ["winnow_commit"]}]
