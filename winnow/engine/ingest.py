"""Carries out one ingest plan in a Spark application: ranges of offsets are distributed, records never are.

The job's program passes the function that reads and writes a range: this package distributes work and knows no layout
of archives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark import SparkContext, TaskContext

from winnow.clock import read_wall_clock_ms
from winnow.engine.events import PlanOutcome, emit_event, print_log_line
from winnow.engine.ingest_documents import read_ingest_plan, write_ingest_result
from winnow.engine.spark_application import ReportEvent, open_spark_context, run_tasks
from winnow.engine.splitting import WorkUnit, plan_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_resources import TaskBudget
from winnow.files import storage
from winnow.ingest_plans import IngestPlan, RangeFailure, RangeResult

CarryOut = Callable[[IngestPlan, int, str, TaskBudget], RangeResult | RangeFailure]
"""Carries out a plan of one range or one surveyed group, with the number that it has in the whole plan, into a folder.

Never raises. Runs in a task, so it must be a module-level function."""


@dataclass(frozen=True, slots=True)
class IngestUnit(WorkUnit):
    """One range, or one group of objects to survey: ``ingest`` is the plan with it alone."""

    number: int = 0
    ingest: IngestPlan | None = None


def run_ingest_plan(
    argument: str,
    *,
    carry_out: CarryOut,
    budget: TaskBudget,
    maximum_tasks: int | None = None,
    app_name: str = "winnow ingest",
) -> list[PlanOutcome]:
    """Carry out the plan named by ``argument``, and write what its tasks report as one document.

    A range that fails is part of the result; the submitter decides what it means.
    """
    plan = read_ingest_plan(*parse_plan_argument(argument))
    with open_spark_context(app_name) as context:
        application = context.applicationId
        units = build_units(argument, plan)
        emit_event({"event": "started", "partitions": len(units), "bytes": sum(unit.size_bytes for unit in units)})
        tasks, share = plan_tasks(units, context.defaultParallelism, budget, maximum_tasks)
        results = _run(context, tasks, storage.join(plan.folder, application), share, carry_out)
    return [write_ingest_result(plan, application, results)]


def build_units(uri: str, plan: IngestPlan) -> list[IngestUnit]:
    """Build the units of work of a plan: each gets what it needs of the plan, not what all others need."""
    sizes = {each.number: each.size_bytes for each in plan.objects}
    objects = {each.number: each for each in plan.objects}
    units = []
    for number, each in enumerate(plan.ranges):
        needed = sorted({*each.objects, *each.reaching})
        part = replace(plan, objects=tuple(objects[at] for at in needed), ranges=(each,))
        units.append(IngestUnit(uri, plan.topic, each.partition, sum(sizes[at] for at in needed), None, number, part))
    for number, group in enumerate(plan.surveyed):
        part = replace(plan, objects=tuple(objects[at] for at in group), surveyed=(group,))
        units.append(IngestUnit(uri, plan.topic, -1, sum(sizes[at] for at in group), None, number, part))
    return units


def _run(
    context: SparkContext,
    tasks: Sequence[Sequence[WorkUnit]],
    base: str,
    budget: TaskBudget,
    carry_out: CarryOut,
) -> list[RangeResult | RangeFailure]:
    results = run_tasks(context, tasks, lambda task, report: _run_task(task, base, budget, carry_out, report))
    return [each["result"] for each in results]


def _run_task(
    tasks: Iterable[Sequence[WorkUnit]], base: str, budget: TaskBudget, carry_out: CarryOut, report: ReportEvent
) -> Iterator[dict[str, Any]]:
    """Carry out units one after another inside a Spark task; a failing one is reported, not raised."""
    context = TaskContext.get()
    # A retried or speculative task writes to another folder than the first one.
    folder = storage.join(base, f"t{context.taskAttemptId() if context is not None else 0}")
    for task in tasks:
        for unit in task:
            assert isinstance(unit, IngestUnit)
            assert unit.ingest is not None
            begun = {"topic": unit.topic, "partition": unit.partition, "range": unit.number}
            print_log_line({"event": "range_started", **begun}, read_wall_clock_ms())
            result = carry_out(unit.ingest, unit.number, folder, budget)
            ended = begun | ({"error": result.error} if isinstance(result, RangeFailure) else {})
            print_log_line({"event": "range_ended", **ended}, read_wall_clock_ms())
            report({"event": "range", "bytes": unit.size_bytes, **ended})
            yield {"result": result}
