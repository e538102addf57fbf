"""Environment variables of the embedded Airflow: home, database, secrets, connection to Spark.

All files are below ``WINNOW_HOME/airflow``. Secrets are generated once into files of mode 0600; the environment only
names the commands that read them, so that neither ``/proc`` nor a printed environment shows them.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from winnow.config.settings import Settings
from winnow.embedded.airflow_users import format_users, locate_password_file, write_secret
from winnow.embedded.bundle import find_bundled_folder
from winnow.embedded.java import find_java, make_spark_environment
from winnow.embedded.postgres import PostgresServer
from winnow.errors import ConfigurationError

Secret = Callable[[], str]
"""Function that makes a new secret."""

PORT_VARIABLE = "WINNOW_UI_PORT"
DEFAULT_PORT = 8080
MAXIMUM_PORT = 65_535
LOOPBACK = "127.0.0.1"
DATABASE_VARIABLE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
DATABASE_NAME = "airflow"
SPARK_CONNECTION_VARIABLE = "AIRFLOW_CONN_WINNOW_SPARK"
"""Airflow's name for the connection ``winnow_spark``."""

AUTH_MANAGER = "winnow_airflow.embedded_users.EmbeddedAuthManager"
"""In the folder of plugins, which Airflow has on its path."""

JWT_SECRET_BYTES = 64
"""Airflow signs with HS512, whose key should be as long as its digest."""

_TUNABLE = {
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
    # A run that a dead scheduler left goes on at the next check after half a minute without its heartbeat.
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__LOGGING__UVICORN_LOGGING_LEVEL": "WARNING",
    # Airflow prints its own deprecation warnings into every task log; naming any filter stops that.
    "PYTHONWARNINGS": "ignore::DeprecationWarning:pathspec",
}
"""Variables that keep their value if they are set already. All others are fixed in the embedded Airflow."""


def read_ui_port(env: Mapping[str, str]) -> int:
    """Return the port of the UI: ``WINNOW_UI_PORT``, or 8080.

    Raises:
        ConfigurationError: it is not a port (1 to 65535).
    """
    text = env.get(PORT_VARIABLE) or str(DEFAULT_PORT)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAXIMUM_PORT:
        raise ConfigurationError(
            f"{PORT_VARIABLE} is not a port.",
            left="Nothing was started.",
            next=f"Give a number from 1 to {MAXIMUM_PORT}.",
        )
    return int(text)


def make_airflow_environment(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    """Add to ``env`` everything that the embedded Airflow and its tasks need. Generates missing secrets.

    Raises:
        ConfigurationError: no Java, an incomplete installation, or an invalid port.
    """
    home = settings.airflow_home
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    url = f"http://{LOOPBACK}:{read_ui_port(env)}"
    java_home = find_java(env, settings.home / "java")
    return {
        **_TUNABLE,
        **make_spark_environment(env, java_home, master=settings.spark.master),
        "WINNOW_HOME": str(settings.home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(find_bundled_folder("dags")),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(find_bundled_folder("plugins")),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__AUTH_MANAGER": AUTH_MANAGER,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": format_users(settings),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(locate_password_file(settings)),
        DATABASE_VARIABLE: choose_database(settings, env),
        "AIRFLOW__API__HOST": LOOPBACK,
        "AIRFLOW__API__PORT": str(read_ui_port(env)),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__FERNET_KEY_CMD": _open_to_read(home / "fernet.key", _make_fernet_key),
        "AIRFLOW__API_AUTH__JWT_SECRET_CMD": _open_to_read(home / "jwt.secret", _make_jwt_secret),
        "AIRFLOW__API__SECRET_KEY_CMD": _open_to_read(home / "api.secret", _make_jwt_secret),
        SPARK_CONNECTION_VARIABLE: make_spark_connection(settings),
    }


def make_spark_connection(settings: Settings) -> str:
    """Make the Airflow connection ``winnow_spark`` as JSON: where spark-submit sends the application."""
    return json.dumps({"conn_type": "spark", "host": settings.spark.master}, sort_keys=True)


def locate_postgres(settings: Settings) -> Path:
    """Return the folder of the PostgreSQL that holds Airflow's metadata."""
    return settings.home / "postgres"


def make_sqlite_url(settings: Settings) -> str:
    """Make the URL of the SQLite file that can hold Airflow's metadata instead, with one task at a time."""
    return f"sqlite:///{settings.airflow_home / 'airflow.db'}"


def choose_database(settings: Settings, env: Mapping[str, str]) -> str:
    """Return the URL of Airflow's metadata database: PostgreSQL's, or the home's own SQLite file if ``env`` names it.

    The second is for tests. Any other URL in ``env`` belongs to another Airflow of the machine and is not used.
    """
    sqlite = make_sqlite_url(settings)
    if env.get(DATABASE_VARIABLE) == sqlite:
        return sqlite
    return PostgresServer(locate_postgres(settings)).make_url(DATABASE_NAME)


def _open_to_read(path: Path, generate: Secret) -> str:
    write_secret(path, generate())
    return shlex.join(["cat", str(path)])


def _make_fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def _make_jwt_secret() -> str:
    return base64.b64encode(os.urandom(JWT_SECRET_BYTES)).decode()
