"""Works on many files at a time, in a pool of threads: most of the work is waiting for disks and object stores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

FILES_AT_ONCE: Final = 8
"""Files that are read or copied at a time, each through a block of memory."""


def work_on_each(items: Iterable[T], work: Callable[[T], R]) -> Iterator[tuple[T, R]]:
    """Return each item with the result of ``work``, in their order. The first failure ends the work and is raised."""
    with ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="backup") as pool:
        waiting: deque[tuple[T, Future[R]]] = deque()
        rest = iter(items)
        try:
            while True:
                for item in islice(rest, 2 * FILES_AT_ONCE - len(waiting)):
                    waiting.append((item, pool.submit(work, item)))
                if not waiting:
                    return
                item, future = waiting.popleft()
                yield item, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
