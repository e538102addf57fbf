"""Compacts plans in one Spark application: units of work are distributed, records never are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark import SparkContext, TaskContext

from winnow import __version__
from winnow.clock import read_wall_clock_ms
from winnow.engine import staging
from winnow.engine.damage import build_failed_result, find_plan_failure
from winnow.engine.events import PlanOutcome, emit_event, print_log_line
from winnow.engine.rewrite import ENGINE_NAME, compact_partition
from winnow.engine.scheduling import Result, RunTasks, run_in_rounds
from winnow.engine.spark_application import ReportEvent, describe_application, open_spark_context, run_tasks
from winnow.engine.task_planning import (
    DEFAULT_GIANT_BYTES,
    PartUnit,
    ShareUnit,
    WorkUnit,
    copy_part,
    find_share_winners,
)
from winnow.engine.task_resources import ConnectionPool, TaskBudget
from winnow.files import storage
from winnow.values.model import Plan
from winnow.values.results import Rewrite, StagedPartition, StagingManifest


def run_plans(
    arguments: Sequence[str],
    *,
    attempt: str,
    budget: TaskBudget,
    maximum_tasks: int | None = None,
    giant_bytes: int = DEFAULT_GIANT_BYTES,
    app_name: str = "winnow compact",
) -> list[PlanOutcome]:
    """Carry out plans in one Spark application and write a staging manifest for each that succeeded.

    ``arguments`` name the plans, with their digests where known (:func:`winnow.engine.staging.format_plan_argument`). A
    plan that fails, or was changed, does not affect the others. The budget is per task, except its rate, which is the
    application's. ``maximum_tasks``: tasks at a time; None: one per core. ``giant_bytes``: partitions from this size on
    are split over several tasks where cores would be idle otherwise.
    """
    plans, refused = staging.read_usable_plans(arguments)
    with open_spark_context(app_name) as context:
        units = [unit for uri, plan in plans.items() for unit in build_units(uri, plan)]
        size_bytes = sum(unit.size_bytes for unit in units)
        records = sum(s.records for plan in plans.values() for part in plan.partitions for s in part.segments)
        work = {"partitions": len(units), "bytes": size_bytes, "records": records}
        emit_event({"event": "started", **work, **describe_application(context)})
        results = run_in_rounds(
            units,
            _build_task_runner(context, attempt),
            cores=context.defaultParallelism,
            budget=budget,
            maximum_tasks=maximum_tasks,
            giant_bytes=giant_bytes,
            done=lambda unit, result: emit_event(_build_progress_event(unit, attempt, result)),
        )
    by_plan: dict[str, list[Result]] = {uri: [] for uri in plans}
    for result in results:
        by_plan[result["plan"]].append(result)
    return [
        *refused,
        *staging.run_concurrently(lambda uri: write_plan_manifest(uri, plans[uri], attempt, by_plan[uri]), list(plans)),
    ]


def build_units(uri: str, plan: Plan) -> list[WorkUnit]:
    """Build the units of work of one plan: its partitions."""
    return [
        WorkUnit(
            uri,
            plan.topic,
            partition.partition,
            partition.size_bytes,
            # Not the whole plan: a task would read what all others need, too.
            replace(plan, partitions=(partition,)),
        )
        for partition in plan.partitions
    ]


def _build_task_runner(context: SparkContext, attempt: str) -> RunTasks:
    # A driver restarted under the same attempt numbers its tasks from 0 again.
    base = f"{attempt}/{context.applicationId}"
    return lambda tasks, share: run_tasks(
        context, tasks, lambda task, report: _run_task(task, attempt, share, report, base=base)
    )


def _run_task(
    tasks: Iterable[list[WorkUnit]], attempt: str, budget: TaskBudget, report: ReportEvent, *, base: str = ""
) -> Iterator[Result]:
    """Carry out units one after another inside a Spark task; a failing unit is reported, not raised.

    ``base``: the application's folder below that of the plan; default: the attempt's.
    """
    context = TaskContext.get()
    # A retried or speculative task writes to another folder than the first one.
    folder = f"{base or attempt}/t{context.taskAttemptId() if context is not None else 0}"
    with ConnectionPool(budget) as connections:
        for task in tasks:
            results = [_run_unit_with_events(unit, attempt, budget, folder, connections, report) for unit in task]
            yield from _sync_results(task, results)


def _sync_results(units: Sequence[WorkUnit], results: Sequence[Result]) -> Sequence[Result]:
    """Return the results of a task once their files are synced; if one is not, every result becomes an error."""
    try:
        storage.sync(path for result in results for path in _list_written_files(result))
    except OSError as problem:
        return [
            result if "error" in result else _identify_unit(unit) | _build_failure(problem, unit)
            for unit, result in zip(units, results, strict=True)
        ]
    return results


def _list_written_files(result: Result) -> Iterator[str]:
    """Yield the files of one unit that a commit may name: segments, and keyless records for the quarantine."""
    rewrites: tuple[Rewrite, ...] = ()
    if "staged" in result:
        rewrites = result["staged"].rewrites
        yield from result["staged"].keyless_files
    elif "share" in result:
        yield from result["share"].winners.keyless_files
    elif "part" in result:
        rewrites = (result["part"][1].rewrite,)
    yield from (segment.path for rewrite in rewrites for segment in rewrite.outputs)


def _run_unit_with_events(
    unit: WorkUnit, attempt: str, budget: TaskBudget, folder: str, connections: ConnectionPool, report: ReportEvent
) -> Result:
    """Carry out one unit and log it in the executor's own log, which shows the units in progress at a crash."""
    what = "partition" if unit.range is None else "range"
    begun = _build_event_key(unit, attempt) | ({} if unit.range is None else {"range": unit.range})
    print_log_line({"event": f"{what}_started", **begun}, read_wall_clock_ms())
    result = run_unit(unit, attempt, budget, folder=folder, connections=connections)
    if unit.range is not None:
        ended = begun | ({"error": result["error"]} if "error" in result else {})
    else:
        ended = _build_progress_event(unit, attempt, result)
        report(ended)
    print_log_line({**ended, "event": f"{what}_{'failed' if 'error' in result else 'done'}"}, read_wall_clock_ms())
    return result


