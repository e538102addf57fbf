"""Upserts by key with PyIceberg: ``python -m bench.peers.pyiceberg_upsert upsert REQUEST``.

REQUEST is a JSON file: ``files`` in offset order, ``out``. An upsert must not contain a key twice, so each file is
first reduced to the latest record per key.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.peers.timing import print_times


def main(_way: str, request_file: str) -> None:
    """Upsert the files in order; the table's data files stay below ``out``."""
    request = json.loads(Path(request_file).read_text())
    out = Path(request["out"])
    out.mkdir(parents=True)
    with print_times() as times:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("bench", uri=f"sqlite:///{out / 'catalog.db'}", warehouse=f"file://{out / 'warehouse'}")
        catalog.create_namespace("bench")
        times.ready = time.monotonic()
        table: Any = None
        for file in request["files"]:
            latest = _latest(file)
            if table is None:
                table = catalog.create_table("bench.upsert", schema=latest.schema)
            table.upsert(latest, join_cols=["partition", "key"])
        _keep_live_files(table, out)
        times.done = time.monotonic()


def _latest(file: str) -> Any:
    import duckdb

    with duckdb.connect() as connection:
        return connection.sql(
            f"""
            SELECT * FROM read_parquet('{file}')
            WHERE "offset" IN (SELECT max("offset") FROM read_parquet('{file}') GROUP BY "partition", key)
            """
        ).to_arrow_table()


def _keep_live_files(table: Any, out: Path) -> None:
    """Remove the data files of earlier snapshots, so that only the result is left."""
    live = {Path(str(path).removeprefix("file://")) for path in table.inspect.files()["file_path"].to_pylist()}
    for path in out.rglob("*.parquet"):
        if path not in live:
            path.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
