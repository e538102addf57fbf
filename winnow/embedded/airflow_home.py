"""Runs the embedded Airflow below ``WINNOW_HOME``: prepares it, starts and stops its components.

    python -m winnow.embedded.airflow_home ui         start Airflow on the loopback interface, until Ctrl-C
    python -m winnow.embedded.airflow_home migrate    prepare its database and pools; a second call does nothing
    python -m winnow.embedded.airflow_home env        print the environment, for: eval "$(python -m
    winnow.embedded.airflow_home env)"
    python -m winnow.embedded.airflow_home check      what winnow doctor asks of Airflow, as JSON

Airflow's own ``standalone`` also opens two log servers on every interface and leaves its children behind when it is
terminated, so the components are started here one by one, and all their descendants end with this process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

from winnow.config.settings import Settings, load_settings
from winnow.embedded.airflow_env import (
    LOGIN,
    LOOPBACK,
    PORT_VARIABLE,
    make_airflow_environment,
    read_or_create_login_password,
    read_ui_port,
)
from winnow.embedded.bundle import find_bundled_folder
from winnow.errors import ConfigurationError, ServiceError, WinnowError

POOLS: dict[str, dict[str, Any]] = {
    "winnow_spark": {"slots": 2, "description": "Spark applications at a time", "include_deferred": False},
    "winnow_commit": {"slots": 4, "description": "Commits to topic logs at a time", "include_deferred": False},
    "winnow_check": {"slots": 2, "description": "Checks of topics at a time", "include_deferred": False},
    "winnow_scrub": {"slots": 1, "description": "Scrubs at a time", "include_deferred": False},
}
"""A task of a missing pool waits for ever without an error, so pools are created before anything starts."""

COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 20
HEALTHY = ("metadatabase", "scheduler", "dag_processor")


def migrate(settings: Settings, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Prepare database and pools of the embedded Airflow once per Airflow version; return its environment.

    Raises:
        ConfigurationError: Airflow is not installed, or see
            :func:`winnow.embedded.airflow_env.make_airflow_environment`.
        ServiceError: Airflow could not prepare its database; the message names the log.
    """
    environment = make_airflow_environment(settings, os.environ if env is None else env)
    home = settings.airflow_home
    wanted = json.dumps({"airflow": _read_airflow_version(), "pools": POOLS}, sort_keys=True)
    stamp = home / "prepared.json"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted and (home / "airflow.db").is_file():
        return environment
    read_or_create_login_password(settings)
    pools = home / "pools.json"
    pools.write_text(json.dumps(POOLS), encoding="utf-8")
    _run_airflow(environment, home, "db", "migrate")
    _run_airflow(environment, home, "pools", "import", str(pools))
    stamp.write_text(wanted, encoding="utf-8")
    return environment


def _read_airflow_version() -> str:
    try:
        return metadata.version("apache-airflow-core")
    except metadata.PackageNotFoundError as problem:
        raise ConfigurationError(
            "Airflow is not installed. Nothing was started. Install 'winnow-log[airflow]'."
        ) from problem


def _run_airflow(environment: Mapping[str, str], home: Path, *arguments: str) -> None:
    log = home / "prepare.log"
    with log.open("ab") as stream:
        ended = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments], env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    if ended.returncode:
        raise ServiceError(
            f"'airflow {' '.join(arguments)}' ended with exit code {ended.returncode}; the embedded Airflow in {home} "
            f"is not ready and nothing was started. The end of its output is in {log}."
        )


@dataclass(frozen=True)
class Components:
    """The running components of the embedded Airflow, the folder of their logs, and the URL of the UI."""

    url: str
    logs: Path
    processes: dict[str, subprocess.Popen[bytes]]

    def check_alive(self) -> None:
        """Raise ServiceError if one of the components has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise ServiceError(
                    f"Airflow's {name} ended with exit code {process.returncode}, so the others were stopped. The end "
                    f"of its output is in {self.logs / f'{name}.log'}."
                )

    def is_healthy(self) -> bool:
        """Check whether database, scheduler and DAG processor report that they are healthy."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/monitor/health", timeout=5) as answer:
                health = json.load(answer)
        except (OSError, ValueError):
            return False
        return all(health.get(name, {}).get("status") == "healthy" for name in HEALTHY)


