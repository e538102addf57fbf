"""A reader process ends at its limits, with its client and with the api-server; too many at once are turned away."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import HTTPException, Request

from tests.support import reader_lake
from tests.support.reader_lake import find_readers, is_alive
from winnow.config.settings import Settings
from winnow_airflow.page import reader_process, reader_turns
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
                pool.close()

        with reader_lake.at_lake(folder, page, monkeypatch) as (settings, _):
            return asyncio.run(whole(settings))

    yield converse
    assert list_readers() == []


def list_readers() -> list[int]:
    """The reader processes below this process that have not ended, and the one that they are forked from."""
    return find_readers(os.getpid())


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


def test_many_questions_at_once_leave_the_process_that_forks_alone(run: Run) -> None:
    """However many end at the same time, and whoever goes away when: each further one would be lost."""

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        async def ask(number: int) -> None:
            await refuse(pool, settings, Client(0.05 * (number % 3)), user=f"user {number % 6}")

        for _ in range(2):
            await asyncio.gather(*map(ask, range(12)))
        assert pool._parent is not None
        assert list_readers() == [pool._parent.pid]

    run(talk, reader_processes=6)


def test_process_that_cannot_be_started_is_a_refusal_and_the_next_question_is_answered(run: Run) -> None:
    """The machine has no more files to give: a question says so and what to do."""

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert (await pool.ask(as_request(Client()), settings, "ann", "explain", {"topic": "orders"})).content
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) - 1, before[1]))
        try:
            error = await refuse(pool, settings)
            assert (error.status_code, error.headers) == (503, {"Retry-After": "5"})
            assert "could be started: Too many open files. Nothing was changed." in error.detail
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert (await pool.ask(as_request(Client()), settings, "ann", "explain", {"topic": "orders"})).content

    run(talk)


def test_question_is_answered_although_the_process_that_forks_was_killed_before(run: Run) -> None:
    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        for _ in range(2):
            assert (await pool.ask(as_request(Client()), settings, "ann", "explain", {"topic": "orders"})).content
            assert pool._parent is not None
            os.kill(pool._parent.pid, signal.SIGKILL)

    run(talk)


def test_questions_whose_processes_lose_the_one_that_forked_them_are_asked_again_and_those_end(run: Run) -> None:
    """Each once, from one new process, which the question that hears of it last does not end."""

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        asked = [asyncio.ensure_future(refuse(pool, settings, user=user)) for user in ("ann", "bob")]
        while len(list_readers()) <= len(asked):
            await asyncio.sleep(0.01)
        assert pool._parent is not None
        readers = set(list_readers()) - {pool._parent.pid}
        os.kill(pool._parent.pid, signal.SIGKILL)
        assert [error.status_code for error in await asyncio.gather(*asked)] == [504, 504]
        assert not any(map(is_alive, readers))

    run(talk, reader_seconds=2, masked_patterns=ENDLESS)


def test_client_that_goes_away_while_the_libraries_load_does_not_end_the_process_that_loads_them(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait for it, too. On a slow machine it would begin again and again."""
    monkeypatch.setattr(reader_process, "KILL_SECONDS", 0.01)

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        gone = asyncio.ensure_future(refuse(pool, settings, Client(gone_after_seconds=0)))
        while pool._parent is None:
            await asyncio.sleep(0)
        parent = pool._parent
        assert (await gone).status_code == 504
        assert pool._parent is parent
        assert parent.has_loaded()

    run(talk)


def test_process_that_forks_ends_when_nothing_is_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is needed for something else; but not while a question is at work."""
    monkeypatch.setattr(reader_process, "IDLE_SECONDS", 0.2)

    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        first = asyncio.ensure_future(refuse(pool, settings))
        assert (await pool.ask(as_request(Client()), settings, "bob", "explain", {"topic": "orders"})).content
        parent = pool._parent
        await asyncio.sleep(0.5)
        assert not first.done()
        assert parent is pool._parent is not None
        assert (await first).status_code == 504
        await asyncio.sleep(0.5)
        assert list_readers() == []

    run(talk, reader_seconds=2, masked_patterns=ENDLESS)


def test_question_is_answered_by_the_settings_of_the_present_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk(pool: ReaderProcesses, settings: Settings) -> None:
        assert (await pool.ask(as_request(Client()), settings, "ann", "explain", {"topic": "orders"})).content
        monkeypatch.setenv("WINNOW_HOME", str(tmp_path))
        with pytest.raises(HTTPException) as refused:
            await pool.ask(as_request(Client()), settings, "ann", "explain", {"topic": "orders"})
        assert refused.value.status_code == 404

    run(talk)


def test_processes_end_with_the_process_that_started_them(folder: Path, tmp_path: Path) -> None:
    """Killed without a word, as a machine's owner does: they see the ends of their sockets."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "WINNOW_HOME": str(folder / "home"),
        "WINNOW_PAGE__MASKED_PATTERNS": json.dumps(ENDLESS),
    }
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, env=env, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asking\n"
        until = time.monotonic() + 10
        while len(find_readers(process.pid)) <= 1:
            assert time.monotonic() < until, "the question was not taken up"
            time.sleep(0.1)
        readers = find_readers(process.pid)
        process.kill()
        until = time.monotonic() + 10
        while any(map(is_alive, readers)):
            assert time.monotonic() < until, "a reader outlived the process that started it"
            time.sleep(0.1)


STARTER = """
import asyncio, json
from tests.page.test_reader_process import ASK, Client, ReaderProcesses
from winnow.config.settings import load_settings

async def ask():
    print("asking", flush=True)
    await ReaderProcesses().ask(Client(), load_settings(), "ann", "browse", ASK)

asyncio.run(ask())
"""
