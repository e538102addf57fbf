"""Keeps a table of the latest value of each key by Spark: ``python -m bench.peers.spark_keyed_table WAY REQUEST``.

merge-cow  Iceberg, MERGE INTO, copy-on-write: every data file that holds a matched row is written anew
merge-mor  Iceberg, MERGE INTO, merge-on-read: deletion vectors (format 3) beside the old files, applied by readers
overwrite  Parquet by topic partition; old table and new records, a window, INSERT OVERWRITE of those partitions

REQUEST is a JSON file: ``table`` (its folder; made when it is missing), ``batches`` (each a list of segment files,
brought in one after another), ``memory`` (of the driver, which does the work with a local master), ``jars``
(Iceberg's). Optional:

newest        columns by which versions of a key are compared; default: ``offset``
blind         MERGE replaces whatever matches, without comparing versions
exports       a folder per batch: the rows after it as Parquet (``rows``), offsets by data file (``offsets.json``)
final_export  a folder for the rows at the end, as Parquet
reads         how often the table is read in full at the end: median seconds before the last commit and after
before        the folder of the table as it was before, for ``overwrite``, which has no history
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bench.peers.spark import session, window
from bench.peers.timing import print_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (
    "partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
_NAME = "bench.db.latest"
_FORMATS = {"merge-cow": ("2", "copy-on-write"), "merge-mor": ("3", "merge-on-read")}


class KeyedTable(Protocol):
    """One row per key, tombstones gone."""

    def bring_in(self, records: DataFrame) -> None:
        """Bring in new records by one commit."""

    def read(self) -> DataFrame:
        """Return all rows."""

    def read_before(self) -> DataFrame | None:
        """Return all rows as they were before the last commit; None for the first."""

    def list_files(self) -> list[str]:
        """List the data files."""

    def count_files(self) -> Mapping[str, float]:
        """Count data files, delete files and the rows that these delete."""


@dataclass(frozen=True, slots=True)
class MergedTable:
    """An Iceberg table that ``MERGE INTO`` maintains. ``blind``: whatever matches is replaced, whichever is newer."""

    spark: SparkSession
    newest: Sequence[str]
    blind: bool

    @classmethod
    def open(cls, spark: SparkSession, way: str, newest: Sequence[str], *, blind: bool) -> MergedTable:
        """Open the table, and create it when it is missing."""
        version, mode = _FORMATS[way]
        modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("merge", "update", "delete"))
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {_NAME} ({_COLUMNS}) USING iceberg PARTITIONED BY (partition) "
            f"TBLPROPERTIES ('format-version' = '{version}', {modes})"
        )
        return cls(spark, newest, blind)

    def bring_in(self, records: DataFrame) -> None:
        """MERGE demands one source row a key, so the newest of each comes first."""
        source, target = (f"struct({', '.join(f'{side}.`{name}`' for name in self.newest)})" for side in "st")
        newer = "true" if self.blind else f"{source} > {target}"
        window(records, self.newest).createOrReplaceTempView("news")
        self.spark.sql(
            f"""
            MERGE INTO {_NAME} t USING news s ON t.partition = s.partition AND t.key = s.key
            WHEN MATCHED AND {newer} AND s.value IS NULL THEN DELETE
            WHEN MATCHED AND {newer} THEN UPDATE SET *
            WHEN NOT MATCHED AND s.value IS NOT NULL THEN INSERT *
            """
        )

    def read(self) -> DataFrame:
        """Return all rows."""
        return self.spark.table(_NAME)

    def read_before(self) -> DataFrame | None:
        """Return all rows of the snapshot before the last."""
        last = self.spark.sql(f"SELECT parent_id FROM {_NAME}.snapshots ORDER BY committed_at DESC LIMIT 1").first()
        if last is None or last["parent_id"] is None:
            return None
        return self.spark.read.option("versionAsOf", last["parent_id"]).table(_NAME)

    def list_files(self) -> list[str]:
        """List the files of the current snapshot."""
        return [row["file_path"] for row in self.spark.table(f"{_NAME}.data_files").collect()]

    def count_files(self) -> Mapping[str, float]:
        """Count by the table's metadata."""
        deletes = [row["record_count"] for row in self.spark.table(f"{_NAME}.delete_files").collect()]
        return {"data_files": len(self.list_files()), "delete_files": len(deletes), "deleted_rows": sum(deletes)}


