"""Reads ranges of Kafka topics: in this process, in several of this machine, or in one Spark application for all.

Each topic is one commit, by this process. One process makes an object per record and so uses one core; further ones,
as Spark's tasks, commit nothing: they write files that nothing refers to, and say what they wrote.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait

from winnow import __version__
from winnow.arrivals.broker_range import BROKERS_CHOICE, KafkaInput
from winnow.arrivals.run_task import Answer, Assignment
from winnow.arrivals.spool import Progress
from winnow.engine.ingest import RECORD_BYTES, IngestUnit, build_units
from winnow.engine.ingest_documents import compute_ingest_plan_id
from winnow.engine.task_resources import TaskBudget
from winnow.engine.worker_process import WorkerEndedError, WorkerProcess
from winnow.errors import CommitConflictError, ServiceError, WinnowError, make_error
from winnow.files import storage
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.range_reader import BrokerRange, RangeReader, make_truncation_error
from winnow.log.head import Head
from winnow.pipeline.erased_keys import load_secret, open_erased_records, open_secret_file, plan_erasures
from winnow.pipeline.ingest.judge import (
    check_result,
    list_result_files,
    raise_first_failure,
    require_result_keys,
)
from winnow.pipeline.ingest.request import IngestReport, IngestRequest, LogMovedError
from winnow.pipeline.ingest.run_local import append_records
from winnow.pipeline.ingest.run_spark import SparkSegments, submit_ingest_plans
from winnow.pipeline.installation import Installation
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.objects import Offsets
from winnow.values.epochs import KAFKA_LAYOUT, LeaderEpoch, append_leader_epochs
from winnow.values.failures import TopicFailures
from winnow.values.ingest_plans import IngestPlan, IngestRange, IngestResult, PlannedObject, RangeResult
from winnow.values.model import OffsetRange

MINIMUM_RANGE_OFFSETS = 250_000
MAXIMUM_RANGE_OFFSETS = 4_000_000
"""A task that fails is repeated as a whole."""
RANGES_WANTED = 16


def append_on_one_application(
    installation: Installation,
    requests: Sequence[tuple[IngestRequest, Head]],
    results: TopicFailures,
    *,
    properties_file: str | None,
    progress: Progress | None = None,
) -> list[IngestReport]:
    """Append what ``requests`` read from brokers; a topic's failure goes to ``results`` and stops no other.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
    """
    tries = [KafkaSegments(request, head) for request, head in requests]
    reports: list[IngestReport] = []
    with contextlib.ExitStack() as stack:
        plans: list[tuple[KafkaSegments, IngestPlan]] = []
        wanted = choose_range_offsets(sum(each.offsets for each in tries))
        for each in tries:
            stack.enter_context(each.row.renew_in_background())
            with results.collect(each.log.topic):
                each.row.open()
                plans.append((each, each.make_plan(wanted)))
        options = [] if properties_file is None else ["--client-properties", properties_file]
        secret = next((each.secret for each, _ in plans if each.secret is not None), None)  # that of the installation
        if secret is not None:
            options += stack.enter_context(open_secret_file(installation, secret))
        try:
            found = submit_ingest_plans(installation, [plan for _, plan in plans], _count_offsets(progress), options)
        except BaseException:
            for each, _ in plans:
                each.discard()
            raise
        for each, plan in plans:
            with results.collect(each.log.topic):
                reports.append(_commit_once(each, plan, found[plan.plan_id]))
    return reports


def _commit_once(segments: KafkaSegments, plan: IngestPlan, found: IngestResult | WinnowError) -> IngestReport:
    """Commit what an application made; to read everything again is for another call, which starts another one."""
    try:
        return segments.commit(plan, found)
    except LogMovedError:
        raise CommitConflictError(
            f"The log of topic {segments.log.topic} moved while Kafka was read.",
            left=NOTHING_INGESTED,
            next="Run it again.",
        ) from None


def _count_offsets(progress: Progress | None) -> Progress | None:
    """Make the progress of an application, whose ranges have an assumed size in bytes, one over offsets again."""
    if progress is None:
        return None
    return lambda done, total, records: progress(done // RECORD_BYTES, total // RECORD_BYTES, records)


def choose_range_offsets(offsets: int) -> int:
    """Choose how many offsets a task is to read."""
    return max(MINIMUM_RANGE_OFFSETS, min(MAXIMUM_RANGE_OFFSETS, offsets // RANGES_WANTED))


def divide_ranges(ranges: Sequence[BrokerRange], wanted: int) -> list[BrokerRange]:
    """Divide ranges into parts of about ``wanted`` offsets, none of them much smaller."""
    parts = []
    for each in ranges:
        count = max(1, round((each.end - each.start) / wanted))
        cuts = [each.start + (each.end - each.start) * number // count for number in range(count + 1)]
        parts += [
            BrokerRange(each.topic, each.partition, start, end, each.base, each.after if start == each.start else None)
            for start, end in itertools.pairwise(cuts)
        ]
    return parts


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A part of a range that one task read, and the leader epochs of its records."""

    range: BrokerRange
    leader_epochs: tuple[LeaderEpoch, ...]


