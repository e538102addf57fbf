"""Turns at the reader processes: one question at a time per user, a bounded queue, nobody kept out by another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fastapi import HTTPException

from winnow_airflow.page import reader_turns
from winnow_airflow.page.reader_turns import MAXIMUM_WAITING, MAXIMUM_WAITING_PER_USER, ReaderTurns


class Visitors:
    """Users who ask; each question lasts until it is told to end."""

    def __init__(self, maximum: int) -> None:
        self.turns, self.maximum = ReaderTurns(), maximum
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answered: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def ask(self, name: str) -> asyncio.Task[None]:
        """Ask a question called USER or USER-NUMBER."""

        async def hold() -> None:
            async with self.turns.take(name.partition("-")[0], self.maximum, self.gone):
                self.answered.append(name)
                await self.end(name).wait()

        task = asyncio.ensure_future(hold())
        await settle()
        return task

    async def answer(self, name: str) -> None:
        """End the question that has its turn."""
        self.end(name).set()
        await settle()

    def end(self, name: str) -> asyncio.Event:
        """What ends a question."""
        return self._ends.setdefault(name, asyncio.Event())


async def settle() -> None:
    """Let everything go on that can."""
    for _ in range(10):
        await asyncio.sleep(0)


def play(talk: Callable[[Visitors], Awaitable[None]], maximum: int = 2) -> None:
    """Run a story, and end what is left of it."""

    async def whole() -> None:
        await talk(Visitors(maximum))
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    asyncio.run(whole())


def test_one_user_has_one_turn_and_another_is_served_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many questions one asks; two users are served at the same time, and a third after them."""

    async def talk(visitors: Visitors) -> None:
        for name in ("ann-1", "ann-2", "ann-3", "bob", "cid"):
            await visitors.ask(name)
        assert visitors.answered == ["ann-1", "bob"]
        await visitors.answer("bob")
        assert visitors.answered == ["ann-1", "bob", "cid"]

    play(talk)


def test_user_who_had_a_turn_goes_behind_those_who_had_none() -> None:
    """Also with questions that were asked before theirs."""

    async def talk(visitors: Visitors) -> None:
        for name in ("ann-1", "ann-2", "bob", "cid"):
            await visitors.ask(name)
        for name in ("ann-1", "bob", "cid"):
            await visitors.answer(name)
        assert visitors.answered == ["ann-1", "bob", "cid", "ann-2"]

    play(talk, maximum=1)


def test_user_with_too_many_questions_is_told_so_and_others_still_ask() -> None:
    """429 with a sentence of its own; another user's question waits in its place."""

    async def talk(visitors: Visitors) -> None:
        await visitors.ask("bob")
        for number in range(MAXIMUM_WAITING_PER_USER):
            await visitors.ask(f"ann-{number}")
        task = await visitors.ask("ann-last")
        error = task.exception()
        assert isinstance(error, HTTPException)
        assert (error.status_code, error.headers) == (429, {"Retry-After": "3"})
        assert "Other questions of yours" in error.detail
        assert not (await visitors.ask("cid")).done()

    play(talk, maximum=1)


def test_queue_is_bounded() -> None:
    """Whoever comes last is told at once, with when to ask again."""

    async def talk(visitors: Visitors) -> None:
        for number in range(MAXIMUM_WAITING + 1):
            assert not (await visitors.ask(f"user {number}")).done()
        error = (await visitors.ask("last")).exception()
        assert isinstance(error, HTTPException)
        assert (error.status_code, "page.reader_processes" in error.detail) == (429, True)

    play(talk, maximum=1)


def test_question_that_is_given_up_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its client, by its end, or after the longest wait; no turn is lost with it."""

    async def talk(visitors: Visitors) -> None:
        first, second = await visitors.ask("ann"), await visitors.ask("bob")
        await visitors.ask("cid")
        second.cancel()
        first.cancel()
        await settle()
        assert visitors.answered == ["ann", "cid"]
        waiting = await visitors.ask("dan")
        visitors.gone.set_result(None)
        await settle()
        assert isinstance(waiting.exception(), HTTPException)
        await visitors.answer("cid")
        visitors.gone = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(reader_turns, "MAXIMUM_WAIT_SECONDS", 0.01)
        await visitors.ask("eve")
        late = await visitors.ask("fay")
        await asyncio.wait({late})
        assert isinstance(late.exception(), HTTPException)
        assert visitors.answered == ["ann", "cid", "eve"]

    play(talk, maximum=1)


def test_turn_that_comes_as_its_question_ends_goes_to_the_next() -> None:
    """It is lost with neither."""

    async def talk(visitors: Visitors) -> None:
        await visitors.ask("ann")
        second = await visitors.ask("bob")
        await visitors.ask("cid")
        visitors.end("ann").set()
        while "bob" in {each.user for each in visitors.turns._queue}:
            await asyncio.sleep(0)
        second.cancel()
        await settle()
        assert visitors.answered == ["ann", "cid"]

    play(talk, maximum=1)
