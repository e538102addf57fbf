"""Work beside the reading: a thread that does calls in the order they were given, a few of them ahead at most."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

MAXIMUM_WAITING_CALLS = 3
"""Calls that a lane holds at once, each with a batch in hand."""


class OrderedWorker:
    """One thread for calls that let go of Python's lock: hashing, compressing, writing. A context manager.

    What a call raises is raised by a later :meth:`put` or by :meth:`settle`; those behind it may have run. Leaving the
    block waits for the call under way and drops the others.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[Any]] = deque()

    def __enter__(self) -> OrderedWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def put(self, call: Callable[..., object], *arguments: object) -> None:
        """Have ``call`` done after those before it; waits while :data:`WAITING` of them are not done yet."""
        while len(self._waiting) >= MAXIMUM_WAITING_CALLS:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(call, *arguments))

    def settle(self) -> None:
        """Wait until everything given so far is done."""
        while self._waiting:
            self._waiting.popleft().result()
