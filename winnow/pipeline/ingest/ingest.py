"""Ingests files into a topic: one call, one commit, and no offset twice.

Input as sinks leave it is streamed into segments in one pass (:mod:`winnow.pipeline.ingest.run_local`). Other input is
read once into a local spool from which segments are made; so is all input if another commit changes the log meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.arrivals.spool import Progress
from winnow.clock import format_ms
from winnow.errors import BadInputError
from winnow.log.head import Head
from winnow.pipeline.ingest.epoch_input import EpochInput, choose_epoch
from winnow.pipeline.ingest.open import InputPaths, open_input, open_log, require_topic_name
from winnow.pipeline.ingest.request import IngestReport, IngestRequest
from winnow.pipeline.ingest.run_local import append_records
from winnow.pipeline.ingest.run_spark import (
    LOCAL,
    SPARK,
    LocalOnlyError,
    append_on_spark,
    find_local_reason,
    is_large,
    make_spark_error,
)
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.report.events import log_event
from winnow.sources.choices import Choices
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.layouts.all_layouts import AUTO
from winnow.sources.topic_filter import OtherTopicError
from winnow.sources.topic_survey import survey_topics
from winnow.store.audit import AuditAction


def ingest_files(
    installation: Installation,
    topic: str,
    paths: Sequence[str] | InputPaths,
    *,
    as_of_ms: int,
    again: bool = False,
    trust_compacted: bool = False,
    source_topic: str | None = None,
    layout: str = AUTO,
    choices: Choices | None = None,
    on: str | None = None,
    epoch: str | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Append the records of ``paths`` to ``topic``: of Winnow's own layout in the order given, of others by offset.

    Args:
        installation: the installation.
        topic: an existing topic.
        paths: files, folders with all below them, globs; local paths or URIs, perhaps listed already.
        as_of_ms: recorded with the append; replaces missing timestamps of records.
        again: append files without offsets once more, although they were ingested before.
        trust_compacted: treat missing offsets below the first dirty one as compacted away in the source.
        source_topic: select the records that name this topic and leave out those that name another one; None: a record
            that names another topic than ``topic`` is an error.
        layout: the name of a layout (:mod:`winnow.sources.layouts.all_layouts`), or ``auto`` to find it by looking.
        choices: what the user decided about what the archive cannot tell; what is not decided is as in the last call
            for this topic and layout.
        on: ``local`` or ``spark``, where the records are read; None: by the size of the input.
        epoch: the number of the epoch that offsets in the files are of, or ``log``: they are those of the log; None:
            the log has one epoch, or the files tell their topic id.
        progress: called as :data:`winnow.arrivals.spool.Progress` says.

    Raises:
        UsageError: ``source_topic`` cannot be the name of a topic, or there is no such layout.
        BadInputError: bad input, records of other topics, or unknown topic; nothing landed.
    """
    started_ms = installation.now_ms()
    require_topic_name(source_topic)
    log, head = open_log(installation, topic)
    listed = paths if isinstance(paths, InputPaths) else InputPaths(paths)
    decided = choices or Choices()
    opened = open_input(head.state, listed, layout=layout, choices=decided, source_topic=source_topic)
    number = choose_epoch(head.state, epoch, opened.topic_id)
    source = opened.source if number is None else EpochInput(opened.source, topic, head.state.epochs, number)
    request = IngestRequest(installation, log, source, opened, head, as_of_ms, again, trust_compacted)
    try:
        done = _append_by_size(request, head, on, progress)
    except OtherTopicError as problem:
        raise build_other_topics_error(problem, topic, opened.source.names) from None
    return finish_ingest(installation, done, opened.list_notices(), as_of_ms=as_of_ms, started_ms=started_ms)


def finish_ingest(
    installation: Installation, done: IngestReport, notices: Sequence[str], *, as_of_ms: int, started_ms: int
) -> IngestReport:
    """Log the event of a call, record it in the audit log if it committed something, and return its report ``done``.

    ``notices``: they come before its own.
    """
    found = [*notices, *done.notices]
    if installation.is_simulated(as_of_ms) and done.snapshot_id is not None:
        found.append(
            f"The as-of {format_ms(as_of_ms)} of this append lies ahead of the present: records without a timestamp "
            "count as that recent, so they are compacted and retired later, never earlier."
        )
    log_event(
        "ingested",
        done.topic,
        files=done.files,
        layout=done.layout,
        records_appended=done.records_appended,
        records_skipped=done.records_skipped,
        records_quarantined=done.records_quarantined,
        records_left_out=done.records_left_out,
        records_erased=done.records_erased,
        snapshot_id=None if done.snapshot_id is None else str(done.snapshot_id),
        duration_ms=installation.now_ms() - started_ms,
    )
    if done.snapshot_id is not None:
        detail = f"{done.ingest_id}: {done.records_appended:,} records appended, layout {done.layout}"
        record_action(installation, AuditAction.INGEST, done.topic, detail=detail)
    return replace(done, notices=tuple(found))


def _append_by_size(request: IngestRequest, head: Head, on: str | None, progress: Progress | None) -> IngestReport:
    """Append the records of an input on Spark if it is large or if ``on`` says so, else in this process."""
    if on == LOCAL or not request.source.names or (on is None and not is_large(request)):
        return append_records(request, head, progress)
    reason = find_local_reason(request, head)
    if reason is None:
        try:
            return append_on_spark(request, head, progress)
        except LocalOnlyError as problem:
            reason = str(problem)
            head = request.prepare_head(request.log.newest_head())
    if on == SPARK:
        raise make_spark_error(reason)
    done = append_records(request, head, progress)
    return replace(done, notices=(*done.notices, f"Read in one process and not on Spark, because {reason}."))


def build_other_topics_error(problem: OtherTopicError, topic: str, files: Sequence[str]) -> BadInputError:
    """Make the error about input with records of another topic: which topics, in which files, and what to type."""
    survey = survey_topics(files, problem.path, problem.found)
    return BadInputError(
        f"{problem.clause}. Found in the input: {survey.describe()}.",
        NOTHING_INGESTED,
        f"Name files of topic {topic} alone; or say whose records to take, and those of other topics are left out: "
        f"winnow ingest files {topic} PATH... --source-topic NAME",
    )
