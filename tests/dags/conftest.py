"""An Airflow home of its own for these tests, prepared before anything imports Airflow."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.airflow_environment import ENVIRONMENT, SETTINGS
from winnow.config.settings import Settings
from winnow.embedded.airflow_home import migrate
from winnow.pipeline.installation import Installation, open_installation

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

RunDag = Callable[..., dict[tuple[str, int], str]]
"""Gives the state of each task by name and map index, and that of the run as ("run", -1)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Airflow reads `.airflowignore` with a class that pathspec deprecates."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"))


@pytest.fixture(scope="session")
def airflow_home() -> Settings:
    """The embedded Airflow, with its database and pools."""
    migrate(SETTINGS)
    return SETTINGS


def copy_home(settings: Settings, home: Path) -> None:
    """A copy of the embedded Airflow at ``home``, its database as it stands."""
    # Not as a file: to open and close one drops the locks that this process holds on the database.
    shutil.copytree(settings.home, home, ignore=shutil.ignore_patterns("airflow.db*"))
    with (
        closing(sqlite3.connect(settings.airflow_home / "airflow.db")) as used,
        closing(sqlite3.connect(home / "airflow" / "airflow.db")) as copy,
    ):
        used.backup(copy)


@pytest.fixture(scope="session")
def dagbag(airflow_home: Settings) -> DagBag:
    """Every DAG of the project."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"])


@pytest.fixture
def runnable(airflow_home: Settings) -> DagBag:
    """Every DAG, for running: a task that fails is not tried again, since nobody waits for its delay here."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"])
    for dag in bag.dags.values():
        for each in dag.tasks:
            each.retries = 0
    return bag


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """A lake of its own for one test, which tasks find by the environment."""
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "lake"))
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "local[2]")
    monkeypatch.setenv("WINNOW_INGEST__ROOTS", str(tmp_path))
    with open_installation() as opened:
        yield opened


@pytest.fixture
def run_dag(runnable: DagBag) -> RunDag:
    """Runs a DAG in this process, task by task, as the scheduler would order them."""

    def run(dag_id: str, *, logical_date: datetime | None = None, **conf: Any) -> dict[tuple[str, int], str]:
        dag = runnable.dags[dag_id]
        options: dict[str, Any] = {} if logical_date is None else {"logical_date": logical_date}
        ended = dag.test(run_conf=conf, **options)
        states = {(ti.task_id, ti.map_index): str(ti.state) for ti in ended.get_task_instances()}
        return states | {("run", -1): str(ended.state)}

    return run
