"""Sample records as input files of every format, and records with versions."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.random_logs import build_table
from tests.support.world import write_jsonl
from winnow.values.model import Headers, Record

HEADER = "version"


def encode_version(number: int) -> bytes:
    """The documented encoding of a version: 8 bytes, big-endian, signed."""
    return number.to_bytes(8, "big", signed=True)


def build_version_header(number: int | None) -> Headers | None:
    """The headers of a record of version ``number``."""
    return None if number is None else ((HEADER, encode_version(number)),)


def build_versioned_record(
    offset: int, version: int | None, strategy: str, key: bytes = b"k", value: bytes | None = b"v"
) -> Record:
    """A record whose version lies where ``strategy`` looks for it; the other place holds a misleading one."""
    misleading = 1_000 - offset
    if strategy == "timestamp":
        return Record(offset, key, value, version, build_version_header(misleading))
    return Record(offset, key, value, misleading, build_version_header(version))


def build_strategy_config(strategy: str) -> dict[str, str]:
    """The topic configuration of ``strategy``."""
    return {"compaction_strategy": strategy} | ({"compaction_strategy_header": HEADER} if strategy == "header" else {})


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
