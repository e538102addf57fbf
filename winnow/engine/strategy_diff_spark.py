"""Compares two compaction strategies in one Spark application, which returns counts and coordinates alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark import SparkContext

from winnow.engine.damage import build_failed_result, find_plan_failure
from winnow.engine.events import PlanOutcome, emit_event
from winnow.engine.job_documents import locate_job_result, read_job_document, write_job_document
from winnow.engine.spark_application import ReportEvent, open_spark_context, run_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.strategy_diff import (
    DiffPartition,
    DiffRequest,
    DiffResult,
    PartitionDiff,
    build_equivalent_plan,
    compare_partition,
)
from winnow.engine.task_planning import WorkUnit, plan_tasks
from winnow.engine.task_resources import TaskBudget
from winnow.values import documents


def run_comparison(
    argument: str, *, budget: TaskBudget, maximum_tasks: int | None = None, app_name: str = "winnow compare"
) -> PlanOutcome:
    """Carry out the comparison named by ``argument`` and write its result beside the request, nothing else.

    Budget and ``maximum_tasks`` are those of :func:`winnow.engine.compaction_job.run_plans`. The outcome is that of a
    plan, with the comparison's id and the result as document.
    """
    uri, sha256 = parse_plan_argument(argument)
    request = read_job_document(DiffRequest, uri, sha256)
    with open_spark_context(app_name) as context:
        total_bytes = sum(partition.size_bytes for partition in request.partitions)
        emit_event({"event": "started", "partitions": len(request.partitions), "bytes": total_bytes})
        results = _compare_partitions(context, request, budget, maximum_tasks)
    failure = find_plan_failure(request.topic, results, len(request.partitions))
    if failure is not None:
        return PlanOutcome(request.topic, request.plan_id, None, failure)
    found = [documents.load_json(PartitionDiff, json.dumps(result["shadow"]).encode()) for result in results]
    found.sort(key=lambda diff: diff.partition)
    document = DiffResult(request.plan_id, request.topic, tuple(found))
    place = locate_job_result(uri)
    return PlanOutcome(request.topic, request.plan_id, place, sha256=write_job_document(place, document))


def _compare_partitions(
    context: SparkContext, request: DiffRequest, budget: TaskBudget, maximum_tasks: int | None
) -> list[dict[str, Any]]:
    by_number = {partition.partition: partition for partition in request.partitions}
    units = [WorkUnit("", request.topic, partition.partition, partition.size_bytes) for partition in request.partitions]
    packed, share = plan_tasks(units, context.defaultParallelism, budget, maximum_tasks)
    tasks = [[by_number[unit.partition] for unit in task] for task in packed]
    common = replace(request, partitions=())  # a task gets its own partitions, not those of its siblings
    return run_tasks(context, tasks, lambda task, report: _run_task(task, common, share, report))


def _run_task(
    tasks: Iterable[Sequence[DiffPartition]],
    request: DiffRequest,
    budget: TaskBudget,
    report: ReportEvent,
) -> Iterator[dict[str, Any]]:
    """Compare partitions one after another inside a Spark task; a failing one is reported, not raised."""
    for task in tasks:
        for partition in task:
            result = _run_partition(request, partition, budget)
            report(_build_progress_event(request, partition, result))
            yield result


def _run_partition(request: DiffRequest, partition: DiffPartition, budget: TaskBudget) -> dict[str, Any]:
    result: dict[str, Any] = {"partition": partition.partition}
    try:
        result["shadow"] = documents.convert_to_json_types(compare_partition(request, partition, budget=budget))
    except Exception as problem:  # one partition's failure must not hide the others' results
        result |= build_failed_result(problem, request.topic, build_equivalent_plan(partition))
    return result


def _build_progress_event(request: DiffRequest, partition: DiffPartition, result: dict[str, Any]) -> dict[str, Any]:
    event: dict[str, Any] = {"event": "partition", "topic": request.topic, "partition": partition.partition}
    if "shadow" not in result:
        return event | {"error": result["error"]}
    diff = result["shadow"]
    return event | {
        "records": diff["records"],
        "keys_differing": diff["keys_differing"],
        "bytes_in": diff["bytes_read"],
        "seconds": round(diff["seconds"], 3),
    }
