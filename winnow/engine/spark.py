"""The Spark runner: units of work are distributed, rows never are. No SQL, no shuffle, nothing collected but facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext, TaskContext

from winnow import __version__, documents
from winnow.clock import wall_clock_ms
from winnow.engine import staging
from winnow.engine.damage import explained
from winnow.engine.events import PartitionFailure, PlanFailure, PlanOutcome, emit, log_event, worst
from winnow.engine.rewrite import ENGINE, Budget, compact_partition
from winnow.engine.slices import Unit, shared
from winnow.engine.task_events import Tell, carry_out
from winnow.errors import ConfigurationError
from winnow.model import Plan, StagedPartition, StagingManifest

SHOWN = 3
"""Failed partitions that an error names."""


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
    plan_uris: Sequence[str],
    *,
    attempt: str,
    budget: Budget,
    most_tasks: int | None = None,
    app_name: str = "winnow compact",
) -> list[PlanOutcome]:
    """Carry out plans in one Spark application and write a staging manifest for each that succeeded.

    A plan that fails leaves the others alone. The budget is per task, its rate excepted: that is the application's.
    ``most_tasks``: so many run at once at most; None: as many as there are cores.
    """
    plans = {uri: staging.read_plan(uri) for uri in plan_uris}
    context = SparkContext.getOrCreate(SparkConf().setAppName(app_name))
    try:
        check_versions(context)
        context.setLogLevel("WARN")
        units = [unit for uri, plan in plans.items() for unit in units_of(uri, plan)]
        emit({"event": "started", "partitions": len(units), "bytes": sum(unit.size_bytes for unit in units)})
        results = _execute(context, units, attempt, budget, most_tasks)
    finally:
        context.stop()
    by_plan: dict[str, list[dict[str, Any]]] = {uri: [] for uri in plans}
    for result in results:
        by_plan[result["plan"]].append(result)
    return [finish(uri, plan, attempt, by_plan[uri]) for uri, plan in plans.items()]


def units_of(uri: str, plan: Plan) -> list[Unit]:
    """The units of work of one plan: its partitions."""
    return [
        Unit(
            uri,
            plan.topic,
            partition.partition,
            partition.size_bytes,
            # Not by reference: a task that read its whole plan would read what all its siblings need, too.
            replace(plan, partitions=(partition,)),
        )
        for partition in plan.partitions
    ]


def _execute(
    context: SparkContext, units: Sequence[Unit], attempt: str, budget: Budget, most_tasks: int | None
) -> list[dict[str, Any]]:
    tasks, share = shared(units, context.defaultParallelism, budget, most_tasks)
    return carry_out(context, tasks, lambda task, tell: _run_task(task, attempt, share, tell))


def _run_task(tasks: Iterable[list[Unit]], attempt: str, budget: Budget, tell: Tell) -> Iterator[dict[str, Any]]:
    """Inside a Spark task: compact its units one after another; a unit that fails is reported, not raised."""
    context = TaskContext.get()
    # A retried or speculative task writes beside the first one, never over it.
    folder = f"{attempt}-t{context.taskAttemptId() if context is not None else 0}"
    for task in tasks:
        for unit in task:
            # An executor's own log, so that it names what was at work when the executor was killed.
            log_event({"event": "partition_started", **_key(unit, attempt)}, wall_clock_ms())
            result = run_unit(unit, attempt, budget, folder=folder)
            event = _progress(unit, attempt, result)
            log_event({**event, "event": "partition_failed" if "error" in event else "partition_done"}, wall_clock_ms())
            tell(event)
            yield result


def run_unit(unit: Unit, attempt: str, budget: Budget, *, folder: str) -> dict[str, Any]:
    """Compact one unit into ``folder``: the staged partition, or the error that it ended with; never raises."""
    result: dict[str, Any] = {"plan": unit.plan_uri, "partition": unit.partition}
    assert unit.plan is not None
    (partition,) = unit.plan.partitions
    try:
        staged = compact_partition(unit.plan, partition, attempt=attempt, budget=budget, folder=folder)
        result["staged"] = documents.jsonable(staged)
    except Exception as problem:  # one partition's failure must not end the others in this application
        found = explained(problem, unit.topic, partition)
        result |= {"error": str(found).rstrip("."), "exit_code": found.exit_code}
    return result


def _key(unit: Unit, attempt: str) -> dict[str, Any]:
    plan_id = unit.plan.plan_id if unit.plan is not None else None
    return {"topic": unit.topic, "partition": unit.partition, "plan_id": plan_id, "attempt": attempt}


def _progress(unit: Unit, attempt: str, result: dict[str, Any]) -> dict[str, Any]:
    event: dict[str, Any] = {"event": "partition", **_key(unit, attempt)}
    if "staged" not in result:
        return event | {"error": result["error"]}
    facts = result["staged"]["facts"]
    kept = ("records_in", "records_kept", "records_superseded", "tombstones_expired", "bytes_in", "bytes_out")
    return event | {name: facts[name] for name in kept} | {"seconds": round(result["staged"]["seconds"], 3)}


def finish(uri: str, plan: Plan, attempt: str, results: list[dict[str, Any]]) -> PlanOutcome:
    """Write the staging manifest of a plan when all its units succeeded."""
    failed = tuple(
        PartitionFailure(result["partition"], result["error"], int(result["exit_code"]))
        for result in sorted(results, key=lambda result: int(result["partition"]))
        if "error" in result
    )
    if failed or len(results) != len(plan.partitions):
        named = "; ".join(f"{plan.topic}-{each.partition}: {each.error}" for each in failed[:SHOWN])
        more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        code = worst([each.exit_code for each in failed]) if failed else 1
        failure = PlanFailure(f"{named}{more}" or "a task returned no result", code, failed)
        return PlanOutcome(plan.topic, plan.plan_id, None, failure)
    staged = sorted((_staged(result) for result in results), key=lambda part: part.partition)
    manifest = StagingManifest(
        plan_id=plan.plan_id,
        topic=plan.topic,
        attempt=attempt,
        partitions=tuple(staged),
        engine=ENGINE,
        winnow_version=__version__,
    )
    return PlanOutcome(plan.topic, plan.plan_id, staging.write_manifest(uri, manifest))


def _staged(result: dict[str, Any]) -> StagedPartition:
    return documents.load_json(StagedPartition, json.dumps(result["staged"]).encode())
