"""Runs a module's ``main`` in children of a process that has imported what it needs.

    python -m tests.faults.forked_processes MODULE        serve, until standard input ends

Dozens of processes die or stop in these tests, and each would import PyIceberg, DuckDB and SQLAlchemy anew. Every
child is a process of its own, with its own id, start and lease holder.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


class ForkedProcess:
    """A child that works on a log until it ends, is killed or stops."""

    def __init__(self, server: subprocess.Popen[str], process_id: int, errors: Path) -> None:
        self._server = server
        self._errors = errors
        self.process_id = process_id
        self.exit_code: int | None = None
        """As ``returncode`` of :class:`subprocess.Popen`; None while it stands still."""

    def wait(self) -> int | None:
        """Wait until it has ended or stopped; return its exit code, None if it has stopped."""
        self.exit_code = _ask(self._server, ["wait", self.process_id])
        return self.exit_code

    def go_on(self) -> tuple[int | None, str]:
        """Let it go on to its end: its exit code, and what it said."""
        os.kill(self.process_id, signal.SIGCONT)
        return self.wait(), self.errors

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.exit_code is None:
            os.kill(self.process_id, signal.SIGKILL)
            self.wait()

    @property
    def errors(self) -> str:
        """What it has written to standard error and to standard output."""
        return self._errors.read_text(encoding="utf-8")


class ForkServer:
    """Starts children."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def start(self, folder: Path, *arguments: str) -> ForkedProcess:
        """Start the module with ``arguments``; what it writes goes to a file in ``folder``."""
        errors = folder / "errors.txt"
        return ForkedProcess(self._server, _ask(self._server, ["start", str(errors), *arguments]), errors)


@contextmanager
def start_fork_server(
    env: Mapping[str, str] | None = None, module: str = "tests.faults.crash_points"
) -> Iterator[ForkServer]:
    """A process that has imported what the children need, for as long as the block runs; ``env``: more for it.

    ``module``: has the ``main`` that each child runs, with its arguments in ``sys.argv``. Its ``load_libraries``, if it
    has one, runs before all of them.
    """
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": os.environ["PATH"], **(env or {})}
    command = [sys.executable, "-m", "tests.faults.forked_processes", module]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield ForkServer(server)
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait(60) == 0


def _ask(server: subprocess.Popen[str], request: list[str | int]) -> Any:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def serve(module: ModuleType) -> None:
    """Answer requests, one after another, until standard input ends; children run ``module``."""
    getattr(module, "load_libraries", lambda: None)()
    for line in sys.stdin:
        kind, *details = json.loads(line)
        answer = wait(*details) if kind == "wait" else fork(module, *details)
        os.write(1, f"{json.dumps(answer)}\n".encode())


def fork(module: ModuleType, errors: str, *arguments: str) -> int:
    """Start a child; return its process id."""
    child = os.fork()
    if child == 0:
        os._exit(run(module, errors, *arguments))
    return child


def run(module: ModuleType, errors: str, *arguments: str) -> int:
    """Be ``module`` with these arguments; return the exit code."""
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(2, 1)
    sys.argv = [str(module.__file__), *arguments]
    try:
        module.main()
        sys.stdout.flush()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def wait(process_id: int) -> int | None:
    """Wait until a child has ended or stopped; return its exit code, None if it has stopped."""
    _, status = os.waitpid(process_id, os.WUNTRACED)
    return None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    serve(importlib.import_module(sys.argv[1]))
