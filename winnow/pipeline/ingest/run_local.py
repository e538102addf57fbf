"""Ingests an input in this process: in one pass if it is in order, else by way of a spool.

In one pass records go into segments without a spool.

For input as sinks and dumps leave it: every record new, of a known partition, in offset order (or without offsets), and
with a key if the topic is compacted. At any other record it stops with :class:`NotStreamableError`; nothing refers to
what it wrote, and the call uses the spool, which handles every case.

Memory is bounded for any size of input: rows buffered for row groups, in total half of the budget (or one row group),
and a few batches of 16 MiB.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from winnow.arrivals.broker_range import KafkaInput
from winnow.arrivals.erased_records import ErasedRecords
from winnow.arrivals.read_range import OrderedWorker
from winnow.arrivals.spool import PartitionArrivals, Progress, Spool, SpooledFile, add_file_columns
from winnow.arrivals.write_range import (
    MAXIMUM_SLICE_ROWS,
    NO_PARTITION,
    PartitionAppender,
    PartitionResult,
    split_by_partition,
)
from winnow.errors import BadInputError, CommitConflictError
from winnow.files.parquet_writer import ROW_GROUP_BYTES
from winnow.log.head import Head
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES
from winnow.pipeline.erased_keys import has_same_erasures, open_erased_records
from winnow.pipeline.ingest.commit import IngestCommit
from winnow.pipeline.ingest.judge import check_order, check_overlap, require_keys, require_partitions
from winnow.pipeline.ingest.keyless import KeylessRecords
from winnow.pipeline.ingest.request import IngestReport, IngestRequest, LogMovedError
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.record_input import InputPass, ReadAgainError, RecordInput
from winnow.sources.slice_digests import SliceDigests
from winnow.values.topic_state import TopicState

MAXIMUM_OPEN_PARTITIONS = 128
"""Partitions written at a time; with more, row groups would be too small to read efficiently."""
MakeAppender = Callable[[int, Sequence[str]], PartitionAppender]
"""Makes the appender of a partition, given the paths of the input."""


class NotStreamableError(Exception):
    """The input has records that only the spool can handle. Never leaves the ingest."""


class StreamingAppender:
    """One pass over an input into segments.

    Args:
        state: the state of the log.
        make: makes the appender of a partition.
        held_bytes: maximum bytes buffered for row groups.
        needs_keys: whether a record without a key needs the spool.
        erased: what is left out of the input before it is written anywhere; None: no key was erased.
    """

    def __init__(
        self,
        state: TopicState,
        make: MakeAppender,
        *,
        held_bytes: int,
        needs_keys: bool,
        erased: ErasedRecords | None = None,
    ) -> None:
        self._state = state
        self._make = make
        self._held_bytes = max(held_bytes, ROW_GROUP_BYTES)
        self._needs_keys = needs_keys
        self._erased = erased
        self._open: dict[int, PartitionAppender] = {}
        self._closed: dict[int, PartitionAppender] = {}
        self._lacking: dict[int, bool] = {}
        self._paths: Sequence[str] = ()

    def read(self, source: RecordInput, opened: InputPass, progress: Progress | None = None) -> list[SpooledFile]:
        """Read the parts of ``source`` in order and write their records; ``progress`` is called after each batch.

        Raises:
            NotStreamableError: a record needs the spool.
            BadInputError: a part cannot be read or holds something that is not a record, or whether a record of an
                erased key is old cannot be told.
        """
        self._paths = source.names
        erased = self._erased
        if erased is not None:
            erased.restart()
        total_bytes = sum(source.measure(number) for number in range(len(source.names)))
        read_bytes = read_records = 0
        files: list[SpooledFile] = []
        with OrderedWorker() as hashing, OrderedWorker() as writing:
            for number, path in enumerate(source.names):
                digests = SliceDigests()
                records = lacking = 0
                for batch in opened.read(number):
                    sorted_batch = self._sort_by_partition(batch)
                    hashing.put(digests.update, sorted_batch)
                    kept = sorted_batch if erased is None else erased.remove(sorted_batch, path)
                    writing.put(self._write, add_file_columns(kept, number, 0))
                    records += kept.num_rows
                    lacking += batch.column("offset").null_count
                    read_records += batch.num_rows
                    if progress is not None:
                        progress(read_bytes, total_bytes, read_records)
                hashing.settle()
                files.append(
                    SpooledFile(number, path, digests.file_digest(), dict(digests.digests()), records, lacking > 0)
                )
                read_bytes += source.measure(number)
                if progress is not None:
                    progress(read_bytes, total_bytes, read_records)
            opened.finish()
            # Writing opens appenders: they are complete only when it has ended.
            writing.settle()
            for appender in self._open.values():
                writing.put(appender.close)
            writing.settle()
        return files

    def list_results(self, files: Sequence[SpooledFile]) -> dict[int, PartitionResult]:
        """Return what was written of ``files``, which :meth:`read` returned, by partition."""
        return {number: appender.make_result(files) for number, appender in sorted((self._closed | self._open).items())}

    def abandon(self) -> list[str]:
        """Stop and return all files written, which nothing refers to."""
        return [path for appender in (self._closed | self._open).values() for path in appender.abandon()]

    def _sort_by_partition(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Sort ``batch`` by partition, keeping the file's order within each."""
        partition = batch.column("partition")
        if partition.null_count or (self._needs_keys and batch.column("key").null_count):
            raise NotStreamableError
        numbers = partition.to_numpy()
        if (np.diff(numbers) < 0).any():
            return batch.take(pa.array(np.argsort(numbers, kind="stable")))
        return batch

    def _write(self, batch: pa.RecordBatch) -> None:
        for part in split_by_partition(batch):
            partition = part.column("partition")[0].as_py()
            offsets = part.column("offset")
            lacks = offsets.null_count > 0
            if offsets.null_count not in (0, len(offsets)) or self._lacking.setdefault(partition, lacks) is not lacks:
                raise NotStreamableError
            if not lacks and offsets[0].as_py() < self._state.partitions[partition].log_end_offset:
                raise NotStreamableError
            appender = self._get_appender(partition)
            try:
                for start in range(0, part.num_rows, MAXIMUM_SLICE_ROWS):
                    appender.add(part.slice(start, MAXIMUM_SLICE_ROWS))
            except BadInputError:
                # The spool reports the first fault of the input, which may be another record.
                raise NotStreamableError from None
        while sum(appender.held_bytes for appender in self._open.values()) > self._held_bytes:
            max(self._open.values(), key=lambda appender: appender.held_bytes).flush()

    def _get_appender(self, partition: int) -> PartitionAppender:
        appender = self._open.pop(partition, None)
        if appender is None:
            if partition in self._closed:
                raise NotStreamableError
            if len(self._open) >= MAXIMUM_OPEN_PARTITIONS:
                idle = next(iter(self._open))
                self._closed[idle] = self._open.pop(idle)
                self._closed[idle].close()
            appender = self._make(partition, self._paths)
        # Re-inserted last: the least recently written appender is closed first.
        self._open[partition] = appender
        return appender


