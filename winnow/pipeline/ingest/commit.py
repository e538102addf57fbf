"""Commits the segments of one ingest call and reports what it appended."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from winnow.arrivals.spool import SpooledFile
from winnow.arrivals.write_range import PartitionAppender, PreparedSegments
from winnow.config.topic import TopicConfig
from winnow.errors import (
    BadInputError,
    CommitConflictError,
    DeletedTopicError,
    OutdatedHeadError,
    ServiceError,
    WinnowError,
    say_left,
)
from winnow.files import storage
from winnow.log.head import Change, Head
from winnow.log.reference_chains import count_receipts, has_same_ingests, list_seen_digests, write_ledger
from winnow.pipeline.context import Context
from winnow.pipeline.ingest.history import check_same_log, keep_offsets
from winnow.pipeline.ingest.request import IngestReport, IngestRequest, LogMovedError, PartitionIngest
from winnow.pipeline.topics.leases import renew_in_background
from winnow.pipeline.topics.overview import refresh_after_append
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.layouts.winnow.parquet import list_extra_columns
from winnow.sources.topic_filter import TopicFilter
from winnow.store import OpenIngest
from winnow.values.model import (
    Append,
    IngestLedger,
    PartitionState,
    Segment,
    TopicState,
)


def build_report(
    topic: str,
    snapshot_id: int | None,
    prepared: PreparedSegments,
    *,
    states: Mapping[int, PartitionState],
    files: int,
    notices: Sequence[str],
    records_of: TopicFilter | None = None,
    layout: str = "winnow",
    ingest_id: str | None = None,
) -> IngestReport:
    """Build the report of a call that committed ``prepared`` over partitions in ``states``, or nothing."""
    numbers = prepared.partitions
    partitions = tuple(
        PartitionIngest(
            partition=number,
            first_offset=prepared.segments[number][0].first_offset if prepared.segments.get(number) else None,
            log_end_offset=prepared.log_end.get(number, states[number].log_end_offset),
            records_appended=prepared.appended.get(number, 0),
            records_skipped=prepared.skipped.get(number, 0),
            records_quarantined=prepared.quarantined.get(number, 0),
        )
        for number in numbers
    )
    return IngestReport(
        topic=topic,
        snapshot_id=snapshot_id,
        files=files,
        records_appended=sum(prepared.appended.values()),
        records_skipped=sum(prepared.skipped.values()),
        records_quarantined=sum(prepared.quarantined.values()),
        partitions=partitions,
        notices=tuple(notices),
        records_left_out=0 if records_of is None else records_of.records_left_out,
        source_topic=None if records_of is None else records_of.source_topic,
        layout=layout,
        ingest_id=ingest_id,
    )


class IngestHeartbeat:
    """Marks an ingest call as running, so that a sweep neither deletes its files nor voids it.

    The row decides nothing: whether the call may commit depends on the topic's state (:meth:`is_voided`).

    Args:
        ctx: the installation.
        topic: the topic that the call appends to.
        ingest_id: the call's id.
        least_number: as :meth:`winnow.store.ingests.Ingests.open`.
    """

    def __init__(self, ctx: Context, topic: str, ingest_id: str, *, least_number: int) -> None:
        self._ctx = ctx
        self._topic = topic
        self._ingest_id = ingest_id
        self._least_number = least_number
        self._opened: OpenIngest | None = None

    def open(self) -> None:
        """Write the row, if there is none. Call it before the first file.

        Raises:
            ServiceError: the metadata store cannot be reached.
        """
        if self._opened is None:
            ctx = self._ctx
            self._opened = ctx.store.ingests.open(
                self._ingest_id,
                self._topic,
                least_number=self._least_number,
                holder=ctx.holder,
                now_ms=ctx.now_ms(),
            )

    def is_voided(self, state: TopicState) -> bool:
        """Check whether a commit has voided the call, which must have written files for that."""
        return self._opened is not None and state.is_voided(self._ingest_id, self._opened.number)

    def close(self) -> None:
        """Remove the row, once the call is committed or its files are gone. If that fails, the sweep does it."""
        if self._opened is not None:
            with contextlib.suppress(WinnowError):
                self._ctx.store.ingests.close([self._ingest_id])

    def renew_in_background(self) -> AbstractContextManager[None]:
        """Mark the call as running in the background, until the block ends."""
        return renew_in_background(self._ctx, self._renew, name="ingest row")

    def _renew(self) -> None:
        if self._opened is not None:
            with contextlib.suppress(Exception):  # a sweep that takes the call for dead costs work, no data
                self._ctx.store.ingests.renew(self._ingest_id, self._ctx.now_ms())


@dataclass
class IngestCommit:
    """Segments prepared for one head, until they are committed. ``files``: all of the input, also skipped ones."""

    request: IngestRequest
    head: Head
    files: list[SpooledFile] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    records_of: TopicFilter | None = None
    prepared: PreparedSegments = field(default_factory=lambda: PreparedSegments(ingest_id=uuid.uuid4().hex))

    def __post_init__(self) -> None:
        self.ctx = self.request.ctx
        self.log = self.request.log
        self.as_of_ms = self.request.as_of_ms
        self.again = self.request.again
        self.config: TopicConfig = self.log.config(self.head)
        self.kept: list[Segment] = []
        self.row = IngestHeartbeat(
            self.ctx, self.log.topic, self.prepared.ingest_id, least_number=self.head.state.first_valid_ingest
        )

    def open_appender(self, partition: int, paths: Sequence[str]) -> PartitionAppender:
        """Open the appender of ``partition``; ``paths``: the input files, by number."""
        self.row.open()
        return PartitionAppender(
            partition,
            self.head.state.partitions[partition],
            paths,
            self.prepared,
            location=self.head.location,
            segment_bytes=self.config.segment_bytes,
            as_of_ms=self.as_of_ms,
            now_ms=self.ctx.now_ms(),
            joins_slices=not self.request.source.is_ordered,
        )

    def note_extra_columns(self, file: SpooledFile) -> None:
        """Add a notice about columns of ``file`` that records do not use."""
        is_own = self.request.source.is_ordered and file.path.endswith(".parquet")
        extra = list_extra_columns(file.path) if is_own else []
        if extra:
            self.notices.append(f"{file.path}: columns that are not Kafka's were left out: {', '.join(extra)}.")

    def note_other_topics(self, records_of: TopicFilter) -> None:
        """Add a notice about records of other topics that were left out.

        Raises:
            BadInputError: records were left out, and not one is of the topic that was chosen.
        """
        self.records_of = records_of
        left_out = records_of.records_left_out
        if not left_out:
            return
        wanted = records_of.wanted
        others = ", ".join(f"{name} ({count:,})" for name, count in records_of.left_out.items())
        if not self.request.continues and not any(file.records for file in self.files):
            raise BadInputError(
                f"No record of topic {wanted} is in the input: its {left_out:,} records are of other topics: {others}.",
                left=NOTHING_INGESTED,
                next="Name one of those with --source-topic, or name other files.",
            )
        self.notices.append(
            f"Records of other topics than {wanted} were left out: {left_out:,} in all, by topic {others}."
        )

    def commit_prepared(self, taken: Sequence[SpooledFile], discard: Callable[[], None]) -> IngestReport:
        """Commit what is prepared of the files ``taken``; ``discard`` removes what was written for it.

        Raises:
            LogMovedError: another commit came first; nothing landed.
            WinnowError: a record would be lost; nothing landed.
            CommitConflictError, CommitUnknownError: as :meth:`winnow.log.topic_log.TopicLog.commit`.
        """
        self._note_known_slices(taken)
        self._check_counts(discard)
        self._require_offsets(taken, discard)
        self._note_offsets_read()
        if self.prepared.is_empty and self.request.continues is None:
            return self._report(None)
        try:
            self._write_kept()
            written = [segment for found in self.prepared.segments.values() for segment in found]
            storage.sync(segment.path for segment in [*written, *self.kept])
            committed = self.log.commit(lambda head: self._build_change(head, taken))
        except (LogMovedError, BadInputError, CommitConflictError, DeletedTopicError):
            # Only where certainly nothing refers to these files; after any other error they stay.
            if self.kept:
                self.remove([segment.path for segment in self.kept])
            discard()
            raise
        with say_left("The records of this call are in the log, and do not land twice."):
            self.row.close()
            refresh_after_append(self.ctx, self.log.topic, committed.head, self.prepared.list_appended(committed.state))
            return self._report(committed.snapshot_id)

    @contextlib.contextmanager
    def restart_if_voided(self) -> Iterator[None]:
        """Turn a missing file into :class:`LogMovedError` if a sweep has voided this call and deleted it.

        So does an older head whose files are gone: the next try begins with the newest.
        """
        try:
            yield
        except OutdatedHeadError as problem:
            raise LogMovedError from problem
        except OSError as problem:
            if self.row.is_voided(self.log.head().state):
                raise LogMovedError from problem
            raise

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files that were written for this call and that nothing refers to.

        What cannot be removed is left for the sweep, and so are files that the quarantine has adopted.
        """
        removed = remove_files(
            [*paths, *self.head.documents.locate_ledger(self.prepared.ingest_id)],
            below=(self.head.location, self.head.copies),
        )
        if removed and not self.prepared.quarantined:
            self.row.close()

    def _note_known_slices(self, taken: Sequence[SpooledFile]) -> None:
        """Record slices that add nothing and are not known yet.

        Once a compaction has removed their records, only the ledger can tell that they were there. A slice is noted
        once, so repeating the call commits nothing.
        """
        state = self.head.state
        noted = {p: {entry.digest for entry in entries} for p, entries in self.prepared.slices.items()}
        for partition in sorted(self.prepared.base):
            digests = {file.slices[partition] for file in taken if partition in file.slices and not file.lacks_offsets}
            unknown = digests - noted.get(partition, set())
            unknown -= {entry.digest for entry in state.partitions[partition].appends}
            if unknown and (self.request.source.is_ordered or not self.prepared.adds_records):
                unknown -= list_seen_digests(state, partition)
            if unknown:
                # An empty range: the ledger names the slice without claiming offsets for it.
                end = state.partitions[partition].log_end_offset
                self.prepared.recognised[partition] = [
                    Append(digest, end, end - 1, 0, self.as_of_ms) for digest in sorted(unknown)
                ]

    def _require_offsets(self, taken: Sequence[SpooledFile], discard: Callable[[], None]) -> None:
        """Refuse records that would be given offsets where the offsets of the log are those of brokers."""
        lacking = next((file.path for file in taken if file.lacks_offsets and file.records), None)
        if lacking is not None and self.head.state.epochs:
            discard()
            raise BadInputError(
                f"{lacking} has records without an offset, but the log of topic {self.log.topic} is read from Kafka, "
                "whose offsets it has.",
                left=NOTHING_INGESTED,
                next="Ingest them into another topic.",
            )

    def _note_offsets_read(self) -> None:
        prepared = self.prepared
        for partition, read in self.request.offsets_read.items():
            state = self.head.state.partitions[partition]
            prepared.base.setdefault(partition, state)
            prepared.log_end[partition] = max(prepared.log_end.get(partition, state.log_end_offset), read.end)
            prepared.lowest[partition] = min(prepared.lowest.get(partition, read.start), read.start)

    def _write_kept(self) -> None:
        """Write the records that stay of segments that are cut."""
        cut = self.request.cut
        if cut is not None and any(part.divided for part in cut.parts):
            self.row.open()
            self.kept = cut.write_kept(
                self.log.topic, self.head.location, self.prepared.ingest_id, self.config.segment_bytes
            )

    def _build_change(self, newest: Head, taken: Sequence[SpooledFile]) -> Change:
        if self.row.is_voided(newest.state):
            raise LogMovedError  # a sweep voided this call, and may have deleted its files
        head, cut = self.request.prepare_head(newest), self.request.cut
        self.request.check_position(head.state)
        for partition, base in self.prepared.base.items():
            if self.has_moved(partition, base, head.state.partitions[partition]):
                raise LogMovedError
        if self._is_known_meanwhile(head, taken):
            raise LogMovedError
        check_same_log(self.request.opened, head)
        if not self.prepared.adds_records and not has_same_ingests(head.state, self.head.state):
            raise LogMovedError  # another call may have ingested the same file
        described = self.request.describe()
        states = self._build_states(head.state)
        lacking = {file.digest: self.as_of_ms for file in taken if file.lacks_offsets}
        ledger = IngestLedger(
            ingest_id=self.prepared.ingest_id,
            topic=self.log.topic,
            slices={
                p: (*self.prepared.slices.get(p, ()), *self.prepared.recognised.get(p, ()))
                for p in sorted({*self.prepared.slices, *self.prepared.recognised})
            },
            layout=described.layout,
            choices=dict(described.choices),
            source_topic=described.source_topic,
            objects=described.objects,
            table=described.table,
            before=keep_offsets(head.state, states),
            partitions=tuple(self.prepared.partitions),
            receipts_before=count_receipts(head.state),
            file_digests={digest: head.state.file_digests.get(digest) for digest in lacking},
            files=len(self.files),
            records_skipped=sum(self.prepared.skipped.values()),
            records_quarantined=sum(self.prepared.quarantined.values()),
        )
        reference = write_ledger(head.documents, ledger, self.as_of_ms)
        state = replace(
            self.request.advance(head.state, self.prepared.ingest_id),
            partitions={**head.state.partitions, **states},
            ingests=(*head.state.ingests, reference),
            quarantine_ingests=(
                *head.state.quarantine_ingests,
                *([self.prepared.ingest_id] if self.prepared.quarantined else []),
            ),
            file_digests={**head.state.file_digests, **lacking},
        )
        added = [segment for found in self.prepared.segments.values() for segment in found]
        removed = [] if cut is None else cut.segments
        if cut is not None:
            retired = cut.retire_segments(self.prepared.ingest_id, self.ctx.now_ms())
            state = replace(state, retired=(*state.retired, *retired))
        return Change(
            state=state,
            add=[*self.kept, *added],
            remove=[segment.path for segment in removed],
            remove_from={segment.partition for segment in removed} or None,
            summary={
                "winnow.operation": "ingest",
                "winnow.ingest-id": self.prepared.ingest_id,
                "winnow.records": str(sum(segment.records for segment in added)),
            },
        )

    def has_moved(self, _partition: int, base: PartitionState, current: PartitionState) -> bool:
        """Check whether what was prepared for a partition in state ``base`` does not hold in state ``current``."""
        found = (current.log_end_offset, current.first_dirty_offset, current.log_start_offset)
        return found != (base.log_end_offset, base.first_dirty_offset, base.log_start_offset)

    def _is_known_meanwhile(self, head: Head, taken: Sequence[SpooledFile]) -> bool:
        """Check whether another call ingested one of the files without offsets since this try began."""
        before = self.head.state.file_digests
        return not self.again and any(
            file.lacks_offsets and file.digest in head.state.file_digests and file.digest not in before
            for file in taken
        )

    def _build_states(self, state: TopicState) -> dict[int, PartitionState]:
        changed: dict[int, PartitionState] = {}
        for partition, log_end in self.prepared.log_end.items():
            current = state.partitions[partition]
            if log_end == current.log_end_offset:
                continue
            starts_here = current.log_end_offset == 0
            lowest = self.prepared.lowest.get(partition, 0)
            changed[partition] = replace(
                current,
                log_start_offset=lowest if starts_here else current.log_start_offset,
                log_end_offset=log_end,
                appends=(*current.appends, *self.prepared.slices.get(partition, ())),
            )
        return changed

    def _check_counts(self, discard: Callable[[], None]) -> None:
        """Check that every record of the input is in a segment, existed already, or is in the quarantine."""
        prepared = self.prepared
        read = sum(file.records for file in self.files)
        written = sum(segment.records for found in prepared.segments.values() for segment in found)
        placed = written + sum(prepared.skipped.values()) + sum(prepared.quarantined.values())
        if placed != read:
            discard()
            raise WinnowError(
                f"{read} records were read for topic {self.log.topic}, but {placed} would be accounted for: this is a "
                "defect of Winnow.",
                left="Nothing of this call landed, and the files are as they were.",
            )

    def _report(self, snapshot_id: int | None) -> IngestReport:
        return build_report(
            self.log.topic,
            snapshot_id,
            self.prepared,
            states=self.head.state.partitions,
            files=len(self.files),
            records_of=self.records_of,
            notices=self.notices,
            layout=self.request.describe().layout or "winnow",
            ingest_id=None if snapshot_id is None else self.prepared.ingest_id,
        )


def remove_files(paths: Sequence[str], *, below: Sequence[str]) -> bool:
    """Remove files below one of these roots that nothing refers to; return whether all of them are gone."""
    gone = 0
    for path in paths:
        with contextlib.suppress(OSError, ServiceError):
            gone += any(storage.find_path_below(root, path) and storage.delete(path, below=root) for root in below)
    return gone == len(paths)
