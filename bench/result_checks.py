"""Checks results: fingerprints of large ones, every record of small ones against the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oracle import surviving_records

if TYPE_CHECKING:
    from bench.lake import Lake
    from bench.results import Results
    from winnow.values.model import Record


def compute_fingerprint(files: Sequence[str]) -> str:
    """Compute count:sum:xor of all columns' hashes over the records in ``files`` (paths or URIs), in any order."""
    import duckdb

    from winnow.files.duckdb_connection import fetch_one_row, quote_file_list
    from winnow.files.fingerprint import CONTENT_FINGERPRINT

    if not files:
        return "0:0:0"
    with duckdb.connect() as connection:
        row = fetch_one_row(connection, f"SELECT {CONTENT_FINGERPRINT} FROM read_parquet({quote_file_list(files)})")
    assert row is not None
    return str(row[0])


def read_records(lake: Lake) -> dict[int, list[Record]]:
    """Read every published record per topic partition, in offset order."""
    from bench.lake import open_home
    from winnow.pipeline.read.records import read_batches

    found: dict[int, list[Record]] = {number: [] for number in range(lake.workload.partition_count(lake.size))}
    with open_home(lake.home) as installation:
        for batch in read_batches(installation, lake.topic):
            for row in batch.to_pylist():
                found[row["partition"]].append(read_record(row))
    return found


def read_record(row: Mapping[str, Any]) -> Record:
    """Read a record from a row of Arrow."""
    from winnow.values.model import Record

    headers, timestamp = row["headers"], row["timestamp"]
    return Record(
        offset=row["offset"],
        key=row["key"],
        value=row["value"],
        timestamp_ms=None if timestamp is None else round(timestamp.timestamp() * 1000),
        headers=None if headers is None else tuple((h["key"], h["value"]) for h in headers),
        timestamp_type=row["timestampType"],
        partition=row["partition"],
    )


def compute_expected(lake: Lake, before: dict[int, list[Record]]) -> dict[int, list[Record]]:
    """Compute what the oracle keeps of ``before`` when all of it is first compacted right after its newest records."""
    from winnow.values.strategies import Strategy

    config = lake.workload.config
    return {
        partition: surviving_records.compute_survivors(
            records,
            next_first_dirty_offset=records[-1].offset + 1 if records else 0,
            strategy=Strategy(config.get("compaction.strategy", "offset")),
            header=config.get("compaction.strategy.header"),
            expired=lambda _offset: False,
        ).kept
        for partition, records in before.items()
    }


def find_differences(results: Results) -> list[str]:
    """List differences between results that must be equal, as sentences; none when each workload's are the same.

    Other strategies have their own rules, so only results that keep the greatest offset are compared.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for run in results.runs:
        if run.fingerprint is not None:
            found.setdefault((run.size, run.workload), {})[run.competitor] = run.fingerprint
    return [
        f"{size} {workload}: results differ: "
        + ", ".join(f"{competitor} {value}" for competitor, value in sorted(prints.items()))
        for (size, workload), prints in found.items()
        if len(set(prints.values())) > 1
    ]
