"""Starts the components of the embedded Airflow, starts again those that die, and ends all of them.

Airflow's own ``standalone`` also opens two log servers on every interface and leaves its children behind when it is
terminated, so the components are started here one by one, and all their descendants end with this process: when it
stops, and, by a guardian, when it is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from winnow.config.settings import Settings
from winnow.embedded.airflow_env import LOOPBACK, PORT_VARIABLE, locate_postgres, read_ui_port
from winnow.embedded.airflow_home import OpenAirflow, open_airflow, print_message
from winnow.embedded.airflow_users import LOGIN, read_or_create_login_password
from winnow.embedded.processes import Guardian, start_guardian, stop_processes
from winnow.errors import ConfigurationError, ServiceError

COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
PROGRAMS = {"scheduler": "winnow.embedded.airflow_scheduler"}
"""Modules that run a component; Airflow itself runs the others."""
STARTED_FIRST = ("api-server", "dag-processor")
"""A task asks the API server at once; one that the scheduler starts before it answers fails, and is tried again."""
START_TIMEOUT_S = 180
HEALTHY = ("metadatabase", "scheduler", "dag_processor")

DATABASE = "PostgreSQL"
MAXIMUM_RESTARTS = 5
RESTART_WINDOW_S = 600
FIRST_DELAY_S = 1.0
"""Before the first restart within the window; doubled before each further one."""

Report = Callable[[str], None]
"""Function that tells a person."""


@dataclass
class Components:
    """The running components of the embedded Airflow, the folder of their logs, and the URL of the UI."""

    url: str
    logs: Path
    airflow: OpenAirflow
    guardian: Guardian
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _restarts: dict[str, list[float]] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start the component ``name``."""
        with (self.logs / f"{name}.log").open("ab") as stream:
            # In its own session, so that Ctrl-C in the terminal reaches only this process.
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAMS.get(name, "airflow"), *COMPONENTS[name]],
                env=self.airflow.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes[name] = process
        self.guardian.tell_begun(process.pid)

    def check_alive(self) -> None:
        """Raise ServiceError if one of the components has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise ServiceError(
                    f"Airflow's {name} {_describe_end(process)}, so the others were stopped.",
                    next=f"The end of its output is in {self.logs / f'{name}.log'}.",
                )

    def supervise(self, report: Report) -> None:
        """Start again what has died, after a delay that grows. Call it about every second.

        A scheduler that starts again takes over the runs of the dead one: Airflow resets their tasks.

        Raises:
            ServiceError: one of them died for the sixth time within ten minutes.
        """
        server = self.airflow.server
        if server is not None and not server.is_alive():
            self._count(DATABASE, "was ended", server.log, report, delay_s=0)
            server.join()
        for name, process in self.processes.items():
            if process.poll() is None:
                continue
            if name not in self._due:
                # Tasks of a dead scheduler would go on beside those that the next one starts.
                stop_processes([process])
                self.guardian.tell_ended(process.pid)
                self._count(f"Airflow's {name}", _describe_end(process), self.logs / f"{name}.log", report)
                self._due[name] = time.monotonic() + self._delay(f"Airflow's {name}")
            elif time.monotonic() >= self._due[name]:
                del self._due[name]
                self.start(name)

    def _count(self, name: str, end: str, log: Path, report: Report, delay_s: float | None = None) -> None:
        now = time.monotonic()
        recent = [each for each in self._restarts.get(name, []) if now - each < RESTART_WINDOW_S]
        if len(recent) >= MAXIMUM_RESTARTS:
            raise ServiceError(
                f"{name} {end}, after it was started again {MAXIMUM_RESTARTS} times within {RESTART_WINDOW_S // 60} "
                "minutes, so everything was stopped.",
                left="Its runs go on at the next start.",
                next=f"The end of its output is in {log}.",
            )
        self._restarts[name] = [*recent, now]
        wait_s = self._delay(name) if delay_s is None else delay_s
        report(f"{name} {end}; it is started again{f' in {wait_s:.0f} s' if wait_s else ''}. Its output: {log}")

    def _delay(self, name: str) -> float:
        return FIRST_DELAY_S * 2.0 ** (len(self._restarts[name]) - 1)

    def is_healthy(self) -> bool:
        """Check whether database, scheduler and DAG processor report that they are healthy."""
        health = self._read_health() or {}
        return all(health.get(name, {}).get("status") == "healthy" for name in HEALTHY)

    def is_answering(self) -> bool:
        """Check whether the API server answers."""
        return self._read_health() is not None

    def _read_health(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/monitor/health", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):
            return None
        return found


def _describe_end(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@contextlib.contextmanager
def run_components(settings: Settings, env: Mapping[str, str] | None = None) -> Iterator[Components]:
    """Run all components of the embedded Airflow and its database, healthy, until the block ends.

    Raises:
        ConfigurationError: the port is taken, or as :func:`winnow.embedded.airflow_home.open_airflow`.
        ServiceError: a component ended, or was not healthy within three minutes.
    """
    variables = os.environ if env is None else env
    port = read_ui_port(variables)
    _check_free(port)
    logs = settings.airflow_home / "components"
    with (
        open_airflow(settings, variables) as airflow,
        start_guardian(locate_postgres(settings), logs / "guardian.log") as guardian,
    ):
        components = Components(f"http://{LOOPBACK}:{port}", logs, airflow, guardian)
        try:
            for name in STARTED_FIRST:
                components.start(name)
            _wait_until(components, components.is_answering)
            for name in [name for name in COMPONENTS if name not in STARTED_FIRST]:
                components.start(name)
            _wait_until(components, components.is_healthy)
            yield components
        finally:
            stop_processes(list(components.processes.values()))


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as problem:
            raise ConfigurationError(
                f"Port {port} on {LOOPBACK} is taken.",
                left="Nothing was started.",
                next=f"Stop the process that listens there, or choose another port with {PORT_VARIABLE}.",
            ) from problem


def _wait_until(components: Components, reached: Callable[[], bool]) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while not reached():
        components.check_alive()
        if time.monotonic() > until:
            raise ServiceError(
                f"Airflow was not healthy after {START_TIMEOUT_S} s and was stopped.",
                next=f"See {components.logs}.",
            )
        time.sleep(1)


def run_ui(settings: Settings) -> None:
    """Start Airflow, print its address and how to log in, and keep it running until a signal comes.

    A component or a PostgreSQL that dies is started again.

    Raises:
        ServiceError: one of them died too often.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    print_message(f"Starting Airflow in {settings.airflow_home} (half a minute, longer the first time) ...")
    with contextlib.suppress(KeyboardInterrupt), run_components(settings) as components:
        print_message(
            f"Airflow is at {components.url}   login: {LOGIN}   password: "
            f"{read_or_create_login_password(settings)}\nCtrl-C ends it."
        )
        while True:
            components.supervise(print_message)
            time.sleep(1)
    print_message("Airflow has ended.")


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A second Ctrl-C must not interrupt stopping and leave components behind.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
