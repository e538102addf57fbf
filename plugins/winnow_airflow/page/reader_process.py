"""Asks questions that need the log of ``winnow.log_reader``, a process per question with limits, never the api-server.

A process is killed with its whole group at its limits, when its client goes away, and when the api-server ends. After
each answer one process is started ahead, because loading the libraries takes most of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import HTTPException, Request
from starlette.responses import Response

from winnow.config.settings import Settings
from winnow_airflow.page.failures import find_kind, make_refusal
from winnow_airflow.page.reader_turns import ReaderTurns
from winnow_airflow.page.responses import Document

log = logging.getLogger(__name__)

MAXIMUM_ANSWER_BYTES: Final = 16 << 20
EXTRA_SECONDS: Final = 15.0
"""The process ends itself at its limit, which begins when it has loaded its libraries; this much later it is killed."""

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


class ReaderProcesses:
    """The reader processes of one api-server."""

    def __init__(self) -> None:
        self._turns = ReaderTurns()
        self._spare: asyncio.Task[asyncio.subprocess.Process | None] | None = None

    async def ask(
        self, request: Request, settings: Settings, user: str, question: str, parameters: Mapping[str, Any]
    ) -> ReadAnswer:
        """Ask ``question`` for ``user`` with ``parameters``, which go through standard input: keys are user bytes.

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
        process = await self._take(settings)
        try:
            return await _converse(gone, process, line, settings)
        finally:
            self._prepare_spare(settings)
            await _end(process)

    async def close(self) -> None:
        """End the process that waits for a question, if there is one."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.get_loop() is asyncio.get_running_loop():
            process = await spare
            if process is not None:
                await _end(process)

    async def _take(self, settings: Settings) -> asyncio.subprocess.Process:
        spare, self._spare = self._spare, None
        if spare is not None and spare.get_loop() is asyncio.get_running_loop():
            process = await self._claim(spare)
            if process is not None and process.returncode is None:
                return process
            if process is not None:  # it waited too long
                await _end(process)
        try:
            return await _start(settings)
        except (OSError, MemoryError) as problem:
            raise _make_start_error(problem) from problem

    async def _claim(self, spare: asyncio.Task[asyncio.subprocess.Process | None]) -> asyncio.subprocess.Process | None:
        try:
            return await asyncio.shield(spare)
        except asyncio.CancelledError:
            spare.add_done_callback(_end_unclaimed)
            raise

    def _prepare_spare(self, settings: Settings) -> None:
        """Start the next process beside the answer: that it cannot be started is a matter of the next question."""
        if self._spare is None:  # nothing is awaited between the look and the task
            self._spare = asyncio.ensure_future(_try_start(settings))


def _end_unclaimed(spare: asyncio.Task[asyncio.subprocess.Process | None]) -> None:
    process = None if spare.cancelled() else spare.result()
    if process is not None:
        _kill(process)


async def _try_start(settings: Settings) -> asyncio.subprocess.Process | None:
    try:
        return await _start(settings)
    except (OSError, MemoryError) as problem:
        log.warning("No process could be started ahead for the page's next question: %s", type(problem).__name__)
        return None


async def _start(settings: Settings) -> asyncio.subprocess.Process:
    page = settings.page
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "winnow.log_reader",
        str(page.reader_seconds),
        str(page.reader_memory_bytes),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        env={**_list_inherited_variables(), **_CHILD_ENVIRONMENT},
    )


def _list_inherited_variables() -> dict[str, str]:
    # Airflow's secrets are of no use to a reader.
    return {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW_"))}


async def _converse(
    gone: asyncio.Future[None], process: asyncio.subprocess.Process, line: bytes, settings: Settings
) -> ReadAnswer:
    talk = asyncio.ensure_future(_talk(process, line))
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


async def _talk(process: asyncio.subprocess.Process, line: bytes) -> tuple[int, bytes]:
    """Send the question and read the answer; standard input stays open, because its end would end the process."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):  # it ended before; its exit code says why
        process.stdin.write(line)
        await process.stdin.drain()
    content = bytearray()
    while part := await process.stdout.read(1 << 16):
        content += part
        if len(content) > MAXIMUM_ANSWER_BYTES:
            raise HTTPException(422, "The answer is too large for the page. Ask for fewer records.")
    return await process.wait(), bytes(content)


async def _wait_for_disconnect(request: Request) -> None:
    # Not Request.is_disconnected: behind Airflow's middleware it never sees a client that is gone.
    while (await request.receive())["type"] != "http.disconnect":
        continue


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the process with its group, unless it has ended, and reap it."""
    _kill(process)
    await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()


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
