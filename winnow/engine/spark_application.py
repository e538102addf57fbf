"""Starts, stops and diagnoses a Spark application, runs tasks in it and forwards their events."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import pyspark
from pyspark import AccumulatorParam, SparkConf, SparkContext

from winnow.embedded.java import is_local
from winnow.engine.events import emit_event
from winnow.errors import ConfigurationError
from winnow.files import storage
from winnow.files.pyarrow_without_pandas import block_pandas_import

if TYPE_CHECKING:
    from pyspark import Accumulator

EVENT_POLL_SECONDS = 0.5

ReportEvent = Callable[[dict[str, Any]], None]
"""Reports a small progress event from inside a task."""

Work = TypeVar("Work")


class _EventAccumulatorParam(AccumulatorParam[list[dict[str, Any]]]):
    """Carries small progress events from tasks to the driver, as each task ends."""

    def zero(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return []

    def addInPlace(  # noqa: N802 - PySpark's name
        self, value1: list[dict[str, Any]], value2: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        value1.extend(value2)
        return value1


def run_tasks(
    context: SparkContext,
    tasks: Sequence[Work],
    run: Callable[[Iterable[Work], ReportEvent], Iterator[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Run each of ``tasks`` in its own Spark task, in this order; return the results of ``run``, which must be small.

    Events that ``run`` reports are printed as the application's (:func:`winnow.engine.events.emit_event`).
    """
    if not tasks:
        return []
    events: Accumulator[list[dict[str, Any]]] = context.accumulator([], _EventAccumulatorParam())
    stop = threading.Event()
    printer = threading.Thread(target=_print_events, args=(events, stop), daemon=True)
    printer.start()
    try:
        work = context.parallelize(tasks, len(tasks))
        return work.mapPartitions(lambda task: run(task, lambda event: events.add([event]))).collect()
    finally:
        stop.set()
        printer.join()


def _print_events(events: Accumulator[list[dict[str, Any]]], stop: threading.Event) -> None:
    printed = 0
    while True:
        ending = stop.wait(EVENT_POLL_SECONDS)
        for event in events.value[printed:]:
            emit_event(event)
            printed += 1
        if ending:
            return


DAEMON_MODULE = "winnow.engine.daemon"


@contextmanager
def open_spark_context(name: str) -> Iterator[SparkContext]:
    """Provide a Spark context for the block.

    Raises:
        ConfigurationError: see :func:`check_spark_versions`.
    """
    # PySpark's first call into its JVM imports its test tools, and they import pandas, to check for NumPy.
    with block_pandas_import():
        SparkContext._ensure_initialized()  # the options of spark-submit are known to the JVM alone
        conf = SparkConf().setAppName(name)
        if is_local(conf.get("spark.master", "") or ""):
            # On a cluster the executors' Python may get Winnow with the task, after the daemon has started.
            conf.setIfMissing("spark.python.daemon.module", DAEMON_MODULE)
        context = SparkContext.getOrCreate(conf)
    try:
        check_spark_versions(context)
        context.setLogLevel("WARN")
        yield context
    finally:
        _stop_spark(context)


def check_spark_versions(context: SparkContext) -> None:
    """Raise if PySpark and its JVM have different versions.

    Raises:
        ConfigurationError: with both versions.
    """
    if pyspark.__version__ != context.version:
        raise ConfigurationError(
            f"PySpark is {pyspark.__version__} but its JVM is Spark {context.version}: two Sparks are mixed in one "
            "installation. Nothing was compacted. Install pyspark and pyspark-client at the same version."
        )


def _stop_spark(context: SparkContext) -> None:
    """Stop Spark without waiting for the server of accumulators, which polls once a second and is idle now."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        vars(context)["_accumulatorServer"] = None  # PySpark then skips it
        threading.Thread(target=server.shutdown, daemon=True).start()
    context.stop()


REQUIRED_MODULES = ("duckdb", "pyarrow", "winnow")

MAXIMUM_DIAGNOSED_TASKS = 8


def diagnose_spark_tasks(uris: Sequence[str]) -> dict[str, Any]:
    """Run a Spark application whose tasks check their environment and the access to the folders ``uris``.

    Returns ``spark`` (its version), ``tasks``, ``pythons``, ``missing`` (modules) and ``unreachable`` (of ``uris``).
    """
    with open_spark_context("winnow doctor") as context:
        context.setLogLevel("ERROR")
        tasks = min(context.defaultParallelism, MAXIMUM_DIAGNOSED_TASKS)
        seen = context.parallelize(range(tasks), tasks).mapPartitions(lambda _: _diagnose_task(uris)).collect()
        return {
            "spark": context.version,
            "tasks": len(seen),
            "pythons": sorted({each["python"] for each in seen}),
            "missing": sorted({name for each in seen for name in each["missing"]}),
            "unreachable": sorted({uri for each in seen for uri in each["unreachable"]}),
        }


def _diagnose_task(uris: Sequence[str]) -> Iterator[dict[str, Any]]:
    yield {
        "python": ".".join(map(str, sys.version_info[:2])),
        "missing": [name for name in REQUIRED_MODULES if not _is_installed(name)],
        "unreachable": [uri for uri in uris if not _is_reachable(uri)],
    }


def _is_installed(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def _is_reachable(uri: str) -> bool:
    try:
        storage.exists(storage.join(uri, "winnow-doctor"))
    except Exception:  # the driver's machine reports the reason
        return False
    return True
