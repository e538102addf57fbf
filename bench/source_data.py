"""Generates the source files as Parquet with DuckDB from a fixed seed.

One file per ingest call and topic partition. Nothing is random: every field is a hash of topic partition and offset.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.workloads import BASE_MS, HEADER, Size, Workload

GENERATOR = 1
"""Increased when the generated records change, so that cached files are made again."""
_MD5_CHARACTERS = 32
_WORD = 18446744073709551616.0
_JITTER_MS = 60_000
_GROUP = 100
"""Topic partitions per source file where there are many."""

ProgressCallback = Callable[[str], None]


def make_source_files(
    workload: Workload, size: Size, folder: Path, report: ProgressCallback = lambda _: None
) -> list[list[Path]]:
    """Make the files of ``workload`` below ``folder`` unless they are complete; return one list per ingest call."""
    mark = folder / "complete.json"
    identity = {"generator": GENERATOR, "workload": workload.name, "records": workload.records(size)}
    calls = _names(workload, size, folder)
    if mark.is_file() and json.loads(mark.read_text()) == identity:
        return calls
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    report(f"generating {workload.records(size):,} records of {workload.name}")
    jobs = [
        (path, _query(workload, size, call, partitions))
        for call, paths in enumerate(calls)
        for path, partitions in zip(paths, _partition_groups(workload, size), strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: _write(*job), jobs))
    mark.write_text(json.dumps(identity))
    return calls


def _names(workload: Workload, size: Size, folder: Path) -> list[list[Path]]:
    groups = _partition_groups(workload, size)
    return [[folder / f"{call:02d}-{group[0]:05d}.parquet" for group in groups] for call in range(workload.segments)]


def _partition_groups(workload: Workload, size: Size) -> list[range]:
    count = workload.partition_count(size)
    step = _GROUP if count > _GROUP else 1
    return [range(first, min(count, first + step)) for first in range(0, count, step)]


def _write(path: Path, query: str) -> None:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")


def _query(workload: Workload, size: Size, call: int, partitions: range) -> str:
    per_partition = workload.records(size) // workload.partition_count(size)
    per_call = per_partition // workload.segments
    keys = max(1, int(per_partition * workload.keys_share))
    first = call * per_call
    return build_records_query(
        workload,
        rows=f"SELECT (r // {per_call} + {partitions.start})::INTEGER AS p, {first} + r % {per_call} AS o "
        f"FROM range({per_call * len(partitions)}) t(r)",
        key=build_key_expression(workload.keys, keys),
    )


def build_records_query(workload: Workload, *, rows: str, key: str) -> str:
    """Build the query for the records at the places (p, o) of ``rows``; ``key``: expression of their keys (BLOB)."""
    value = f"substr({_text(workload.value_bytes)}, 1, {workload.value_bytes})::BLOB"
    if workload.tombstones:
        share = int(workload.tombstones * 1000)
        value = f"CASE WHEN hash(o, p, 3) % 1000 < {share} THEN NULL ELSE {value} END"
    headers = "NULL::STRUCT(key VARCHAR, value BLOB)[]"
    if workload.headers:
        version = "unhex(lpad(to_hex(o // 100 + hash(o, p, 4) % 1000), 16, '0'))"
        headers = f"[{{'key': '{HEADER}', 'value': {version}}}]"
    return f"""
        SELECT {key} AS "key", {value} AS "value",
               p AS "partition", o::BIGINT AS "offset",
               ({BASE_MS} + o * 10 + hash(o, p, 2) % {_JITTER_MS})::BIGINT AS "timestamp", 0 AS "timestampType",
               {headers} AS "headers"
        FROM ({rows})
    """


def build_key_expression(keys: str, count: int) -> str:
    """Build the SQL for the key at topic partition p, offset o, out of ``count`` keys of the partition: 16 bytes."""
    number = "o"
    if keys == "uniform":
        number = f"hash(o, p, 1) % {count}"
    elif keys == "zipf":
        # Log-uniform: the continuous form of Zipf's law with exponent 1.
        number = f"least({count - 1}, floor(pow({count}.0, hash(o, p, 1) / {_WORD})))"
    return f"format('{{:05d}}-{{:010d}}', p, ({number})::BIGINT)::BLOB"


def _text(length: int) -> str:
    """Build hexadecimal text: it compresses to about half, like typical application text."""
    pieces = -(-length // _MD5_CHARACTERS)
    if pieces > 2 * _MD5_CHARACTERS:
        return f"array_to_string(list_transform(range({pieces}), lambda j: md5(j || '-' || o || '-' || p)), '')"
    return " || ".join(f"md5('{piece}-' || o || '-' || p)" for piece in range(pieces))
