"""Carries out the ranges of an ingest plan in several processes of this machine, as Spark's tasks would.

One process makes an object per record and so uses one core. These processes commit nothing: they write files that
nothing refers to, and say what they wrote.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import wait

from winnow.engine.ingest import IngestUnit, build_units
from winnow.engine.task_resources import TaskBudget
from winnow.engine.worker_process import WorkerEndedError, WorkerProcess
from winnow.errors import ServiceError, make_error
from winnow.files import storage
from winnow.pipeline.ingest.range_process import Answer, Assignment
from winnow.pipeline.ingest.spool import Progress
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.ingest_plans import IngestPlan, IngestRange, IngestResult, RangeResult

APPLICATION = "processes"
"""Stands where the id of a Spark application stands: in names of folders and in results."""
MODULE = "winnow.pipeline.ingest.range_process"
MINIMUM_PROCESS_OFFSETS = 500_000
"""A process takes half a second to start; this many records take it a few."""


def choose_processes(offsets: int, maximum: int) -> int:
    """Choose how many processes read ``offsets``, ``maximum`` at most; 1: this one reads them sooner by itself."""
    return max(1, min(maximum, count_cores(), offsets // MINIMUM_PROCESS_OFFSETS))


def count_cores() -> int:
    """Count the cores that this process may use; those of the machine where the system does not tell (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def carry_out_in_processes(
    plan: IngestPlan,
    processes: int,
    budget: TaskBudget,
    client_properties: Mapping[str, str],
    progress: Progress | None,
) -> IngestResult:
    """Carry out ``plan``, the largest ranges first; all processes have ended when this returns or raises.

    Args:
        plan: ranges of offsets at brokers.
        processes: how many to start, at most one a range.
        budget: of each process. As in one process, the rate of reading has no limit.
        client_properties: of Kafka's clients.
        progress: called with offsets of ranges that are read, or records of others so far; all offsets; all records.

    Raises:
        ServiceError: a process ended before its range was read, or brokers or object store cannot be reached.
        WinnowError: what a range failed with.
    """
    waiting = deque(sorted(build_units("", plan), key=lambda unit: -unit.size_bytes))
    total = sum(_count_offsets(each) for each in plan.ranges)
    unlimited = replace(budget, bytes_per_second=None)
    results: list[RangeResult] = []
    with contextlib.ExitStack() as opened:
        busy: dict[object, _RangeProcess] = {}
        for number in range(min(processes, len(waiting))):
            process = opened.enter_context(_RangeProcess(number, unlimited, client_properties))
            process.assign(waiting.popleft())
            busy[process.connection] = process
        while busy:
            for connection in wait([process.connection for process in busy.values()]):
                process = busy[connection]
                answer = process.wait_for_answer()
                if answer.failure is not None:
                    raise make_error(answer.failure.exit_code, answer.failure.explanation)
                if answer.result is not None:
                    results.append(answer.result)
                    if waiting:
                        process.assign(waiting.popleft())
                    else:
                        del busy[connection]
            if progress is not None:
                read = sum(process.records for process in busy.values())
                done = sum(_count_offsets(plan.ranges[each.number]) for each in results)
                progress(done + read, total, sum(each.records for each in results) + read)
    return IngestResult(plan.plan_id, APPLICATION, tuple(results))


def _count_offsets(planned: IngestRange) -> int:
    return planned.offsets.end - planned.offsets.start


class _RangeProcess(WorkerProcess):
    """A process, and the range that it reads. ``records``: those of the range that it has read so far."""

    def __init__(self, number: int, budget: TaskBudget, client_properties: Mapping[str, str]) -> None:
        self.records = 0
        self._task, self._budget, self._properties = f"t{number}", budget, dict(client_properties)
        self._unit: IngestUnit | None = None
        try:
            super().__init__(MODULE)
        except OSError as problem:
            raise ServiceError(
                f"No process could be started to read Kafka ({problem.strerror}).",
                left=NOTHING_INGESTED,
                next="With ingest.processes = 1 none is needed.",
            ) from None

    def assign(self, unit: IngestUnit) -> None:
        """Let the process carry out ``unit``. What it writes for a result is synced, all else is of no use.

        Raises:
            ServiceError: it has ended.
        """
        assert unit.ingest is not None
        self._unit, self.records = unit, 0
        folder = storage.join(unit.folder, APPLICATION, self._task)
        try:
            self.send(Assignment(unit.ingest, unit.number, folder, self._budget, self._properties))
        except WorkerEndedError as problem:
            raise self._explain(problem) from None

    def wait_for_answer(self) -> Answer:
        """Wait for the next answer.

        Raises:
            ServiceError: the process has ended.
        """
        try:
            answer = self.receive(Answer)
        except WorkerEndedError as problem:
            raise self._explain(problem) from None
        self.records = answer.records
        return answer

    def _explain(self, problem: WorkerEndedError) -> ServiceError:
        assert self._unit is not None
        assert self._unit.ingest is not None
        planned = self._unit.ingest.ranges[0]
        return ServiceError(
            f"The process that read {self._unit.topic}-{planned.partition} from offset {planned.offsets.start} to "
            f"{planned.offsets.end - 1} ended unexpectedly ({problem}).",
            left=NOTHING_INGESTED,
            next="Run it again; with ingest.processes = 1 everything is read in one process.",
        )
