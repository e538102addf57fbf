"""Starts the embedded Airflow as ``make ui`` does, and drives it by REST API and command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import psutil  # type: ignore[import-untyped]

from winnow.config.settings import Settings, load_settings
from winnow.embedded.airflow_components import HEALTHY
from winnow.embedded.airflow_env import LOOPBACK, PORT_VARIABLE
from winnow.embedded.airflow_users import LOGIN, add_user, locate_password_file
from winnow.embedded.processes import stop_processes

START_S = 600
RUN_S = 600
ANSWER_S = 120
STOP_S = 120
POLL_S = 1.0
TAIL_LINES = 40
ENDED = ("success", "failed")
FAILED = "Task failed with exception"
"""What Airflow writes into the log of a task that raised, whether it tries it again or not."""

Found = TypeVar("Found")


class NotInTimeError(AssertionError):
    """Airflow did not get there before the deadline; the message ends with the last task logs."""


class RefusedError(AssertionError):
    """Airflow's API answered with an error."""


@dataclass(frozen=True)
class EmbeddedAirflow:
    """A running Airflow: its API with a logged-in user, and its command line. Times in seconds.

    ``environment``: that of the shell from which it was started. ``log``: what ``make ui`` printed.
    """

    url: str
    settings: Settings
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes]
    _token: dict[str, str] = field(default_factory=dict, repr=False)

    # What the API says

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer of ``path`` below ``/api/v2``.

        Raises:
            RefusedError: with status and Airflow's words.
        """
        status, answer = self._send(method, f"/api/v2{path}", body, self._bearer())
        if status >= 400:
            raise RefusedError(f"{method} {path}: {status} {answer}")
        return answer

    def _bearer(self) -> dict[str, str]:
        if not self._token:
            self._token.update(self.log_in(LOGIN))
        return self._token

    def log_in(self, name: str) -> dict[str, str]:
        """The header of the user ``name``."""
        passwords = json.loads(locate_password_file(self.settings).read_text())
        status, answer = self._send("POST", "/auth/token", {"username": name, "password": passwords[name]}, {})
        assert status == 201, answer
        return {"Authorization": f"Bearer {answer['access_token']}"}

    def try_as(self, name: str, method: str, path: str, body: object = None) -> int:
        """The status that the user ``name`` is answered."""
        return self.try_with(self.log_in(name), method, path, body)

    def try_with(self, session: Mapping[str, str], method: str, path: str, body: object = None) -> int:
        """The status that a session of :meth:`log_in` is answered."""
        return self._send(method, path, body, session)[0]

    def _send(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json", **headers},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as problem:
            with problem:
                return problem.code, problem.read().decode(errors="replace")

    def is_healthy(self) -> bool:
        """Whether database, scheduler and DAG processor say that they are well."""
        try:
            status, health = self._send("GET", "/api/v2/monitor/health", None, {})
        except OSError:
            return False
        return status == 200 and all(health.get(name, {}).get("status") == "healthy" for name in HEALTHY)

    def dags(self) -> dict[str, bool]:
        """Every parsed DAG, and whether it is paused."""
        return {dag["dag_id"]: dag["is_paused"] for dag in self.call("GET", "/dags?limit=100")["dags"]}

    def unpause(self, *dag_ids: str) -> None:
        """Let the scheduler start runs of these DAGs, by schedule too."""
        for dag_id in dag_ids:
            self.call("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": False})

    def pause(self, *dag_ids: str) -> None:
        """Start no more runs of these DAGs."""
        for dag_id in dag_ids:
            self.call("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": True})

    # Runs

    def trigger(self, dag_id: str, **conf: object) -> str:
        """Trigger a run as the form does; its id."""
        run = self.call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def runs(self, dag_id: str, **filters: object) -> list[dict[str, Any]]:
        """The runs of a DAG, oldest first."""
        query = urlencode({"limit": 100, "order_by": "id", **filters})
        found: list[dict[str, Any]] = self.call("GET", f"/dags/{dag_id}/dagRuns?{query}")["dag_runs"]
        return found

    def state(self, dag_id: str, run_id: str) -> str:
        """The state of one run."""
        return str(self.call("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id)}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> dict[tuple[str, int], str]:
        """The state of each task instance of one run, by task id and map index."""
        return {(ti["task_id"], ti["map_index"]): str(ti["state"]) for ti in self._instances(dag_id, run_id)}

    def tries(self, dag_id: str, run_id: str) -> set[int]:
        """The numbers of the latest tries of the tasks of one run; 0: not begun. Clearing a task goes on counting."""
        return {ti["try_number"] for ti in self._instances(dag_id, run_id)}

    def _instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        answer = self.call("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances?limit=1000")
        found: list[dict[str, Any]] = answer["task_instances"]
        return found

    def wait(self, dag_id: str, run_id: str, *, within_s: float = RUN_S) -> str:
        """The state in which a run ended: success or failed."""

        def ended() -> str | None:
            state = self.state(dag_id, run_id)
            return state if state in ENDED else None

        return self.until(ended, f"run {run_id} of {dag_id} has ended", within_s=within_s)

    def until(self, reached: Callable[[], Found | None], what: str, *, within_s: float = RUN_S) -> Found:
        """What ``reached`` gives as soon as it is truthy.

        Raises:
            NotInTimeError: it was not within ``within_s``, or Airflow ended.
        """
        deadline = time.monotonic() + within_s
        while not (found := reached()):
            if self.process.poll() is not None:
                raise NotInTimeError(f"Airflow ended with {self.process.returncode}.\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise NotInTimeError(f"After {within_s} s it is not so that {what}.\n{self.last_words()}")
            time.sleep(POLL_S)
        return found

    # Backfills

    def backfill(self, dag_id: str, first: datetime, last: datetime, **options: object) -> None:
        """Ask for a backfill over the API, as the UI does."""
        body = {"dag_id": dag_id, "from_date": first.isoformat(), "to_date": last.isoformat(), **options}
        self.call("POST", "/backfills", body)

    def submit_form(self, dag_id: str, first: datetime, last: datetime, conf: object, **choices: object) -> None:
        """Ask for a backfill as the form of the UI does: it counts the runs first, and its last day is a whole one."""
        body = {
            "dag_id": dag_id,
            "from_date": first.isoformat(),
            "to_date": (last + timedelta(days=1, milliseconds=-1)).isoformat(),
            "max_active_runs": 1,
            "reprocess_behavior": "none",
            "run_backwards": False,
            "run_on_latest_version": True,
            **choices,
        }
        self.call("POST", "/backfills/dry_run", body)
        self.call("POST", "/backfills", {**body, "dag_run_conf": conf})

    def find_component(self, name: str) -> psutil.Process:
        """The process of a component."""
        children = psutil.Process(self.process.pid).children()
        (found,) = [child for child in children if child.is_running() and name in child.cmdline()]
        return found

    def wait_backfill(self, dag_id: str, *, within_s: float = RUN_S) -> None:
        """Wait until the DAG's backfill is marked complete, as it must be before the next one.

        Airflow looks every half a minute.
        """

        def complete() -> bool:
            found = self.call("GET", f"/backfills?dag_id={dag_id}&limit=100")["backfills"]
            return all(backfill["completed_at"] is not None for backfill in found)

        self.until(complete, f"the backfill of {dag_id} is complete", within_s=within_s)

    def wait_all(self, dag_id: str, *, within_s: float = RUN_S) -> None:
        """Wait until every run of the DAG has ended."""

        def ended() -> bool:
            return all(run["state"] in ENDED for run in self.runs(dag_id))

        self.until(ended, f"all runs of {dag_id} have ended", within_s=within_s)

    def cli(self, *arguments: str) -> str:
        """Run ``winnow airflow`` as in a shell; what it printed."""
        ended = subprocess.run(
            [sys.executable, "-m", "winnow.cli", "airflow", *arguments],
            env=dict(self.environment),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=RUN_S,
        )
        assert ended.returncode == 0, f"airflow {' '.join(arguments)}: {ended.stdout}\n{ended.stderr}"
        return ended.stdout

    # When something went wrong

    def last_words(self, count: int = 3) -> str:
        """The ends of the task logs that were written last, and what the command printed."""
        logs = (self.settings.airflow_home / "logs").rglob("attempt=*.log")
        newest = sorted(logs, key=lambda path: path.stat().st_mtime)[-count:]
        return "\n".join(f"--- {path}\n{read_tail(path)}" for path in [*newest, self.log])

    def failures(self, dag_id: str, run_id: str) -> str:
        """The ends of the logs of the tries of one run that failed, also where another try succeeded; empty: none."""
        folder = self.settings.airflow_home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        logs = sorted(folder.rglob("attempt=*.log"))
        return "\n".join(
            f"--- {path}\n{read_tail(path)}" for path in logs if FAILED in path.read_text(encoding="utf-8")
        )


def read_tail(path: Path) -> str:
    """The last lines of a log, without the api-server's accesses; of a task's log what was said, and its errors."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(_said(line) for line in [each for each in lines if "[http.access]" not in each][-TAIL_LINES:])


