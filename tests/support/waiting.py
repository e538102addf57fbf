"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(reached: Callable[[], bool], *, within_s: float = 60) -> None:
    """Wait until ``reached``.

    Raises:
        AssertionError: it was not within ``within_s`` seconds.
    """
    until = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < until, f"not reached within {within_s} s"
        time.sleep(0.05)
