"""Starts one command and counts the I/O of all its processes; standard library only.

    python -m bench.launch REPORT COMMAND...

It becomes the parent of orphaned processes (subreaper), waits for all of them and writes REPORT: exit code, seconds,
CPU seconds, bytes read and written. Linux adds the bytes of a process to its parent's when the parent reaps it, so the
totals include even short-lived processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_COUNTED = ("rchar", "wchar", "read_bytes", "write_bytes")


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    report, *command = arguments
    with contextlib.suppress(OSError, AttributeError):  # not on Linux: orphans are not counted there
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = _counters()
    started = time.monotonic()
    process = subprocess.Popen(command)
    code = process.wait()
    ended = time.monotonic()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = _counters()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "exit_code": code,
        "started": started,
        "ended": ended,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        **{name: after[name] - before[name] for name in _COUNTED if name in after},
    }
    Path(report).write_text(json.dumps(found))
    return code


def _counters() -> dict[str, int]:
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
