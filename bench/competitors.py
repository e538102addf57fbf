"""Competitors of the benchmark, each started as a separate process on the same segment files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from bench.ingest_runs import measure_duckdb_ingest, measure_ingest
from bench.keyed_tables import WAYS, measure_keyed_table
from bench.lake import Lake, build_environment
from bench.peer_runs import MAXIMUM_RUN_SECONDS, SPARK_MEMORY, build_run, run_peer
from bench.peers.timing import parse_times
from bench.phase_times import compute_phases, compute_work_seconds, read_events, sum_engine_seconds
from bench.process_measurement import measure
from bench.result_checks import compute_fingerprint
from bench.results import CompetitorRun
from bench.targets import MEASURED_APPLICATIONS, MEMORY_BUDGET_BYTES
from bench.workloads import SMALL

UPSERT_SECONDS = 60.0
"""The benchmark waits no longer for PyIceberg's upsert; a check on small data waits, however slow the machine is."""


@dataclass(frozen=True, slots=True)
class Competitor:
    """A competitor. ``run(lake, compare)`` measures it on a prepared lake, and may fingerprint its result."""

    name: str
    meaning: str
    run: Callable[..., CompetitorRun]


def _winnow(lake: Lake, compare: bool, competitor: str = "winnow", **settings: str) -> CompetitorRun:
    lake.restore()
    events_file = lake.scratch / "events.jsonl"
    events_file.unlink(missing_ok=True)
    before = lake.segments()
    measured = measure(
        [sys.executable, "-m", "bench.peers.winnow_cli", str(events_file), "compact", lake.topic, "--json"],
        build_environment(lake.home, **settings),
        limit_seconds=MAXIMUM_RUN_SECONDS,
    )
    events = read_events(events_file)
    after = lake.segments()
    print_ = None
    if compare and measured.exit_code == 0:
        print_ = compute_fingerprint([segment.path for segments in after.values() for segment in segments])
    published = next((event for event in events if event["event"] == "published"), {})
    run = build_run(
        lake,
        competitor,
        measured,
        compute_work_seconds(events),
        [segment for segments in before.values() for segment in segments],
        int(published.get("bytes_out", 0)),
        phases=compute_phases(events, measured.started, measured.ended, os.cpu_count() or 1),
        engine=sum_engine_seconds(events),
        fingerprint=print_,
    )
    known = {segment.path for segments in before.values() for segment in segments}
    added = [segment for segments in after.values() for segment in segments if segment.path not in known]
    return replace(run, after={"new_bytes": sum(segment.size_bytes for segment in added)})


def _peer(
    module: str, way: str, name: str, *, compacts: bool = True, limit_seconds: float = MAXIMUM_RUN_SECONDS
) -> Competitor:
    def run(lake: Lake, compare: bool, only: int | None = None) -> CompetitorRun:
        from winnow.files.duckdb_connection import format_file_name

        lake.restore()
        segments = {number: found for number, found in lake.segments().items() if only in (None, number)}
        files = {partition: [format_file_name(each.path) for each in found] for partition, found in segments.items()}
        out = lake.scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        request = {
            "files": [path for paths in files.values() for path in paths],
            "partitions": files,
            "out": str(out),
            "memory": SPARK_MEMORY,
        }
        limit = MAXIMUM_RUN_SECONDS if lake.size is SMALL else limit_seconds
        measured = run_peer(lake, module, way, request, limit)
        times = parse_times(measured.output)
        written = sorted(out.rglob("*.parquet"))
        print_ = compute_fingerprint([str(path) for path in written]) if compare and compacts and times else None
        done = build_run(
            lake,
            name,
            measured,
            # Stopping the application counts as work, as it does for Winnow.
            measured.ended - times["ready"] if times else None,
            [each for found in segments.values() for each in found],
            sum(path.stat().st_size for path in written),
            fingerprint=print_,
        )
        shutil.rmtree(out, ignore_errors=True)
        return done

    return Competitor(name, MEANINGS[name], run)


def _within_budget(lake: Lake, compare: bool) -> CompetitorRun:
    """Measure Winnow with little memory; files left in its spill folder are an error."""
    spill = lake.scratch / "spill"
    shutil.rmtree(spill, ignore_errors=True)
    spill.mkdir(parents=True)
    settings = {"ENGINE__MEMORY_BYTES": str(MEMORY_BUDGET_BYTES), "ENGINE__SPILL_FOLDER": str(spill)}
    run = _winnow(lake, compare, "winnow-256m", **settings)
    left = sum(path.is_file() for path in spill.rglob("*"))
    return replace(run, ended=False, note=f"left {left} files in its spill folder") if left else run


def _spark_each(lake: Lake, compare: bool) -> CompetitorRun:
    """Run one naive Spark application per topic partition: measure the first few, and estimate the total from them."""
    window = COMPETITORS["spark-window"]
    segments = lake.segments()
    runs = [window.run(lake, False, only=partition) for partition in list(segments)[:MEASURED_APPLICATIONS]]
    mean = sum(run.seconds for run in runs) / len(runs)
    note = f"estimated: {len(segments)} times the mean of {len(runs)} applications, {mean:.2f} s each"
    every = all(run.ended for run in runs)
    return replace(runs[0], competitor="spark-each", seconds=mean * len(segments), ended=every, note=note)


MEANINGS = {
    "winnow": "winnow compact: plan, spark-submit, facts, validation, publish",
    "duckdb": "DuckDB alone: greatest offset per key, semi join, all cores; no plan, no validation, no publish",
    "spark-copy": "a plain Spark copy: read and write, nothing else",
    "spark-window": "the naive Spark job: row_number() over (partition, key)",
    "spark-semi-join": "the best ordinary DataFrame job: max(offset) per key, then a semi join",
    "winnow-256m": "winnow compact with a budget of 256 MiB per task",
    "ingest": "winnow ingest files, half of the source files into a new topic",
    "duckdb-ingest": "the same files read, sorted and written with the same codec by DuckDB",
    "spark-each": "one naive Spark application per topic partition; estimated from the first five",
    "spark-merge-cow": "a keyed Iceberg table: MERGE INTO of the new records, copy-on-write",
    "spark-merge-mor": "the same, merge-on-read with deletion vectors",
    "spark-overwrite": "a keyed Parquet table: INSERT OVERWRITE from the old table and the new records",
    "pyiceberg-upsert": "PyIceberg's upsert by key, one call's files after another; ended after a minute",
}

COMPETITORS: dict[str, Competitor] = {
    competitor.name: competitor
    for competitor in (
        Competitor("winnow", MEANINGS["winnow"], _winnow),
        _peer("duckdb_alone", "compact", "duckdb"),
        _peer("spark", "copy", "spark-copy", compacts=False),
        _peer("spark", "window", "spark-window"),
        _peer("spark", "semi-join", "spark-semi-join"),
        _peer("pyiceberg_upsert", "upsert", "pyiceberg-upsert", limit_seconds=UPSERT_SECONDS),
        *(Competitor(name, MEANINGS[name], partial(measure_keyed_table, competitor=name)) for name in WAYS),
        Competitor("winnow-256m", MEANINGS["winnow-256m"], _within_budget),
        Competitor("ingest", MEANINGS["ingest"], measure_ingest),
        Competitor("duckdb-ingest", MEANINGS["duckdb-ingest"], measure_duckdb_ingest),
        Competitor("spark-each", MEANINGS["spark-each"], _spark_each),
    )
}