@contextlib.contextmanager
def run_components(settings: Settings, env: Mapping[str, str] | None = None) -> Iterator[Components]:
    """Run all components of the embedded Airflow, healthy, until the block ends.

    Raises:
        ConfigurationError: the port is taken, or as :func:`migrate`.
        ServiceError: a component ended, or was not healthy within three minutes.
    """
    variables = os.environ if env is None else env
    port = read_ui_port(variables)
    _check_free(port)
    environment = migrate(settings, variables)
    logs = settings.airflow_home / "components"
    logs.mkdir(exist_ok=True)
    components = Components(f"http://{LOOPBACK}:{port}", logs, {})
    try:
        for name, arguments in COMPONENTS.items():
            with (logs / f"{name}.log").open("ab") as stream:
                # In its own session, so that Ctrl-C in the terminal reaches only this process.
                components.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "airflow", *arguments],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        _wait_healthy(components)
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
                f"Port {port} on {LOOPBACK} is taken. Nothing was started. Stop the process that listens there, or "
                f"choose another port with {PORT_VARIABLE}."
            ) from problem


def _wait_healthy(components: Components) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while not components.is_healthy():
        components.check_alive()
        if time.monotonic() > until:
            raise ServiceError(
                f"Airflow was not healthy after {START_TIMEOUT_S} s and was stopped. See {components.logs}."
            )
        time.sleep(1)


def stop_processes(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End ``processes`` with all their descendants: terminate first, kill after twenty seconds."""
    import psutil  # type: ignore[import-untyped]

    sessions = {process.pid for process in processes}
    until = time.monotonic() + STOP_TIMEOUT_S
    asked: set[int] = set()
    while sessions and (left := [each for each in psutil.process_iter() if _is_working_in(each.pid, sessions)]):
        late = time.monotonic() > until
        for each in left:
            if late or each.pid not in asked:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill() if late else each.terminate()
            asked.add(each.pid)
        time.sleep(0.2)
        for process in processes:
            process.poll()


def _is_working_in(pid: int, sessions: set[int]) -> bool:
    # Task processes and Spark form process groups of their own, but stay in their component's session.
    import psutil

    try:
        return os.getsid(pid) in sessions and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.NoSuchProcess):
        return False


def run_ui(settings: Settings) -> None:
    """Start Airflow, print its address and how to log in, and keep it running until a signal comes.

    Raises:
        ServiceError: a component ended.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    _print_message(f"Starting Airflow in {settings.airflow_home} (half a minute, longer the first time) ...")
    with contextlib.suppress(KeyboardInterrupt), run_components(settings) as components:
        _print_message(
            f"Airflow is at {components.url}   login: {LOGIN}   password: "
            f"{read_or_create_login_password(settings)}\nCtrl-C ends it."
        )
        while True:
            components.check_alive()
            time.sleep(1)
    _print_message("Airflow has ended.")


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A second Ctrl-C must not interrupt stopping and leave components behind.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _print_message(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def format_environment(environment: Mapping[str, str], base: Mapping[str, str]) -> list[str]:
    """Format the variables that ``environment`` adds to ``base`` as lines for a shell."""
    return [
        f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items()) if base.get(name) != value
    ]


def check_health(settings: Settings, env: Mapping[str, str]) -> int:
    """Print what ``winnow_airflow.health`` finds in the Airflow that ``env`` names, else in the embedded one.

    Returns its exit code. An embedded Airflow that is not prepared yet stays so.
    """
    database = env.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
    home = settings.airflow_home
    embedded = env.get("AIRFLOW_HOME", str(home)) == str(home) and database in {
        None,
        f"sqlite:///{home / 'airflow.db'}",
    }
    if embedded and not (home / "airflow.db").is_file():
        detail = f"Airflow {_read_airflow_version()} is installed; its home {home} is not prepared yet."
        fix = "python -m winnow.embedded.airflow_home migrate"
        finding = {"check": "airflow", "status": "warning", "detail": detail, "fix": fix, "exit_code": 0}
        _print_message(json.dumps([finding]))
        return 0
    environment = make_airflow_environment(settings, env) if embedded else dict(env)
    paths = [str(find_bundled_folder("plugins")), *filter(None, [environment.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "winnow_airflow.health", *(["--embedded"] if embedded else [])],
        env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
    ).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m winnow.embedded.airflow_home",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("ui", "env", "migrate", "check"))
    command = parser.parse_args(arguments).command
    try:
        settings = load_settings()
        if command == "ui":
            run_ui(settings)
        elif command == "migrate":
            migrate(settings)
            _print_message(f"The embedded Airflow in {settings.airflow_home} is ready.")
        elif command == "check":
            return check_health(settings, os.environ)
        else:
            _print_message("\n".join(format_environment(make_airflow_environment(settings, os.environ), os.environ)))
    except WinnowError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
