"""What the first start of a server makes: secrets once, for ever, and readable by whom they are for."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from winnow.embedded.airflow_home import POOLS

PROGRAM = Path(__file__).parents[2] / "scripts" / "team_server.py"
FILES = {
    "database/password": 0o444,
    "objects/access-key-id": 0o444,
    "objects/secret-access-key": 0o444,
    "objects/credentials": 0o444,
    "spark/spark-defaults.conf": 0o600,
    "airflow/pgpass": 0o600,
    "airflow/fernet-key": 0o600,
    "airflow/jwt-secret": 0o600,
    "airflow/api-secret": 0o600,
    "airflow/login.json": 0o600,
}


def team_server(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a service does."""
    return subprocess.run(
        [sys.executable, PROGRAM, *arguments], env={**os.environ, **env}, capture_output=True, encoding="utf-8"
    )


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_secrets_are_made_once_whoever_asks_and_however_often(tmp_path: Path) -> None:
    """Two starts at once agree on every file; the password that libpq gives is PostgreSQL's."""
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda _: team_server("secrets", TEAM_SERVER_SECRETS=str(tmp_path)).returncode, range(4)))
    first = contents(tmp_path)

    assert codes == [0] * 4
    assert first.keys() == FILES.keys()
    assert team_server("secrets", TEAM_SERVER_SECRETS=str(tmp_path)).returncode == 0
    assert contents(tmp_path) == first
    assert first["airflow/pgpass"] == f"*:*:*:winnow:{first['database/password']}\n"
    assert f"aws_secret_access_key = {first['objects/secret-access-key']}\n" in first["objects/credentials"]


def test_secrets_are_open_to_their_service_only(tmp_path: Path) -> None:
    """Whatever the umask: what other images' users read is readable, the rest is private."""
    before = os.umask(0o077)
    try:
        team_server("secrets", TEAM_SERVER_SECRETS=str(tmp_path))
    finally:
        os.umask(before)
    assert {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in FILES} == FILES


def test_two_servers_have_no_secret_in_common(tmp_path: Path) -> None:
    """Nothing is a default."""
    for name in ("one", "two"):
        team_server("secrets", TEAM_SERVER_SECRETS=str(tmp_path / name))
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert not set(one.values()) & set(two.values())
    assert len(one["airflow/jwt-secret"]) >= 64


def test_a_secret_that_is_missing_is_made_and_the_others_stay(tmp_path: Path) -> None:
    """A start that was cut short is finished by the next one."""
    team_server("secrets", TEAM_SERVER_SECRETS=str(tmp_path))
    first = contents(tmp_path)
    (tmp_path / "airflow" / "pgpass").unlink()
    (tmp_path / "airflow" / "login.json").unlink()

    team_server("secrets", TEAM_SERVER_SECRETS=str(tmp_path))

    after = contents(tmp_path)
    assert {name for name in FILES if after[name] != first[name]} == {"airflow/login.json"}


def test_login_says_where_and_with_what(tmp_path: Path) -> None:
    """The one command that shows a password, to whoever may run commands in the container."""
    team_server("secrets", TEAM_SERVER_SECRETS=str(tmp_path))
    password = json.loads((tmp_path / "airflow" / "login.json").read_text())["admin"]
    said = team_server("login", TEAM_SERVER_SECRETS=str(tmp_path), AIRFLOW__API__BASE_URL="http://localhost:8080")
    assert said.stdout == f"http://localhost:8080\n  login: admin  password: {password}\n"


def test_pools_are_those_of_the_embedded_airflow() -> None:
    """One list for both."""
    assert json.loads(team_server("pools").stdout) == POOLS


HEALTH = {"scheduler": {"status": "healthy"}, "dag_processor": {"status": "unhealthy"}, "triggerer": {"status": None}}


@pytest.fixture
def airflow() -> Iterator[str]:
    """Something that answers as Airflow's health endpoint does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/v2/monitor/health" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(HEALTH).encode())

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("component", "code"), [("scheduler", 0), ("dag-processor", 1), ("triggerer", 1)])
def test_a_component_is_as_healthy_as_airflow_says(airflow: str, component: str, code: int) -> None:
    """The exit code is what a health check looks at."""
    done = team_server("healthy", component, AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{airflow}/execution/")
    assert done.returncode == code


def test_an_answer_is_one_without_an_error(airflow: str) -> None:
    """Neither a refusal nor silence counts."""
    assert team_server("answers", f"{airflow}/api/v2/monitor/health").returncode == 0
    assert team_server("answers", f"{airflow}/nothing").returncode == 1
    assert team_server("answers", "http://127.0.0.1:9/").returncode == 1
