"""Two installations in one Airflow: a DAG processor for each, one database, prefixes that tell their DAGs apart."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import copy_home
from tests.dags.test_parsing import DAGS
from tests.faults.forked_processes import ForkServer, start_fork_server
from tests.support.airflow_environment import ENVIRONMENT
from tests.support.dag_topics import build_old_lines, make_topic, read_topic
from winnow.config.settings import Settings, load_settings
from winnow.embedded.airflow_env import DATABASE_VARIABLE, make_sqlite_url
from winnow.embedded.airflow_home import POOLS
from winnow.pipeline.installation import open_installation
from winnow_airflow.pool_checks import MISSING_POOLS_KEY

NAMES = ("sales", "stock")


class TwoInstallations:
    """One Airflow, and what each of :data:`NAMES` is started with."""

    def __init__(self, airflow_home: Settings, folder: Path) -> None:
        self.folder = folder
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

    def read_dags(self, name: str) -> None:
        """Let a DAG processor read the DAGs of that installation once."""
        command = [sys.executable, "-W", "ignore", "-m", "airflow", "dag-processor", "--bundle-name", name]
        ended = subprocess.run(
            [*command, "--num-runs", "1"], env=self.environments[name], capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def ask(self, server: ForkServer, name: str, *step: str) -> Any:
        """What a step (installation_steps.py) answers in that installation."""
        process = server.start(self.folder, json.dumps(self.environments[name]), *step)
        assert process.wait() == 0, process.errors
        return json.loads(process.errors.splitlines()[-1])

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
        made.read_dags(name)
    return made


@pytest.fixture(scope="module")
def server(installations: TwoInstallations) -> Iterator[ForkServer]:
    """Starts processes of either installation; what differs between the two they get by themselves."""
    environment = {
        name: value
        for name, value in installations.environments["sales"].items()
        if not name.startswith(("WINNOW_", "AIRFLOW__OPERATORS", "PYTHONPATH"))
    }
    with start_fork_server(environment, "tests.dags.installation_steps") as started:
        yield started


def test_a_dag_processor_each_lists_both_installations_dags_without_a_clash(
    installations: TwoInstallations, server: ForkServer
) -> None:
    """Every DAG is there twice, for workers of its own queue, as is the asset that one waits for; pools are shared."""
    dags = dict(
        installations.select("SELECT dag_id, bundle_name FROM dag WHERE NOT is_stale AND bundle_name != 'dags-folder'")
    )
    assert dags == {f"{name}_{dag}": name for name in NAMES for dag in DAGS}
    assert installations.select("SELECT filename, stacktrace FROM import_error") == []
    listed = installations.ask(server, "sales", "tasks", *(f"{name}_compact_topics" for name in NAMES))
    for name, tasks in zip(NAMES, listed, strict=True):
        assert {queue for _, queue in tasks} == {name}
        assert {pool for pool, _ in tasks} <= {*POOLS, "default_pool"}
    waited_for = installations.select(
        "SELECT dag_id, name FROM dag_schedule_asset_reference JOIN asset ON asset.id = asset_id"
    )
    assert {row for row in waited_for if row[0] != "example_consumer"} == {
        (f"{name}_example_consumer", f"winnow://{name}_topic/aircraft") for name in NAMES
    }


def test_a_run_of_each_compacts_its_own_lake_and_sends_its_own_asset_event(
    installations: TwoInstallations, server: ForkServer
) -> None:
    """Topics of the same name: neither run touches the other's, nor starts what waits for the other's."""
    left = {name: 20 * number for number, name in enumerate(NAMES, 1)}
    for name in NAMES:
        dag_folder = ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"]
        assert installations.ask(server, name, "run", dag_folder, f"{name}_compact_now") == "success"
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


def test_the_scheduler_of_one_finds_the_pools_that_runs_of_the_other_lack(
    installations: TwoInstallations, server: ForkServer
) -> None:
    """Without that they would wait for ever: one scheduler starts the runs of both, with the settings of one."""
    started = installations.ask(server, "stock", "start", "sales_sweep_topics")
    assert started == ["running", {MISSING_POOLS_KEY: ["winnow_commit"]}]
