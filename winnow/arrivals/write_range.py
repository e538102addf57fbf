"""Writes arriving records into segments: those of a partition, or of the range of offsets of one task.

A task streams objects whose records come in order into segments in one pass. Otherwise, and where records may be in the
log already, they go through a spool on the task's disk, which sorts them, leaves out repeats and compares with the log.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.arrivals.compare_with_log import AbsentRecords, compare_with_log
from winnow.arrivals.erased_records import ErasedRecords
from winnow.arrivals.read_range import ObjectReader, OrderedWorker, RangeInput, RangeReader
from winnow.arrivals.spool import Spool, SpooledFile
from winnow.engine.task_resources import TaskBudget, Throttle
from winnow.errors import BadInputError, ServiceError
from winnow.files import storage
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter, cast_to_segment_schema, locate_segment
from winnow.values.ingest_plans import IngestPlan, IngestRange, RangeResult, RecordPlace, TaskFindings
from winnow.values.model import Segment
from winnow.values.topic_state import Append, PartitionState

Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64]
MAXIMUM_OFFSET = 2**63 - 2
"""The highest offset of a record: the log end offset after it is still a 64-bit number."""


NO_PARTITION = -1
"""Stands for the partition of records that name none."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What one try of a call made for one partition, not yet committed.

    ``base``: the partition over which it was made; None: nothing was made, its records are in files that were skipped.
    ``slices``: what the ledger says of ``segments``. ``recognised``: slices that add nothing and that no ledger names
    yet. ``first_offset``, ``end_offset``: of what the log gets, with offsets that have no record in it. ``skipped``,
    ``quarantined``: records that exist already, and those that go to the quarantine. ``was_compared``: whether records
    were compared with the log.
    """

    base: PartitionState | None = None
    segments: tuple[Segment, ...] = ()
    slices: tuple[Append, ...] = ()
    recognised: tuple[Append, ...] = ()
    first_offset: int | None = None
    end_offset: int = 0
    skipped: int = 0
    quarantined: int = 0
    was_compared: bool = True

    @property
    def records(self) -> int:
        """The records that are appended."""
        return sum(segment.records for segment in self.segments)

    def extend(self, first_offset: int, end_offset: int) -> PartitionResult:
        """Return this with the log taking the offsets from ``first_offset`` to ``end_offset``, which is exclusive."""
        first = first_offset if self.first_offset is None else min(self.first_offset, first_offset)
        return replace(self, first_offset=first, end_offset=max(self.end_offset, end_offset))

    def has_moved(self, current: PartitionState) -> bool:
        """Check whether what was made does not hold over ``current``.

        Where every record is above the log end, nothing was compared: a compaction meanwhile changes nothing.
        """
        base = self.base
        if base is None:
            return False
        if not self.was_compared:
            return base.log_end_offset != current.log_end_offset
        known = (base.log_end_offset, base.first_dirty_offset, base.log_start_offset)
        return known != (current.log_end_offset, current.first_dirty_offset, current.log_start_offset)


class PartitionAppender:
    """Writes the records of one partition: checks that offsets increase, or assigns them where there are none.

    ``joins_slices``: the records of all files are one slice of the ledger, since those of several files may alternate.
    """

    def __init__(
        self,
        partition: int,
        state: PartitionState,
        paths: Sequence[str],
        *,
        folder: str,
        location: str,
        segment_bytes: int,
        as_of_ms: int,
        now_ms: int,
        joins_slices: bool = False,
    ) -> None:
        self.partition = partition
        self._state = state
        self._paths = paths
        self._as_of_ms = as_of_ms
        self._arrived_ms = now_ms if now_ms < as_of_ms else None
        self._joins_slices = joins_slices
        self._next = self._state.log_end_offset
        self._last_arrived = -1
        self._slices: dict[int, tuple[int, int, int]] = {}
        self._skipped = 0
        self._segments: tuple[Segment, ...] = ()
        self._writer = SegmentWriter(
            partition=partition,
            segment_bytes=segment_bytes,
            name=lambda number: locate_segment(folder, partition, state.log_end_offset, number),
            below=location,
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows of this partition, in the order they were read."""
        if batch.column("offset").null_count == batch.num_rows:
            self._check_room(batch, self._next + batch.num_rows - 1)
            offsets = np.arange(self._next, self._next + batch.num_rows, dtype=np.int64)
        else:
            offsets = batch.column("offset").to_numpy(zero_copy_only=False).astype(np.int64)
            self._check_increasing(batch, offsets)
            self._check_room(batch, int(offsets[-1]))
        fresh = offsets >= self._state.log_end_offset
        if not fresh.all():
            self._skipped += int((~fresh).sum())
            batch, offsets = batch.filter(pa.array(fresh)), offsets[fresh]
        if not len(offsets):
            return
        self._next = int(offsets[-1]) + 1
        self._note_slices(batch.column("file").to_numpy(zero_copy_only=False), offsets)
        self._writer.write(build_segment_batch(batch, offsets))

    def _check_increasing(self, batch: pa.RecordBatch, offsets: Offsets) -> None:
        previous = np.concatenate(([self._last_arrived], offsets[:-1]))
        wrong = np.nonzero(offsets <= previous)[0]
        if len(wrong):
            at = int(wrong[0])
            path = self._paths[batch.column("file")[at].as_py()]
            row = batch.column("row")[at].as_py()
            raise build_order_error(path, row, self.partition, int(offsets[at]), int(previous[at]))
        self._last_arrived = int(offsets[-1])

    def _check_room(self, batch: pa.RecordBatch, last: int) -> None:
        """Raise for a last offset after which the log end offset would not be a 64-bit number."""
        if last > MAXIMUM_OFFSET:
            path = self._paths[batch.column("file")[-1].as_py()]
            raise build_offset_overflow_error(path, batch.column("row")[-1].as_py(), self.partition, last)

    def _note_slices(self, files: Numbers, offsets: Offsets) -> None:
        for number in np.unique(files):
            placed = offsets[files == number]
            first, _, count = self._slices.get(int(number), (int(placed[0]), 0, 0))
            self._slices[int(number)] = (first, int(placed[-1]), count + len(placed))

    def abandon(self) -> list[str]:
        """Stop and return the files written for this partition, which nothing refers to."""
        return self._writer.abandon()

    @property
    def held_bytes(self) -> int:
        """Arrow bytes of the records buffered for the next row group."""
        return self._writer.held_bytes

    def flush(self) -> None:
        """Write the buffered records as a row group."""
        self._writer.flush()

    def close(self) -> None:
        """Write the buffered records and close the file."""
        self._segments = self._writer.finish()

    def make_result(self, files: Sequence[SpooledFile]) -> PartitionResult:
        """Return what was made after :meth:`close`; ``files``: all of the input, with their digests."""
        result = PartitionResult(self._state, self._segments, skipped=self._skipped)
        if not result.segments:
            return result
        first, last = result.segments[0].first_offset, result.segments[-1].last_offset
        slices = [(files[number].slices[self.partition], *extent) for number, extent in sorted(self._slices.items())]
        if self._joins_slices:
            slices = [(join_slice_digests([digest for digest, *_ in slices]), first, last, result.records)]
        appends = tuple(Append(*extent, self._as_of_ms, self._arrived_ms) for extent in slices)
        return replace(result.extend(first, last + 1), slices=appends)


