"""Ingests an archive with a Spark application: plan, submit, check the result, one commit.

The application writes files that nothing refers to; this process alone decides and commits, as for an ingest in one
process (:mod:`winnow.pipeline.ingest.commit`). If the log or the knowledge of the input changes, all is planned anew,
under another ingest id: files of an abandoned try never come into the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from winnow.arrivals.plan import IngestPlanner, InputKnowledge, restore_findings
from winnow.arrivals.spool import Progress
from winnow.arrivals.write_range import PartitionResult, join_slice_digests
from winnow.engine.ingest import build_units
from winnow.engine.ingest_documents import read_ingest_result, write_ingest_plan
from winnow.engine.staging import format_plan_argument
from winnow.errors import (
    BadInputError,
    CommitConflictError,
    Explanation,
    ServiceError,
    UsageError,
    WinnowError,
    make_error,
)
from winnow.files import storage
from winnow.files.file_names import is_ingest_file, is_task_folder
from winnow.files.quarantine_files import locate_ingest_folder, name_ingest_folder
from winnow.log.head import Head
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES
from winnow.pipeline.erased_keys import load_secret, open_erased_records, open_secret_file, plan_erasures
from winnow.pipeline.ingest.commit import IngestCommit
from winnow.pipeline.ingest.epoch_input import EpochInput
from winnow.pipeline.ingest.judge import (
    check_result,
    group_ranges,
    list_result_files,
    raise_first_failure,
    require_known_absent,
    require_result_keys,
)
from winnow.pipeline.ingest.request import IngestReport, IngestRequest, LogMovedError
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import JobOutcome, build_engine_arguments, find_job_file, is_driver_here, run_job
from winnow.planning.ingest_ranges import find_uncovered
from winnow.planning.plans import PlanReference
from winnow.sources.archive import ArchiveInput
from winnow.sources.formats.encoding import Reading
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.objects import Offsets
from winnow.sources.record_input import ReadAgainError
from winnow.values.ingest_plans import IngestPlan, IngestResult, RangeFailure
from winnow.values.topic_state import Append

JOB_NAME = "ingest"
"""The program, below jobs/, that carries out ingest plans."""
LOCAL = "local"
SPARK = "spark"
"""Where the records of an archive are read: in this process, or in tasks."""
MAXIMUM_PLANS = 6
"""Plans that an unchanged log may need, until all of an input is known."""


class PlanAgainError(Exception):
    """The input is otherwise than planned, and that is known now. Never leaves the ingest."""


class LocalOnlyError(Exception):
    """Only one process can ingest this input. Its argument says why."""


def is_large(request: IngestRequest) -> bool:
    """Check whether the input is an archive that Spark reads sooner than this process."""
    source = request.source
    if not isinstance(source, ArchiveInput):
        return False
    return sum(obj.size_bytes for obj in source.objects) >= request.installation.settings.ingest.spark_from_bytes


def find_local_reason(request: IngestRequest, head: Head) -> str | None:
    """Return why this input has to be ingested by one process; None if Spark can do it."""
    source = request.source
    if isinstance(source, EpochInput):
        return "the offsets of an epoch are moved to where it is in the log"
    if not isinstance(source, ArchiveInput):
        return "files of Winnow's own layout are read in the order given"
    if source.archive.layout.fields is not None:
        return "columns that --map names are read by one process"
    if any(obj.offsets is Offsets.NONE for obj in source.objects):
        return "the records have no offsets"
    config = request.log.config(head)
    if head.state.quarantine_ingests or (config.compacts and config.keyless == "quarantine"):
        return "records without a key go to the quarantine"
    if head.state.erasures and not is_driver_here(request.installation.settings):
        return "the driver runs on the cluster, where it cannot read the secret that tells old copies of erased keys"
    return None


def append_on_spark(request: IngestRequest, head: Head, progress: Progress | None = None) -> IngestReport:
    """Append the records of an archive with Spark applications.

    Raises:
        BadInputError: a record is refused; nothing landed.
        LocalOnlyError: a record has no offset, or the topic has become one that one process ingests; nothing landed.
        ServiceError: Spark or the object store failed; nothing landed.
        CommitConflictError, CommitUnknownError: as :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    assert isinstance(request.source, ArchiveInput)
    knowledge = InputKnowledge(request.source)
    plans = moves = 0
    while plans < MAXIMUM_PLANS and moves < MAXIMUM_COMMIT_TRIES:
        try:
            return SparkIngest(request, head, knowledge=knowledge).run(progress)
        except PlanAgainError:
            plans += 1
        except LogMovedError:
            moves += 1
        head = request.log.newest_head()
        reason = find_local_reason(request, head)
        if reason is not None:
            raise LocalOnlyError(reason)
    if plans == MAXIMUM_PLANS:
        raise BadInputError(
            "The archive changed while it was read.",
            left=NOTHING_INGESTED,
            next="Run it again.",
        )
    raise CommitConflictError(
        f"The log of topic {request.log.topic} moved {moves} times while this call prepared its segments.",
        left="Nothing of it landed.",
        next="Run it again.",
    )


