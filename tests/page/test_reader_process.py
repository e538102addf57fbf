"""A reader process ends at its limits, with its client and with the api-server; too many at once are turned away."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import HTTPException, Request

from tests.support import reader_lake
from winnow.config.settings import Settings
from winnow_airflow.page import reader_turns
from winnow_airflow.page.reader_process import ReaderProcesses

ENDLESS = ["(v|v)*(v|v)*(v|v)*$", r"(x+x+)+y"]
"""Masks that need longer than any limit for a value of many x."""
ASK = {"topic": "orders", "partition": 0, "limit": 10}
ENDS_WITHIN_SECONDS = 5


class Client:
    """A client that goes away after a while; what the pool asks of a request."""

    def __init__(self, gone_after_seconds: float = 3600.0) -> None:
        self.gone_after_seconds = gone_after_seconds

    async def receive(self) -> dict[str, str]:
        await asyncio.sleep(self.gone_after_seconds)
        return {"type": "http.disconnect"}


def as_request(client: Client) -> Request:
    """The client as a request."""
    return cast(Request, client)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake, made once."""
    made = tmp_path_factory.mktemp("lake")
    reader_lake.build_lake(made)
    return made


Run = Callable[..., Any]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a conversation with a pool of its own, whose idle process is ended afterwards."""

    def converse(talk: Callable[[ReaderProcesses, Settings], Awaitable[Any]], **page: Any) -> Any:
        async def whole(settings: Settings) -> Any:
            pool = ReaderProcesses()
            try:
                return await talk(pool, settings)
            finally:
                await pool.close()

        with reader_lake.at_lake(folder, page, monkeypatch) as (settings, _):
            return asyncio.run(whole(settings))

    yield converse
    assert list_readers() == []


def list_readers() -> list[int]:
    """The reader processes that this process started and that have not ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (place / "cmdline").read_bytes().split(b"\0")
            state = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if b"winnow.log_reader" in arguments and int(state[1]) == os.getpid() and state[0] != "Z":
            found.append(int(place.name))
    return found


async def refuse(
    pool: ReaderProcesses, settings: Settings, client: Client | None = None, user: str = "ann"
) -> HTTPException:
    """Ask for records, and return the error."""
    with pytest.raises(HTTPException) as refused:
        await pool.ask(as_request(client or Client()), settings, user, "browse", ASK)
    return refused.value


def test_process_that_takes_too_long_is_ended_and_the_next_question_is_answered(run: Run) -> None:
    """504 with the setting's name; a question that needs no mask is answered after it."""

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        error = await refuse(pool, settings)
        assert (error.status_code, "page.reader_seconds" in error.detail) == (504, True)
        found = await pool.ask(as_request(Client()), settings, "ann", "explain", {"topic": "orders"})
        assert b'"plan_id"' in found.content

    run(talk, reader_seconds=1, masked_patterns=ENDLESS)


def test_process_ends_when_its_client_goes_away(run: Run) -> None:
    """It does not go on until its limit."""

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        began = time.monotonic()
        await refuse(pool, settings, Client(gone_after_seconds=0.5))
        assert time.monotonic() - began < ENDS_WITHIN_SECONDS

    run(talk, reader_seconds=60, masked_patterns=ENDLESS)


def test_question_beyond_the_maximum_waits_and_is_turned_away(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """429, with the seconds after which to ask again; one that finds a free process is answered."""
    monkeypatch.setattr(reader_turns, "MAXIMUM_WAIT_SECONDS", 0.3)

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        first = asyncio.ensure_future(refuse(pool, settings))
        await asyncio.sleep(0.1)
        error = await refuse(pool, settings)
        assert (error.status_code, error.headers) == (429, {"Retry-After": "3"})
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (
            await pool.ask(as_request(Client()), settings, "ann", "ingests", {"topic": "orders", "limit": 1})
        ).content

    run(talk, reader_processes=1, masked_patterns=ENDLESS)


def test_many_questions_at_once_leave_one_process_that_waits(run: Run) -> None:
    """However many end at the same time, and whoever goes away when: each further one would be lost."""

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        async def ask(number: int) -> None:
            await refuse(pool, settings, Client(0.05 * (number % 3)), user=f"user {number % 6}")

        for _ in range(2):
            await asyncio.gather(*map(ask, range(12)))
        assert pool._spare is not None
        spare = await pool._spare
        assert spare is not None
        assert list_readers() == [spare.pid]

    run(talk, reader_processes=6)


def test_answer_goes_out_although_the_next_process_cannot_be_started(run: Run) -> None:
    """The machine has no more files to give: a question says so and what to do; once it has, the next is answered."""

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        answer = asyncio.ensure_future(pool.ask(as_request(Client()), settings, "ann", "explain", {"topic": "orders"}))
        while not list_readers():
            await asyncio.sleep(0.01)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) - 1, before[1]))
        try:
            assert b'"plan_id"' in (await answer).content
            error = await refuse(pool, settings)
            assert (error.status_code, error.headers) == (503, {"Retry-After": "5"})
            assert "could be started: Too many open files. Nothing was changed." in error.detail
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert (await pool.ask(as_request(Client()), settings, "ann", "explain", {"topic": "orders"})).content

    run(talk)


def test_process_ends_with_the_process_that_started_it(folder: Path, tmp_path: Path) -> None:
    """Killed without a word, as a machine's owner does: its reader sees the end of its standard input."""
    starter = (
        "import subprocess, sys, time\n"
        "reader = subprocess.Popen([sys.executable, '-m', 'winnow.log_reader', '60', '2000000000'], "
        "stdin=subprocess.PIPE, start_new_session=True)\n"
        "print(reader.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    env = {**os.environ, "WINNOW_HOME": str(folder / "home")}
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, env=env, cwd=tmp_path) as process:
        assert process.stdout is not None
        reader = int(process.stdout.readline())
        assert is_alive(reader)
        process.kill()
        until = time.monotonic() + 10
        while is_alive(reader):
            assert time.monotonic() < until, "the reader outlived the process that started it"
            time.sleep(0.1)


def is_alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