def join_slice_digests(digests: Sequence[str]) -> str:
    """Return the digest of the slices of several files as one slice; ``digests`` in the order of the files."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def build_order_error(path: str, row: int, partition: int, offset: int, previous: int) -> BadInputError:
    """Make the error about a record whose offset is not above that of the record before it in its partition."""
    return BadInputError(
        f"{path}, row {row} (partition {partition}, offset {offset}): offsets must increase within a partition, but "
        f"the one before is {previous}.",
        left="Nothing of this call landed.",
        next="Give the files in the order of their offsets.",
    )


def build_offset_overflow_error(path: str, row: int, partition: int, offset: int) -> BadInputError:
    """Make the error about a record after which the log end offset would not be a 64-bit number."""
    return BadInputError(
        f"{path}, row {row} (partition {partition}, offset {offset}): an offset can be {MAXIMUM_OFFSET} (2^63 - 2) at "
        "most, because the log end offset comes after it.",
        left="Nothing of this call landed.",
    )


def split_by_partition(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Split ``batch``, whose rows are sorted by partition, where the partition changes."""
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    cuts = [0, *(np.nonzero(np.diff(partitions))[0] + 1).tolist(), batch.num_rows]
    return [batch.slice(start, end - start) for start, end in itertools.pairwise(cuts) if end > start]


def convert_to_timestamps(milliseconds: pa.Array) -> pa.Array:
    """Convert milliseconds since the epoch (int64, null = none) to the log's timestamps."""
    return pc.multiply(milliseconds, 1000).cast(pa.timestamp("us", tz="UTC"))


