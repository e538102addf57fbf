"""Ingests files into a topic: one call, one commit, and no offset twice.

Input as sinks leave it is streamed into segments in one pass (:mod:`winnow.pipeline.ingest.stream`). Other input is
read once into a local spool from which segments are made; so is all input if another commit changes the log meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from winnow.clock import format_ms
from winnow.config.names import is_topic_name
from winnow.errors import BadInputError, CommitConflictError, UnknownTopicError, UsageError
from winnow.log.head import Head
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES
from winnow.pipeline.context import Context
from winnow.pipeline.ingest.append import PartitionAppender, split_by_partition
from winnow.pipeline.ingest.commit import IngestCommit, IngestReport, IngestRequest, LogMovedError
from winnow.pipeline.ingest.epoch_input import EpochInput, choose_epoch
from winnow.pipeline.ingest.keyless import KeylessRecords, check_order, require_keys, require_partitions
from winnow.pipeline.ingest.open_input import TOPIC_ID, open_input
from winnow.pipeline.ingest.overlap import check_overlap
from winnow.pipeline.ingest.spark_ingest import (
    LOCAL,
    SPARK,
    LocalOnlyError,
    append_on_spark,
    find_local_reason,
    is_large,
    make_spark_error,
)
from winnow.pipeline.ingest.spool import PartitionArrivals, Progress, Spool, SpooledFile
from winnow.pipeline.ingest.stream import NotStreamableError, StreamingAppender
from winnow.pipeline.topics.audit import record_action
from winnow.report.events import log_event
from winnow.sources.archive import Archive
from winnow.sources.choices import Choices
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.layouts.all_layouts import AUTO
from winnow.sources.record_input import InputPass, ReadAgainError
from winnow.sources.topic_filter import OtherTopicError
from winnow.sources.topic_survey import survey_topics
from winnow.store.audit import AuditAction

MAXIMUM_BATCH_ROWS = 8_192


def ingest_files(
    ctx: Context,
    topic: str,
    paths: Sequence[str],
    *,
    as_of_ms: int,
    again: bool = False,
    trust_compacted: bool = False,
    source_topic: str | None = None,
    layout: str = AUTO,
    choices: Choices | None = None,
    on: str | None = None,
    epoch: str | None = None,
    archive: Archive | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Append the records of ``paths`` to ``topic``: of Winnow's own layout in the order given, of others by offset.

    Args:
        ctx: the installation.
        topic: an existing topic.
        paths: files, folders with all below them, globs; local paths or URIs.
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
        archive: what ``paths`` hold, if they were listed before, for another topic of theirs.
        progress: called as :data:`winnow.pipeline.ingest.spool.Progress` says.

    Raises:
        UsageError: ``source_topic`` cannot be the name of a topic, or there is no such layout.
        BadInputError: bad input, records of other topics, or unknown topic; nothing landed.
    """
    started_ms = ctx.now_ms()
    if source_topic is not None and not is_topic_name(source_topic):
        raise UsageError(
            "--source-topic names no topic that Kafka could have.",
            left=NOTHING_INGESTED,
        )
    log = ctx.log.open(topic)
    try:
        head = log.newest_head()
    except UnknownTopicError as problem:
        raise BadInputError(
            f"{problem}.",
            left="Nothing of this call landed.",
        ) from problem
    opened = open_input(
        head.state, paths, layout=layout, choices=choices or Choices(), source_topic=source_topic, archive=archive
    )
    number = choose_epoch(head.state, epoch, opened.describe().choices.get(TOPIC_ID))
    source = opened.source if number is None else EpochInput(opened.source, topic, head.state.epochs, number)
    request = IngestRequest(ctx, log, source, as_of_ms, again, trust_compacted, opened.describe, head)
    try:
        done = _append_by_size(request, head, on, progress)
    except OtherTopicError as problem:
        raise build_other_topics_error(problem, topic, opened.source.names) from None
    return finish_ingest(ctx, done, opened.list_notices(), as_of_ms=as_of_ms, started_ms=started_ms)