MAXIMUM_BATCH_ROWS = 8_192


def append_records(request: IngestRequest, head: Head, progress: Progress | None = None) -> IngestReport:
    """Append the records of an input: in one pass if it is in order, else by way of a spool.

    Raises:
        BadInputError: a record is refused; nothing landed.
        CommitConflictError, CommitUnknownError: as :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    try:
        return _StreamingIngest(request, head).run(progress)
    except NotStreamableError:
        return _append_spooled(request, head, progress)
    except LogMovedError:
        return _append_spooled(request, request.prepare_head(request.log.newest_head()), progress)


def _append_spooled(request: IngestRequest, head: Head, progress: Progress | None) -> IngestReport:
    """Append by way of a spool; ``head``: for whose erasures the input is read first."""
    log = request.log
    tries = 0
    while tries < MAXIMUM_COMMIT_TRIES:
        erased = open_erased(request, head)
        with Spool(log.topic, log.partitions(head), request.installation.budget, request.source, erased) as spool:
            spool.read(progress)
            while tries < MAXIMUM_COMMIT_TRIES:
                tries += 1
                newest = request.prepare_head(log.newest_head())
                if not has_same_erasures(newest.state, head.state):
                    head = newest  # the spool may have records of keys that were erased since: read again without them
                    break
                with contextlib.suppress(LogMovedError):
                    return _SpooledIngest(request, newest, spool).run()
    raise CommitConflictError(
        f"The log of topic {log.topic} moved {MAXIMUM_COMMIT_TRIES} times while this call prepared its segments.",
        left="Nothing of it landed.",
        next="Run it again.",
    )


def open_erased(request: IngestRequest, head: Head) -> ErasedRecords | None:
    """Open what is left out of the input of ``request`` over ``head``; None: no key was erased.

    Raises as :func:`winnow.pipeline.erased_keys.open_erased_records`.
    """
    erased = open_erased_records(request.installation, head, left=NOTHING_INGESTED)
    if erased is not None and isinstance(request.source, KafkaInput):
        erased.needs_timestamps = True  # a topic at brokers may be another life than what the log holds
    return erased


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
        self.erased = open_erased(self.request, self.head)
        opened = self.request.source.open_pass(len(self.head.state.partitions))
        appender = StreamingAppender(
            self.head.state,
            self.open_appender,
            held_bytes=self.installation.budget.memory_limit_bytes // 2,
            needs_keys=self.config.compacts,
            erased=self.erased,
        )
        try:
            self.files = self._read(appender, opened, progress)
            self.results = appender.list_results(self.files)
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
        self.erased = spool.erased
        self._appender: PartitionAppender | None = None
        self._count_skipped(spool.repeats)
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
            f"SELECT coalesce(partition, {NO_PARTITION}), count(*) FROM spool WHERE file = {file.number} GROUP BY 1"
        ).fetchall()
        self._count_skipped(dict(rows))

    def _count_skipped(self, counts: Mapping[int, int]) -> None:
        for partition, count in counts.items():
            result = self.results.get(partition, PartitionResult())
            self.results[partition] = replace(result, skipped=result.skipped + count)

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
        quarantine = self.installation.log.quarantine(self.log.topic, self.head)
        for arrival in overlapping:
            check_overlap(
                self.spool,
                self.head,
                arrival.partition,
                segments.get(arrival.partition, ()),
                quarantine,
                [file.number for file in taken],
                trust_compacted=self.request.trust_compacted,
                erased=self.erased,
            )

    # -------------------------------------------------------------- segments

    def _write(self, arrivals: Sequence[PartitionArrivals], taken: Sequence[SpooledFile]) -> None:
        for arrival in arrivals:
            result = self.results.get(arrival.partition, PartitionResult())
            self.results[arrival.partition] = replace(result, base=self.head.state.partitions[arrival.partition])
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
            keyless = KeylessRecords(self.spool, self.head.state, taken, self.ingest_id)
            keyless.add_to(self.results)
            if self.quarantined:
                self.row.open()
                keyless.write(self.installation.log.quarantine(self.log.topic, self.head))

    def _finish(self) -> None:
        if self._appender is not None:
            self._appender.close()
            made = self._appender.make_result(self.files)
            skipped = made.skipped + self.results[self._appender.partition].skipped
            self.results[self._appender.partition] = replace(made, skipped=skipped)

    def _discard(self) -> None:
        unfinished = [] if self._appender is None else self._appender.abandon()
        self.remove([*(segment.path for segment in self.segments), *unfinished])
