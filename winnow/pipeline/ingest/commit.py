"""Commits the segments of one ingest call and reports what it appended."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from winnow.arrivals.erased_records import ErasedRecords
from winnow.arrivals.spool import SpooledFile
from winnow.arrivals.write_range import NO_PARTITION, PartitionAppender, PartitionResult
from winnow.config.topic import TopicConfig
from winnow.errors import (
    BadInputError,
    CommitConflictError,
    OutdatedHeadError,
    ServiceError,
    UnknownTopicError,
    WinnowError,
    say_left,
)
from winnow.files import storage
from winnow.files.quarantine_files import locate_ingest_folder
from winnow.log.head import Change, Head
from winnow.log.reference_chains import count_receipts, has_same_ingests, list_seen_digests, write_ledger
from winnow.pipeline.erased_keys import has_same_erasures
from winnow.pipeline.ingest.heartbeat import IngestHeartbeat
from winnow.pipeline.ingest.history import check_same_log, keep_offsets
from winnow.pipeline.ingest.request import IngestReport, IngestRequest, LogMovedError, PartitionIngest
from winnow.pipeline.topics.latest_progress import build_appended_state
from winnow.pipeline.topics.overview import refresh_after_append
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.layouts.winnow.parquet import list_extra_columns
from winnow.sources.topic_filter import TopicFilter
from winnow.store.rows import AppendedRecords
from winnow.values.model import Segment
from winnow.values.row_shape import UpdateTime
from winnow.values.topic_state import Append, IngestLedger, PartitionState, TopicState


@dataclass
class IngestCommit:
    """Segments prepared for one head, until they are committed.

    ``files``: all of the input, also skipped ones. ``erased``: what is left out of it; None: no key was erased.
    """

    request: IngestRequest
    head: Head
    files: list[SpooledFile] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    records_of: TopicFilter | None = None
    ingest_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    results: dict[int, PartitionResult] = field(default_factory=dict)
    erased: ErasedRecords | None = None

    def __post_init__(self) -> None:
        self.installation = self.request.installation
        self.log = self.request.log
        self.as_of_ms = self.request.as_of_ms
        self.again = self.request.again
        self.config: TopicConfig = self.log.config(self.head)
        self.kept: list[Segment] = []
        self.row = IngestHeartbeat(
            self.installation, self.log.topic, self.ingest_id, least_number=self.head.state.first_valid_ingest
        )

    @property
    def segments(self) -> list[Segment]:
        """The new segments of all partitions."""
        return [segment for result in self.results.values() for segment in result.segments]

    @property
    def appended(self) -> int:
        """Records in the new segments."""
        return sum(result.records for result in self.results.values())

    @property
    def skipped(self) -> int:
        """Records that exist already."""
        return sum(result.skipped for result in self.results.values())

    @property
    def quarantined(self) -> int:
        """New records for the quarantine."""
        return sum(result.quarantined for result in self.results.values())

    @property
    def records_erased(self) -> int:
        """Old copies of erased keys that were left out; they count nowhere else."""
        return 0 if self.erased is None else self.erased.total

    @property
    def adds_records(self) -> bool:
        """Whether the call has a new record, for the log or the quarantine."""
        return bool(self.segments or self.quarantined)

    def open_appender(self, partition: int, paths: Sequence[str]) -> PartitionAppender:
        """Open the appender of ``partition``; ``paths``: the input files, by number."""
        self.row.open()
        return PartitionAppender(
            partition,
            self.head.state.partitions[partition],
            paths,
            folder=locate_ingest_folder(self.head.location, self.ingest_id),
            location=self.head.location,
            segment_bytes=self.config.segment_bytes,
            as_of_ms=self.as_of_ms,
            now_ms=self.installation.now_ms(),
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
        is_empty = not self.records_erased and not any(file.records for file in self.files)
        if is_empty and not self.request.position.continues:
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
        recognises = any(result.recognised for result in self.results.values())
        if not self.adds_records and not recognises and self.request.position.continues is None:
            self.row.close()  # it wrote no file that a sweep would have to look for
            return self._report(None)
        try:
            self._write_kept()
            storage.sync(segment.path for segment in [*self.segments, *self.kept])
            committed = self.log.commit(lambda head: self._build_change(head, taken))
        except (LogMovedError, BadInputError, CommitConflictError, UnknownTopicError):
            # Only where certainly nothing refers to these files; after any other error they stay.
            if self.kept:
                self.remove([segment.path for segment in self.kept])
            discard()
            raise
        with say_left("The records of this call are in the log, and do not land twice."):
            self.row.close()
            appended = self._list_appended(committed.state)
            latest = build_appended_state(committed.head, self.config, self.segments, appended, self.as_of_ms)
            refresh_after_append(self.installation, self.log.topic, committed.head, appended, latest)
            if self.config.latest_update is UpdateTime.INGEST:
                from winnow.pipeline.latest.table import update_after_publish  # heavy, and few topics need it

                update_after_publish(self.installation, self.log.topic, committed.head)
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
            [*paths, *self.head.documents.locate_ledger(self.ingest_id)],
            below=(self.head.location, self.head.copies),
        )
        if removed and not self.quarantined:
            self.row.close()

    def _note_known_slices(self, taken: Sequence[SpooledFile]) -> None:
        """Record slices that add nothing and are not known yet.

        Once a compaction has removed their records, only the ledger can tell that they were there. A slice is noted
        once, so repeating the call commits nothing.
        """
        state, adds_records = self.head.state, self.adds_records
        for partition, result in sorted(self.results.items()):
            if result.base is None:
                continue
            digests = {file.slices[partition] for file in taken if partition in file.slices and not file.lacks_offsets}
            unknown = digests - {entry.digest for entry in result.slices}
            unknown -= {entry.digest for entry in state.partitions[partition].appends}
            if unknown and (self.request.source.is_ordered or not adds_records):
                unknown -= list_seen_digests(state, partition)
            if unknown:
                # An empty range: the ledger names the slice without claiming offsets for it.
                end = state.partitions[partition].log_end_offset
                appends = tuple(Append(digest, end, end - 1, 0, self.as_of_ms) for digest in sorted(unknown))
                self.results[partition] = replace(result, recognised=appends)

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
        for partition, read in self.request.position.offsets_read.items():
            unread = PartitionResult(self.head.state.partitions[partition], was_compared=False)
            self.results[partition] = self.results.get(partition, unread).extend(read.start, read.end)

    def _write_kept(self) -> None:
        """Write the records that stay of segments that are cut."""
        cut = self.request.cut
        if cut is not None and any(part.divided for part in cut.parts):
            self.row.open()
            self.kept = cut.write_kept(self.log.topic, self.head.location, self.ingest_id, self.config.segment_bytes)

    def _build_change(self, newest: Head, taken: Sequence[SpooledFile]) -> Change:
        if self.row.is_voided(newest.state):
            raise LogMovedError  # a sweep voided this call, and may have deleted its files
        if not has_same_erasures(newest.state, self.head.state):
            raise LogMovedError  # the input may have records of keys that were erased since it was read
        head, cut = self.request.prepare_head(newest), self.request.cut
        self.request.position.check(head.state)
        placed = {number: result for number, result in sorted(self.results.items()) if result.base is not None}
        if any(result.has_moved(head.state.partitions[number]) for number, result in placed.items()):
            raise LogMovedError
        if self._is_known_meanwhile(head, taken):
            raise LogMovedError
        check_same_log(self.request.opened, head)
        if not self.adds_records and not has_same_ingests(head.state, self.head.state):
            raise LogMovedError  # another call may have ingested the same file
        described = self.request.position.describe()
        states = self._build_states(head.state)
        lacking = {file.digest: self.as_of_ms for file in taken if file.lacks_offsets}
        ledger = IngestLedger(
            ingest_id=self.ingest_id,
            topic=self.log.topic,
            slices={
                number: (*result.slices, *result.recognised)
                for number, result in placed.items()
                if result.slices or result.recognised
            },
            layout=described.layout,
            choices=dict(described.choices),
            source_topic=described.source_topic,
            objects=described.objects,
            table=described.table,
            before=keep_offsets(head.state, states),
            partitions=tuple(self._list_partitions()),
            receipts_before=count_receipts(head.state),
            file_digests={digest: head.state.file_digests.get(digest) for digest in lacking},
            files=len(self.files),
            records_skipped=self.skipped,
            records_quarantined=self.quarantined,
            records_erased=self.records_erased,
        )
        reference = write_ledger(head.documents, ledger, self.as_of_ms)
        state = replace(
            self.request.position.advance(head.state, self.ingest_id),
            partitions={**head.state.partitions, **states},
            ingests=(*head.state.ingests, reference),
            quarantine_ingests=(
                *head.state.quarantine_ingests,
                *([self.ingest_id] if self.quarantined else []),
            ),
            file_digests={**head.state.file_digests, **lacking},
        )
        removed = [] if cut is None else cut.segments
        if cut is not None:
            retired = cut.retire_segments(self.ingest_id, self.installation.now_ms())
            state = replace(state, retired=(*state.retired, *retired))
        return Change(
            state=state,
            add=[*self.kept, *self.segments],
            remove=[segment.path for segment in removed],
            remove_from={segment.partition for segment in removed} or None,
            summary={
                "winnow.operation": "ingest",
                "winnow.ingest-id": self.ingest_id,
                "winnow.records": str(self.appended),
            },
        )

    def _is_known_meanwhile(self, head: Head, taken: Sequence[SpooledFile]) -> bool:
        """Check whether another call ingested one of the files without offsets since this try began."""
        before = self.head.state.file_digests
        return not self.again and any(
            file.lacks_offsets and file.digest in head.state.file_digests and file.digest not in before
            for file in taken
        )

    def _build_states(self, state: TopicState) -> dict[int, PartitionState]:
        changed: dict[int, PartitionState] = {}
        for partition, result in self.results.items():
            if result.base is None or result.end_offset <= state.partitions[partition].log_end_offset:
                continue
            current = state.partitions[partition]
            changed[partition] = replace(
                current,
                log_start_offset=current.log_start_offset if current.log_end_offset else result.first_offset or 0,
                log_end_offset=result.end_offset,
                appends=(*current.appends, *result.slices),
            )
        return changed

    def _check_counts(self, discard: Callable[[], None]) -> None:
        """Check that every record of the input is in a segment, existed already, or is in the quarantine."""
        read = sum(file.records for file in self.files)
        placed = self.appended + self.skipped + self.quarantined
        if placed != read:
            discard()
            raise WinnowError(
                f"{read} records were read for topic {self.log.topic}, but {placed} would be accounted for: this is a "
                "defect of Winnow.",
                left="Nothing of this call landed, and the files are as they were.",
            )

    def _list_partitions(self) -> list[int]:
        """List the partitions of the records that were read, as far as they name one, in order."""
        return sorted(number for number in self.results if number != NO_PARTITION)

    def _list_appended(self, after: TopicState) -> list[AppendedRecords]:
        """List what each partition got by the commit that led to the state ``after``."""
        return [
            AppendedRecords(
                partition,
                result.base.log_end_offset,
                after.partitions[partition].log_end_offset,
                result.records,
                len(result.segments),
                sum(segment.size_bytes for segment in result.segments),
            )
            for partition, result in sorted(self.results.items())
            if result.base is not None
        ]

    def _report(self, snapshot_id: int | None) -> IngestReport:
        states, records_of = self.head.state.partitions, self.records_of
        return IngestReport(
            topic=self.log.topic,
            snapshot_id=snapshot_id,
            files=len(self.files),
            records_appended=self.appended,
            records_skipped=self.skipped,
            records_quarantined=self.quarantined,
            partitions=tuple(
                PartitionIngest(
                    partition=number,
                    first_offset=result.segments[0].first_offset if result.segments else None,
                    log_end_offset=max(states[number].log_end_offset, result.end_offset),
                    records_appended=result.records,
                    records_skipped=result.skipped,
                    records_quarantined=result.quarantined,
                )
                for number, result in ((number, self.results[number]) for number in self._list_partitions())
            ),
            notices=(*self.notices, *describe_erased(self.records_erased)),
            records_left_out=0 if records_of is None else records_of.records_left_out,
            source_topic=None if records_of is None else records_of.source_topic,
            layout=self.request.position.describe().layout or "winnow",
            ingest_id=None if snapshot_id is None else self.ingest_id,
            records_erased=self.records_erased,
        )


def describe_erased(records: int) -> list[str]:
    """Say that ``records`` old copies of erased keys were left out; nothing if there were none."""
    if not records:
        return []
    if records == 1:
        return ["1 record of an erased key was left out: it is an old copy."]
    return [f"{records:,} records of erased keys were left out: they are old copies."]


def remove_files(paths: Sequence[str], *, below: Sequence[str]) -> bool:
    """Remove files below one of these roots that nothing refers to; return whether all of them are gone."""
    gone = 0
    for path in paths:
        with contextlib.suppress(OSError, ServiceError):
            gone += any(storage.find_path_below(root, path) and storage.delete(path, below=root) for root in below)
    try:
        storage.sync_deletions(paths)  # whoever hears that all of them are gone forgets them
    except OSError:
        return False
    return gone == len(paths)
