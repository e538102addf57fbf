"""Processes of this machine that work for the one that started them, and end with it.

What is said goes through a socket, as JSON, so no list of processes shows it. A worker ends at once when the other side
has closed the socket, or has died.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self, TypeVar

from winnow.values import documents

T = TypeVar("T")


class WorkerEndedError(Exception):
    """A worker has ended by itself; the message says how, as ``signal SIGKILL``."""


class WorkerProcess:
    """A process that runs a module with the number of its socket as argument. A context manager: leaving it ends it."""

    def __init__(self, module: str) -> None:
        """Start the process.

        Raises:
            OSError: no process can be started.
        """
        self.connection, theirs = Pipe()
        try:
            # In a session of its own, so that an interrupt at the terminal comes here alone.
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError:
            self.connection.close()
            raise
        finally:
            theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()

    def send(self, message: object) -> None:
        """Send a frozen dataclass.

        Raises:
            WorkerEndedError: the process has ended.
        """
        try:
            self.connection.send_bytes(documents.dump_json(message))
        except OSError:
            raise self._explain_end() from None

    def receive(self, kind: type[T]) -> T:
        """Wait for the next answer.

        Raises:
            WorkerEndedError: the process has ended.
        """
        try:
            return documents.load_json(kind, self.connection.recv_bytes())
        except (EOFError, OSError):
            raise self._explain_end() from None

    def _explain_end(self) -> WorkerEndedError:
        code = self._process.wait()
        why = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        memory = "; the machine may be short of memory" if code == -signal.SIGKILL else ""
        return WorkerEndedError(f"{why}{memory}")


class WorkerSocket:
    """A worker's side of the socket; the process ends when the other side does."""

    def __init__(self, descriptor: int) -> None:
        self._connection = Connection(descriptor)
        self._waiting: SimpleQueue[bytes] = SimpleQueue()
        self._answering = threading.Lock()
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        try:
            while True:
                self._waiting.put(self._connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)

    def receive(self, kind: type[T], timeout_s: float | None = None) -> T | None:
        """Wait for the next message; None: none came in time."""
        try:
            return documents.load_json(kind, self._waiting.get(timeout=timeout_s))
        except Empty:
            return None

    def answer(self, message: object) -> None:
        """Send a frozen dataclass; threads may answer side by side."""
        with self._answering:
            self._connection.send_bytes(documents.dump_json(message))
