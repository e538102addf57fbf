"""Asks questions that need the log of ``winnow.log_reader``, a process per question with limits, never the api-server.

A process is killed with its whole group at its limits, when its client goes away, and when the api-server ends. All are
forked from one that has loaded the libraries, which takes most of a question's CPU time; it ends when it was not needed
for two minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastapi import HTTPException, Request
from starlette.responses import Response

from winnow.config.settings import Settings
from winnow_airflow.page.failures import find_kind, make_refusal
from winnow_airflow.page.reader_turns import ReaderTurns
from winnow_airflow.page.responses import Document

MAXIMUM_ANSWER_BYTES: Final = 16 << 20
EXTRA_SECONDS: Final = 15.0
"""The process ends itself at its limit, which begins when its parent has loaded the libraries; so much later it is
killed."""
KILL_SECONDS: Final = 5.0
"""How long the process that others are forked from has to kill one, before it is killed itself."""
LOAD_SECONDS: Final = 30.0
"""How much longer it has for that while it loads the libraries: it hears nothing until then."""
IDLE_SECONDS: Final = 120.0
"""How long the process that others are forked from waits for the next question."""

_CHILD_ENVIRONMENT: Final = {
    # Threads and memory pools reserve address space, which is limited.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}

_TIME_SIGNALS: Final = frozenset({signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL})


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """An answer. ``seen``: what the audit entry says about it; ``content``: the JSON document, never parsed here."""

    seen: str
    content: bytes

    def respond(self) -> Response:
        """Make the response."""
        return Response(self.content, media_type="application/json")


@dataclass(frozen=True, slots=True)
class Reader:
    """A process that answers one question, and then gives its exit code.

    It is killed with its whole group as soon as ``kill_stream`` ends.
    """

    answer_stream: asyncio.StreamReader
    question_stream: asyncio.StreamWriter
    exit_stream: asyncio.StreamReader
    kill_stream: asyncio.StreamWriter

    async def read_exit_code(self) -> int:
        """Return the exit code once it has ended; negative: the number of the signal that ended it.

        Raises:
            OSError: it was not started, or the process that it was forked from has ended.
        """
        code = await self.exit_stream.read()
        if not code:
            raise ChildProcessError(errno.ECHILD, "the process that starts it has ended")
        return int(code)

    async def end(self, seconds: float) -> None:
        """Kill it, unless it has ended, and wait until it is gone, for at most so many seconds.

        Raises:
            TimeoutError: the process that it was forked from does not kill it.
        """
        try:
            with contextlib.suppress(ConnectionError):
                self.kill_stream.write_eof()
                await asyncio.wait_for(self.exit_stream.read(), seconds)
        finally:
            for writer in (self.kill_stream, self.question_stream):
                writer.close()


class ReaderProcesses:
    """The reader processes of one api-server, and the process that they are forked from."""

    def __init__(self) -> None:
        self._turns = ReaderTurns()
        self._parent: ReaderParent | None = None
        self._asked, self._at_work = 0, 0

    async def ask(
        self, request: Request, settings: Settings, user: str, question: str, parameters: Mapping[str, Any]
    ) -> ReadAnswer:
        """Ask ``question`` for ``user`` with ``parameters``, which go through a socket: keys are user bytes.

        Raises:
            HTTPException: 429 when too many questions are asked at once, 503 when no process can be started, 504 at a
                limit, or the error of the answer.
        """
        line = json.dumps({**parameters, "question": question}).encode() + b"\n"
        gone = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            async with self._turns.take(user, settings.page.reader_processes, gone):
                return await self._ask_process(gone, line, settings)
        finally:
            await _cancel(gone)

    async def _ask_process(self, gone: asyncio.Future[None], line: bytes, settings: Settings) -> ReadAnswer:
        self._asked += 1
        self._at_work += 1
        try:
            parent = self._find_parent()
            try:
                return await self._ask_once(parent, gone, line, settings)
            except ChildProcessError:
                # The process that others are forked from was killed. A question changes nothing, so it is asked again.
                self._end_parent(parent)
                return await self._ask_once(self._find_parent(), gone, line, settings)
        except (OSError, MemoryError) as problem:
            raise _make_start_error(problem) from problem
        finally:
            self._at_work -= 1
            asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_if_idle, self._asked)

    async def _ask_once(
        self, parent: ReaderParent, gone: asyncio.Future[None], line: bytes, settings: Settings
    ) -> ReadAnswer:
        reader = await parent.fork(settings)
        try:
            return await _converse(gone, reader, line, settings)
        finally:
            try:
                await reader.end(KILL_SECONDS if parent.has_loaded() else LOAD_SECONDS + KILL_SECONDS)
            except TimeoutError:
                self._end_parent(parent)

    def _find_parent(self) -> ReaderParent:
        if self._parent is None or not self._parent.is_usable():
            self.close()
            self._parent = ReaderParent()
        return self._parent

    def _end_parent(self, parent: ReaderParent) -> None:
        # Another question may have started the next one, from which others are forked by now.
        if self._parent is parent:
            self.close()

    def _end_if_idle(self, asked: int) -> None:
        if self._asked == asked and not self._at_work:
            self.close()

    def close(self) -> None:
        """End the process that readers are forked from, if there is one."""
        parent, self._parent = self._parent, None
        if parent is not None:
            parent.close()


class ReaderParent:
    """A process that has loaded the libraries, and forks a reader per question (:mod:`winnow.log_reader.forking`).

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        self._place = (_list_inherited_variables(), Path.cwd())
        self._control, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "winnow.log_reader"],
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={**self._place[0], **_CHILD_ENVIRONMENT},
            )

    @property
    def pid(self) -> int:
        """Its number."""
        return int(self._process.pid)

    def is_usable(self) -> bool:
        """Check whether it lives and sees the present environment: readers take their settings from that."""
        return self._process.poll() is None and self._place == (_list_inherited_variables(), Path.cwd())

    def has_loaded(self) -> bool:
        """Check whether it has said that it has loaded the libraries, or has ended."""
        try:
            self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    async def fork(self, settings: Settings) -> Reader:
        """Have a reader started; it may yet have to wait for the libraries.

        Raises:
            OSError: this machine has no more files or processes to give, or the parent has ended.
        """
        page = settings.page
        with ExitStack() as stack:
            talk, its_talk = map(stack.enter_context, socket.socketpair())
            watch, its_watch = map(stack.enter_context, socket.socketpair())
            limits = {"seconds": page.reader_seconds, "memory_bytes": page.reader_memory_bytes}
            socket.send_fds(self._control, [json.dumps(limits).encode()], [its_talk.fileno(), its_watch.fileno()])
            reader = Reader(*await asyncio.open_connection(sock=talk), *await asyncio.open_connection(sock=watch))
            stack.pop_all()
        for own in (its_talk, its_watch):
            own.close()
        return reader

    def close(self) -> None:
        """End it. Its readers see the end of their sockets, if there are any."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def _list_inherited_variables() -> dict[str, str]:
    # Airflow's secrets are of no use to a reader.
    return {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW_"))}


async def _converse(gone: asyncio.Future[None], reader: Reader, line: bytes, settings: Settings) -> ReadAnswer:
    talk = asyncio.ensure_future(_talk(reader, line))
    both: set[asyncio.Future[Any]] = {talk, gone}
    try:
        seconds = settings.page.reader_seconds + EXTRA_SECONDS
        done, _ = await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if talk in done:
            return _read_answer(*talk.result(), settings)
        # Nobody reads the answer if the client is gone.
        raise _make_time_error(settings)
    finally:
        await _cancel(talk)


async def _cancel(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, HTTPException, OSError, RuntimeError):
        await task


async def _talk(reader: Reader, line: bytes) -> tuple[int, bytes]:
    """Send the question and read the answer; the socket stays open, because its end would end the process."""
    with contextlib.suppress(ConnectionError):  # it ended before; its exit code says why
        reader.question_stream.write(line)
        await reader.question_stream.drain()
    content = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := await reader.answer_stream.read(1 << 16):
            content += part
            if len(content) > MAXIMUM_ANSWER_BYTES:
                raise HTTPException(422, "The answer is too large for the page. Ask for fewer records.")
    return await reader.read_exit_code(), bytes(content)


async def _wait_for_disconnect(request: Request) -> None:
    # Not Request.is_disconnected: behind Airflow's middleware it never sees a client that is gone.
    while (await request.receive())["type"] != "http.disconnect":
        continue


def _read_answer(code: int, content: bytes, settings: Settings) -> ReadAnswer:
    first, _, rest = content.partition(b"\n")
    if code == 0 and rest:
        return ReadAnswer(json.loads(first), rest.rstrip())
    if code > 0 and first:
        failure: Document = json.loads(first)
        raise make_refusal(find_kind(failure["kind"]), failure["message"])
    if -code in _TIME_SIGNALS:
        raise _make_time_error(settings)
    raise HTTPException(
        504,
        f"The process that reads the log ended unexpectedly (code {code}), perhaps for want of memory: see "
        "page.reader_memory_bytes. Nothing was changed. The commands winnow read, why and explain have no such limit.",
    )


def _make_time_error(settings: Settings) -> HTTPException:
    return HTTPException(
        504,
        f"The answer took more than {settings.page.reader_seconds} seconds (page.reader_seconds), so the process that "
        "reads the log was ended. Ask for less, such as one partition, or ask at a shell: winnow read and winnow why "
        "have no such limit.",
    )


def _make_start_error(problem: Exception) -> HTTPException:
    reason = (problem.strerror if isinstance(problem, OSError) else None) or type(problem).__name__
    return HTTPException(
        503,
        f"No process that reads the log could be started: {reason}. Nothing was changed. Ask again in a few seconds; "
        "if it stays so, the machine of the api-server has too many processes or too little memory.",
        headers={"Retry-After": "5"},
    )


readers: Final = ReaderProcesses()
"""Those of this api-server."""
