"""The Spark runner: units of work are distributed, rows never are. No SQL, no shuffle, nothing collected but facts."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO

import pyspark
from pyspark import AccumulatorParam, SparkConf, SparkContext, TaskContext

from winnow import __version__, documents
from winnow.engine import staging
from winnow.engine.rewrite import ENGINE, Budget, compact_partition
from winnow.engine.slices import Unit, slices
from winnow.errors import ConfigurationError, WinnowError
from winnow.model import Plan, StagedPartition, StagingManifest

if TYPE_CHECKING:
    from pyspark import Accumulator

PROGRESS_PREFIX = "WINNOW "
"""A line of the job's standard output that begins so holds one JSON event."""
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What became of one plan of the batch: a staging manifest, or the error that left it without one."""

    topic: str
    plan_id: str
    manifest_uri: str | None
    error: str | None
    exit_code: int = 0


class _Events(AccumulatorParam[list[dict[str, Any]]]):
    """Small progress events on their way from tasks to the driver, as each task ends."""

    def zero(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return []

    def addInPlace(  # noqa: N802 - PySpark's name
        self, value1: list[dict[str, Any]], value2: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        value1.extend(value2)
        return value1


def emit(event: dict[str, Any], stream: TextIO = sys.stdout) -> None:
    """Print one event for whoever started the job."""
    stream.write(f"{PROGRESS_PREFIX}{json.dumps(event, sort_keys=True)}\n")
    stream.flush()


def check_versions(context: SparkContext) -> None:
    """Refuse a PySpark and a JVM of different versions.

    Raises:
        ConfigurationError: with both versions.
    """
    if pyspark.__version__ != context.version:
        raise ConfigurationError(
            f"PySpark is {pyspark.__version__} but its JVM is Spark {context.version}: two Sparks are mixed in one "
            "installation. Nothing was compacted. Install pyspark and pyspark-client at the same version."
        )


def run(
    plan_uris: Sequence[str], *, attempt: str, budget: Budget, app_name: str = "winnow compact"
) -> list[PlanOutcome]:
    """Carry out plans in one Spark application and write a staging manifest for each that succeeded.

    A plan that fails leaves the others alone. The budget is per task.
    """
    plans = {uri: staging.read_plan(uri) for uri in plan_uris}
    context = SparkContext.getOrCreate(SparkConf().setAppName(app_name))
    try:
        check_versions(context)
        context.setLogLevel("WARN")
        units = [
            Unit(
                uri,
                plan.topic,
                partition.partition,
                partition.size_bytes,
                # Not by reference: a task that read its whole plan would read what all its siblings need, too.
                replace(plan, partitions=(partition,)),
            )
            for uri, plan in plans.items()
            for partition in plan.partitions
        ]
        emit({"event": "started", "partitions": len(units), "bytes": sum(unit.size_bytes for unit in units)})
        results = _execute(context, units, attempt, budget)
    finally:
        context.stop()
    by_plan: dict[str, list[dict[str, Any]]] = {uri: [] for uri in plans}
    for result in results:
        by_plan[result["plan"]].append(result)
    return [_finish(uri, plan, attempt, by_plan[uri]) for uri, plan in plans.items()]


def _execute(context: SparkContext, units: Sequence[Unit], attempt: str, budget: Budget) -> list[dict[str, Any]]:
    tasks = slices(units, context.defaultParallelism)
    if not tasks:
        return []
    events: Accumulator[list[dict[str, Any]]] = context.accumulator([], _Events())
    stop = threading.Event()
    printer = threading.Thread(target=_print_events, args=(events, stop), daemon=True)
    printer.start()
    try:
        work = context.parallelize(tasks, len(tasks))
        return work.mapPartitions(lambda task: _run_task(task, attempt, budget, events)).collect()
    finally:
        stop.set()
        printer.join()


def _print_events(events: Accumulator[list[dict[str, Any]]], stop: threading.Event) -> None:
    printed = 0
    while True:
        ending = stop.wait(POLL_SECONDS)
        for event in events.value[printed:]:
            emit(event)
            printed += 1
        if ending:
            return


def _run_task(
    tasks: Iterable[list[Unit]], attempt: str, budget: Budget, events: Accumulator[list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Inside a Spark task: compact its units one after another; a unit that fails is reported, not raised."""
    context = TaskContext.get()
    # A retried or speculative task writes beside the first one, never over it.
    folder = f"{attempt}-t{context.taskAttemptId() if context is not None else 0}"
    for task in tasks:
        for unit in task:
            result = _run_unit(unit, folder, budget)
            events.add([_progress(unit, result)])
            yield result


def _run_unit(unit: Unit, attempt: str, budget: Budget) -> dict[str, Any]:
    result: dict[str, Any] = {"plan": unit.plan_uri, "partition": unit.partition}
    try:
        assert unit.plan is not None
        (partition,) = unit.plan.partitions
        result["staged"] = documents.jsonable(compact_partition(unit.plan, partition, attempt=attempt, budget=budget))
    except WinnowError as problem:
        result |= {"error": str(problem), "exit_code": problem.exit_code}
    except Exception as problem:  # one partition's failure must not end the others in this application
        result |= {"error": f"{type(problem).__name__}: {first_line(problem)}", "exit_code": 1}
    return result


def first_line(problem: BaseException) -> str:
    """The first line of an engine's message, cut short: enough to find the file, too little to carry data."""
    return (str(problem).splitlines() or [""])[0][:300]


def _progress(unit: Unit, result: dict[str, Any]) -> dict[str, Any]:
    event: dict[str, Any] = {"event": "partition", "topic": unit.topic, "partition": unit.partition}
    if "staged" not in result:
        return event | {"error": result["error"]}
    facts = result["staged"]["facts"]
    kept = ("records_in", "records_kept", "records_superseded", "tombstones_expired", "bytes_in", "bytes_out")
    return event | {name: facts[name] for name in kept} | {"seconds": round(result["staged"]["seconds"], 3)}


def _finish(uri: str, plan: Plan, attempt: str, results: list[dict[str, Any]]) -> PlanOutcome:
    failed = [result for result in results if "error" in result]
    if failed or len(results) != len(plan.partitions):
        numbers = ", ".join(f"{plan.topic}-{result['partition']}: {result['error']}" for result in failed[:3])
        code = max((int(result["exit_code"]) for result in failed), default=1)
        return PlanOutcome(plan.topic, plan.plan_id, None, numbers or "a task returned no result", code)
    staged = sorted((_staged(result) for result in results), key=lambda part: part.partition)
    manifest = StagingManifest(
        plan_id=plan.plan_id,
        topic=plan.topic,
        attempt=attempt,
        partitions=tuple(staged),
        engine=ENGINE,
        winnow_version=__version__,
    )
    return PlanOutcome(plan.topic, plan.plan_id, staging.write_manifest(uri, manifest), None)


def _staged(result: dict[str, Any]) -> StagedPartition:
    return documents.load_json(StagedPartition, json.dumps(result["staged"]).encode())
