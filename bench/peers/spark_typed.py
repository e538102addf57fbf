"""Builds a table of the newest Avro value of each key with plain Spark: ``python -m bench.peers.spark_typed REQUEST``.

REQUEST is a JSON file: ``files`` (segments), ``schema`` (of values), ``out``, ``memory``. What an engineer would write:
the row with the highest offset of each key, its value through ``from_avro``, no check and no commit.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench.peers.spark import session
from bench.peers.timing import print_times

AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"
"""Spark's Avro functions; Maven Central has them not of every patch release."""


def main(request_file: str) -> None:
    """Build the table; stopping the application counts as its work."""
    from broker.jars import resolve_jars

    request = json.loads(Path(request_file).read_text())
    jars = resolve_jars([AVRO], "spark-avro")
    with print_times() as times:
        spark = session({**request, "conf": {"spark.jars": ",".join(map(str, sorted(jars.glob("*spark-avro*.jar"))))}})
        times.ready = time.monotonic()
        from pyspark.sql import functions as f
        from pyspark.sql.avro.functions import from_avro

        newest = (
            spark.read.parquet(*request["files"])
            .groupBy("partition", "key")
            .agg(f.max_by(f.struct("offset", "timestamp", "headers", "value"), "offset").alias("record"))
            .where("record.value IS NOT NULL")
        )
        value = from_avro("record.value", request["schema"], {"mode": "PERMISSIVE"})
        rows = newest.select(
            value.alias("row"), f.col("key").cast("string").alias("key"), "partition", "record.offset",
            "record.timestamp", "record.headers",
        )  # fmt: skip
        rows.select("row.*", "key", "partition", "offset", "timestamp", "headers").write.option(
            "compression", "zstd"
        ).parquet(request["out"])
        times.done = time.monotonic()
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
