"""Starts a real Airflow on PostgreSQL and runs DAGs in it by its REST API."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

    from winnow.config.settings import Settings
    from winnow.embedded.airflow_components import Components

LIMIT_SECONDS = 3_600.0
POLL_SECONDS = 0.5
ENDED = ("success", "failed")
PAGE_LENGTH = 100
VARIABLES = {
    # No run but those that are measured; everything else is as in an embedded Airflow.
    "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
    "WINNOW_SPARK__MASTER": "local[*]",
}


@dataclass(frozen=True, slots=True)
class DagRun:
    """One DAG run that ended. ``processes``: task instances that had a process; ``instances``: all of them."""

    run_id: str
    state: str
    seconds: float
    processes: int
    instances: int


@dataclass(frozen=True, slots=True)
class AirflowApi:
    """A running Airflow with a logged-in user."""

    components: Components
    client: httpx.Client

    @property
    def process_ids(self) -> dict[str, int]:
        """The process id of each component."""
        return {name: process.pid for name, process in self.components.processes.items()}

    def call(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """Return the answer of ``path`` below ``/api/v2``.

        Raises:
            httpx.HTTPStatusError: Airflow refused.
        """
        params: Any = query
        answer = self.client.request(method, f"/api/v2{path}", json=body, params=params)
        return answer.raise_for_status().json()

    def wait_for_dags(self, *dag_ids: str) -> None:
        """Wait until the DAGs are parsed, and let runs of them start."""
        for dag_id in dag_ids:
            while self.client.get(f"/api/v2/dags/{dag_id}").is_error:
                self.components.check_alive()
                time.sleep(POLL_SECONDS)
            self.call("PATCH", f"/dags/{dag_id}", {"is_paused": False}, update_mask="is_paused")

    def run(self, dag_id: str, **conf: object) -> DagRun:
        """Trigger a run, wait until it has ended, and describe it.

        Raises:
            TimeoutError: it had not ended within an hour.
        """
        began = time.monotonic()
        run_id = self.call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"]
        while (state := self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"]) not in ENDED:
            self.components.check_alive()
            if time.monotonic() - began > LIMIT_SECONDS:
                raise TimeoutError(f"The run {run_id} of {dag_id} had not ended after {LIMIT_SECONDS:,.0f} s.")
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - began
        tasks = list(self._list_tasks(dag_id, run_id))
        processes = sum(task["pid"] is not None for task in tasks)
        return DagRun(run_id, state, round(seconds, 2), processes, len(tasks))

    def _list_tasks(self, dag_id: str, run_id: str) -> Iterator[Mapping[str, Any]]:
        offset = 0
        while True:
            path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
            page = self.call("GET", path, limit=PAGE_LENGTH, offset=offset)
            yield from page["task_instances"]
            offset += PAGE_LENGTH
            if offset >= page["total_entries"]:
                return


@contextlib.contextmanager
def open_airflow(settings: Settings, env: Mapping[str, str]) -> Iterator[AirflowApi]:
    """Start Airflow in the home of ``settings`` with LocalExecutor on PostgreSQL; stop it when the block ends."""
    import httpx

    from winnow.embedded.airflow_components import run_components
    from winnow.embedded.airflow_env import PORT_VARIABLE
    from winnow.embedded.airflow_users import LOGIN, read_or_create_login_password

    variables = {**env, **VARIABLES, PORT_VARIABLE: str(_find_free_port())}
    with (
        run_components(settings, variables) as components,
        httpx.Client(base_url=components.url, timeout=60.0) as client,
    ):
        login = {"username": LOGIN, "password": read_or_create_login_password(settings)}
        token = client.post("/auth/token", json=login).raise_for_status().json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        yield AirflowApi(components, client)


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
