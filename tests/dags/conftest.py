"""An Airflow home of its own for these tests, prepared before anything imports Airflow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from winnow.airflow_env import airflow_environment
from winnow.airflow_home import migrate
from winnow.config.settings import Settings, load_settings

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

_folder = tempfile.TemporaryDirectory(prefix="winnow-airflow-")
HOME = Path(_folder.name) / "winnow"
SETTINGS = load_settings(
    env={"WINNOW_HOME": str(HOME), "WINNOW_SPARK__MASTER": "local[2]", "PATH": os.environ["PATH"]}
)
ENVIRONMENT = airflow_environment(SETTINGS, os.environ)
# Airflow reads its configuration once, when it is first imported.
os.environ.update({name: value for name, value in ENVIRONMENT.items() if name.startswith("AIRFLOW")})


@pytest.fixture(scope="session")
def airflow_home() -> Settings:
    """The embedded Airflow, with its database and pools."""
    migrate(SETTINGS)
    return SETTINGS


@pytest.fixture(scope="session")
def dagbag(airflow_home: Settings) -> DagBag:
    """Every DAG of the project."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"])
