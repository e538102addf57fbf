"""Measures ``winnow ingest files`` and a plain DuckDB copy of the same files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bench.lake import Lake, build_environment
from bench.peer_runs import MAXIMUM_RUN_SECONDS, build_run, run_peer
from bench.peers.timing import parse_times
from bench.phase_times import read_events
from bench.process_measurement import measure
from bench.results import CompetitorRun
from bench.source_data import make_source_files


def measure_ingest(lake: Lake, compare: bool) -> CompetitorRun:
    """Measure ``winnow ingest files`` of half the source files into a new topic."""
    from bench.lake import open_home
    from winnow.pipeline.topics.definition import create_topic

    home = lake.scratch / "ingest-home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with open_home(home) as installation:
        create_topic(installation, lake.topic, lake.workload.partition_count(lake.size), lake.workload.config)
    files = _ingested(lake)
    events_file = lake.scratch / "events.jsonl"
    measured = measure(
        [sys.executable, "-m", "bench.peers.winnow_cli", str(events_file), "ingest", "files", lake.topic, *files],
        build_environment(home),
        limit_seconds=MAXIMUM_RUN_SECONDS,
    )
    ingested = next((event for event in read_events(events_file) if event["event"] == "ingested"), None)
    run = build_run(
        lake,
        "ingest",
        measured,
        ingested["duration_ms"] / 1000 if ingested else None,
        [],
        _bytes(home.rglob("*.parquet")),
    )
    shutil.rmtree(home)
    return replace(run, records=ingested["records_appended"] if ingested else 0, input_bytes=_bytes(map(Path, files)))


def measure_duckdb_ingest(lake: Lake, compare: bool) -> CompetitorRun:
    """Measure DuckDB reading, sorting and writing the same files with the same codec."""
    files = _ingested(lake)
    out = lake.scratch / "out"
    shutil.rmtree(out, ignore_errors=True)
    measured = run_peer(lake, "duckdb_alone", "copy", {"partitions": {"0": files}, "out": str(out)})
    times = parse_times(measured.output)
    work = measured.ended - times["ready"] if times else None
    run = build_run(lake, "duckdb-ingest", measured, work, [], _bytes(out.rglob("*.parquet")))
    shutil.rmtree(out, ignore_errors=True)
    return replace(run, input_bytes=_bytes(map(Path, files)))


def _ingested(lake: Lake) -> list[str]:
    calls = make_source_files(lake.workload, lake.size, lake.sources)
    return [str(path) for paths in calls[: max(1, len(calls) // 2)] for path in paths]


def _bytes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
