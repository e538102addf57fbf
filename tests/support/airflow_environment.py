"""Sets up Airflow's home for the test process before Airflow is imported.

Airflow reads its configuration once, when it is first imported, so all tests of one process share this one. Its
database is a SQLite file: one process runs one task after another here, and reads rows as it likes.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from winnow.config.settings import load_settings
from winnow.embedded.airflow_env import DATABASE_VARIABLE, make_airflow_environment, make_sqlite_url

_folder = tempfile.TemporaryDirectory(prefix="winnow-airflow-")
HOME = Path(_folder.name) / "winnow"
SETTINGS = load_settings(env={"WINNOW_HOME": str(HOME), "WINNOW_SPARK__MASTER": "local[2]", "PATH": os.environ["PATH"]})
ENVIRONMENT = make_airflow_environment(SETTINGS, {**os.environ, DATABASE_VARIABLE: make_sqlite_url(SETTINGS)})
os.environ.update({name: value for name, value in ENVIRONMENT.items() if name.startswith("AIRFLOW")})
