"""Writes what a plan reads as Parquet files, one for each part, in the tasks of one Spark application.

A part of the latest state that is much larger than the others is read by many tasks, in two rounds, and becomes several
files (:mod:`winnow.engine.latest_shares`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from winnow.engine.damage import build_failed_result
from winnow.engine.events import PlanFailure, PlanOutcome, emit_event
from winnow.engine.job_documents import locate_job_result, read_job_document, write_job_document
from winnow.engine.latest_shares import (
    Result,
    RunUnits,
    StateUnit,
    find_latest_share,
    read_latest_range,
    run_rounds,
)
from winnow.engine.read_parts import collect_read_results, run_read_part, write_read_file
from winnow.engine.read_plans import ReadKind, ReadPart, ReadPlan
from winnow.engine.spark_application import open_spark_context, run_partition_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import DEFAULT_GIANT_BYTES, WorkUnit, count_key_shares, plan_tasks
from winnow.engine.task_resources import TaskBudget
from winnow.files import storage
from winnow.values.model import PartitionPlan


@dataclass(frozen=True, slots=True)
class ReadUnit(StateUnit):
    """One part; ``read`` is the plan with it alone."""

    read: ReadPlan | None = None

    @property
    def part(self) -> ReadPart:
        """The part."""
        assert self.read is not None
        (part,) = self.read.parts
        return part

    @property
    def log(self) -> PartitionPlan:
        """The plan of its partition."""
        return self.part.log

    def narrow(self, log: PartitionPlan) -> Self:
        """Return the unit with ``log`` in the place of its plan."""
        assert self.read is not None
        return replace(self, read=replace(self.read, parts=(replace(self.part, log=log),)))


def run_read_plan(
    argument: str,
    *,
    budget: TaskBudget,
    maximum_tasks: int | None = None,
    giant_bytes: int = DEFAULT_GIANT_BYTES,
    app_name: str = "winnow read",
) -> PlanOutcome:
    """Carry out the plan named by ``argument``, and write which files there are as one document beside it.

    ``giant_bytes``: parts of a latest state from this size on are read by several tasks where cores would be idle
    otherwise.
    """
    uri, sha256 = parse_plan_argument(argument)
    plan = read_job_document(ReadPlan, uri, sha256)
    with open_spark_context(app_name) as context:
        emit_event({"event": "started", "partitions": len(plan.parts), "bytes": plan.size_bytes})
        cores = context.defaultParallelism

        def run(units: Sequence[WorkUnit]) -> list[Result]:
            tasks, share = plan_tasks(units, cores, budget, maximum_tasks)
            return run_partition_tasks(context, tasks, lambda unit: run_read_unit(unit, share))

        return carry_out_read_plan(uri, plan, run, cores=min(cores, maximum_tasks or cores), giant_bytes=giant_bytes)


def carry_out_read_plan(uri: str, plan: ReadPlan, run: RunUnits, *, cores: int, giant_bytes: int) -> PlanOutcome:
    """Have the units of ``plan`` run, those of divided parts in two rounds, and write which files there are."""
    units = [
        ReadUnit(uri, plan.topic, part.log.partition, part.size_bytes, read=replace(plan, parts=(part,)))
        for part in plan.parts
    ]
    counts = [1] * len(units)
    if plan.kind is ReadKind.LATEST:
        counts = count_key_shares([unit.size_bytes for unit in units], cores, giant_bytes)
    return write_read_outcome(uri, plan, *run_rounds(units, counts, run, cores))


def run_read_unit(unit: WorkUnit, budget: TaskBudget) -> Result:
    """Write the file of one part or range, or find the winners of a share; never raises."""
    assert isinstance(unit, ReadUnit)
    plan, part = unit.read, unit.part
    assert plan is not None
    if unit.share is None and unit.group is None:
        return run_read_part(plan, part, budget)
    result: Result = {"partition": part.log.partition}
    try:
        assert plan.order is not None
        if unit.group is not None:
            batches = read_latest_range(part.log, unit.group, unit.survivors, budget)
            result["result"] = write_read_file(plan, part, batches, range_number=unit.range_number)
        elif unit.share is not None:
            uri = storage.join(plan.folder, f"survivors-{part.number:06}.{uuid.uuid4().hex}")
            result["share"] = find_latest_share(part.log, plan.order, unit.share, budget, uri, below=plan.root)
    except Exception as problem:  # one part must not end the others in this application
        result |= build_failed_result(problem, plan.topic, part.log)
    return result


def write_read_outcome(uri: str, plan: ReadPlan, results: Sequence[Result], expected: int | None = None) -> PlanOutcome:
    """Write which files there are for ``plan`` beside it; ``expected``: how many, None: one for each part."""
    collected = collect_read_results(plan, results, expected)
    if isinstance(collected, PlanFailure):
        return PlanOutcome(plan.topic, plan.plan_id, None, collected)
    place = locate_job_result(uri)
    return PlanOutcome(plan.topic, plan.plan_id, place, sha256=write_job_document(place, collected))
