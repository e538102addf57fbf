"""Copies a Kafka topic to Parquet with plain Spark and its connector: ``python -m bench.peers.spark_kafka REQUEST``.

REQUEST is a JSON file: ``servers``, ``topic``, ``out``, ``memory`` (of the driver, which does the work with a local
master), ``jars`` (those of the connector).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench.peers.spark import session
from bench.peers.timing import print_times
from broker.jars import resolve_jars
from winnow.errors import ServiceError

_PROVIDED = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.slf4j:slf4j-api",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "com.google.code.findbugs:jsr305",
)
"""What Spark has already."""
_TOKEN_PROVIDER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"


def resolve_connector() -> list[Path]:
    """Fetch the connector for the installed PySpark; return its jars.

    The token provider of some versions is missing from Maven Central; that of 4.0.0 serves.

    Raises:
        ServiceError: the repository does not answer, or lacks one of the jars.
    """
    import pyspark

    connector = [f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"]
    try:
        return sorted(resolve_jars(connector, "spark-kafka", exclude=_PROVIDED).glob("*.jar"))
    except ServiceError:
        rest = resolve_jars(connector, "spark-kafka", exclude=(*_PROVIDED, _TOKEN_PROVIDER))
        provider = resolve_jars([f"{_TOKEN_PROVIDER}:4.0.0"], "spark-kafka-provider", exclude=_PROVIDED)
        return sorted([*rest.glob("*.jar"), *provider.glob("*token-provider*.jar")])


def main(request_file: str) -> None:
    """Copy the topic; stopping the application counts as its work."""
    request = json.loads(Path(request_file).read_text())
    with print_times() as times:
        spark = session({**request, "conf": {**request.get("conf", {}), "spark.jars": ",".join(request["jars"])}})
        times.ready = time.monotonic()
        records = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", request["servers"])
            .option("subscribe", request["topic"])
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
            .option("includeHeaders", "true")
            .option("kafka.isolation.level", "read_committed")
            .load()
        )
        wanted = records.select("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
        wanted.write.option("compression", "zstd").parquet(request["out"])
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
