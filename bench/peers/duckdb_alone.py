"""Compacts with DuckDB alone: ``python -m bench.peers.duckdb_alone WAY REQUEST``.

compact  per topic partition: the greatest offset per key, then a semi join that keeps the log's order
copy     the same files read, sorted and written with the same codec: what ingest is compared with

REQUEST is a JSON file: ``partitions`` (topic partition to its files in offset order), ``out``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench.peers.timing import print_times


def main(way: str, request_file: str) -> None:
    """Write one file per topic partition, with all cores."""
    request = json.loads(Path(request_file).read_text())
    out = Path(request["out"])
    out.mkdir(parents=True)
    with print_times() as times:
        import duckdb

        connection = duckdb.connect(config={"temp_directory": str(out / "spill")})
        times.ready = time.monotonic()
        if way == "copy":
            copy(connection, [file for files in request["partitions"].values() for file in files], out)
        else:
            for partition, files in request["partitions"].items():
                compact(connection, files, out / f"{int(partition):05d}.parquet")
        times.done = time.monotonic()
        connection.close()


def compact(connection: object, files: list[str], target: Path) -> None:
    """Write the latest record of each key of one topic partition, in offset order."""
    log = f"read_parquet({files!r})"
    _run(
        connection,
        f"""
        COPY (
            SELECT * FROM {log} WHERE "offset" IN (SELECT max("offset") FROM {log} WHERE key IS NOT NULL GROUP BY key)
        ) TO '{target}' (FORMAT parquet, COMPRESSION zstd)
        """,
    )


def copy(connection: object, files: list[str], out: Path) -> None:
    """Write all records, sorted by topic partition and offset, as one file."""
    _run(
        connection,
        f"""
        COPY (SELECT * FROM read_parquet({files!r}) ORDER BY "partition", "offset")
        TO '{out / "copy.parquet"}' (FORMAT parquet, COMPRESSION zstd)
        """,
    )


def _run(connection: object, query: str) -> None:
    connection.execute(query)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:])
