"""Reads the log of one topic partition from a broker's log directory, as a consumer of committed records would.

Two passes. :func:`survey_log` reads headers and control batches: where the log ends, which transactions were aborted,
and the last stable offset, below which every transaction is decided. :func:`read_log` then yields the records between
log start offset and last stable offset, without control records and those of aborted transactions; it verifies the
check-sum of every batch. A log that a broker still writes may grow between the passes: what comes after the survey is
not read. Offsets may have gaps: of control records, aborted transactions, and of what was compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from winnow.errors import BadInputError
from winnow.files.record_batch import MAXIMUM_BATCH_BYTES, MAXIMUM_BATCH_ROWS
from winnow.sources.input_errors import make_file_error
from winnow.sources.kafka_log.batches import (
    HEADER_BYTES,
    NONE,
    PIECE_BYTES,
    BatchHeader,
    MalformedBatchError,
    decompress_payload,
    is_intact,
    parse_control_type,
)
from winnow.sources.kafka_log.files import Segment, SegmentPlace, open_segment, read_aborted_index
from winnow.sources.kafka_log.records import MalformedRecordError, RecordGroup, find_ends, measure_record, parse_records
from winnow.sources.kafka_log.segments import (
    COPY_AGAIN,
    READ_BYTES,
    Batch,
    SegmentReader,
    Tail,
    choose_skim_bytes,
    find_tail,
)
from winnow.sources.kafka_log.transactions import AbortedRanges, ContradictionError, TransactionTracker
from winnow.sources.objects import ReadOptions, RecordChunk

NAME = "kafka-log"
_NO_COPY_HELPS = "its check-sum is right, so a producer sent it so: leave the log out, or mirror the topic without it"


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log of one topic partition. ``segments``: in the order of their offsets.

    ``log_start_offset``: from the checkpoint beside the folder; records below it were deleted. ``place``: of all
    segments; the last one of a broker's folder is the active one.
    """

    topic: str
    partition: int
    segments: tuple[Segment, ...]
    log_start_offset: int = 0
    place: SegmentPlace = SegmentPlace.BROKER


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """One segment of a surveyed log. ``end_offset``: above its last batch. ``valid_bytes``: its whole batches."""

    segment: Segment
    valid_bytes: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LogSurvey:
    """What the headers of a log tell.

    Counts are of records from the log start offset on; of a batch that it divides all are counted. ``records``: what
    :func:`read_log` yields. ``waiting_records``: at or above the last stable offset, those known to be aborted left
    out. ``first_offset``: no record is below it. ``maximum_timestamp_ms``: None without records or timestamps.
    """

    log: PartitionLog
    segments: tuple[SegmentSummary, ...]
    first_offset: int
    last_stable_offset: int
    end_offset: int
    records: int
    waiting_records: int
    aborted_records: int
    control_batches: int
    open_transactions: int
    maximum_timestamp_ms: int | None
    tail: Tail
    aborted: AbortedRanges = field(repr=False)


def survey_log(log: PartitionLog) -> LogSurvey:
    """Read the headers of every batch of ``log``.

    Raises:
        BadInputError: a segment is damaged, or cut off and not the active one.
        ServiceError: the object store cannot be reached.
    """
    return _Surveyor(log).survey()


