"""Runs a step on several topics side by side.

Validating and publishing a small topic is mostly waiting: for the disk, the object store, the catalog and the metadata
store. Each topic has its own lease, run and commit, so their order does not matter.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAXIMUM_TOPICS_AT_A_TIME = 4
"""Maximum topics that one process works on at a time. Each may hold a connection of the metadata store."""


def map_side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Run ``work`` on each of ``items``, several at a time, and return the results in order.

    Work on an item begins as soon as ``items`` gives it.
    """
    pool = ThreadPoolExecutor(MAXIMUM_TOPICS_AT_A_TIME, thread_name_prefix="topics")
    try:
        # Loggers of tasks keep what they add to each line in context variables.
        running = [pool.submit(contextvars.copy_context().run, work, item) for item in items]
        return [each.result() for each in running]
    finally:
        # After an interruption, work that has not begun never does.
        pool.shutdown(cancel_futures=True)
