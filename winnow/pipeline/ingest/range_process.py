"""A process that carries out parts of ingest plans for the one that started it, and ends with that one.

    python -m winnow.pipeline.ingest.range_process SOCKET

It gets the parts one after another by the socket, whose number it is told, and answers how many records it has read and
what it made of a part. Properties of clients come by the socket, too, so no list of processes shows them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from winnow.engine.task_resources import TaskBudget
from winnow.engine.worker_process import WorkerSocket
from winnow.pipeline.ingest.range_work import run_ingest_task
from winnow.values.ingest_plans import IngestPlan, RangeFailure, RangeResult


@dataclass(frozen=True, slots=True)
class Assignment:
    """A part to carry out; as the arguments of :func:`winnow.pipeline.ingest.range_work.run_ingest_task`."""

    plan: IngestPlan
    number: int
    folder: str
    budget: TaskBudget
    client_properties: dict[str, str] = field(repr=False)


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
    )
    if isinstance(done, RangeFailure):
        socket.answer(Answer(failure=done))
    else:
        socket.answer(Answer(done.records, done))


if __name__ == "__main__":
    main(int(sys.argv[1]))