class SparkSegments(IngestCommit):
    """One try of a call whose segments a Spark application writes, against one head of the log."""

    def __init__(self, request: IngestRequest, head: Head) -> None:
        super().__init__(request, head)
        self.folder = locate_ingest_folder(head.location, self.ingest_id)

    def prepare_commit(self, plan: IngestPlan, result: IngestResult) -> None:
        """Fill in what the commit of ``result`` needs; :attr:`files` has the digests of its objects."""
        now_ms = self.installation.now_ms()
        arrived_ms = now_ms if now_ms < self.as_of_ms else None
        for partition, ranges in group_ranges(plan, result).items():
            skipped = sum(part.skipped for part in ranges)
            segments = tuple(segment for part in ranges for segment in part.segments)
            made = PartitionResult(
                self.head.state.partitions[partition],
                segments,
                skipped=skipped + sum(part.repeats for part in ranges),
                was_compared=skipped > 0,
            )
            if segments:
                numbers = sorted({number for part in ranges for number in part.appended_objects})
                digest = join_slice_digests([self.files[number].slices[partition] for number in numbers])
                first, last = segments[0].first_offset, segments[-1].last_offset
                appended = Append(digest, first, last, made.records, self.as_of_ms, arrived_ms)
                made = replace(made.extend(first, last + 1), slices=(appended,))
            self.results[partition] = made

    def count_erased(self, plan: IngestPlan, result: IngestResult) -> None:
        """Count the old copies of erased keys that tasks left out."""
        for part in result.ranges if self.erased is not None else ():
            assert self.erased is not None
            self.erased.counts[plan.ranges[part.number].partition] += sum(part.erased.values())

    def remove_others(self) -> None:
        """Remove plans, results and files of repeated tasks: after the commit nobody would. Other files stay.

        Raises:
            WinnowError: a segment is not there, or not as its task wrote it.
        """
        listed = {entry.uri: entry.size_bytes for entry in self._list_files()}
        segments = self.segments
        wrong = [segment.path for segment in segments if listed.get(segment.path) != segment.size_bytes]
        if wrong:
            raise WinnowError(
                f"{wrong[0]} is not the segment that a task wrote.",
                left=NOTHING_INGESTED,
                next="Run it again.",
            )
        for uri in listed.keys() - {segment.path for segment in segments}:
            storage.delete(uri, below=self.head.location)
        self._remove_empty_folders()

    def discard(self) -> None:
        """Remove what the applications of this try left; what cannot be removed is left for the sweep."""
        with contextlib.suppress(OSError, ServiceError):
            self.remove([entry.uri for entry in self._list_files()])
            self._remove_empty_folders()

    def _list_files(self) -> tuple[storage.FileEntry, ...]:
        """List what the application may have written, under the names that it gives."""
        return storage.list_named_files(
            self.head.location, name_ingest_folder(self.ingest_id), partial(is_ingest_file, quarantined=False)
        ).files

    def _remove_empty_folders(self) -> None:
        storage.remove_empty_folders(self.head.location, name_ingest_folder(self.ingest_id), is_task_folder)


