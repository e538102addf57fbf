"""Carries out ingest plans in one Spark application: ranges of offsets are distributed, records never are.

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
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import WorkUnit, plan_tasks
from winnow.engine.task_resources import TaskBudget
from winnow.files import storage
from winnow.values.epochs import KAFKA_LAYOUT
from winnow.values.ingest_plans import IngestPlan, RangeFailure, RangeResult

RECORD_BYTES = 256
"""What a record at a broker counts as, beside objects whose bytes are known: brokers tell offsets only."""

CarryOut = Callable[[IngestPlan, int, str, TaskBudget], RangeResult | RangeFailure]
"""Carries out a plan of one range or one surveyed group, with the number that it has in the whole plan, into a folder.

Never raises. Runs in a task, so it must be a module-level function."""


@dataclass(frozen=True, slots=True)
class IngestUnit(WorkUnit):
    """One range, or one group of objects to survey: ``ingest`` is the plan with it alone.

    ``folder``: where the plan's files go.
    """

    number: int = 0
    ingest: IngestPlan | None = None
    folder: str = ""


def run_ingest_plans(
    arguments: Sequence[str],
    *,
    carry_out: CarryOut,
    budget: TaskBudget,
    maximum_tasks: int | None = None,
    app_name: str = "winnow ingest",
) -> list[PlanOutcome]:
    """Carry out the plans named by ``arguments``, and write what the tasks of each report as one document.

    A range that fails is part of its plan's result; the submitter decides what it means.
    """
    plans = {argument: read_ingest_plan(*parse_plan_argument(argument)) for argument in arguments}
    with open_spark_context(app_name) as context:
        application = context.applicationId
        units = [unit for argument, plan in plans.items() for unit in build_units(argument, plan)]
        emit_event({"event": "started", "partitions": len(units), "bytes": sum(unit.size_bytes for unit in units)})
        tasks, share = plan_tasks(units, context.defaultParallelism, budget, maximum_tasks)
        results = _run(context, tasks, application, share, carry_out)
    return [write_ingest_result(plan, application, results.get(argument, ())) for argument, plan in plans.items()]


def build_units(uri: str, plan: IngestPlan) -> list[IngestUnit]:
    """Build the units of work of a plan: each gets what it needs of the plan, not what all others need."""
    sizes = {each.number: each.size_bytes for each in plan.objects}
    objects = {each.number: each for each in plan.objects}
    units = []
    for number, each in enumerate(plan.ranges):
        needed = sorted({*each.objects, *each.reaching})
        part = replace(plan, objects=tuple(objects[at] for at in needed), ranges=(each,))
        size_bytes = sum(sizes[at] for at in needed)
        if plan.layout == KAFKA_LAYOUT:
            size_bytes = (each.offsets.end - each.offsets.start) * RECORD_BYTES
        units.append(IngestUnit(uri, plan.topic, each.partition, size_bytes, None, number, part, plan.folder))
    for number, group in enumerate(plan.surveyed):
        part = replace(plan, objects=tuple(objects[at] for at in group), surveyed=(group,))
        size_bytes = sum(sizes[at] for at in group)
        units.append(IngestUnit(uri, plan.topic, -1, size_bytes, None, number, part, plan.folder))
    return units


def _run(
    context: SparkContext,
    tasks: Sequence[Sequence[WorkUnit]],
    application: str,
    budget: TaskBudget,
    carry_out: CarryOut,
) -> dict[str, list[RangeResult | RangeFailure]]:
    """Run the tasks; return the results per plan, by its argument."""
    found: dict[str, list[RangeResult | RangeFailure]] = {}
    for each in run_tasks(context, tasks, lambda task, say: _run_task(task, application, budget, carry_out, say)):
        found.setdefault(each["plan"], []).append(each["result"])
    return found


def _run_task(
    tasks: Iterable[Sequence[WorkUnit]],
    application: str,
    budget: TaskBudget,
    carry_out: CarryOut,
    report: ReportEvent,
) -> Iterator[dict[str, Any]]:
    """Carry out units one after another inside a Spark task; a failing one is reported, not raised."""
    context = TaskContext.get()
    # A retried or speculative task writes to another folder than the first one.
    attempt = f"t{context.taskAttemptId() if context is not None else 0}"
    for task in tasks:
        for unit in task:
            assert isinstance(unit, IngestUnit)
            assert unit.ingest is not None
            begun = {"topic": unit.topic, "partition": unit.partition, "range": unit.number}
            print_log_line({"event": "range_started", **begun}, read_wall_clock_ms())
            folder = storage.join(unit.folder, application, attempt)
            result = carry_out(unit.ingest, unit.number, folder, budget)
            ended = begun | ({"error": result.explanation.clause} if isinstance(result, RangeFailure) else {})
            print_log_line({"event": "range_ended", **ended}, read_wall_clock_ms())
            records = result.records if isinstance(result, RangeResult) else 0
            report({"event": "range", "bytes": unit.size_bytes, "records": records, **ended})
            yield {"plan": unit.plan_uri, "result": result}
