"""Prints and parses the times of a competitor as one JSON line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

PREFIX = "BENCH "


class Times:
    """``ready``: when the application could begin its work, on the machine's monotonic clock (s).

    ``figures``: what else it has measured, by name.
    """

    def __init__(self) -> None:
        self.ready = 0.0
        self.done = 0.0
        self.figures: dict[str, float] = {}


@contextmanager
def print_times() -> Iterator[Times]:
    """Print the times at the end of the block."""
    times = Times()
    yield times
    found = {"ready": times.ready, "done": times.done or time.monotonic(), **times.figures}
    sys.stdout.write(f"{PREFIX}{json.dumps(found)}\n")
    sys.stdout.flush()


def parse_times(output: str) -> dict[str, float]:
    """Parse the times and figures from a competitor's output; empty when it did not finish."""
    for line in reversed(output.splitlines()):
        if line.startswith(PREFIX):
            return {name: float(value) for name, value in json.loads(line[len(PREFIX) :]).items()}
    return {}
