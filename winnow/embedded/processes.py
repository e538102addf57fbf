"""Ends sessions of processes whole, also when the process that started them was killed.

    python -m winnow.embedded.processes [FOLDER]    end the sessions that standard input names, when it ends early

A component runs in a session of its own, which its tasks and Spark's JVM do not leave, although they form process
groups of their own. A :class:`Guardian` is a process that waits for the end of its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from winnow.embedded.postgres import PostgresServer

STOP_TIMEOUT_S = 20
_BEGUN, _ENDED, _FINISHED = "begun", "ended", "finished"


def stop_processes(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End ``processes`` with all their descendants: terminate first, kill after twenty seconds."""

    def reap() -> None:
        for process in processes:
            process.poll()

    stop_sessions({process.pid for process in processes}, reap)


def stop_sessions(sessions: Collection[int], reap: Callable[[], None] = lambda: None) -> None:
    """End every process of ``sessions``: terminate first, kill after twenty seconds. ``reap`` collects exit codes."""
    import psutil  # type: ignore[import-untyped]

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
        reap()


def _is_working_in(pid: int, sessions: Collection[int]) -> bool:
    import psutil

    try:
        return os.getsid(pid) in sessions and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.NoSuchProcess):
        return False


class Guardian:
    """The process that ends the named sessions when this process is killed, and then leaves PostgreSQL for it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tell_begun(self, session: int) -> None:
        """Say that ``session`` is to be ended with this process."""
        self._tell(f"{_BEGUN} {session}")

    def tell_ended(self, session: int) -> None:
        """Say that ``session`` has ended."""
        self._tell(f"{_ENDED} {session}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def finish(self) -> None:
        """Let it end; all sessions have."""
        self._tell(_FINISHED)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def start_guardian(folder: Path | None, log: Path) -> Iterator[Guardian]:
    """Start a guardian until the block ends. ``folder``: that of the PostgreSQL that the sessions use, if any."""
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "winnow.embedded.processes", *([] if folder is None else [str(folder)])],
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
    guardian = Guardian(process)
    try:
        yield guardian
    finally:
        guardian.finish()


def main(folder: Path | None) -> None:
    """Follow standard input to its end, and end what is left then."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    server = PostgresServer(folder) if folder is not None and folder.is_dir() else None
    if server is not None:
        server.watch()
    sessions: set[int] = set()
    finished = False
    for line in sys.stdin:
        word, _, session = line.strip().partition(" ")
        if word == _BEGUN:
            sessions.add(int(session))
        elif word == _ENDED:
            sessions.discard(int(session))
        finished = finished or word == _FINISHED
    if not finished:
        stop_sessions(sessions)
    if server is not None:
        server.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
