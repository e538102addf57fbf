"""Reads files in full in one Spark application to find damaged and missing ones; records never leave their task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from winnow.engine.damage import describe_file_fault
from winnow.engine.events import PlanOutcome, emit_event
from winnow.engine.job_documents import locate_job_result, read_job_document, write_job_document
from winnow.engine.scrub_plans import FileOutcome, ScrubbedFile, ScrubPlan, ScrubResult
from winnow.engine.spark_application import ReportEvent, open_spark_context, run_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import WorkUnit, plan_tasks
from winnow.engine.task_resources import TaskBudget, Throttle
from winnow.files.checked_reading import SCRUB_BUFFER_BYTES, check_quarantine_file, read_segment


@dataclass(frozen=True, slots=True)
class ScrubUnit(WorkUnit):
    """One file."""

    file: ScrubbedFile | None = None


def run_scrub_plan(
    argument: str, *, budget: TaskBudget, maximum_tasks: int | None = None, app_name: str = "winnow scrub"
) -> PlanOutcome:
    """Read the files of the plan named by ``argument``, and write what came of each beside it."""
    uri, sha256 = parse_plan_argument(argument)
    plan = read_job_document(ScrubPlan, uri, sha256)
    units = build_scrub_units(plan)
    with open_spark_context(app_name) as context:
        emit_event({"event": "started", "partitions": len(units), "bytes": sum(unit.size_bytes for unit in units)})
        tasks, share = plan_tasks(units, context.defaultParallelism, budget, maximum_tasks)
        results = run_tasks(context, tasks, lambda task, report: _run_task(task, share, report))
    return write_scrub_result(uri, plan, [result["outcome"] for result in results])


def build_scrub_units(plan: ScrubPlan) -> list[ScrubUnit]:
    """Build the units of work of a plan."""
    return [ScrubUnit("", "", file.number, file.size_bytes, file=file) for file in plan.files]


def write_scrub_result(uri: str, plan: ScrubPlan, outcomes: Sequence[FileOutcome]) -> PlanOutcome:
    """Write what came of the files of ``plan`` beside it."""
    ordered = tuple(sorted(outcomes, key=lambda outcome: outcome.number))
    place = locate_job_result(uri)
    return PlanOutcome("", plan.plan_id, place, sha256=write_job_document(place, ScrubResult(plan.plan_id, ordered)))


def _run_task(tasks: Iterable[Sequence[WorkUnit]], budget: TaskBudget, report: ReportEvent) -> Iterator[dict[str, Any]]:
    throttle = Throttle(budget.bytes_per_second)
    for task in tasks:
        for unit in task:
            assert isinstance(unit, ScrubUnit)
            assert unit.file is not None
            outcome = read_scrubbed_file(unit.file, throttle.take)
            report({"event": "file", "bytes": unit.size_bytes})
            yield {"outcome": outcome}


def read_scrubbed_file(file: ScrubbedFile, take: Callable[[int], None]) -> FileOutcome:
    """Read ``file`` in full; never raises. ``take`` is called with the bytes about to be read."""
    outcome = FileOutcome(file.number)
    try:
        if file.segment is None:
            check_quarantine_file(file.path, file.records, file.size_bytes, take)
        else:
            for _ in read_segment(file.segment, buffer_bytes=SCRUB_BUFFER_BYTES, on_progress=take):
                continue
    except Exception as problem:  # one file must not end the others in this application
        return replace(outcome, **describe_file_fault(problem, file.path)._asdict())
    return outcome