def list_read_parts(parts: Sequence[BrokerRange], result: IngestResult) -> list[ReadPart]:
    """List what the tasks read in the order of partitions and offsets; ``parts``: by number of the planned range."""
    read = [ReadPart(parts[each.number], each.leader_epochs) for each in result.ranges]
    return sorted(read, key=lambda part: (part.range.partition, part.range.start))


def join_leader_epochs(
    ranges: Sequence[BrokerRange], read: Sequence[ReadPart], settings: ClientSettings
) -> dict[int, tuple[LeaderEpoch, ...]]:
    """Join the leader epochs of parts, per range by its place in ``ranges``.

    Tasks read at different times. Where the leader changed between two parts, the broker is asked whether it still has
    the end of the first: else that one was read before the broker lost it, and the second after it grew again.

    Raises:
        TruncatedRangeError: parts are of different ends of a partition.
        ServiceError: the brokers cannot be reached.
    """
    joined: dict[int, tuple[LeaderEpoch, ...]] = {}
    for number, whole in enumerate(ranges):
        known: tuple[LeaderEpoch, ...] = ()
        for part in read:
            if part.range.partition != whole.partition or not part.leader_epochs:
                continue
            if known and known[-1].number != part.leader_epochs[0].number:
                _check_joint(known[-1], part, settings)
            known = append_leader_epochs(known, part.leader_epochs, joins=True)
        joined[number] = known
    return joined


def _check_joint(before: LeaderEpoch, part: ReadPart, settings: ClientSettings) -> None:
    if before.number > part.leader_epochs[0].number:
        raise make_truncation_error(
            part.range, f"leader epoch {part.leader_epochs[0].number} is behind {before.number}"
        )
    with RangeReader(settings) as reader:
        next(iter(reader.read(replace(part.range, after=before))), None)


class KafkaSegments(SparkSegments):
    """One try of a call for one topic whose ranges are read by tasks: those of an application, or processes here."""

    def __init__(self, request: IngestRequest, head: Head) -> None:
        super().__init__(request, head)
        assert isinstance(request.source, KafkaInput)
        self._source = request.source
        self._parts: list[BrokerRange] = []
        self.secret: bytes | None = None
        """What tells old copies of erased keys; None: no key was erased."""

    @property
    def offsets(self) -> int:
        """Offsets that are to be read."""
        return sum(each.end - each.start for each in self._source.ranges)

    @property
    def client_properties(self) -> Mapping[str, str]:
        """The properties of Kafka's clients, for processes on this machine."""
        return self._source.settings.properties

    def make_plan(self, wanted: int) -> IngestPlan:
        """Make the plan of this topic, with ranges of about ``wanted`` offsets.

        Raises:
            ConfigurationError: keys of the topic were erased, and their secret is missing, or another one.
        """
        self.erased = open_erased_records(self.installation, self.head, left=NOTHING_INGESTED)
        if self.erased is not None:
            self.secret = load_secret(self.installation, self.head.state, left=NOTHING_INGESTED)
        states = self.head.state.partitions
        parts = self._parts = divide_ranges(self._source.ranges, wanted)
        plan = IngestPlan(
            plan_id="",
            topic=self.log.topic,
            ingest_id=self.ingest_id,
            folder=self.folder,
            layout=KAFKA_LAYOUT,
            source_topic=parts[0].topic,
            choices={BROKERS_CHOICE: self._source.settings.bootstrap_servers},
            readings={},
            partition_count=len(states),
            needs_keys=self.config.compacts,
            segment_bytes=self.config.segment_bytes,
            objects=tuple(_plan_object(number, each) for number, each in enumerate(parts)),
            winnow_version=__version__,
            erasures=plan_erasures(self.head, of_brokers=True),
            ranges=tuple(
                IngestRange(
                    each.partition,
                    OffsetRange(each.start + each.base, each.end + each.base),
                    (number,),
                    first_offset=each.start + each.base,
                    log_end_offset=states[each.partition].log_end_offset,
                    after=each.after,
                )
                for number, each in enumerate(parts)
            ),
        )
        return replace(plan, plan_id=compute_ingest_plan_id(plan))

    def commit(self, plan: IngestPlan, found: IngestResult | WinnowError) -> IngestReport:
        """Check what the application made of ``plan``, and commit it.

        Raises:
            BadInputError: a record without a key; nothing landed.
            TruncatedRangeError: the brokers deleted records meanwhile; nothing landed.
            CommitConflictError: another call came first; nothing landed.
            LogMovedError: something else was appended meanwhile; nothing landed.
            ServiceError: Spark, the brokers or the object store failed; nothing landed.
        """
        try:
            if isinstance(found, WinnowError):
                raise found
            check_result(plan, found)
            raise_first_failure(found.failures)
            require_result_keys(self.head, plan, found)
            self.files = list_result_files(plan, found)
            self.count_erased(plan, found)
            read = list_read_parts(self._parts, found)
            self._source.leader_epochs = join_leader_epochs(self._source.ranges, read, self._source.settings)
            self.prepare_commit(plan, found)
            self.remove_others()
            self._source.check()
        except BaseException:
            self.discard()
            raise
        return self.commit_prepared(self.files, self.discard)


