"""Writes what a plan reads as Parquet files, one for each part, in the tasks of one Spark application.

A part of the latest state that is much larger than the others is read by many tasks, in two rounds, and becomes several
files (:mod:`winnow.engine.latest_shares`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from winnow.engine.damage import build_failed_result
from winnow.engine.events import PlanFailure, PlanOutcome, emit_event
from winnow.engine.job_documents import locate_job_result, read_job_document, write_job_document
from winnow.engine.latest_shares import LatestShare, find_latest_share, read_latest_range, split_latest_ranges
from winnow.engine.read_parts import collect_read_results, run_read_part, write_read_file
from winnow.engine.read_plans import ReadKind, ReadPart, ReadPlan
from winnow.engine.rewrite import SegmentGroup
from winnow.engine.spark_application import ReportEvent, open_spark_context, run_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import DEFAULT_GIANT_BYTES, WorkUnit, count_key_shares, estimate_copy_bytes, plan_tasks
from winnow.engine.task_resources import TaskBudget
from winnow.engine.winners import KeyShare
from winnow.files import storage

Result = dict[str, Any]
"""What came of a unit: ``result`` or ``share``, or ``error`` and ``exit_code``; with ``partition`` and ``part``."""
RunUnits = Callable[[Sequence[WorkUnit]], list[Result]]
"""Runs units in tasks; returns what came of each, in any order."""


@dataclass(frozen=True, slots=True)
class ReadUnit(WorkUnit):
    """One part; ``read`` is the plan with it alone. ``share``: its winners among these keys are looked for, instead.

    ``group``: the range of offsets to write of it, the ``range_number``-th; ``survivors``: the files of its shares.
    """

    read: ReadPlan | None = None
    share: KeyShare | None = None
    group: SegmentGroup | None = None
    range_number: int = 0
    survivors: tuple[str, ...] = ()


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
            return run_tasks(context, tasks, lambda some, report: _run_units(chain.from_iterable(some), share, report))

        return carry_out_read_plan(uri, plan, run, cores=min(cores, maximum_tasks or cores), giant_bytes=giant_bytes)


def _run_units(units: Iterable[WorkUnit], budget: TaskBudget, report: ReportEvent) -> Iterator[Result]:
    for unit in units:
        assert isinstance(unit, ReadUnit)
        result = run_read_unit(unit, budget)
        if unit.share is None and unit.group is None:
            report(_build_event(unit.topic, result))
        yield result


def _build_event(topic: str, result: Result) -> dict[str, Any]:
    error = {"error": result["error"]} if "error" in result else {}
    return {"event": "partition", "topic": topic, "partition": result["partition"], **error}


def carry_out_read_plan(uri: str, plan: ReadPlan, run: RunUnits, *, cores: int, giant_bytes: int) -> PlanOutcome:
    """Have the units of ``plan`` run, those of divided parts in two rounds, and write which files there are."""
    divided = _count_shares(plan, cores, giant_bytes)
    results = run([unit for part in plan.parts for unit in _build_units(uri, plan, part, divided.get(part.number, 1))])
    done = [result for result in results if "share" not in result]
    found: dict[int, list[LatestShare]] = {}
    for result in results:
        if "share" in result:
            found.setdefault(result["part"], []).append(result["share"])
    complete = {number: shares for number, shares in found.items() if len(shares) == divided[number]}
    parts = {part.number: part for part in plan.parts}
    ranges = [
        unit for number, shares in complete.items() for unit in _build_ranges(uri, plan, parts[number], shares, cores)
    ]
    done += run(ranges) if ranges else []
    for number in divided:
        emit_event(_build_event(plan.topic, {"partition": parts[number].log.partition}))
    return write_read_outcome(uri, plan, done, len(plan.parts) - len(divided) + len(ranges))


def _count_shares(plan: ReadPlan, cores: int, giant_bytes: int) -> Mapping[int, int]:
    """Count the shares of parts that are divided, by their numbers."""
    if plan.kind is not ReadKind.LATEST:
        return {}
    counts = count_key_shares([part.size_bytes for part in plan.parts], cores, giant_bytes)
    return {part.number: count for part, count in zip(plan.parts, counts, strict=True) if count > 1}


def _build_units(uri: str, plan: ReadPlan, part: ReadPart, shares: int) -> list[ReadUnit]:
    whole = ReadUnit(uri, plan.topic, part.log.partition, part.size_bytes // shares, None, replace(plan, parts=(part,)))
    return [whole] if shares == 1 else [replace(whole, share=KeyShare(number, shares)) for number in range(shares)]


def _build_ranges(
    uri: str, plan: ReadPlan, part: ReadPart, found: Sequence[LatestShare], cores: int
) -> Iterator[ReadUnit]:
    """Build the second tasks of a divided part; the plan of each has only the segments that it reads."""
    survivors = tuple(each.survivors for each in found)
    for number, group in enumerate(split_latest_ranges(part.log, found, cores)):
        log = replace(part.log, segments=tuple(member.segment for member in group.members))
        read = replace(plan, parts=(replace(part, log=log),))
        yield ReadUnit(
            uri,
            plan.topic,
            part.log.partition,
            estimate_copy_bytes(group),
            None,
            read,
            group=group,
            range_number=number,
            survivors=survivors,
        )


def run_read_unit(unit: WorkUnit, budget: TaskBudget) -> Result:
    """Write the file of one part or range, or find the winners of a share; never raises."""
    assert isinstance(unit, ReadUnit)
    plan = unit.read
    assert plan is not None
    (part,) = plan.parts
    if unit.share is None and unit.group is None:
        return run_read_part(plan, part, budget)
    result: Result = {"partition": part.log.partition, "part": part.number}
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
