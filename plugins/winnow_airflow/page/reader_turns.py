"""Turns of users at the reader processes: one question at a time per user, others in a bounded queue.

The turn that comes free goes to the user who has waited longest; further questions of a user who has just had a turn
go behind those of the others. So one user, with as many tabs as they like, takes one process and a part of the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import HTTPException

MAXIMUM_WAITING_PER_USER: Final = 4
"""Questions of one user that wait: a page asks two or three at once, and a browser has six connections."""
MAXIMUM_WAITING: Final = 48
MAXIMUM_WAIT_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    user: str
    turn: asyncio.Future[None]


class ReaderTurns:
    """The turns of one api-server."""

    def __init__(self) -> None:
        self._users: set[str] = set()
        self._queue: list[_Waiting] = []

    @asynccontextmanager
    async def take(self, user: str, maximum: int, gone: asyncio.Future[None]) -> AsyncIterator[None]:
        """Hold a turn of ``user``, one of ``maximum`` at a time, until the block ends; ``gone``: nobody waits any more.

        Raises:
            HTTPException: 429, too many questions wait, or it waited too long.
        """
        await self._wait(user, maximum, gone)
        try:
            yield
        finally:
            self._end(user, maximum)

    async def _wait(self, user: str, maximum: int, gone: asyncio.Future[None]) -> None:
        self._require_place(user, maximum)
        waiting = _Waiting(user, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._grant(maximum)
        try:
            both = {waiting.turn, gone}
            await asyncio.wait(both, timeout=MAXIMUM_WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._give_up(waiting, maximum)
            raise
        if not waiting.turn.done():
            self._give_up(waiting, maximum)
            raise _make_busy_error(user in self._users, maximum)

    def _require_place(self, user: str, maximum: int) -> None:
        own = sum(each.user == user for each in self._queue)
        if own >= MAXIMUM_WAITING_PER_USER or len(self._queue) >= MAXIMUM_WAITING:
            raise _make_busy_error(own >= MAXIMUM_WAITING_PER_USER, maximum)

    def _give_up(self, waiting: _Waiting, maximum: int) -> None:
        if not waiting.turn.done():
            self._queue.remove(waiting)
            return
        # The turn came in the same moment: the next one gets it.
        self._end(waiting.user, maximum)

    def _end(self, user: str, maximum: int) -> None:
        self._users.discard(user)
        self._queue.sort(key=lambda each: each.user == user)
        self._grant(maximum)

    def _grant(self, maximum: int) -> None:
        while len(self._users) < maximum:
            first = next((each for each in self._queue if each.user not in self._users), None)
            if first is None:
                return
            self._users.add(first.user)
            self._queue.remove(first)
            first.turn.set_result(None)


def _make_busy_error(is_own: bool, maximum: int) -> HTTPException:
    own = (
        "Other questions of yours read the log at present, and they are answered one after another. Wait for those "
        "answers or close the tabs that asked for them, then ask again."
    )
    others = (
        f"Others' questions read the log at present: {maximum} at a time (page.reader_processes), one per user. Ask "
        "again in a few seconds."
    )
    return HTTPException(429, own if is_own else others, headers={"Retry-After": "3"})
