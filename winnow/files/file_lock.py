"""Locks a file against other processes of this machine, and waits for it for a while: one that was stopped keeps it."""

from __future__ import annotations

import fcntl
import time
from typing import IO, Any, Final

LOCK_TIMEOUT_S: Final = 30.0
"""How long a lock is waited for: what is done under one takes a second or two."""
_LONGEST_PAUSE_S: Final = 0.2


def lock_file(file: IO[Any]) -> None:
    """Lock an open file; closing it releases the lock.

    Raises:
        TimeoutError: another process kept it for :data:`LOCK_TIMEOUT_S`.
    """
    until_s, pause_s = time.monotonic() + LOCK_TIMEOUT_S, 0.001
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until_s:
                raise TimeoutError(
                    f"Another process keeps {file.name} locked, for more than {LOCK_TIMEOUT_S:g} s"
                ) from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
