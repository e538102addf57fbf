"""Measures how archives of sinks go in: Winnow in one process, Winnow on Spark, and a plain Spark job beside them.

All three decode, sort by partition and offset, and write Parquet with zstd. Winnow also checks, compares and commits.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lake import build_environment, open_home
from bench.peer_runs import MAXIMUM_RUN_SECONDS, SPARK_MEMORY
from bench.peers.timing import parse_times
from bench.process_measurement import measure
from bench.workloads import BASE_MS

RECORDS = {"small": 100_000, "12m": 10_000_000, "large": 10_000_000}
"""Records of an archive, by size."""
PARTITIONS = 4
OBJECT_RECORDS = 50_000
TOPIC = "archived"
_VALUE_BYTES = 200


@dataclass(frozen=True, slots=True)
class ArchiveRun:
    """One way to read one archive. ``work_seconds``: without the start of Spark, None where that is not known."""

    archive: str
    way: str
    records: int
    input_bytes: int
    seconds: float
    work_seconds: float | None
    cpu_seconds: float
    peak_bytes: int
    note: str = ""


def write_aiven_json(folder: Path, records: int) -> None:
    """Write JSON lines as Aiven's sink does with bytes as base64, gzip as by default."""
    for partition, first, last in _list_objects(records):
        lines = []
        for offset in range(first, last):
            key = base64.b64encode(b"customer-%08d" % (offset * 7919 % 1_000_003)).decode()
            value = base64.b64encode(_make_value(offset)).decode()
            lines.append(
                f'{{"key":"{key}","value":"{value}","offset":{offset},"timestamp":"{_format_time(offset)}",'
                '"headers":[{"key":"trace","value":"AAEC/w=="}]}'
            )
        path = folder / f"{TOPIC}-{partition}-{first}.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode(), 6))


def write_confluent_avro(folder: Path, records: int) -> None:
    """Write Avro files as Confluent's sink does, values alone."""
    import fastavro

    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ]
    schema = fastavro.parse_schema({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})
    for partition, first, last in _list_objects(records):
        inside = folder / "topics" / TOPIC / f"partition={partition}"
        inside.mkdir(parents=True, exist_ok=True)
        rows = (
            {
                "id": offset,
                "customer": f"customer-{offset * 7919 % 1_000_003:09d}",
                "amount": offset / 8,
                "note": _make_value(offset)[:150].decode("ascii"),
            }
            for offset in range(first, last)
        )
        buffer = io.BytesIO()
        fastavro.writer(buffer, schema, rows, codec="null")
        (inside / f"{TOPIC}+{partition}+{first:010d}.avro").write_bytes(buffer.getvalue())


ARCHIVES: dict[str, Callable[[Path, int], None]] = {
    "aiven-json": write_aiven_json,
    "confluent-avro": write_confluent_avro,
}
WAYS = ("local", "spark", "plain-spark")


def _list_objects(records: int) -> Iterator[tuple[int, int, int]]:
    """Yield partition, first offset and the offset after the last one of each object."""
    each = records // PARTITIONS
    for partition in range(PARTITIONS):
        for first in range(0, each, OBJECT_RECORDS):
            yield partition, first, min(each, first + OBJECT_RECORDS)


def _make_value(offset: int) -> bytes:
    text = b'{"order":%d,"state":"%s","text":"' % (offset, (b"new", b"paid", b"sent")[offset % 3])
    noise = b"%x" % pow(3, offset % 10_007 + 400, 1 << 600)
    return (text + noise * 2)[: _VALUE_BYTES - 2] + b'"}'


def _format_time(offset: int) -> str:
    seconds, ms = divmod(BASE_MS + offset, 1000)
    minutes, second = divmod(seconds % 3600, 60)
    return f"2023-11-14T22:{minutes:02d}:{second:02d}.{ms:03d}Z"


def run_archives(folder: Path, size: str, records: int | None, report: Callable[[str], None]) -> list[ArchiveRun]:
    """Measure every way on every archive; the archives are written once."""
    count = records or RECORDS[size]
    runs = []
    for name, write in ARCHIVES.items():
        archive = folder / "archives" / f"{name}-{count}"
        if not archive.is_dir():
            report(f"writing {count:,} records as {name}")
            partial = archive.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            write(partial, count)
            partial.rename(archive)
        for way in WAYS:
            report(f"{name}: {way}")
            runs.append(_measure(folder / "archives", name, archive, way, count))
            report(describe_run(runs[-1]))
    return runs


def _measure(folder: Path, name: str, archive: Path, way: str, records: int) -> ArchiveRun:
    home, out = folder / "home", folder / "out"
    for each in (home, out):
        shutil.rmtree(each, ignore_errors=True)
    home.mkdir(parents=True)
    if way == "plain-spark":
        request = folder / "request.json"
        request.write_text(json.dumps({"archive": str(archive), "out": str(out), "memory": SPARK_MEMORY}))
        command = [sys.executable, "-m", "bench.peers.spark_archive", name, str(request)]
    else:
        from winnow.pipeline.topics.definition import create_topic

        with open_home(home) as installation:
            create_topic(installation, TOPIC, PARTITIONS, {"cleanup.policy": "delete"})
        command = [sys.executable, "-m", "winnow.cli", "ingest", "files", TOPIC, str(archive), "--on", way, "--json"]
    measured = measure(command, build_environment(home), limit_seconds=MAXIMUM_RUN_SECONDS)
    times = parse_times(measured.output)
    run = ArchiveRun(
        archive=name,
        way=way,
        records=records,
        input_bytes=sum(path.stat().st_size for path in archive.rglob("*") if path.is_file()),
        seconds=measured.seconds,
        work_seconds=measured.ended - times["ready"] if times else None,
        cpu_seconds=measured.cpu_seconds,
        peak_bytes=measured.peak_bytes,
        note="" if measured.exit_code == 0 else measured.output[-500:],
    )
    for each in (home, out):
        shutil.rmtree(each, ignore_errors=True)
    return run


def describe_run(run: ArchiveRun) -> str:
    """Describe one run in a line."""
    work = "" if run.work_seconds is None else f" ({run.work_seconds:.1f} s of it work)"
    speed = f"{run.records / run.seconds:,.0f} records/s, {run.input_bytes / run.seconds / 1e6:,.1f} MB/s read"
    peak = f"{run.peak_bytes / 2**20:,.0f} MiB"
    return f"{run.archive}, {run.way}: {run.seconds:.1f} s{work}, {speed}, {run.cpu_seconds:.1f} s CPU, {peak}" + (
        f"; FAILED: {run.note}" if run.note else ""
    )
