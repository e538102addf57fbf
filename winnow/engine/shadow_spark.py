"""The Spark runner of a comparison: one task for some partitions, nothing collected but counts and coordinates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark import SparkContext

from winnow import documents
from winnow.engine.application import application
from winnow.engine.events import PlanOutcome, emit
from winnow.engine.failures import failed_result, failure_of
from winnow.engine.rewrite import Budget
from winnow.engine.shadow import compare_partition
from winnow.engine.shadow_request import (
    PartitionShadow,
    ShadowPartition,
    ShadowRequest,
    ShadowResult,
    as_plan,
    read_request,
    result_uri,
)
from winnow.engine.slices import Unit, shared
from winnow.engine.task_events import Tell, carry_out
from winnow.files import storage


def run(
    request_uri: str, *, budget: Budget, most_tasks: int | None = None, app_name: str = "winnow compare"
) -> PlanOutcome:
    """Carry out a comparison and write its result beside the request, nothing else.

    Budget and ``most_tasks`` are those of a compaction (:func:`winnow.engine.spark.run`).
    What became of it is told as of a plan: its id is the comparison's, its document the result.
    """
    request = read_request(request_uri)
    with application(app_name) as context:
        total_bytes = sum(partition.size_bytes for partition in request.partitions)
        emit({"event": "started", "partitions": len(request.partitions), "bytes": total_bytes})
        results = _execute(context, request, budget, most_tasks)
    failure = failure_of(request.topic, results, len(request.partitions))
    if failure is not None:
        return PlanOutcome(request.topic, request.comparison_id, None, failure)
    found = [documents.load_json(PartitionShadow, json.dumps(result["shadow"]).encode()) for result in results]
    found.sort(key=lambda shadow: shadow.partition)
    document = ShadowResult(request.comparison_id, request.topic, tuple(found))
    storage.write_bytes(result_uri(request_uri), documents.dump_json(document))
    return PlanOutcome(request.topic, request.comparison_id, result_uri(request_uri))


def _execute(
    context: SparkContext, request: ShadowRequest, budget: Budget, most_tasks: int | None
) -> list[dict[str, Any]]:
    by_number = {partition.partition: partition for partition in request.partitions}
    units = [Unit("", request.topic, partition.partition, partition.size_bytes) for partition in request.partitions]
    packed, share = shared(units, context.defaultParallelism, budget, most_tasks)
    tasks = [[by_number[unit.partition] for unit in task] for task in packed]
    common = replace(request, partitions=())  # a task gets its own partitions, not those of its siblings
    return carry_out(context, tasks, lambda task, tell: _run_task(task, common, share, tell))


def _run_task(
    tasks: Iterable[Sequence[ShadowPartition]],
    request: ShadowRequest,
    budget: Budget,
    tell: Tell,
) -> Iterator[dict[str, Any]]:
    """Inside a Spark task: one partition after another; one that fails is reported, not raised."""
    for task in tasks:
        for partition in task:
            result = _run_partition(request, partition, budget)
            tell(_progress(request, partition, result))
            yield result


def _run_partition(request: ShadowRequest, partition: ShadowPartition, budget: Budget) -> dict[str, Any]:
    result: dict[str, Any] = {"partition": partition.partition}
    try:
        result["shadow"] = documents.jsonable(compare_partition(request, partition, budget=budget))
    except Exception as problem:  # one partition's failure must not hide what the others say
        result |= failed_result(problem, request.topic, as_plan(partition))
    return result


def _progress(request: ShadowRequest, partition: ShadowPartition, result: dict[str, Any]) -> dict[str, Any]:
    event: dict[str, Any] = {"event": "partition", "topic": request.topic, "partition": partition.partition}
    if "shadow" not in result:
        return event | {"error": result["error"]}
    shadow = result["shadow"]
    return event | {
        "records": shadow["records"],
        "keys_differing": shadow["keys_differing"],
        "bytes_in": shadow["bytes_read"],
        "seconds": round(shadow["seconds"], 3),
    }
