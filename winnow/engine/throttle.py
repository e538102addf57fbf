"""How fast bytes may move: Kafka's log.cleaner.io.max.bytes.per.second (Throttler in CleanerConfig).

Counted as Kafka counts: every byte read to find the winners, every byte read to rewrite, every byte written. The scan
for winners opens whole segments but fetches only the columns it needs, so the true rate lies below the counted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MAXIMUM_BURST_SECONDS = 1.0
"""Rate left over while a task computes is kept for so long, then lost, so that no pause is followed by a long burst."""


class Throttle:
    """A token bucket. Whenever :meth:`take` returns, no more was taken since the start than the rate allows.

    Args:
        bytes_per_second: the rate, above 0; None: no limit.
        now: seconds on a clock that never goes back.
        sleep: waits a number of seconds.
    """

    def __init__(
        self,
        bytes_per_second: float | None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._now = now
        self._sleep = sleep
        self._paid_until = now()

    def take(self, size_bytes: float) -> None:
        """Wait until ``size_bytes`` more have been earned."""
        if self._bytes_per_second is None:
            return
        # The earliest moment at which everything taken so far has been earned.
        earned_at = max(self._paid_until, self._now() - MAXIMUM_BURST_SECONDS) + size_bytes / self._bytes_per_second
        self._paid_until = earned_at
        wait_seconds = earned_at - self._now()
        if wait_seconds > 0:
            self._sleep(wait_seconds)


class ThrottleMeter:
    """Takes a known number of bytes little by little, as the records that they hold pass by."""

    def __init__(self, throttle: Throttle, size_bytes: int, records: int) -> None:
        self._throttle = throttle
        self._size_bytes = size_bytes
        self._records = records
        self._passed = 0

    def passed(self, records: int) -> None:
        """``records`` more have passed; all together not more than were announced."""
        self._passed += records
        self._throttle.take(self._size_bytes * records / self._records)

    def finish(self, size_bytes: int) -> None:
        """It was ``size_bytes`` in the end: take what has not been taken yet. What was too much is not given back."""
        taken = self._size_bytes * self._passed / self._records if self._records else 0.0
        self._throttle.take(max(0.0, size_bytes - taken))
