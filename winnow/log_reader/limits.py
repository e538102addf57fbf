"""Limits of the process: seconds, CPU time, address space, file sizes, and the end of the process that asked."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from typing import BinaryIO, Final

MAXIMUM_FILE_BYTES: Final = 1 << 30
"""Of each file that the process may write: DuckDB's spill."""
EXTRA_CPU_SECONDS: Final = 1
"""CPU time goes on a little longer, so that the end by the clock is the one that is usually seen."""


def limit_memory(maximum_bytes: int) -> None:
    """Limit the address space and the size of written files; core dumps, which would hold records, are off."""
    for kind, limit in (
        (resource.RLIMIT_AS, maximum_bytes),
        (resource.RLIMIT_FSIZE, MAXIMUM_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (_find_lower(limit, hard), _find_lower(limit, hard)))


def limit_seconds(seconds: int) -> None:
    """Let the kernel end the process ``seconds`` from now, by the clock or by CPU time, whatever it does then."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = int(used.ru_utime + used.ru_stime) + seconds + EXTRA_CPU_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (_find_lower(cpu_seconds, hard), hard))


def _find_lower(limit: int, hard: int) -> int:
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def end_with_caller(stream: BinaryIO) -> None:
    """End the process as soon as ``stream`` ends: the process that asked holds its other end open until it is done."""

    def wait() -> None:
        with contextlib.suppress(OSError, ValueError):
            while stream.read(1):
                continue
        os._exit(0)

    threading.Thread(target=wait, name="caller", daemon=True).start()
