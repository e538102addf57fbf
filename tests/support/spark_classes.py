"""One archive of Spark's classes for every JVM of tests that has Spark's jars: drivers, executors, masters, workers.

    python -m tests.support.spark_classes

makes it, once for an environment; a driver takes half of the CPU seconds then.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from broker.class_archives import format_options_to_write, keep_archive, locate_archive
from broker.jars import list_spark_jars
from winnow.embedded.java import find_java, make_spark_environment

TIMEOUT_S = 600
APPLICATION = """
import sys
from pyspark.sql import SparkSession, functions

spark = SparkSession.builder.getOrCreate()
frame = spark.range(1000).withColumn("key", functions.col("id") % 7).repartition(3)
frame.write.parquet(sys.argv[1])
frame = spark.read.parquet(sys.argv[1])
frame.groupBy("key").agg(functions.max("id"), functions.count("*")).orderBy("key").collect()
frame.join(frame.select("key").distinct(), "key").createOrReplaceTempView("joined")
spark.sql("SELECT key, row_number() OVER (PARTITION BY key ORDER BY id) AS n FROM joined").count()
context = spark.sparkContext
context.broadcast({"a": 1})
context.parallelize(range(10), 3).mapPartitions(lambda numbers: [sum(numbers)]).collect()
spark.stop()
"""


def locate_spark_archive(java_home: Path) -> Path:
    """Locate the archive, whether there is one or not."""
    return locate_archive("spark", java_home / "bin" / "java", list_spark_jars("*.jar"))


def make_spark_archive() -> None:
    """Make the archive unless there is one; processes that want it at the same time wait for one another."""
    env = {**os.environ, **make_spark_environment(os.environ, find_java(os.environ, Path(sys.prefix)))}
    env.pop("JDK_JAVA_OPTIONS", None)  # they may name another archive, with which this JVM would not start
    archive = locate_spark_archive(Path(env["JAVA_HOME"]))
    archive.parent.mkdir(exist_ok=True)
    with (archive.parent / "lock").open("w") as lock, tempfile.TemporaryDirectory(prefix="winnow-classes-") as made:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        application, draft = Path(made, "application.py"), Path(made, "spark.jsa")
        application.write_text(APPLICATION)
        options = " ".join(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *format_options_to_write(draft)])
        submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
        submit += ["--driver-java-options", options, str(application), str(Path(made, "table"))]
        subprocess.run(submit, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=True)
        keep_archive(draft, archive)


if __name__ == "__main__":
    make_spark_archive()
