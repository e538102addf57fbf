"""One Spark application from its start to its end, whatever it is for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyspark
from pyspark import SparkConf, SparkContext

from winnow.errors import ConfigurationError
from winnow.files.arrow_alone import block_pandas_import
from winnow.java import is_local

DAEMON_MODULE = "winnow.engine.daemon"


@contextmanager
def open_spark_context(name: str) -> Iterator[SparkContext]:
    """A Spark context that ends with the block.

    Raises:
        ConfigurationError: see :func:`check_versions`.
    """
    # PySpark's first call into its JVM imports its own test tools, and they pandas, to know whether there is NumPy.
    with block_pandas_import():
        SparkContext._ensure_initialized()  # what spark-submit was told is known to the JVM alone
        conf = SparkConf().setAppName(name)
        if is_local(conf.get("spark.master", "") or ""):
            # On a cluster the executors' Python may get Winnow with the task, when the daemon runs already.
            conf.setIfMissing("spark.python.daemon.module", DAEMON_MODULE)
        context = SparkContext.getOrCreate(conf)
    try:
        check_spark_versions(context)
        context.setLogLevel("WARN")
        yield context
    finally:
        _stop_spark(context)


def check_spark_versions(context: SparkContext) -> None:
    """Refuse a PySpark and a JVM of different versions.

    Raises:
        ConfigurationError: with both versions.
    """
    if pyspark.__version__ != context.version:
        raise ConfigurationError(
            f"PySpark is {pyspark.__version__} but its JVM is Spark {context.version}: two Sparks are mixed in one "
            "installation. Nothing was compacted. Install pyspark and pyspark-client at the same version."
        )


def _stop_spark(context: SparkContext) -> None:
    """Stop Spark, but do not wait for the server of accumulators, which looks up once a second and does no work now."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        vars(context)["_accumulatorServer"] = None  # PySpark passes over what is not there
        threading.Thread(target=server.shutdown, daemon=True).start()
    context.stop()
