"""Debian's Prometheus with promtool, unpacked once into ``~/.cache/winnow/prometheus``; and one that scrapes a page."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

CACHE = Path.home() / ".cache" / "winnow" / "prometheus"
UNPACK_S = 300


def find_program(name: str) -> str:
    """The path of ``prometheus`` or ``promtool``. Never skips: a rule that nobody evaluated is not tested."""
    installed = shutil.which(name)
    if installed:
        return installed
    unpacked = CACHE / "usr" / "bin" / name
    if not unpacked.exists() and shutil.which("apt-get"):
        _unpack()
    if not unpacked.exists():
        pytest.fail(
            f"There is no {name} on PATH, and Debian's package prometheus could not be had here, so the rules were not "
            "evaluated. Install it, on Debian with: sudo apt-get install prometheus",
            pytrace=False,
        )
    return str(unpacked)


def _unpack() -> None:
    """Take the package apart beside its place and move it there: several processes may do so at once."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    scratch = CACHE.parent / f"prometheus-{socket.gethostname()}-{id(CACHE)}"
    scratch.mkdir()
    try:
        subprocess.run(("apt-get", "update", "--quiet"), timeout=UNPACK_S, capture_output=True)
        subprocess.run(("apt-get", "download", "prometheus"), cwd=scratch, timeout=UNPACK_S, capture_output=True)
        for package in scratch.glob("prometheus_*.deb"):
            subprocess.run(("dpkg-deb", "--extract", package, scratch / "files"), timeout=UNPACK_S, check=True)
        if (scratch / "files").exists() and not CACHE.exists():
            (scratch / "files").rename(CACHE)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that runs, with the rules that it was given."""

    url: str

    def get(self, path: str) -> Any:
        """The data of an answer of its API."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=30) as answer:
            return json.load(answer)["data"]

    def list_alerts(self) -> dict[str, dict[str, Any]]:
        """The alerts that are pending or firing, by name."""
        return {alert["labels"]["alertname"]: alert for alert in self.get("alerts")["alerts"]}


@contextmanager
def open_prometheus(folder: Path, rules: Path, target: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes ``target`` (host:port, ``/metrics``) each second and evaluates ``rules`` as often."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = folder / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(rules)],
                "scrape_configs": [{"job_name": "winnow", "static_configs": [{"targets": [target]}]}],
            }
        )
    )
    command = [
        find_program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    log = folder / "prometheus.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            running = Prometheus(f"http://{address}")
            wait_until(lambda: _is_ready(running.url))
            yield running
        finally:
            process.terminate()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