def _said(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    errors = [f"{each['exc_type']}: {each['exc_value']}" for each in entry.get("error_detail") or ()]
    return " | ".join([f"{entry.get('timestamp')} {entry.get('event')}", *errors])


def find_free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


@contextmanager
def start_airflow(
    folder: Path, variables: Mapping[str, str], dags: Sequence[str], users: Mapping[str, str] = MappingProxyType({})
) -> Iterator[EmbeddedAirflow]:
    """The embedded Airflow with a home of its own below ``folder``, healthy and with ``dags`` parsed and paused.

    ``variables``: further settings of Winnow and Airflow, which tasks see too. ``users``: their roles.
    """
    port = find_free_port()
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "WINNOW"))},
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        # Nobody edits DAGs here, and parsing them every half a minute takes the processor from Spark.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "3600",
        **variables,
        "WINNOW_HOME": str(folder / "lake"),
        PORT_VARIABLE: str(port),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    settings = load_settings(cwd=folder, env=env)
    for name, role in users.items():
        add_user(settings, name, role)
    log = folder / "ui.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "winnow.embedded.airflow_home", "ui"],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    airflow = EmbeddedAirflow(f"http://{LOOPBACK}:{port}", settings, env, log, process)
    try:
        airflow.until(lambda: "Ctrl-C ends it" in log.read_text(), "Airflow is healthy", within_s=START_S)
        airflow.until(lambda: set(dags) <= set(airflow.dags()), f"{', '.join(dags)} are parsed", within_s=START_S)
        yield airflow
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        finally:
            stop_processes([process])
