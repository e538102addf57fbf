"""Runs a step on several topics or files side by side, in threads of this process.

Validating and publishing a small topic, and copying a file, are mostly waiting: for the disk, the object store, the
catalog and the metadata store. Each topic has its own lease, run and commit, so their order does not matter.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAXIMUM_TOPICS_AT_A_TIME: Final = 4
"""Maximum topics that one process works on at a time. Each may hold a connection of the metadata store."""

MAXIMUM_FILES_AT_A_TIME: Final = 8
"""Files that are read or copied at a time, each through a block of memory."""


def map_parallel(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Run ``work`` on each of ``items``, several at a time, and return the results in order.

    Work on an item begins as soon as ``items`` gives it.
    """
    pool = ThreadPoolExecutor(MAXIMUM_TOPICS_AT_A_TIME, thread_name_prefix="topics")
    try:
        # Loggers of tasks keep what they add to each line in context variables.
        running = [pool.submit(contextvars.copy_context().run, work, item) for item in items]
        return [future.result() for future in running]
    finally:
        # After an interruption, work that has not begun never does.
        pool.shutdown(cancel_futures=True)


def iterate_parallel(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
    """Yield each item with the result of ``work``, in their order. The first failure ends the work and is raised.

    Takes no more of ``items`` than it works on soon: they may be as many as a warehouse has files.
    """
    with ThreadPoolExecutor(MAXIMUM_FILES_AT_A_TIME, thread_name_prefix="files") as pool:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        rest = iter(items)
        try:
            while True:
                for item in islice(rest, 2 * MAXIMUM_FILES_AT_A_TIME - len(waiting)):
                    waiting.append((item, pool.submit(work, item)))
                if not waiting:
                    return
                item, future = waiting.popleft()
                yield item, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