def _plan_object(number: int, part: BrokerRange) -> PlannedObject:
    return PlannedObject(
        number=number,
        uri=f"Kafka's {part}",
        parts={},
        topic=part.topic,
        partition=part.partition,
        first_offset=part.start,
        forms={},
        reference=None,
        null_is_empty=False,
        offsets=Offsets.EXACT.value,
    )


def append_here(request: IngestRequest, head: Head, progress: Progress | None = None, *, divides: bool) -> IngestReport:
    """Append what ``request`` reads from brokers: in this process, or in several if it is much and ``divides``.

    Raises:
        BadInputError, CommitConflictError, CommitUnknownError, ServiceError: as the ingest; nothing landed.
    """
    assert isinstance(request.source, KafkaInput)
    offsets = sum(each.end - each.start for each in request.source.ranges)
    processes = choose_processes(offsets, request.installation.settings.ingest.processes) if divides else 1
    if processes == 1:
        return append_records(request, head, progress)
    try:
        return _append_in_processes(request, head, processes, progress)
    except LogMovedError:
        # As where one process reads: everything is read again, and what came meanwhile is compared with it.
        return append_records(request, request.prepare_head(request.log.newest_head()), progress)


def _append_in_processes(
    request: IngestRequest, head: Head, processes: int, progress: Progress | None = None
) -> IngestReport:
    """Append by processes. A partition is divided among them only where it has most of the offsets.

    Raises:
        LogMovedError: something else was appended meanwhile; nothing landed.
    """
    segments = KafkaSegments(request, head)
    with segments.row.renew_in_background():
        segments.row.open()
        plan = segments.make_plan(max(MINIMUM_PROCESS_OFFSETS, segments.offsets // processes))
        try:
            result = carry_out_in_processes(
                plan, processes, request.installation.budget, segments.client_properties, progress, segments.secret
            )
        except BaseException:
            segments.discard()
            raise
        return segments.commit(plan, result)


APPLICATION = "processes"
"""Stands where the id of a Spark application stands: in names of folders and in results."""
MODULE = "winnow.arrivals.run_task"
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
    erase_secret: bytes | None = None,
) -> IngestResult:
    """Carry out ``plan``, the largest ranges first; all processes have ended when this returns or raises.

    Args:
        plan: ranges of offsets at brokers.
        processes: how many to start, at most one a range.
        budget: of each process. As in one process, the rate of reading has no limit.
        client_properties: of Kafka's clients.
        progress: called with offsets of ranges that are read, or records of others so far; all offsets; all records.
        erase_secret: that of the erasures that the plan names.

    Raises:
        ServiceError: a process ended before its range was read, or brokers or object store cannot be reached.
        WinnowError: what a range failed with.
    """
    waiting = deque(sorted(build_units("", plan), key=lambda unit: -unit.size_bytes))
    total = sum(_count_range_offsets(each) for each in plan.ranges)
    unlimited = replace(budget, bytes_per_second=None)
    results: list[RangeResult] = []
    with contextlib.ExitStack() as opened:
        busy: dict[object, _RangeProcess] = {}
        for number in range(min(processes, len(waiting))):
            process = opened.enter_context(_RangeProcess(number, unlimited, client_properties, erase_secret))
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
                done = sum(_count_range_offsets(plan.ranges[each.number]) for each in results)
                progress(done + read, total, sum(each.records for each in results) + read)
    return IngestResult(plan.plan_id, APPLICATION, tuple(results))


def _count_range_offsets(planned: IngestRange) -> int:
    return planned.offsets.end - planned.offsets.start


class _RangeProcess(WorkerProcess):
    """A process, and the range that it reads. ``records``: those of the range that it has read so far."""

    def __init__(
        self, number: int, budget: TaskBudget, client_properties: Mapping[str, str], erase_secret: bytes | None
    ) -> None:
        self.records = 0
        self._task, self._budget, self._properties = f"t{number}", budget, dict(client_properties)
        self._erase_secret = erase_secret
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
            assigned = Assignment(unit.ingest, unit.number, folder, self._budget, self._properties, self._erase_secret)
            self.send(assigned)
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
