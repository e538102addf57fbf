"""Writes the archive of the demo: four files per topic, the same bytes on every machine.

``aircraft`` is JSON lines without partitions and offsets: ingest chooses the partition from the key and counts offsets.
``departures`` is Parquet with the columns of Spark's Kafka source: partition and offset are given, and kept.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from demo.flights import Flight
from demo.records import AIRCRAFT, DEPARTURES, list_aircraft_arrivals, list_departure_arrivals, place_records
from winnow.files.segments import HEADERS_TYPE

T = TypeVar("T")
Progress = Callable[[int], None]
"""Called with the number of further records written."""

FILE_NAMES = {
    AIRCRAFT: ("1-9E-to-B6.jsonl.gz", "2-DL-to-EV.jsonl.gz", "3-F9-to-OO.jsonl.gz", "4-UA-to-YV.jsonl.gz"),
    DEPARTURES: ("2013-q1.parquet", "2013-q2.parquet", "2013-q3.parquet", "2013-q4.parquet"),
}

BATCH_ROWS = 16_384

SPARK_KAFKA_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""Columns and types of ``spark.read.format("kafka").option("includeHeaders", "true")``."""


def write_aircraft(folder: Path, flights: Sequence[Flight], progress: Progress) -> list[Path]:
    """Write the files of ``aircraft`` into ``folder``; return them in order of arrival. Streams."""
    written: list[Path] = []
    encode = msgspec.json.Encoder().encode  # bytes become base64, as in the records of the interface
    for number, arrivals in groupby(list_aircraft_arrivals(flights), key=lambda arrival: arrival.file):
        path = _path(folder, AIRCRAFT, number)
        # No name and no time in the header, so that the bytes depend on the records alone.
        with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=3, fileobj=raw, mtime=0) as stream:
            for rows in _batched(arrivals):
                lines = [encode({"timestamp": r.timestamp_ms, "key": r.key, "value": r.value}) for r in rows]
                stream.write(b"\n".join(lines) + b"\n")
                progress(len(rows))
        written.append(path)
    return written


def write_departures(folder: Path, flights: Sequence[Flight], progress: Progress) -> list[Path]:
    """Write the files of ``departures`` into ``folder``; return them in offset order. Streams."""
    written: list[Path] = []
    for number, placed in groupby(
        place_records(list_departure_arrivals(flights)), key=lambda placed: placed.arrival.file
    ):
        path = _path(folder, DEPARTURES, number)
        with pq.ParquetWriter(path, SPARK_KAFKA_SCHEMA, compression="zstd") as writer:
            for rows in _batched(placed):
                arrivals = [row.arrival for row in rows]
                columns = [
                    pa.array([a.key for a in arrivals], pa.binary()),
                    pa.array([a.value for a in arrivals], pa.binary()),
                    pa.repeat(DEPARTURES, len(rows)),
                    pa.array([row.partition for row in rows], pa.int32()),
                    pa.array([row.offset for row in rows], pa.int64()),
                    pa.array([a.timestamp_ms * 1000 for a in arrivals], pa.timestamp("us", tz="UTC")),
                    pa.repeat(pa.scalar(0, pa.int32()), len(rows)),
                    pa.nulls(len(rows), HEADERS_TYPE),
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SPARK_KAFKA_SCHEMA))
                progress(len(rows))
        written.append(path)
    return written


def write_archive(
    folder: Path, topic: str, flights: Sequence[Flight], progress: Progress = lambda _: None
) -> list[Path]:
    """Write the archive of ``topic`` into a folder of its name below ``folder``."""
    write = {AIRCRAFT: write_aircraft, DEPARTURES: write_departures}[topic]
    return write(folder, flights, progress)


def _path(folder: Path, topic: str, number: int) -> Path:
    path = folder / topic / FILE_NAMES[topic][number]
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _batched(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH_ROWS)):
        yield batch