class _Surveyor:
    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._tracker = TransactionTracker()
        self._summaries: list[SegmentSummary] = []
        self._records = 0
        self._control_batches = 0
        self._maximum_timestamp = -1
        self._tail = Tail(0)

    def survey(self) -> LogSurvey:
        end = 0
        for segment in self._log.segments:
            end = self._survey_segment(segment, end)
        tracker, start = self._tracker, self._log.log_start_offset
        opened = tracker.first_open_offset
        # A transaction that began before the log start holds back everything: so does Kafka's own.
        stable = end if opened is None else min(end, max(opened, start))
        waiting = self._count_waiting(stable)
        first = max(start, self._log.segments[0].base_offset if self._log.segments else 0)
        return LogSurvey(
            log=self._log,
            segments=tuple(self._summaries),
            first_offset=min(first, end),
            last_stable_offset=stable,
            end_offset=end,
            records=self._records - tracker.aborted_records - waiting,
            waiting_records=waiting,
            aborted_records=tracker.aborted_records,
            control_batches=self._control_batches,
            open_transactions=tracker.open_transactions,
            maximum_timestamp_ms=self._maximum_timestamp if self._maximum_timestamp >= 0 else None,
            tail=self._tail,
            aborted=tracker.aborted,
        )

    def _survey_segment(self, segment: Segment, before: int) -> int:
        place = self._log.place
        is_active = place is SegmentPlace.BROKER and segment is self._log.segments[-1]
        entries = read_aborted_index(segment, is_active=is_active)
        uri = segment.log.uri
        if segment.base_offset < before:
            wrong = f"offsets from {segment.base_offset} on are in the segment before it too"
            advice = "copy the folder again while its broker does not compact it"
            if place is SegmentPlace.TIERED:
                advice = "two leaders have copied them, it seems: leave one of the two segments out with --exclude GLOB"
            raise make_file_error(uri, wrong, advice)
        if place is SegmentPlace.TIERED and segment is not self._log.segments[0] and segment.base_offset > before:
            # Where a transaction ended is perhaps in there: it must not be taken for one with the next.
            wrong = f"no segment has the offsets from {before} to {segment.base_offset - 1}"
            raise make_file_error(
                uri, wrong, "copy what is missing, or take the segments before and after it in two calls"
            )
        self._tracker.add_index(entries)
        end = max(before, segment.base_offset)
        with open_segment(segment) as stream:
            reader = SegmentReader(uri, stream, choose_skim_bytes(uri))
            batches = reader.read_batches(reader.size_bytes, first_free_offset=end, with_content=False)
            wanted = segment.base_offset if place is not SegmentPlace.BROKER else None
            for batch in self._read_to_tail(reader, batches) if is_active else batches:
                if wanted not in (None, batch.header.base_offset):
                    raise reader.make_batch_error(batch.position, batch.header, _describe_gap(place, segment, wanted))
                self._see_batch(reader, batch)
                end = batch.header.last_offset + 1
                wanted = end if place is SegmentPlace.TIERED else None
            if wanted == segment.base_offset:
                raise make_file_error(uri, "it has no records", COPY_AGAIN)
            valid_bytes = self._tail.valid_bytes if is_active else reader.size_bytes
        self._tracker.see_end(end)
        self._summaries.append(SegmentSummary(segment, valid_bytes, end))
        return end

    def _read_to_tail(self, reader: SegmentReader, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the whole batches of the active segment, and keep what comes after them as its tail."""
        last: Batch | None = None
        position = 0
        fault: BadInputError | None = None
        try:
            for batch in batches:
                if last is not None:
                    yield last
                last, position = batch, batch.position + batch.header.size_bytes
        except BadInputError as problem:
            fault = problem
        tail = Tail(position) if fault is None else find_tail(reader, position)
        # Its length may be damaged, so that it hides batches, or its header was written before its content.
        if last is not None and not is_intact(last.header, reader.read(last.position, last.header.size_bytes)):
            fault = reader.make_batch_error(last.position, last.header, "fails its check-sum")
            tail, last = find_tail(reader, last.position), None
        if tail is None:
            assert fault is not None
            raise fault
        self._tail = tail
        if last is not None:
            yield last

    def _see_batch(self, reader: SegmentReader, batch: Batch) -> None:
        header = batch.header
        if header.is_control:
            self._control_batches += 1
            try:
                self._tracker.see_control(header, _read_control_type(reader, batch))
            except ContradictionError:
                wrong = "commits a transaction that the .txnindex beside the segment calls aborted"
                raise reader.make_batch_error(batch.position, header, wrong) from None
            return
        counted = header.record_count if header.last_offset >= self._log.log_start_offset else 0
        self._records += counted
        self._tracker.see_data(header, counted)
        if counted:
            self._maximum_timestamp = max(self._maximum_timestamp, header.maximum_timestamp)

    def _count_waiting(self, stable: int) -> int:
        waiting = 0
        for summary in self._summaries:
            if summary.end_offset <= stable:
                continue
            for header in _read_headers(summary):
                if header.last_offset >= stable and not header.is_control:
                    waiting += 0 if self._tracker.aborted.has_batch(header) else header.record_count
        return waiting


def _describe_gap(place: SegmentPlace, segment: Segment, wanted: int | None) -> str:
    """Say that a batch has another offset than it should, which no check-sum covers. Completes "the batch …"."""
    if place is SegmentPlace.TIERED:
        return f"should begin at offset {wanted}: brokers compact no topic with tiered storage, so there are no gaps"
    return (
        f"should begin at offset {wanted}, by the segment's name; a segment that was compacted has to lie in its "
        "folder, called as at the broker"
    )


def _read_headers(summary: SegmentSummary) -> Iterator[BatchHeader]:
    uri = summary.segment.log.uri
    with open_segment(summary.segment) as stream:
        reader = SegmentReader(uri, stream, choose_skim_bytes(uri))
        for batch in reader.read_batches(summary.valid_bytes, first_free_offset=0, with_content=False):
            yield batch.header


def _read_control_type(reader: SegmentReader, batch: Batch) -> int | None:
    header = batch.header
    content = reader.read(batch.position, header.size_bytes)
    if not is_intact(header, content):
        raise reader.make_batch_error(batch.position, header, "fails its check-sum")
    if not header.record_count:
        return None
    try:
        return parse_control_type(b"".join(decompress_payload(header.codec, content[HEADER_BYTES:].tobytes())))
    except MalformedBatchError as problem:
        raise reader.make_batch_error(batch.position, header, str(problem)) from None


def read_log(
    survey: LogSurvey, options: ReadOptions, *, first_offset: int = 0, end_offset: int | None = None
) -> Iterator[RecordChunk]:
    """Yield the committed records of a surveyed log from ``first_offset`` on, below ``end_offset``.

    Segments outside of these and those below the log start offset are not read. Everything else is verified, up to the
    end of the log unless ``end_offset`` says otherwise.

    Raises:
        BadInputError: a batch is damaged.
        ServiceError: the object store cannot be reached.
    """
    start = max(first_offset, survey.log.log_start_offset)
    end = survey.end_offset if end_offset is None else min(end_offset, survey.end_offset)
    row = 1
    for summary in survey.segments:
        if summary.end_offset <= start or summary.segment.base_offset >= end:
            continue
        for group in _group_segment(survey, summary, start, end, options.batch_bytes):
            uri = summary.segment.log.uri
            try:
                parsed = parse_records(group, start, end)
            except MalformedRecordError as problem:
                offset = group.headers[problem.batch].base_offset
                raise make_file_error(
                    uri, f"a record of the batch at offset {offset} {problem}", _NO_COPY_HELPS
                ) from None
            for records in parsed.make_batches(survey.log.partition, row, options.batch_bytes, MAXIMUM_BATCH_ROWS):
                row += records.num_rows
                yield RecordChunk(records)


def _group_segment(
    survey: LogSurvey, summary: SegmentSummary, start: int, end: int, batch_bytes: int
) -> Iterator[RecordGroup]:
    uri = summary.segment.log.uri
    group = RecordGroup()
    with open_segment(summary.segment) as stream:
        reader = SegmentReader(uri, stream, READ_BYTES)
        for batch in reader.read_batches(summary.valid_bytes, first_free_offset=0, with_content=True):
            header = batch.header
            if header.base_offset >= end:
                break
            is_wanted = start <= header.last_offset < survey.last_stable_offset
            if header.is_control or not is_wanted or survey.aborted.has_batch(header):
                continue
            try:
                for data, ends in _cut_records(batch):
                    size = RecordGroup.measure(data, ends)
                    if group.rows and (group.size_bytes + size > batch_bytes or group.rows >= MAXIMUM_BATCH_ROWS):
                        yield group
                        group = RecordGroup()
                    group.add(header, data, ends, size)
            except MalformedBatchError as problem:
                raise make_file_error(
                    uri, f"the batch at offset {header.base_offset} {problem}", _NO_COPY_HELPS
                ) from None
    if group.rows:
        yield group


def _cut_records(batch: Batch) -> Iterable[tuple[bytes, Sequence[int]]]:
    """Return the records of a batch as pieces of whole records, each with the ends of its records."""
    assert batch.content is not None
    header, payload = batch.header, batch.content[HEADER_BYTES:].tobytes()
    if header.codec == NONE and len(payload) <= PIECE_BYTES:
        # Nothing to decompress, and as a rule nothing wrong: without the detour.
        ends = find_ends(payload, header.record_count)
        if len(ends) == header.record_count > 0 and ends[-1] == len(payload):
            return ((payload, ends),)
    return _cut_pieces(decompress_payload(header.codec, payload), header.record_count)


def _cut_pieces(pieces: Iterable[bytes], missing: int) -> Iterator[tuple[bytes, Sequence[int]]]:
    """Cut ``pieces`` anew, so that each is whole records; there are ``missing`` of them."""
    held: list[bytes] = []
    held_bytes, needed = 0, 1
    for piece in pieces:
        held.append(piece)
        held_bytes += len(piece)
        if held_bytes < needed:
            continue
        data = b"".join(held) if len(held) > 1 else piece
        ends = find_ends(data, missing)
        if ends:
            yield data[: ends[-1]], ends
            missing -= len(ends)
            data = data[ends[-1] :]
        if data and not missing:
            raise MalformedBatchError("has more bytes than records")
        held, held_bytes, needed = [data], len(data), 1
        if missing:
            needed = measure_record(data)
        if needed > MAXIMUM_BATCH_BYTES:
            raise MalformedBatchError("has a record larger than 1 GiB")
    if missing:
        raise MalformedBatchError("has fewer records than it announces")