def finish_ingest(
    ctx: Context, done: IngestReport, notices: Sequence[str], *, as_of_ms: int, started_ms: int
) -> IngestReport:
    """Log the event of a call, record it in the audit log if it committed something, and return its report ``done``.

    ``notices``: they come before its own.
    """
    found = [*notices, *done.notices]
    if ctx.is_simulated(as_of_ms) and done.snapshot_id is not None:
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
        snapshot_id=None if done.snapshot_id is None else str(done.snapshot_id),
        duration_ms=ctx.now_ms() - started_ms,
    )
    if done.snapshot_id is not None:
        detail = f"{done.ingest_id}: {done.records_appended:,} records appended, layout {done.layout}"
        record_action(ctx, AuditAction.INGEST, done.topic, detail=detail)
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
    if on == SPARK:
        raise make_spark_error(reason)
    done = append_records(request, head, progress)
    return replace(done, notices=(*done.notices, f"Read in one process and not on Spark, because {reason}."))


def append_records(request: IngestRequest, head: Head, progress: Progress | None = None) -> IngestReport:
    """Append the records of an input: in one pass if it is in order, else by way of a spool.

    Raises:
        BadInputError: a record is refused; nothing landed.
        CommitConflictError, CommitUnknownError: as :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    try:
        return _StreamingIngest(request, head).run(progress)
    except (NotStreamableError, LogMovedError):
        return _append_spooled(request, head, progress)


def build_other_topics_error(problem: OtherTopicError, topic: str, files: Sequence[str]) -> BadInputError:
    """Make the error about input with records of another topic: which topics, in which files, and what to type."""
    survey = survey_topics(files, problem.path, problem.found)
    return BadInputError(
        f"{problem.clause}. Found in the input: {survey.describe()}.",
        NOTHING_INGESTED,
        f"Name files of topic {topic} alone; or say whose records to take, and those of other topics are left out: "
        f"winnow ingest files {topic} PATH... --source-topic NAME",
    )


def _append_spooled(request: IngestRequest, head: Head, progress: Progress | None) -> IngestReport:
    log = request.log
    with Spool(log.topic, log.partitions(head), request.ctx.budget, request.source) as spool:
        spool.read(progress)
        for _ in range(MAXIMUM_COMMIT_TRIES):
            with contextlib.suppress(LogMovedError):
                return _SpooledIngest(request, request.prepare_head(log.newest_head()), spool).run()
    raise CommitConflictError(
        f"The log of topic {log.topic} moved {MAXIMUM_COMMIT_TRIES} times while this call prepared its segments.",
        left="Nothing of it landed.",
        next="Run it again.",
    )


class _StreamingIngest(IngestCommit):
    """The first try, without a spool."""

    def run(self, progress: Progress | None) -> IngestReport:
        """Read, write, commit and report; a failure before the commit leaves nothing.

        Raises:
            NotStreamableError: the input needs the spool.
        """
        with self.row.renew_in_background(), self.restart_if_voided():
            return self._run(progress)

    def _run(self, progress: Progress | None) -> IngestReport:
        opened = self.request.source.open_pass(len(self.head.state.partitions))
        appender = StreamingAppender(
            self.head.state,
            self.prepared,
            self.open_appender,
            held_bytes=self.ctx.budget.memory_limit_bytes // 2,
            needs_keys=self.config.compacts,
        )
        try:
            self.files = self._read(appender, opened, progress)
            self.note_other_topics(opened.records_of)
            self._reject_known_files()
            for file in self.files:
                self.note_extra_columns(file)
        except BaseException:
            self.remove(appender.abandon())
            raise
        return self.commit_prepared(self.files, lambda: self.remove(appender.abandon()))

    def _read(self, appender: StreamingAppender, opened: InputPass, progress: Progress | None) -> list[SpooledFile]:
        try:
            return appender.read(self.request.source, opened, progress)
        except ReadAgainError:
            raise NotStreamableError from None

    def _reject_known_files(self) -> None:
        """Raise for a file without offsets that was ingested before, or appears twice: the spool skips those."""
        lacking = [file.digest for file in self.files if file.lacks_offsets]
        known = self.head.state.file_digests
        if not self.again and (len(set(lacking)) < len(lacking) or any(digest in known for digest in lacking)):
            raise NotStreamableError


class _SpooledIngest(IngestCommit):
    """One try of a spooled call against one head of the log."""

    def __init__(self, request: IngestRequest, head: Head, spool: Spool) -> None:
        super().__init__(request, head, spool.files)
        self.spool = spool
        self._appender: PartitionAppender | None = None
        self.prepared.skipped.update(spool.repeats)
        self.quarantines = self.config.compacts and self.config.keyless == "quarantine"

    def run(self) -> IngestReport:
        """Check, write, commit, report."""
        with self.row.renew_in_background(), self.restart_if_voided():
            return self._run()

    def _run(self) -> IngestReport:
        self.note_other_topics(self.spool.records_of)
        taken = self._select_files()
        arrivals = self.spool.list_arrivals([file.number for file in taken])
        if self.config.compacts and not self.quarantines:
            require_keys(self.log.topic, self.spool, taken, self.head)
        if self.quarantines:
            check_order(self.spool, taken)
        else:
            require_partitions(self.log.topic, self.spool, taken)
        self._check_overlaps(arrivals, taken)
        try:
            self._write(arrivals, taken)
        except BaseException:
            self._discard()
            raise
        return self.commit_prepared(taken, self._discard)

    # -------------------------------------------------------------- which files

    def _select_files(self) -> list[SpooledFile]:
        """Return the files of this call that are not already known as a whole."""
        taken: list[SpooledFile] = []
        seen: set[str] = set()
        for file in self.files:
            self.note_extra_columns(file)
            known = file.lacks_offsets and file.digest in self.head.state.file_digests
            if file.records and not (self.again and file.lacks_offsets) and (known or file.digest in seen):
                why = "was ingested before" if known else "is in this call twice"
                self.notices.append(
                    f"{file.path}: skipped, its content {why}."
                    + (" To append it again, add --allow-duplicates." if file.lacks_offsets else "")
                )
                self._skip_file(file)
                continue
            seen.add(file.digest)
            taken.append(file)
        return taken

    def _skip_file(self, file: SpooledFile) -> None:
        rows = self.spool.connection.execute(
            f"SELECT coalesce(partition, -1), count(*) FROM spool WHERE file = {file.number} GROUP BY 1"
        ).fetchall()
        for partition, count in rows:
            self.prepared.skipped[partition] = self.prepared.skipped.get(partition, 0) + count

    # -------------------------------------------------------------- checks

    def _check_overlaps(self, arrivals: Sequence[PartitionArrivals], taken: Sequence[SpooledFile]) -> None:
        overlapping = [
            arrival
            for arrival in arrivals
            if arrival.min_offset is not None
            and arrival.min_offset < self.head.state.partitions[arrival.partition].log_end_offset
        ]
        if not overlapping:
            return
        segments = self.log.segments(self.head)
        quarantine = self.ctx.log.quarantine(self.log.topic, self.head)
        for arrival in overlapping:
            check_overlap(
                self.spool,
                self.head,
                arrival.partition,
                segments.get(arrival.partition, ()),
                quarantine,
                [file.number for file in taken],
                trust_compacted=self.request.trust_compacted,
            )

    # -------------------------------------------------------------- segments

    def _write(self, arrivals: Sequence[PartitionArrivals], taken: Sequence[SpooledFile]) -> None:
        for arrival in arrivals:
            state = self.head.state.partitions[arrival.partition]
            self.prepared.base[arrival.partition] = state
            self.prepared.log_end[arrival.partition] = state.log_end_offset
        paths = [file.path for file in self.files]
        condition = "partition IS NOT NULL" + (" AND key IS NOT NULL" if self.quarantines else "")
        for batch in self.spool.stream(condition, [file.number for file in taken], MAXIMUM_BATCH_ROWS):
            for part in split_by_partition(batch):
                partition = part.column("partition")[0].as_py()
                if self._appender is None or self._appender.partition != partition:
                    self._finish()
                    self._appender = self.open_appender(partition, paths)
                self._appender.add(part)
        self._finish()
        if self.quarantines:
            keyless = KeylessRecords(self.spool, self.head.state, taken, self.prepared)
            keyless.skip_known()
            keyless.count()
            if self.prepared.quarantined:
                self.row.open()
                keyless.write(self.ctx.log.quarantine(self.log.topic, self.head))

    def _finish(self) -> None:
        if self._appender is not None:
            self._appender.close()
            self._appender.note(self.files)

    def _discard(self) -> None:
        paths = [segment.path for found in self.prepared.segments.values() for segment in found]
        self.remove([*paths, *(self._appender.abandon() if self._appender is not None else [])])
