"""Measures how the table of a topic's latest state is built from Avro values: Winnow beside a plain Spark job.

All ways choose the newest record of each key and write Parquet with zstd. The Spark job decodes with ``from_avro``, and
neither validates nor commits. Winnow's table of bytes decodes nothing.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lake import build_environment, open_home, replace_tree
from bench.peer_runs import MAXIMUM_RUN_SECONDS, SPARK_MEMORY
from bench.peers.timing import parse_times
from bench.process_measurement import measure
from bench.workloads import BASE_MS

KEYS = {"small": 100_000, "12m": 3_000_000, "large": 48_000_000}
"""Keys of the topic, by size; each has two records."""
SEGMENT_BYTES = 64 << 20
"""Tasks divide a partition between its segments."""
GIANT_BYTES = 200_000_000
"""From this size on they do."""
TOPIC = "customers"
WAYS = ("bytes", "typed", "typed and sorted", "typed on Spark, 1 core", "typed on Spark, 2 cores", "plain Spark")
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": "string"},
        {"name": "balance", "type": "double"},
        {"name": "email", "type": ["null", "string"], "default": None},
        {"name": "changed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
_ARCHIVE_RECORDS = 500_000
_ORDER = "city, changed desc"
"""Of rows that are sorted: by text, in which rows of one value lie everywhere in the log."""
_CORES = {"typed on Spark, 1 core": "local[1]", "typed on Spark, 2 cores": "local[2]"}


@dataclass(frozen=True, slots=True)
class TypedRun:
    """One way to build the table."""

    way: str
    keys: int
    log_bytes: int
    seconds: float
    work_seconds: float | None
    cpu_seconds: float
    peak_bytes: int
    note: str = ""


def run_typed_tables(
    folder: Path, count: int, partitions: int, ways: list[str], report: Callable[[str], None]
) -> list[TypedRun]:
    """Measure every way once with ``count`` keys; the log is made once."""
    base = folder / "typed"
    home, pristine = base / "home", base / f"pristine-{count}-{partitions}"
    if not pristine.is_dir():
        report(f"making a log of {2 * count:,} records")
        shutil.rmtree(home, ignore_errors=True)
        _make_log(base, home, count, partitions)
        replace_tree(home, pristine)
    runs = []
    for way in ways or WAYS:
        report(way)
        replace_tree(pristine, home)
        runs.append(_measure(base, home, way, count))
        report(describe_run(runs[-1]))
    return runs


def _make_log(base: Path, home: Path, keys: int, partitions: int) -> None:
    from winnow.pipeline.topics.definition import create_topic

    home.mkdir(parents=True)
    with open_home(home) as installation:
        config = {"winnow.latest.table": "true", "segment.bytes": str(SEGMENT_BYTES)}
        create_topic(installation, TOPIC, partitions, config)
    archive = base / "archive"
    shutil.rmtree(archive, ignore_errors=True)
    archive.mkdir()
    _write_archive(archive, keys, partitions)
    command = [
        sys.executable,
        "-m",
        "winnow.cli",
        "ingest",
        "files",
        TOPIC,
        str(archive),
        "--engine",
        "local",
        "--json",
    ]
    done = measure(command, build_environment(home), limit_seconds=MAXIMUM_RUN_SECONDS)
    if done.exit_code != 0:
        raise RuntimeError(done.output[-500:])
    shutil.rmtree(archive)


def _write_archive(folder: Path, keys: int, partitions: int) -> None:
    """Write Parquet files as Spark's Kafka source gives them, two records of each key."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    each = keys // partitions
    for partition in range(partitions):
        for first in range(0, 2 * each, _ARCHIVE_RECORDS):
            offsets = range(first, min(2 * each, first + _ARCHIVE_RECORDS))
            numbers = [partition * each + offset * 7919 % each for offset in offsets]
            table = pa.table(
                {
                    "topic": pa.array([TOPIC] * len(offsets)),
                    "partition": pa.array([partition] * len(offsets), pa.int32()),
                    "offset": pa.array(offsets, pa.int64()),
                    "timestamp": pa.array([(BASE_MS + offset) * 1000 for offset in offsets], pa.timestamp("us", "UTC")),
                    "timestampType": pa.array([0] * len(offsets), pa.int32()),
                    "key": pa.array([b"customer-%08d" % number for number in numbers], pa.binary()),
                    "value": pa.array(list(_encode_values(numbers, offsets)), pa.binary()),
                }
            )
            pq.write_table(table, folder / f"part-{partition}-{first:010d}.parquet")


def _encode_values(numbers: list[int], offsets: range) -> Iterator[bytes]:
    import fastavro

    schema = fastavro.parse_schema(dict(SCHEMA))
    for number, offset in zip(numbers, offsets, strict=True):
        stream = io.BytesIO()
        value = {
            "id": number,
            "city": f"city-{number % 1_009}",
            "balance": offset / 8,
            "email": None if number % 5 == 0 else f"{number}@example.com",
            "changed": BASE_MS + offset,
        }
        fastavro.schemaless_writer(stream, schema, value)
        yield stream.getvalue()


def _measure(base: Path, home: Path, way: str, keys: int) -> TypedRun:
    out, schema = base / "out", base / "customer.avsc"
    shutil.rmtree(out, ignore_errors=True)
    schema.write_text(json.dumps(SCHEMA))
    with open_home(home) as installation:
        log = installation.log.open(TOPIC)
        segments = [segment for part in log.segments(log.head()).values() for segment in part]
        if way.startswith("typed"):
            from winnow.log.topic_configuration import set_config

            config = {"winnow.value.format": "avro", "winnow.value.schema": schema.as_uri()}
            if way == "typed and sorted":
                config["winnow.latest.sort_by"] = _ORDER
            set_config(log, {"winnow.key.format": "string", **config}, [])
    environment = build_environment(home, ENGINE__GIANT_BYTES=str(GIANT_BYTES))
    if way == "plain Spark":
        request = base / "request.json"
        paths = [segment.path for segment in segments]
        request.write_text(
            json.dumps({"files": paths, "schema": json.dumps(SCHEMA), "out": str(out), "memory": SPARK_MEMORY})
        )
        command = [sys.executable, "-m", "bench.peers.spark_typed", str(request)]
    else:
        engine = "spark" if way in _CORES else "local"
        environment["WINNOW_SPARK__MASTER"] = _CORES.get(way, "local[2]")
        command = [sys.executable, "-m", "winnow.cli", "latest-table", "update", TOPIC, "--engine", engine]
    measured = measure(command, environment, limit_seconds=MAXIMUM_RUN_SECONDS)
    times = parse_times(measured.output)
    shutil.rmtree(out, ignore_errors=True)
    return TypedRun(
        way=way,
        keys=keys,
        log_bytes=sum(segment.size_bytes for segment in segments),
        seconds=measured.seconds,
        work_seconds=measured.ended - times["ready"] if times else None,
        cpu_seconds=measured.cpu_seconds,
        peak_bytes=measured.peak_bytes,
        note="" if measured.exit_code == 0 else measured.output[-500:],
    )


def describe_run(run: TypedRun) -> str:
    """Describe one run in a line."""
    work = "" if run.work_seconds is None else f" ({run.work_seconds:.1f} s of it work)"
    speed = f"{2 * run.keys / run.seconds:,.0f} records/s"
    peak = f"{run.peak_bytes / 2**20:,.0f} MiB"
    return f"{run.way}: {run.seconds:.1f} s{work}, {speed}, {run.cpu_seconds:.1f} s CPU, {peak}" + (
        f"; FAILED: {run.note}" if run.note else ""
    )
