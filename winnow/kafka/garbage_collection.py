"""Lets Python's collector of reference cycles run less often while many records are read.

The client makes an object per record. The collector counts these as new objects, so it looks through all objects of the
process again and again, and finds nothing: records refer to each other in no cycle, and are freed when a batch of
them is made. Without this, it takes half of the time in which records are read.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MINIMUM_NEW_OBJECTS = 200_000
"""New objects, less those that were freed, after which cycles are looked for: several times what a batch has, and some
100 MB if all of them were in cycles."""


class _Blocks:
    """The open blocks of this process, and the thresholds as they were before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._before = gc.get_threshold()

    def enter(self) -> None:
        with self._lock:
            if not self._open:
                self._before = gc.get_threshold()
                first, second, third = self._before
                # A collector that is switched off has 0.
                gc.set_threshold(max(first, MINIMUM_NEW_OBJECTS) if first else 0, second, third)
            self._open += 1

    def leave(self) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                gc.set_threshold(*self._before)


_blocks = _Blocks()


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Raise the collector's first threshold for a block. Blocks may overlap, in several threads."""
    _blocks.enter()
    try:
        yield
    finally:
        _blocks.leave()