@dataclass(frozen=True, slots=True)
class OverwrittenTable:
    """A folder of Parquet by topic partition, overwritten where a partition has rows (dynamic partition overwrite)."""

    spark: SparkSession
    newest: Sequence[str]
    folder: str
    before: str

    def bring_in(self, records: DataFrame) -> None:
        """What ``INSERT OVERWRITE`` does, from the old rows and the new records."""
        latest = window(self.read().unionByName(records), self.newest).where("value IS NOT NULL")
        written = latest.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        written.partitionBy("partition").parquet(self.folder)

    def read(self) -> DataFrame:
        """Return all rows."""
        return self.spark.read.schema(_COLUMNS).parquet(self.folder)

    def read_before(self) -> DataFrame | None:
        """Return all rows of the folder that is kept from before."""
        if not any(Path(self.before).rglob("*.parquet")):
            return None
        return self.spark.read.schema(_COLUMNS).parquet(self.before)

    def list_files(self) -> list[str]:
        """List the files of the folder."""
        return [str(path) for path in sorted(Path(self.folder).rglob("*.parquet"))]

    def count_files(self) -> Mapping[str, float]:
        """Count the files."""
        return {"data_files": len(self.list_files())}


def open_table(spark: SparkSession, way: str, request: Mapping[str, Any]) -> KeyedTable:
    """Open the table of ``request``."""
    newest = request.get("newest", ["offset"])
    if way in _FORMATS:
        return MergedTable.open(spark, way, newest, blind=request.get("blind", False))
    Path(request["table"]).mkdir(parents=True, exist_ok=True)
    return OverwrittenTable(spark, newest, request["table"], request.get("before", request["table"]))


def main(way: str, request_file: str) -> None:
    """Bring in the batches, then read; stopping the application counts as its work."""
    request = json.loads(Path(request_file).read_text())
    conf = {
        "spark.jars": ",".join(request["jars"]),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.bench": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.bench.type": "hadoop",
        "spark.sql.catalog.bench.warehouse": request["table"],
    }
    with print_times() as times:
        spark = session({**request, "conf": conf if way in _FORMATS else {}})
        times.ready = time.monotonic()
        table = open_table(spark, way, request)
        exports = request.get("exports") or [None] * len(request["batches"])
        for files, export in zip(request["batches"], exports, strict=True):
            table.bring_in(spark.read.parquet(*files))
            if export is not None:
                table.read().write.parquet(f"{export}/rows")
                Path(export, "offsets.json").write_text(json.dumps(read_offsets(table.list_files())))
        if "final_export" in request:
            table.read().write.parquet(request["final_export"])
        if "reads" in request:
            times.figures = {**table.count_files(), **_measure_reads(table, request["reads"])}
        times.done = time.monotonic()
        spark.stop()


def read_offsets(files: Sequence[str]) -> list[list[int]]:
    """Read the offsets of each file, in its order."""
    import pyarrow.parquet as pq

    tables = (pq.ParquetFile(path.removeprefix("file:")).read(columns=["offset"]) for path in files)
    return [table["offset"].to_pylist() for table in tables]


def _measure_reads(table: KeyedTable, times: int) -> dict[str, float]:
    """Read the table before and after the last commit in turn, once more than asked: the first warms up."""
    reads = {"read_before_seconds": table.read_before(), "read_after_seconds": table.read()}
    seconds: dict[str, list[float]] = {}
    for _ in range(times + 1):
        for name, rows in reads.items():
            if rows is not None:
                began = time.monotonic()
                rows.write.format("noop").mode("overwrite").save()
                seconds.setdefault(name, []).append(time.monotonic() - began)
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