class SparkIngest(SparkSegments):
    """One try of a call against one head of the log."""

    def __init__(self, request: IngestRequest, head: Head, *, knowledge: InputKnowledge) -> None:
        super().__init__(request, head)
        self.knowledge = knowledge

    def run(self, progress: Progress | None) -> IngestReport:
        """Plan, submit, check, commit, report; a failure before the commit leaves nothing that counts.

        Raises:
            PlanAgainError, LogMovedError: try again.
            ConfigurationError: the secret of the topic's erasures is missing, or it is another one.
        """
        self.erased = open_erased_records(self.installation, self.head, left=NOTHING_INGESTED)
        with self.row.renew_in_background(), self.restart_if_voided():
            self.row.open()
            try:
                self._make_segments(progress)
            except WinnowError as problem:
                # A sweep that took this call for dead may have deleted plans, results and segments.
                if not isinstance(problem, BadInputError) and self.row.is_voided(self.log.head().state):
                    raise LogMovedError from problem
                raise
            return self.commit_prepared(self.files, self.discard)

    def _make_segments(self, progress: Progress | None) -> None:
        """Plan, submit and check."""
        planner = IngestPlanner(
            self.head.state,
            self.head.location,
            self.knowledge,
            self.ingest_id,
            self.knowledge.source.source_topic,
            self.config.segment_bytes,
            needs_keys=self.config.compacts,
            erasures=plan_erasures(self.head),
        )
        survey = planner.make_survey()
        if survey is not None:
            self._learn(survey, self._submit(survey, None))
        plan = planner.make_plan(self.log.segments(self.head))
        result = self._submit(plan, progress)
        # The application has ended: what it left is known, and removed if it is of no use.
        try:
            self._judge(plan, result)
            self.prepare_commit(plan, result)
            self.remove_others()
        except BaseException:
            self.discard()
            raise

    def _submit(self, plan: IngestPlan, progress: Progress | None) -> IngestResult:
        secret = None
        if self.erased is not None:
            secret = load_secret(self.installation, self.head.state, left=NOTHING_INGESTED)
        result = submit_ingest_plan(self.installation, plan, progress, secret)
        try:
            check_result(plan, result)
            _raise_failure(plan, result.failures, self.knowledge)
        except BaseException:
            self.discard()
            raise
        return result

    def _learn(self, plan: IngestPlan, result: IngestResult) -> None:
        """Note what a survey found: the offsets of objects, and how fields are read."""
        opened = self.knowledge.source.open_pass(plan.partition_count)
        for part in result.ranges:
            self.knowledge.extents.update({fact.number: fact.extents for fact in part.findings.objects})
            opened.add_findings(restore_findings(part.findings))
        decided = opened.decide_readings()
        self.knowledge.readings.update({n: part for n, part in decided.items() if n in self.knowledge.readings})

    def _judge(self, plan: IngestPlan, result: IngestResult) -> None:
        """Check what only the whole input can tell.

        Raises:
            PlanAgainError: the input is otherwise than planned.
            BadInputError: a decision is missing, or a record is refused.
        """
        knowledge = self.knowledge
        source = knowledge.source
        source.readings.update({name: Reading(reading) for name, reading in plan.readings.items()})
        opened = source.open_pass(plan.partition_count)
        for part in result.ranges:
            opened.add_findings(restore_findings(part.findings))
        try:
            opened.finish()
        except ReadAgainError:
            knowledge.readings.update(source.readings)
            raise PlanAgainError from None
        decided = opened.decide_readings()
        for name in set(source.readings) - set(decided) - set(source.choices.encodings):
            del source.readings[name]
        source.readings.update(decided)
        extents = {fact.number: fact.extents for part in result.ranges for fact in part.findings.objects}
        if find_uncovered(plan.ranges, extents):
            knowledge.extents.update(extents)
            raise PlanAgainError
        self.files = list_result_files(plan, result)
        self.count_erased(plan, result)
        self.note_other_topics(opened.records_of)
        require_result_keys(self.head, plan, result)
        if not self.request.trust_compacted:
            require_known_absent(self.head.state, self.files, plan, result)


