"""Records as input files of every format and compression that Kafka's codecs stand for."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.world import write_jsonl
from winnow.files.schema import ARROW_SCHEMA
from winnow.model import Record

FORMATS = ("jsonl", "jsonl.gz", "none", "snappy", "gzip", "lz4", "zstd")
"""The last five are codecs of Parquet."""


def write_records(folder: Path, name: str, kind: str, records: Sequence[Record]) -> str:
    """Write ``records`` below ``folder``; returns the path as text."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind in {"jsonl", "jsonl.gz"}:
        path = folder / f"{name}.{kind}"
        write_jsonl(path, records)
        if kind == "jsonl.gz":
            path.write_bytes(gzip.compress(path.read_bytes()))
        return str(path)
    path = folder / f"{name}.parquet"
    pq.write_table(table_of(records), path, compression=kind)
    return str(path)


def table_of(records: Sequence[Record]) -> pa.Table:
    """``records`` with the columns of a segment."""
    rows = [
        {
            "partition": r.partition,
            "offset": r.offset,
            "timestamp": None if r.timestamp_ms is None else r.timestamp_ms * 1000,
            "timestampType": r.timestamp_type,
            "key": r.key,
            "value": r.value,
            "headers": None if r.headers is None else [{"key": k, "value": v} for k, v in r.headers],
        }
        for r in records
    ]
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)