def build_segment_batch(batch: pa.RecordBatch, offsets: Offsets) -> pa.RecordBatch:
    """Return records of an input as those of a segment, with ``offsets``."""
    columns = [
        batch.column("partition"),
        pa.array(offsets),
        convert_to_timestamps(batch.column("timestamp")),
        batch.column("timestampType"),
        batch.column("key"),
        batch.column("value"),
        batch.column("headers"),
    ]
    return cast_to_segment_schema(pa.RecordBatch.from_arrays(columns, names=ARROW_SCHEMA.names))


MAXIMUM_SLICE_ROWS = 8_192
"""Records passed to a segment's writer at a time, which ends a segment only between two slices."""


class UnorderedRangeError(Exception):
    """Records do not come in order, or one may be in the log already: they need the spool."""


OpenReader = Callable[[], ObjectReader]


@dataclass
class RangeWriter:
    """Writes the new records of a range, in the order of their offsets, and notes of which objects they are."""

    plan: IngestPlan
    range: IngestRange
    folder: str
    numbers: set[int] = field(default_factory=set)
    keyless: RecordPlace | None = None
    records: int = 0

    def __post_init__(self) -> None:
        self._writer = SegmentWriter(
            partition=self.range.partition,
            segment_bytes=self.plan.segment_bytes,
            name=lambda number: locate_segment(self.folder, self.range.partition, self.range.offsets.start, number),
            below=self.plan.table_location,
        )
        self._paths = {planned.number: planned.uri for planned in self.plan.objects}

    def write(self, numbers: Numbers, batch: pa.RecordBatch) -> None:
        """Add records; ``numbers``: of their objects, one a record.

        Raises:
            BadInputError: after one of them the log end offset would not be a 64-bit number.
        """
        offsets = batch.column("offset").to_numpy()
        if offsets[-1] > MAXIMUM_OFFSET:
            path, row = self._paths[int(numbers[-1])], batch.column("row")[-1].as_py()
            raise build_offset_overflow_error(path, row, self.range.partition, int(offsets[-1]))
        self.numbers.update(np.unique(numbers).tolist())
        self.records += batch.num_rows
        if self.plan.needs_keys and batch.column("key").null_count:
            self._note_keyless(numbers, batch)
        for start in range(0, batch.num_rows, MAXIMUM_SLICE_ROWS):
            part = slice(start, start + MAXIMUM_SLICE_ROWS)
            self._writer.write(build_segment_batch(batch.slice(start, MAXIMUM_SLICE_ROWS), offsets[part]))

    def _note_keyless(self, numbers: Numbers, batch: pa.RecordBatch) -> None:
        rows, offsets = batch.column("row"), batch.column("offset")
        places = np.flatnonzero(np.asarray(batch.column("key").is_null()))
        first = min(places.tolist(), key=lambda at: (int(numbers[at]), rows[at].as_py()))
        place = RecordPlace(int(numbers[first]), rows[first].as_py(), offsets[first].as_py())
        known = self.keyless
        count = len(places) + (0 if known is None else known.count)
        if known is not None and (known.number, known.row) < (place.number, place.row):
            place = known
        self.keyless = replace(place, count=count)

    def finish(self) -> tuple[Segment, ...]:
        """Write what is buffered; return the segments."""
        return self._writer.finish()

    def abandon(self) -> None:
        """Remove what was written; what cannot be removed is left for the sweep."""
        for path in self._writer.abandon():
            with contextlib.suppress(OSError, ServiceError):
                storage.delete(path, below=self.plan.table_location)


def ingest_range(
    plan: IngestPlan,
    number: int,
    open_reader: OpenReader,
    *,
    folder: str,
    budget: TaskBudget,
    throttle: Throttle,
    erased: ErasedRecords | None = None,
) -> RangeResult:
    """Write the records of the only range of ``plan`` below ``folder``; nothing refers to the files.

    ``number``: that of the range in the whole plan. ``open_reader``: opens the objects of the range anew. ``erased``:
    what is left out of them; None: no key was erased.

    Raises:
        BadInputError: an object cannot be read, two different records have one offset, the log has another record, or
            whether a record of an erased key is old cannot be told.
        LackingOffsetError, MisreadFieldError: as :meth:`winnow.arrivals.read_range.ObjectReader.read`.
    """
    planned = plan.ranges[0]
    if not planned.reaching and (not planned.segments or planned.first_offset >= planned.log_end_offset):
        with contextlib.suppress(UnorderedRangeError):
            return _stream_range(plan, number, open_reader, folder, throttle, erased)
    return _sort_range(plan, number, open_reader, folder, budget, throttle, erased)


