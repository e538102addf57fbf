"""Starts api-servers without a scheduler, so triggered runs stay queued.

Two of them share one Airflow (database, users, secrets) and differ in the metadata store that their page shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.embedded_airflow import find_free_port, read_tail
from winnow.config.settings import load_settings
from winnow.embedded.airflow_env import (
    DATABASE_VARIABLE,
    LOOPBACK,
    PORT_VARIABLE,
    make_airflow_environment,
    make_sqlite_url,
)
from winnow.embedded.airflow_users import add_user, format_users, locate_password_file
from winnow.embedded.processes import stop_processes

START_S = 120
USERS = {"admin": "admin", "bert": "admin", "vera": "viewer"}
"""Names and roles. The password of each is its name."""


@dataclass(frozen=True)
class Server:
    """One api-server and the lake that its page shows."""

    url: str
    lake: Path
    log: Path
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Until it answers.

        Raises:
            AssertionError: it ended, or did not answer within two minutes; with its last words.
        """
        until = time.monotonic() + START_S
        while not self._answers():
            assert self.process.poll() is None, f"The api-server ended.\n{read_tail(self.log)}"
            assert time.monotonic() < until, f"The api-server does not answer.\n{read_tail(self.log)}"
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/version", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False


OF_LAKES: Final[Mapping[str, Mapping[str, str]]] = {
    "small": {"WINNOW_ERASE__APPROVALS": "2"},
    "thousand": {"WINNOW_OWNERS__growth": "ada"},
}
"""Settings of single lakes: in one erasures take two persons, in the other topics of an owner are not everybody's."""


@contextmanager
def start_servers(
    home: Path, lakes: Mapping[str, Path], store_fillers: Sequence[Sequence[str]]
) -> Iterator[dict[str, Server]]:
    """An api-server per lake, answering; ``store_fillers``: Python modules with arguments that run meanwhile."""
    environment = _environment(home)
    fillers = [_start(("-m", *each), environment, home / f"filler-{n}.log") for n, each in enumerate(store_fillers)]
    processes = [*fillers]
    try:
        _finish(_start(("-m", "airflow", "db", "migrate"), environment, home / "migrate.log"), home / "migrate.log")
        serialize = _start(("-m", "airflow", "dags", "reserialize"), environment, home / "serialize.log")
        processes.append(serialize)
        servers: dict[str, Server] = {}
        for name, lake in lakes.items():
            port, log = find_free_port(), home / f"{name}.log"
            url = f"http://{LOOPBACK}:{port}"
            own = {**environment, "WINNOW_HOME": str(lake), "AIRFLOW__API__BASE_URL": url, **OF_LAKES.get(name, {})}
            process = _start(("-m", "airflow", "api-server", "--port", str(port)), own, log)
            servers[name] = Server(url, lake, log, process)
            processes.append(process)
        for number, filler in enumerate(fillers):
            _finish(filler, home / f"filler-{number}.log")
        _finish(serialize, home / "serialize.log")
        for server in servers.values():
            server.wait()
        yield servers
    finally:
        stop_processes(processes)


def _environment(home: Path) -> dict[str, str]:
    env = {**os.environ, "WINNOW_HOME": str(home), PORT_VARIABLE: str(find_free_port())}
    settings = load_settings(cwd=home, env=env)
    # Nothing is scheduled here, so a file is enough.
    environment = make_airflow_environment(settings, {**env, DATABASE_VARIABLE: make_sqlite_url(settings)})
    for name in ("bert", "vera"):
        add_user(settings, name, USERS[name])
    locate_password_file(settings).write_text(json.dumps({name: name for name in USERS}), encoding="utf-8")
    return {
        **environment,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": format_users(settings),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "WINNOW_PAGE__RECORD_READERS": "admin",
        "WINNOW_PAGE__MASKED_FIELDS": "card",
    }


def _start(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stream:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _finish(process: subprocess.Popen[bytes], log: Path) -> None:
    process.wait(timeout=START_S)
    assert process.returncode == 0, read_tail(log)
