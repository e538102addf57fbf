"""Turns one measured process into one run of the results."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lake import Lake, build_environment
from bench.process_measurement import Measured, measure
from bench.results import TOO_LONG, CompetitorRun

if TYPE_CHECKING:
    from winnow.values.model import Segment

MAXIMUM_RUN_SECONDS = 900.0
"""Maximum duration of one run (s)."""
SPARK_MEMORY = "8g"
"""Driver memory, with a local master that does all the work: a third of a machine of 24 GiB."""


def run_peer(
    lake: Lake, module: str, way: str, request: Mapping[str, Any], limit_seconds: float = MAXIMUM_RUN_SECONDS
) -> Measured:
    """Measure one program of :mod:`bench.peers` on ``lake``."""
    return run_program(lake.home, module, way, request, limit_seconds)


def run_program(
    home: Path, module: str, way: str, request: Mapping[str, Any], limit_seconds: float = MAXIMUM_RUN_SECONDS
) -> Measured:
    """Measure one program of :mod:`bench.peers`; its request lies beside ``home``."""
    request_file = home.parent / "request.json"
    request_file.write_text(json.dumps(request))
    command = [sys.executable, "-m", f"bench.peers.{module}", way, str(request_file)]
    return measure(command, build_environment(home), limit_seconds=limit_seconds)


def build_run(
    lake: Lake,
    competitor: str,
    measured: Measured,
    work: float | None,
    before: Sequence[Segment],
    output_bytes: int,
    *,
    phases: dict[str, float] | None = None,
    engine: dict[str, float] | None = None,
    fingerprint: str | None = None,
) -> CompetitorRun:
    """Build the run of ``competitor`` from ``measured``; ``work``: seconds (None: it did not get that far).

    ``before``: the segments at the start. ``output_bytes``: size of its result.
    """
    return CompetitorRun(
        size=lake.size.name,
        workload=lake.workload.name,
        competitor=competitor,
        ended=measured.exit_code == 0 and work is not None,
        seconds=measured.seconds,
        work_seconds=work,
        cpu_seconds=measured.cpu_seconds,
        peak_bytes=measured.peak_bytes,
        process_peaks=measured.process_peaks,
        read_bytes=measured.read_bytes,
        written_bytes=measured.written_bytes,
        disk_read_bytes=measured.disk_read_bytes,
        disk_written_bytes=measured.disk_written_bytes,
        records=sum(segment.records for segment in before),
        input_bytes=sum(segment.size_bytes for segment in before),
        output_bytes=output_bytes,
        phases=phases or {},
        engine=engine or {},
        fingerprint=fingerprint,
        note=_note(measured),
    )


def _note(measured: Measured) -> str:
    if measured.exit_code is None:
        return f"{TOO_LONG}: ended after {measured.seconds:.0f} s"
    return "" if measured.exit_code == 0 else measured.output[-2000:]
