"""The Airflow of the test process: a home of its own, chosen before anything imports Airflow.

Airflow reads its configuration once, when it is first imported, so all tests of one process share this one.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from winnow.airflow_env import make_airflow_environment
from winnow.config.settings import load_settings

_folder = tempfile.TemporaryDirectory(prefix="winnow-airflow-")
HOME = Path(_folder.name) / "winnow"
SETTINGS = load_settings(env={"WINNOW_HOME": str(HOME), "WINNOW_SPARK__MASTER": "local[2]", "PATH": os.environ["PATH"]})
ENVIRONMENT = make_airflow_environment(SETTINGS, os.environ)
os.environ.update({name: value for name, value in ENVIRONMENT.items() if name.startswith("AIRFLOW")})
