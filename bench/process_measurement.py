"""Runs one command and measures time, CPU, memory and bytes of its process tree."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

INTERVAL_SECONDS = 0.15
"""Interval between memory samples. Peaks of single processes come from the kernel and are exact."""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one command with all its child processes.

    ``started`` is on the machine's monotonic clock (s), which all processes share. ``peak_bytes``: all processes
    together, shared pages counted once (proportional set size, where the system reports it). ``process_peaks``: per
    kind of process the highest resident size of a single one. ``read_bytes`` and ``written_bytes`` are bytes requested
    from the system; the bytes that reached the disk are separate. ``exit_code`` None: it was stopped at the time limit.
    """

    exit_code: int | None
    seconds: float
    started: float
    cpu_seconds: float
    peak_bytes: int
    process_peaks: dict[str, int]
    read_bytes: int
    written_bytes: int
    disk_read_bytes: int
    disk_written_bytes: int
    output: str = field(repr=False, default="")

    @property
    def ended(self) -> float:
        """End time, on the same clock as ``started``."""
        return self.started + self.seconds


class _Sampler:
    """Samples all processes of one session."""

    def __init__(self, session: int) -> None:
        self._session = session
        self.peak_bytes = 0
        self.process_peaks: dict[str, int] = {}
        self._tasks: dict[int, tuple[int, ...]] = {}

    def look(self) -> None:
        """Take one sample."""
        import psutil

        total = 0
        for pid in psutil.pids():
            with contextlib.suppress(psutil.Error, OSError):
                if os.getsid(pid) != self._session or pid == self._session:
                    continue
                process = psutil.Process(pid)
                full = process.memory_full_info()
                total += getattr(full, "pss", 0) or full.uss
                kind = _kind(process)
                if kind == "task":
                    self._tasks[pid] = _counters(process)
                self.process_peaks[kind] = max(self.process_peaks.get(kind, 0), _highest(pid, full.rss))
        self.peak_bytes = max(self.peak_bytes, total)

    def task_counters(self) -> tuple[int, ...]:
        """Return what Spark's Python workers had read and written at the last sample, as :func:`_counters`.

        Their parent does not reap them, so Linux adds their bytes to no other process. They idle until the application
        stops, so the last sample is after their work.
        """
        return tuple(map(sum, zip(*self._tasks.values(), strict=True))) or (0, 0, 0, 0)


def _counters(process: psutil.Process) -> tuple[int, ...]:
    """Return bytes read and written as asked of the system, then those that reached the disk; zeros if unknown."""
    if not hasattr(process, "io_counters"):
        return (0, 0, 0, 0)
    found = process.io_counters()
    return (
        getattr(found, "read_chars", found.read_bytes),
        getattr(found, "write_chars", found.write_bytes),
        found.read_bytes,
        found.write_bytes,
    )


def _highest(pid: int, otherwise: int) -> int:
    """Return the highest resident size of the process, from the kernel where available, else ``otherwise``."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return otherwise


def _kind(process: psutil.Process) -> str:
    text = " ".join(process.cmdline())
    if _is_daemon(text):
        parent = process.parent()
        # Workers are forks of the daemon and keep its command line.
        return "task" if parent is not None and _is_daemon(" ".join(parent.cmdline())) else "daemon"
    return "jvm" if "org.apache.spark" in text else "python"


def _is_daemon(command_line: str) -> bool:
    return any(daemon in command_line for daemon in ("pyspark.daemon", "winnow.engine.daemon"))


def measure(
    command: Sequence[str], env: Mapping[str, str], *, cwd: Path = ROOT, limit_seconds: float | None = None
) -> Measured:
    """Run ``command`` until it ends, or stop it after ``limit_seconds``."""
    with tempfile.TemporaryDirectory(prefix="winnow-bench-") as folder:
        report, output = Path(folder) / "report.json", Path(folder) / "output"
        began = time.monotonic()
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.launch", str(report), *command],
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            sampler = _Sampler(process.pid)
            try:
                ended_itself = _watch(process, sampler, began, limit_seconds)
            finally:
                if process.poll() is None:
                    _end_session(process.pid)
                    process.wait()
        text = output.read_text(encoding="utf-8", errors="replace")
        found = json.loads(report.read_text()) if report.is_file() else {}
    started = float(found.get("started", began))
    tasks = sampler.task_counters()
    return Measured(
        exit_code=int(found["exit_code"]) if ended_itself and found else None,
        seconds=float(found["ended"]) - started if found else time.monotonic() - began,
        started=started,
        cpu_seconds=float(found.get("cpu_seconds", 0.0)),
        peak_bytes=sampler.peak_bytes,
        process_peaks=sampler.process_peaks,
        read_bytes=int(found.get("rchar", 0)) + tasks[0],
        written_bytes=int(found.get("wchar", 0)) + tasks[1],
        disk_read_bytes=int(found.get("read_bytes", 0)) + tasks[2],
        disk_written_bytes=int(found.get("write_bytes", 0)) + tasks[3],
        output=text,
    )


def _watch(process: subprocess.Popen[bytes], sampler: _Sampler, began: float, limit_seconds: float | None) -> bool:
    """Sample until the process has ended; return whether it ended by itself."""
    while True:
        try:
            process.wait(INTERVAL_SECONDS)
        except subprocess.TimeoutExpired:
            sampler.look()
        else:
            return True
        if limit_seconds is not None and time.monotonic() - began > limit_seconds:
            return False


def _end_session(session: int) -> None:
    """End every process of one session, which contains only processes started here."""
    import psutil

    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)
