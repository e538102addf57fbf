"""Searches files for keys, writes segments again without them, or checks that, in one Spark application.

A task knows the keys by their digests and the secret, which comes with it, and reads the digests in the plan's
document: a million of them would make PySpark write what each task carries, the secret with it, to a file. The check is
passed by the program: this package distributes work and must not know how it is checked.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from winnow.engine.damage import describe_file_fault, explain_read_failure
from winnow.engine.erasure_plans import (
    REWRITE,
    ErasureFile,
    ErasureJobPlan,
    ErasureJobResult,
    ErasureOutcome,
)
from winnow.engine.events import PlanOutcome, emit_event
from winnow.engine.job_documents import locate_job_result, read_job_document, write_job_document
from winnow.engine.key_erasure import (
    compute_held_digest,
    count_keys_in_file,
    find_keys_in_segment,
    rewrite_without_keys,
)
from winnow.engine.spark_application import ReportEvent, open_spark_context, run_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import WorkUnit, plan_tasks
from winnow.engine.task_resources import TaskBudget
from winnow.errors import ConfigurationError
from winnow.files import storage
from winnow.files.key_sets import DigestedKeys, KeySet
from winnow.values.erasures import ErasedPartition, KeyDigester, compute_key_id, decode_digests
from winnow.values.model import Segment

Check = Callable[[str, Sequence[ErasedPartition], KeySet, TaskBudget], list[dict[str, int | str]]]
"""Computes the fact table of partitions of a topic. Runs in a task, so it must be a module-level function."""


@dataclass(frozen=True, slots=True)
class ErasureUnit(WorkUnit):
    """One file, or one partition to check."""

    file: ErasureFile | None = None
    part: ErasedPartition | None = None


@dataclass(frozen=True, slots=True)
class TaskSource:
    """What a task is given: where its plan is, the digest of that, and the secret."""

    uri: str
    sha256: str | None
    secret: bytes = field(repr=False)


def run_erasure_plan(
    argument: str,
    *,
    secret: bytes | None,
    check: Check,
    budget: TaskBudget,
    maximum_tasks: int | None = None,
    app_name: str = "winnow erase",
) -> PlanOutcome:
    """Carry out the step of the plan named by ``argument``, and write what came of it beside the plan.

    ``secret``: with which the digests were made.

    Raises:
        ConfigurationError: it is missing, or another one.
        PlanVoidError, WinnowError: the plan cannot be read, or was changed.
    """
    uri, sha256 = parse_plan_argument(argument)
    plan = read_job_document(ErasureJobPlan, uri, sha256)
    if secret is None or compute_key_id(secret) != plan.key_id:
        raise ConfigurationError(
            f"The application that erases keys of topic {plan.topic} has no secret that tells them.",
            left="Nothing was changed.",
            next="Run it again; with --engine local one process does it.",
        )
    units = build_erasure_units(uri, plan)
    with open_spark_context(app_name) as context:
        emit_event({"event": "started", "partitions": len(units), "bytes": sum(unit.size_bytes for unit in units)})
        tasks, share = plan_tasks(units, context.defaultParallelism, budget, maximum_tasks)
        source = TaskSource(uri, sha256, secret)
        results = run_tasks(context, tasks, lambda some, report: run_erasure_task(some, source, check, share, report))
    return write_erasure_result(uri, plan, results)


def build_erasure_units(uri: str, plan: ErasureJobPlan) -> list[ErasureUnit]:
    """Build the units of work of a plan."""
    files = [ErasureUnit(uri, plan.topic, each.number, each.size_bytes, file=each) for each in plan.files]
    parts = [
        ErasureUnit(uri, plan.topic, each.partition, sum(segment.size_bytes for segment in each.replaced), part=each)
        for each in plan.parts
    ]
    return [*files, *parts]


def write_erasure_result(uri: str, plan: ErasureJobPlan, results: Sequence[dict[str, Any]]) -> PlanOutcome:
    """Write what came of ``plan`` beside it."""
    outcomes = sorted((each["outcome"] for each in results if "outcome" in each), key=lambda each: each.number)
    rows = sorted((row for each in results for row in each.get("rows", ())), key=lambda row: row["partition"])
    place = locate_job_result(uri)
    result = ErasureJobResult(plan.plan_id, tuple(outcomes), tuple(rows))
    return PlanOutcome(plan.topic, plan.plan_id, place, sha256=write_job_document(place, result))


def run_erasure_task(
    tasks: Iterable[Sequence[WorkUnit]], source: TaskSource, check: Check, budget: TaskBudget, report: ReportEvent
) -> Iterator[dict[str, Any]]:
    """Carry out units, and report the bytes of each. Yields a result for each; a unit that fails ends no other."""
    plan, wanted = open_task_source(source)
    for task in tasks:
        for unit in task:
            assert isinstance(unit, ErasureUnit)
            if unit.part is not None:
                yield _check_part(unit.part, plan, wanted, check, budget)
            else:
                assert unit.file is not None
                yield {"outcome": process_file(unit.file, plan, wanted)}
            report({"event": "file", "bytes": unit.size_bytes})


def process_file(file: ErasureFile, plan: ErasureJobPlan, wanted: KeySet) -> ErasureOutcome:
    """Search ``file``, or write it again, as ``plan`` says; never raises."""
    outcome = ErasureOutcome(file.number)
    try:
        if plan.step == REWRITE:
            return _rewrite(file, plan, wanted)
        if file.segment is None:
            return replace(outcome, records=count_keys_in_file(file.path, wanted))
        hits = find_keys_in_segment(file.segment, wanted)
    except Exception as problem:  # one file must not end the others in this application
        return replace(outcome, **describe_file_fault(problem, file.path)._asdict())
    return replace(outcome, records=hits.records, keys=tuple(hits.newest), offsets=tuple(hits.newest.values()))


def _rewrite(file: ErasureFile, plan: ErasureJobPlan, wanted: KeySet) -> ErasureOutcome:
    written: tuple[Segment, ...] = ()
    if file.segment is not None:
        assert file.folder is not None
        # A task that is carried out again, also one that was taken for dead and was not, writes over no other's file.
        folder = f"{file.folder}-{uuid.uuid4().hex}"
        written = rewrite_without_keys(file.segment, wanted, file.tombstones, folder, plan.location)
        storage.sync(each.path for each in written)
    return ErasureOutcome(file.number, segments=written, sha256=compute_held_digest(file.path))


def _check_part(
    part: ErasedPartition, plan: ErasureJobPlan, wanted: KeySet, check: Check, budget: TaskBudget
) -> dict[str, Any]:
    try:
        return {"rows": check(plan.topic, [part], wanted, budget)}
    except Exception as problem:  # the others are checked all the same
        error = explain_read_failure(problem, f"partition {part.partition}")
        outcome = ErasureOutcome(part.partition, text=error.explanation.clause, exit_code=error.exit_code)
        return {"outcome": outcome}


@lru_cache(maxsize=1)  # a worker process carries out many tasks of a plan
def open_task_source(source: TaskSource) -> tuple[ErasureJobPlan, KeySet]:
    """Read the plan of ``source``; return it with its keys.

    Raises:
        PlanVoidError, WinnowError: it cannot be read, or was changed.
    """
    plan = read_job_document(ErasureJobPlan, source.uri, source.sha256)
    return plan, DigestedKeys(KeyDigester(source.secret, plan.table_uuid), decode_digests(plan.hashes))
