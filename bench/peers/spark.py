"""Compacts with plain Spark, by window or semi-join: ``python -m bench.peers.spark WAY REQUEST``.

REQUEST is a JSON file: ``files``, ``out``, ``memory`` (of the driver, which does the work with a local master).

window     row_number() over (partition, key), keep the first: the usual first solution
semi-join  narrow winners by max(offset), then a semi join
copy       read and write, nothing else
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers.timing import print_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def session(request: dict[str, Any]) -> SparkSession:
    """Start a session with a user's likely settings for this machine, without the UI and unneeded shuffle tasks.

    ``conf`` in ``request``: further properties.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in request.get("conf", {}).items():
        builder = builder.config(name, value)
    return (
        builder.master("local[*]")
        .appName("bench")
        .config("spark.driver.memory", request["memory"])
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "16")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )


def window(log: DataFrame, newest: Sequence[str] = ("offset",)) -> DataFrame:
    """Return the latest record of each key, by a window; ``newest``: columns that say which is later."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    latest = Window.partitionBy("partition", "key").orderBy(*map(f.desc, newest))
    return log.withColumn("rank", f.row_number().over(latest)).where("rank = 1").drop("rank")


def semi_join(log: DataFrame) -> DataFrame:
    """Return the latest record of each key, by the offsets from a narrow aggregation."""
    from pyspark.sql import functions as f

    winners = log.groupBy("partition", "key").agg(f.max("offset").alias("offset")).select("partition", "offset")
    return log.join(winners, ["partition", "offset"], "left_semi")


def copy(log: DataFrame) -> DataFrame:
    """Return all records."""
    return log


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {"window": window, "semi-join": semi_join, "copy": copy}


def main(way: str, request_file: str) -> None:
    """Run one way; stopping the application counts as its work."""
    request = json.loads(Path(request_file).read_text())
    with print_times() as times:
        spark = session(request)
        times.ready = time.monotonic()
        WAYS[way](spark.read.parquet(*request["files"])).write.parquet(request["out"])
        times.done = time.monotonic()
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