def run_unit(
    unit: WorkUnit, attempt: str, budget: TaskBudget, *, folder: str, connections: ConnectionPool | None = None
) -> Result:
    """Carry out one unit into ``folder`` and return its output or its error; never raises.

    ``connections``: those of the task, shared by many units.
    """
    if connections is None:
        with ConnectionPool(budget) as pool:
            return run_unit(unit, attempt, budget, folder=folder, connections=pool)
    result = _identify_unit(unit)
    assert unit.plan is not None
    (partition,) = unit.plan.partitions
    try:
        if isinstance(unit, ShareUnit):
            result["share"] = find_share_winners(unit, attempt, budget, connections, folder=folder)
        elif isinstance(unit, PartUnit):
            result["part"] = (unit.part, copy_part(unit, budget, connections, folder=folder))
        else:
            result["staged"] = compact_partition(
                unit.plan, partition, attempt=attempt, budget=budget, folder=folder, connections=connections
            )
    except Exception as problem:  # one partition's failure must not end the others in this application
        result |= _build_failure(problem, unit)
    return result


def _identify_unit(unit: WorkUnit) -> Result:
    return {"plan": unit.plan_uri, "partition": unit.partition}


def _build_failure(problem: Exception, unit: WorkUnit) -> Result:
    assert unit.plan is not None
    return build_failed_result(problem, unit.topic, unit.plan.partitions[0])


def _build_event_key(unit: WorkUnit, attempt: str) -> dict[str, Any]:
    plan_id = unit.plan.plan_id if unit.plan is not None else None
    return {"topic": unit.topic, "partition": unit.partition, "plan_id": plan_id, "attempt": attempt}


def _build_progress_event(unit: WorkUnit, attempt: str, result: Result) -> dict[str, Any]:
    event: dict[str, Any] = {"event": "partition", **_build_event_key(unit, attempt)}
    if "staged" not in result:
        return event | {"error": result["error"]}
    staged: StagedPartition = result["staged"]
    kept = ("records_in", "records_kept", "records_superseded", "tombstones_expired", "bytes_in", "bytes_out")
    seconds = {name: round(getattr(staged, name), 3) for name in ("seconds", "winners_seconds", "rewrite_seconds")}
    return event | {name: getattr(staged.facts, name) for name in kept} | seconds


def write_plan_manifest(uri: str, plan: Plan, attempt: str, results: list[Result]) -> PlanOutcome:
    """Write the staging manifest of a plan if all its units succeeded."""
    failure = find_plan_failure(plan.topic, results, len(plan.partitions))
    if failure is not None:
        return PlanOutcome(plan.topic, plan.plan_id, None, failure)
    staged: list[StagedPartition] = sorted((each["staged"] for each in results), key=lambda part: part.partition)
    manifest = StagingManifest(
        plan_id=plan.plan_id,
        topic=plan.topic,
        attempt=attempt,
        partitions=tuple(staged),
        engine=ENGINE_NAME,
        winnow_version=__version__,
    )
    return PlanOutcome(plan.topic, plan.plan_id, staging.write_manifest(uri, manifest))