def _raise_failure(plan: IngestPlan, failures: Sequence[RangeFailure], knowledge: InputKnowledge) -> None:
    """Raise for the failures of an application: first for those that another plan mends, then the first of the input.

    Raises:
        PlanAgainError, LocalOnlyError, WinnowError: as :func:`append_on_spark`.
    """
    misread = {failure.misread_field for failure in failures if failure.misread_field is not None}
    if misread:
        knowledge.readings.update(dict.fromkeys(misread, Reading.TEXT))
        raise PlanAgainError
    if any(failure.lacks_offsets for failure in failures):
        raise LocalOnlyError("records have no offsets")
    raise_first_failure(failures)


def submit_ingest_plan(
    installation: Installation, plan: IngestPlan, progress: Progress | None, secret: bytes | None = None
) -> IngestResult:
    """Write ``plan``, run spark-submit for it, and read what its application reports.

    ``secret``: that of the erasures that the plan names.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        ServiceError: the application did not end as it should; nothing landed.
    """
    with contextlib.ExitStack() as stack:
        options: list[str] = []
        if secret is not None:
            options = stack.enter_context(open_secret_file(installation, secret))
        outcome = submit_ingest_plans(installation, [plan], progress, options)[plan.plan_id]
    if isinstance(outcome, WinnowError):
        raise outcome
    return outcome


def submit_ingest_plans(
    installation: Installation, plans: Sequence[IngestPlan], progress: Progress | None, options: Sequence[str] = ()
) -> dict[str, IngestResult | WinnowError]:
    """Write ``plans``, run one spark-submit for all of them, and read by plan id what its application reports.

    ``options``: further arguments of the program.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
    """
    references = []
    total_bytes = 0
    for plan in plans:
        uri, sha256 = write_ingest_plan(plan)
        units = build_units(uri, plan)
        size_bytes = sum(unit.size_bytes for unit in units)
        references.append(PlanReference(plan.topic, plan.plan_id, uri, len(units), size_bytes, None, sha256))
        total_bytes += size_bytes
    applications: dict[str, str] = {}
    read_bytes = read_records = 0

    def follow(event: dict[str, Any]) -> None:
        nonlocal read_bytes, read_records
        if event["event"] == "plan" and event.get("manifest"):
            applications[str(event["plan_id"])] = str(event["manifest"])
        if event["event"] == "range" and progress is not None:
            read_bytes += int(event["bytes"])
            read_records += int(event["records"])
            progress(min(read_bytes, total_bytes), total_bytes, read_records)

    arguments = [format_plan_argument(reference.uri, reference.sha256) for reference in references]
    job = [find_job_file(JOB_NAME), *build_engine_arguments(installation.settings), *options, *arguments]
    name = f"winnow ingest {plans[0].ingest_id}" if len(plans) == 1 else f"winnow ingest {len(plans)} topics"
    done = run_job(installation.settings, job, name=name, plans=references, progress=follow)
    return {plan.plan_id: _read_outcome(plan, done, applications.get(plan.plan_id)) for plan in plans}


def _read_outcome(plan: IngestPlan, done: JobOutcome, application: str | None) -> IngestResult | WinnowError:
    failure = done.failures.get(plan.plan_id)
    if failure is not None:
        return make_error(failure.exit_code, Explanation(failure.error, NOTHING_INGESTED, "Run it again."))
    if application is None or plan.plan_id not in done.digests:
        return ServiceError(
            "The Spark application of the ingest reported no result.",
            left=NOTHING_INGESTED,
            next="Run it again.",
        )
    try:
        return read_ingest_result(plan, application, done.digests[plan.plan_id])
    except WinnowError as problem:
        return problem


def make_spark_error(reason: str) -> WinnowError:
    """Make the error about an input that was to be ingested on Spark and cannot be."""
    return UsageError(
        f"This cannot be ingested on Spark: {reason}.",
        left=NOTHING_INGESTED,
        next="Leave --engine out.",
    )
