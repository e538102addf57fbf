"""Records as input files of every format and compression that Kafka's codecs stand for."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tests.integration.world import write_jsonl
from tests.random_logs import build_table
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
    pq.write_table(build_table(records), path, compression=kind)
    return str(path)
