"""Reads an archive with plain Spark: decode, sort, write Parquet: ``python -m bench.peers.spark_archive NAME REQUEST``.

REQUEST is a JSON file: ``archive``, ``out``, ``memory`` (of the driver, which does the work with a local master). What
an engineer would write: the schema is given, partition and offset come from record or file name.

aiven-json      gzipped JSON lines with base64
confluent-avro  values as JSON text; Spark's Avro reader is a package of its own, so fastavro reads in mapPartitions
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers.spark import session
from bench.peers.timing import print_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AIVEN = (
    "key string, value string, offset bigint, timestamp timestamp, headers array<struct<key: string, value: string>>"
)
_LOG = (
    "partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)


def read_aiven_json(spark: SparkSession, archive: str) -> DataFrame:
    """Return the records of an archive of Aiven's sink."""
    from pyspark.sql import functions as f

    lines = spark.read.schema(_AIVEN).json(f"{archive}/*.gz")
    number = f.regexp_extract(f.input_file_name(), r"-(\d+)-\d+\.gz$", 1).cast("int")
    headers = f.expr("transform(headers, h -> struct(h.key as key, unbase64(h.value) as value))")
    return lines.select(
        number.alias("partition"),
        "offset",
        "timestamp",
        f.lit(0).alias("timestampType"),
        f.unbase64("key").alias("key"),
        f.unbase64("value").alias("value"),
        headers.alias("headers"),
    )


def read_confluent_avro(spark: SparkSession, archive: str) -> DataFrame:
    """Return the records of an archive of Confluent's sink, values alone."""
    files = spark.sparkContext.binaryFiles(f"{archive}/topics/*/*/*.avro", spark.sparkContext.defaultParallelism * 4)
    return spark.createDataFrame(files.mapPartitions(_decode_files), _LOG)


def _decode_files(files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[Any, ...]]:
    import fastavro

    for name, content in files:
        _, partition, first = name.rsplit("/", 1)[-1].removesuffix(".avro").split("+")
        for at, value in enumerate(fastavro.reader(io.BytesIO(content))):
            text = json.dumps(value, separators=(",", ":")).encode()
            yield int(partition), int(first) + at, None, 0, None, text, None


READERS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "aiven-json": read_aiven_json,
    "confluent-avro": read_confluent_avro,
}


def main(name: str, request_file: str) -> None:
    """Read one archive; stopping the application counts as its work."""
    request = json.loads(Path(request_file).read_text())
    with print_times() as times:
        spark = session(request)
        times.ready = time.monotonic()
        records = READERS[name](spark, request["archive"])
        ordered = records.repartition("partition").sortWithinPartitions("partition", "offset")
        ordered.write.parquet(request["out"])
        times.done = time.monotonic()
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
