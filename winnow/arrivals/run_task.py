"""Carries out one part of an ingest plan, and says why it failed: in a Spark task, or in a process of this machine.

    python -m winnow.arrivals.run_task SOCKET

Such a process gets the parts one after another by the socket, whose number it is told, answers how many records it has
read and what it made of a part, and ends with the one that started it. Properties of clients come by the socket, too,
so no list of processes shows them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb

from winnow.arrivals.broker_range import copy_broker_range
from winnow.arrivals.planned_erasures import open_planned_erasures
from winnow.arrivals.read_range import LackingOffsetError, MisreadFieldError, ObjectReader
from winnow.arrivals.write_range import ingest_range, survey_objects
from winnow.engine.task_resources import TaskBudget, Throttle
from winnow.engine.worker_process import WorkerSocket
from winnow.errors import BadInputError, ServiceError, WinnowError
from winnow.files import storage, storage_health
from winnow.files.erase_secret import read_secret
from winnow.sources.topic_filter import OtherTopicError
from winnow.values.epochs import KAFKA_LAYOUT
from winnow.values.ingest_plans import IngestPlan, OtherTopic, RangeFailure, RangeResult


def read_task_secret(path: Path | None) -> bytes | None:
    """Read the secret that the submitter wrote into a private file; None: no plan names an erasure.

    Raises:
        ConfigurationError: it cannot be read.
    """
    return None if path is None else read_secret(None, path)


def run_ingest_task(
    plan: IngestPlan,
    number: int,
    folder: str,
    budget: TaskBudget,
    *,
    client_properties: Mapping[str, str] | None = None,
    follow: Callable[[int], None] | None = None,
    erase_secret: bytes | None = None,
) -> RangeResult | RangeFailure:
    """Carry out ``plan``, which has one range or one surveyed group: the ``number``-th of the whole plan. Never raises.

    New files are below ``folder`` and synced when this returns. ``client_properties``: of Kafka clients, for plans that
    read brokers; ``follow`` is called with the number of records that were read of those so far. ``erase_secret``: that
    of erasures, for plans that name some.
    """
    if plan.layout == KAFKA_LAYOUT:
        return _carry_out_broker_range(plan, number, folder, budget, client_properties or {}, follow, erase_secret)
    throttle = Throttle(budget.bytes_per_second)
    accounted = plan.surveyed[0] if plan.surveyed else plan.ranges[0].objects
    objects = {obj.number: obj for obj in plan.objects}
    readers: list[ObjectReader] = []

    def open_reader(*, hashes: bool) -> ObjectReader:
        readers.append(ObjectReader(plan, objects, accounted, throttle, hashes=hashes))
        return readers[-1]

    try:
        if plan.surveyed:
            return survey_objects(number, partial(open_reader, hashes=False), accounted)
        result = ingest_range(
            plan,
            number,
            partial(open_reader, hashes=True),
            folder=folder,
            budget=budget,
            throttle=throttle,
            erased=open_planned_erasures(plan, erase_secret),
        )
        storage.sync(segment.path for segment in result.segments)
    except Exception as problem:  # a failing range must not end the application: the submitter decides
        return describe_failure(problem, plan, number, readers[-1].current if readers else min(objects, default=0))
    return result


def _carry_out_broker_range(
    plan: IngestPlan,
    number: int,
    folder: str,
    budget: TaskBudget,
    client_properties: Mapping[str, str],
    follow: Callable[[int], None] | None,
    erase_secret: bytes | None,
) -> RangeResult | RangeFailure:
    try:
        throttle = Throttle(budget.bytes_per_second)
        erased = open_planned_erasures(plan, erase_secret)
        result = copy_broker_range(plan, number, folder, throttle, client_properties, follow=follow, erased=erased)
        storage.sync(segment.path for segment in result.segments)
    except Exception as problem:  # a failing range must not end the application: the submitter decides
        return describe_failure(problem, plan, number, plan.ranges[0].objects[0])
    return result


def describe_failure(problem: Exception, plan: IngestPlan, number: int, order: int) -> RangeFailure:
    """Describe why a range failed, without user bytes; ``order``: the number of the object being read."""
    if isinstance(problem, LackingOffsetError):
        return RangeFailure(number, order, "a record has no offset", BadInputError.exit_code, lacks_offsets=True)
    if isinstance(problem, MisreadFieldError):
        error = f"field {problem} is text"
        return RangeFailure(number, order, error, BadInputError.exit_code, misread_field=str(problem))
    if isinstance(problem, OtherTopicError):
        other = OtherTopic(problem.path, problem.found, problem.clause)
        return _describe_error(problem, number, order, other)
    if not isinstance(problem, WinnowError):
        problem = _explain(problem, plan)
    return _describe_error(problem, number, order)


def _describe_error(problem: WinnowError, number: int, order: int, other: OtherTopic | None = None) -> RangeFailure:
    what, left, to_do = problem.explanation
    return RangeFailure(number, order, what, problem.exit_code, other, left=left, next=to_do)


def _explain(problem: Exception, plan: IngestPlan) -> WinnowError:
    shortage = storage_health.describe_machine_fault(problem)
    if shortage is not None:
        return ServiceError(
            f"{shortage}, where a task of the ingest spills or writes.",
            left="Nothing of this call landed.",
        )
    is_remote = any(not storage.is_local(obj.uri) for obj in plan.objects) or not storage.is_local(plan.folder)
    if is_remote and isinstance(problem, OSError | duckdb.IOException):
        return ServiceError(
            f"The object store did not answer for a while ({type(problem).__name__}).",
            left="Nothing of this call landed.",
            next="Run it again.",
        )
    return WinnowError(
        f"Unexpected {type(problem).__name__} while objects of topic {plan.topic} were ingested.",
        left="Nothing of this call landed.",
    )


@dataclass(frozen=True, slots=True)
class Assignment:
    """A part to carry out; as the arguments of :func:`winnow.arrivals.run_task.run_ingest_task`."""

    plan: IngestPlan
    number: int
    folder: str
    budget: TaskBudget
    client_properties: dict[str, str] = field(repr=False)
    erase_secret: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """``records``: those of the part that were read so far. ``result`` or ``failure``: what became of the part."""

    records: int = 0
    result: RangeResult | None = None
    failure: RangeFailure | None = None


def main(descriptor: int) -> None:
    """Carry out what comes by the socket; does not return."""
    socket = WorkerSocket(descriptor)
    while (assigned := socket.receive(Assignment)) is not None:
        _carry_out(socket, assigned)


def _carry_out(socket: WorkerSocket, assigned: Assignment) -> None:
    done = run_ingest_task(
        assigned.plan,
        assigned.number,
        assigned.folder,
        assigned.budget,
        client_properties=assigned.client_properties,
        follow=lambda records: socket.answer(Answer(records)),
        erase_secret=assigned.erase_secret,
    )
    if isinstance(done, RangeFailure):
        socket.answer(Answer(failure=done))
    else:
        socket.answer(Answer(done.records, done))


if __name__ == "__main__":
    main(int(sys.argv[1]))