def survey_objects(number: int, open_reader: OpenReader, numbers: Sequence[int]) -> RangeResult:
    """Find out the offsets of the records of objects: from their footers if those tell, else by reading all of them."""
    with open_reader() as reader:
        for place in numbers:
            if not reader.survey_footer(place):
                for _ in reader.read(place):
                    pass
        return RangeResult(number, reader.collect_findings())


def _stream_range(
    plan: IngestPlan,
    number: int,
    open_reader: OpenReader,
    folder: str,
    throttle: Throttle,
    erased: ErasedRecords | None,
) -> RangeResult:
    """Write records as they are read.

    Raises:
        UnorderedRangeError: a record needs the spool.
    """
    planned = plan.ranges[0]
    writer = RangeWriter(plan, planned, folder)
    last = planned.log_end_offset - 1
    try:
        with open_reader() as reader, OrderedWorker() as writing:
            reading = RangeReader(plan, reader, erased)
            for place in planned.objects:
                for selected in reading.read(place):
                    offsets = selected.column("offset").to_numpy()
                    if offsets[0] <= last or (np.diff(offsets) <= 0).any():
                        raise UnorderedRangeError
                    last = int(offsets[-1])
                    writing.put(writer.write, np.full(selected.num_rows, place), selected)
            writing.settle()
            findings = reader.collect_findings()
        segments = writer.finish()
    except BaseException:
        writer.abandon()
        raise
    throttle.take(sum(segment.size_bytes for segment in segments))
    return _build_result(number, findings, writer, segments, records=writer.records, erased=reading.left_out)


def _build_result(
    number: int,
    findings: TaskFindings,
    writer: RangeWriter,
    segments: tuple[Segment, ...],
    *,
    records: int,
    erased: Mapping[int, int],
) -> RangeResult:
    return RangeResult(
        number,
        findings,
        records=records,
        segments=segments,
        appended_objects=tuple(sorted(writer.numbers)),
        keyless=writer.keyless,
        erased=dict(erased),
    )


def _sort_range(
    plan: IngestPlan,
    number: int,
    open_reader: OpenReader,
    folder: str,
    budget: TaskBudget,
    throttle: Throttle,
    erased: ErasedRecords | None,
) -> RangeResult:
    """Write records by way of a spool."""
    planned = plan.ranges[0]
    with open_reader() as reader:
        reading = RangeReader(plan, reader, erased)
        source = RangeInput(plan, planned, reading)
        with Spool(plan.topic, plan.partition_count, budget, source) as spool:
            spool.read()
            findings = reader.collect_findings()
            absent = _compare(planned, spool, erased)
            records = sum(file.records for file in spool.files)
            repeats = sum(spool.repeats.values())
            writer = RangeWriter(plan, planned, folder)
            try:
                _write_sorted(writer, spool, source.numbers)
                segments = writer.finish()
            except BaseException:
                writer.abandon()
                raise
    throttle.take(sum(segment.size_bytes for segment in segments))
    result = _build_result(number, findings, writer, segments, records=records, erased=reading.left_out)
    return replace(
        result,
        repeats=repeats,
        skipped=records - repeats - writer.records,
        absent=tuple(RecordPlace(source.numbers[record.file], record.row, record.offset) for record in absent.firsts),
        absent_records=absent.count,
        absent_later=absent.later,
    )


def _compare(planned: IngestRange, spool: Spool, erased: ErasedRecords | None) -> AbsentRecords:
    """Compare with the log; return the records that may have been compacted away."""
    taken = [file.number for file in spool.files]
    with compare_with_log(
        spool, planned.partition, planned.log_end_offset, planned.segments, taken, newest_ms=planned.newest_ms
    ) as compared:
        if compared is None:
            return AbsentRecords()
        compared.require_equal()
        if erased is not None and erased.lifted:
            compared.drop_absent(erased.is_lifted)
        compared.require_present(planned.cleaned_offset, planned.log_end_offset)
        return compared.list_absent()


def _write_sorted(writer: RangeWriter, spool: Spool, numbers: Sequence[int]) -> None:
    condition = f'"offset" >= {writer.range.log_end_offset}'
    places = np.array(numbers, np.int64)
    for batch in spool.stream(condition, [file.number for file in spool.files], MAXIMUM_SLICE_ROWS):
        writer.write(places[batch.column("file").to_numpy()], batch)
