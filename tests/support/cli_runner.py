"""Runs the command line in this process or in a separate one."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from winnow.cli import app

NOW_MS = 1_700_000_000_000
"""The timestamp of every record; long past, so nothing waits for the present."""


@dataclass(frozen=True)
class Answer:
    """What a command left: its exit code and both streams."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document that it has to be."""
        return json.loads(self.stdout)

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The documents about errors that a command with ``--json`` wrote, one a line of standard error."""
        return [json.loads(line)["error"] for line in self.stderr.splitlines() if line.startswith('{"error": ')]


def winnow(*arguments: object, code: int = 0) -> Answer:
    """Run a command in this process and check its exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr, result.exception)
    return Answer(result.exit_code, result.stdout, result.stderr)


def winnow_process(*arguments: object, timeout_seconds: float = 300) -> Answer:
    """Run a command in a process of its own, neither stream a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "winnow.cli", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=timeout_seconds,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def b64(text: str | None) -> str | None:
    """Text as the base64 of a record's field."""
    return None if text is None else base64.b64encode(text.encode()).decode()


def record(key: str | None, value: str | None, **fields: object) -> dict[str, object]:
    """A record of the interface; ``fields`` add or replace."""
    return {"timestamp": NOW_MS, "timestampType": 0, "key": b64(key), "value": b64(value), "headers": None, **fields}


def write_lines(path: Path, records: Sequence[dict[str, object]]) -> Path:
    """``records`` as a JSON lines file."""
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def make_topic(topic: str, path: Path, *, partitions: int = 1, config: Sequence[str] = (), keys: int = 3) -> Path:
    """A topic with two versions of each of ``keys`` keys in every partition; the file it was ingested from."""
    flags = [part for pair in config for part in ("--config", pair)]
    winnow("topics", "create", topic, "--partitions", partitions, *flags)
    records = [
        record(f"key-{number}", f"version-{version}", partition=partition, offset=version * keys + number)
        for partition in range(partitions)
        for version in range(2)
        for number in range(keys)
    ]
    write_lines(path, records)
    winnow("ingest", "files", topic, path)
    return path


def find_location(topic: str) -> str:
    """The folder of a topic's table, as ``topics describe`` prints it."""
    return str(winnow("topics", "describe", topic, "--json").document["location"])
