"""Writes what a plan reads as Parquet files, one for each part, in the tasks of one Spark application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from winnow.engine.events import PlanFailure, PlanOutcome, emit_event
from winnow.engine.job_documents import locate_job_result, read_job_document, write_job_document
from winnow.engine.read_parts import collect_read_results, run_read_part
from winnow.engine.read_plans import ReadPlan
from winnow.engine.spark_application import open_spark_context, run_partition_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import WorkUnit, plan_tasks
from winnow.engine.task_resources import TaskBudget


@dataclass(frozen=True, slots=True)
class ReadUnit(WorkUnit):
    """One part; ``read`` is the plan with it alone."""

    read: ReadPlan | None = None


def run_read_plan(
    argument: str, *, budget: TaskBudget, maximum_tasks: int | None = None, app_name: str = "winnow read"
) -> PlanOutcome:
    """Carry out the plan named by ``argument``, and write which files there are as one document beside it."""
    uri, sha256 = parse_plan_argument(argument)
    plan = read_job_document(ReadPlan, uri, sha256)
    units = build_read_units(uri, plan)
    with open_spark_context(app_name) as context:
        emit_event({"event": "started", "partitions": len(units), "bytes": plan.size_bytes})
        tasks, share = plan_tasks(units, context.defaultParallelism, budget, maximum_tasks)
        results = run_partition_tasks(context, tasks, lambda unit: run_read_unit(unit, share))
    return write_read_outcome(uri, plan, results)


def build_read_units(uri: str, plan: ReadPlan) -> list[ReadUnit]:
    """Build the units of work of a plan."""
    return [
        ReadUnit(uri, plan.topic, part.log.partition, part.size_bytes, None, replace(plan, parts=(part,)))
        for part in plan.parts
    ]


def run_read_unit(unit: WorkUnit, budget: TaskBudget) -> dict[str, Any]:
    """Write the file of one part and return it or its error; never raises."""
    assert isinstance(unit, ReadUnit)
    assert unit.read is not None
    (part,) = unit.read.parts
    return run_read_part(unit.read, part, budget)


def write_read_outcome(uri: str, plan: ReadPlan, results: Sequence[dict[str, Any]]) -> PlanOutcome:
    """Write which files there are for ``plan`` beside it."""
    collected = collect_read_results(plan, results)
    if isinstance(collected, PlanFailure):
        return PlanOutcome(plan.topic, plan.plan_id, None, collected)
    place = locate_job_result(uri)
    return PlanOutcome(plan.topic, plan.plan_id, place, sha256=write_job_document(place, collected))
