"""Starts, stops and diagnoses a Spark application, runs tasks in it and forwards their events."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlparse

import pyspark
from pyspark import AccumulatorParam, SparkConf, SparkContext, cloudpickle

from winnow.embedded.java import is_local
from winnow.engine import executor_probe
from winnow.engine.events import emit_event
from winnow.engine.task_planning import WorkUnit
from winnow.errors import ConfigurationError, WinnowError
from winnow.files import storage, storage_health
from winnow.files.object_store import HADOOP_SCHEMES
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


def run_partition_tasks(
    context: SparkContext, tasks: Sequence[Sequence[WorkUnit]], run: Callable[[WorkUnit], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Run units one after another inside each task, and report each whole partition; return the results of ``run``.

    ``run``: never raises; its result has ``error`` where the unit failed.
    """

    def run_units(some: Iterable[Sequence[WorkUnit]], report: ReportEvent) -> Iterator[dict[str, Any]]:
        for unit in chain.from_iterable(some):
            result = run(unit)
            if unit.range is None:
                event = {"event": "partition", "topic": unit.topic, "partition": unit.partition}
                report(event | ({"error": result["error"]} if "error" in result else {}))
            yield result

    return run_tasks(context, tasks, run_units)


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


def describe_application(context: SparkContext) -> dict[str, str]:
    """Return where to look at an application: ``application_id``, ``ui_url``, ``event_log``, ``driver_log``.

    The last three only where Spark's configuration has them.
    """
    conf, application_id = context.getConf(), context.applicationId
    places: dict[str, str | None] = {"application_id": application_id, "ui_url": context.uiWebUrl}
    if conf.get("spark.eventLog.enabled", "false") == "true":
        folder = (conf.get("spark.eventLog.dir", "") or "file:///tmp/spark-events").rstrip("/")
        is_rolling = conf.get("spark.eventLog.rolling.enabled", "true") == "true"
        places["event_log"] = f"{folder}/{'eventlog_v2_' if is_rolling else ''}{application_id}"
    if conf.get("spark.driver.log.persistToDfs.enabled", "false") == "true" and conf.get("spark.driver.log.dfsDir", ""):
        places["driver_log"] = f"{str(conf.get('spark.driver.log.dfsDir')).rstrip('/')}/{application_id}_driver.log"
    return {name: place for name, place in places.items() if place}


def check_spark_versions(context: SparkContext) -> None:
    """Raise if PySpark and its JVM have different versions.

    Raises:
        ConfigurationError: with both versions.
    """
    if pyspark.__version__ != context.version:
        raise ConfigurationError(
            f"PySpark is {pyspark.__version__} but its JVM is Spark {context.version}: two Sparks are mixed in one "
            "installation.",
            left="Nothing was changed.",
            next="Install pyspark and pyspark-client at the same version.",
        )


def _stop_spark(context: SparkContext) -> None:
    """Stop Spark without waiting for the server of accumulators, which polls once a second and is idle now."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        vars(context)["_accumulatorServer"] = None  # PySpark then skips it
        threading.Thread(target=server.shutdown, daemon=True).start()
    context.stop()


REQUIRED_MODULES = ("winnow", "pyspark", "pyarrow", "duckdb")
"""Modules of every task; :func:`list_required_modules` adds those of its stores."""

MAXIMUM_DIAGNOSED_TASKS = 8

_VERSIONS_OF_PYTHON = re.compile(r"(\d+\.\d+)")


def list_required_modules(uris: Sequence[str]) -> list[str]:
    """List the modules that tasks import when their files are at ``uris``."""
    remote = [urlparse(uri).scheme for uri in uris if not storage.is_local(uri)]
    more = ["fsspec"] if remote else []
    return [*REQUIRED_MODULES, *more, *(["hdfs_native"] if HADOOP_SCHEMES & set(remote) else [])]


def diagnose_spark_tasks(uris: Sequence[str]) -> dict[str, Any]:
    """Run a Spark application whose tasks check their environment and the access to the folders ``uris``.

    Returns ``spark`` (its version), ``tasks``, ``expected`` (the driver's versions by module) and ``executors``: what
    each machine answered (:func:`winnow.engine.executor_probe.probe_executor`), once; or, if no task came so far,
    ``broken``: ``pythons`` (that of the executors first), ``no_python`` (the program that is missing) or ``no_module``.
    """
    packages = list_required_modules(uris)
    expected = {name: executor_probe.find_version(name) for name in packages}
    name = f"{storage_health.make_file_name()}-driver"
    written = [uri for uri in uris if _write_probe(storage.join(uri, name))]
    places = [(uri, name, storage_health.make_file_name()) for uri in written]
    # By value: where Winnow is not installed, a task could not even say so.
    cloudpickle.register_pickle_by_value(executor_probe)  # type: ignore[no-untyped-call]
    try:
        with open_spark_context("winnow doctor") as context:
            context.setLogLevel("ERROR")
            tasks = min(context.defaultParallelism, MAXIMUM_DIAGNOSED_TASKS)
            probe = executor_probe.probe_executor
            answered: dict[str, Any] = {"spark": context.version, "tasks": tasks, "expected": expected}
            try:
                seen = (
                    context.parallelize(range(tasks), tasks).mapPartitions(lambda _: probe(packages, places)).collect()
                )
            except Exception as problem:
                broken = _find_cause(str(problem))
                if not broken:
                    raise
                return {**answered, "executors": [], "broken": broken}
            by_host = {(each["host"], each["executable"]): each for each in seen}
            return {**answered, "tasks": len(seen), "executors": [by_host[key] for key in sorted(by_host)]}
    finally:
        for uri in written:
            storage.delete(storage.join(uri, name))


def _write_probe(uri: str) -> bool:
    try:
        storage.write_bytes(uri, b"written by winnow doctor on the driver")
    except (OSError, WinnowError):
        return False  # the driver's machine reports the reason
    return True


def _find_cause(text: str) -> dict[str, Any]:
    """Find in Spark's words why no task ran on any executor; empty if they are about something else."""
    if "PYTHON_VERSION_MISMATCH" in text:
        versions = _VERSIONS_OF_PYTHON.findall(text.partition("PYTHON_VERSION_MISMATCH")[2])
        return {"pythons": versions[:2]}
    if missing := re.search(r'Cannot run program "([^"]+)"', text):
        return {"no_python": missing[1]}
    if module := re.search(r"No module named '?([\w.]+)", text):
        return {"no_module": module[1]}
    return {}
