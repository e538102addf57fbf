"""Client of Airflow's REST API: login, trigger, wait, read logs."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from winnow.clock import format_ms, read_wall_clock_ms

HOUR_MS = 3_600_000
POLL_S = 1.0
RUN_S = 900
PARSE_S = 120


@dataclass(frozen=True)
class AirflowApi:
    """The API at ``url`` with the token of a user."""

    url: str
    token: str

    @classmethod
    def login(cls, url: str, username: str, password: str) -> AirflowApi:
        """Ask for a token; raises urllib.error.HTTPError (401) when it is refused."""
        answer = _send(f"{url}/auth/token", "POST", {"username": username, "password": password}, {})
        return cls(url, answer["access_token"])

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer of ``path`` below ``/api/v2``."""
        return _send(f"{self.url}/api/v2{path}", method, body, {"Authorization": f"Bearer {self.token}"})

    def run(self, dag_id: str, **conf: object) -> dict[str, str]:
        """Trigger a run, let the scheduler have the DAG, wait for its end; the state of each task, "run" its own."""
        self._wait_for(dag_id)
        # Runs start in this order, so that it comes before the one that the schedule makes at once.
        first = format_ms(read_wall_clock_ms() - HOUR_MS)
        body = {"logical_date": None, "run_after": first, "conf": conf}
        run_id = self.call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"]
        self.call("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": False})
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id)}"
        until = time.monotonic() + RUN_S
        while (state := self.call("GET", path)["state"]) not in {"success", "failed"}:
            assert time.monotonic() < until, self.call("GET", f"{path}/taskInstances")
            time.sleep(POLL_S)
        instances = self.call("GET", f"{path}/taskInstances?limit=1000")["task_instances"]
        return {each["task_id"]: each["state"] for each in instances} | {"run": state, "run_id": run_id}

    def _wait_for(self, dag_id: str) -> None:
        until = time.monotonic() + PARSE_S
        while dag_id not in {dag["dag_id"] for dag in self.call("GET", "/dags?limit=100")["dags"]}:
            assert time.monotonic() < until, self.call("GET", "/importErrors")
            time.sleep(POLL_S)

    def log(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
        """The log of the first try of a task."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{task_id}/logs/1?map_index={map_index}"
        return "\n".join(str(line["event"]) for line in self.call("GET", path)["content"])


def _send(url: str, method: str, body: object, headers: dict[str, str]) -> Any:
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Accept": "application/json", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as problem:
        with problem:
            problem.add_note(f"{method} {url}: {problem.read().decode(errors='replace')}")
        raise
