"""The work of one task of a distributed ingest: the records of one range of offsets into segment files.

Objects whose records come in order are streamed into segments in one pass. Otherwise, and where records may be in the
log already, they go through a spool on the task's disk, which sorts them, leaves out repeats and compares with the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.engine.task_resources import TaskBudget, Throttle
from winnow.errors import ServiceError
from winnow.files import storage
from winnow.files.segments import SegmentWriter
from winnow.pipeline.ingest.append import MAXIMUM_OFFSET, build_offset_overflow_error, build_segment_batch
from winnow.pipeline.ingest.log_comparison import AbsentRecords, compare_with_log
from winnow.pipeline.ingest.range_input import ObjectReader, select_range
from winnow.pipeline.ingest.spool import Spool
from winnow.pipeline.ingest.stream import MAXIMUM_SLICE_ROWS, OrderedWorker
from winnow.sources.topic_filter import TopicFilter
from winnow.values.ingest_plans import IngestPlan, IngestRange, RangeResult, RecordPlace, TaskFindings
from winnow.values.model import Segment


class UnorderedRangeError(Exception):
    """Records do not come in order, or one may be in the log already: they need the spool."""


Numbers = npt.NDArray[np.int64]

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
        name = f"{self.range.partition:05d}-{self.range.offsets.start:020d}"
        self._writer = SegmentWriter(
            partition=self.range.partition,
            segment_bytes=self.plan.segment_bytes,
            name=lambda part: storage.join(self.folder, f"{name}-{part:05d}.parquet"),
            below=self.plan.table_location,
        )
        self._paths = {each.number: each.uri for each in self.plan.objects}

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
        found = RecordPlace(int(numbers[first]), rows[first].as_py(), offsets[first].as_py())
        known = self.keyless
        count = len(places) + (0 if known is None else known.count)
        if known is not None and (known.number, known.row) < (found.number, found.row):
            found = known
        self.keyless = replace(found, count=count)

    def finish(self) -> tuple[Segment, ...]:
        """Write what is buffered; return the segments."""
        return self._writer.finish()

    def abandon(self) -> None:
        """Remove what was written; what cannot be removed is left for the sweep."""
        for path in self._writer.abandon():
            with contextlib.suppress(OSError, ServiceError):
                storage.delete(path, below=self.plan.table_location)


def ingest_range(
    plan: IngestPlan, number: int, open_reader: OpenReader, *, folder: str, budget: TaskBudget, throttle: Throttle
) -> RangeResult:
    """Write the records of the only range of ``plan`` below ``folder``; nothing refers to the files.

    ``number``: that of the range in the whole plan. ``open_reader``: opens the objects of the range anew.

    Raises:
        BadInputError: an object cannot be read, two different records have one offset, or the log has another record.
        LackingOffsetError, MisreadFieldError: as :meth:`winnow.pipeline.ingest.range_input.ObjectReader.read`.
    """
    mine = plan.ranges[0]
    if not mine.reaching and (not mine.segments or mine.first_offset >= mine.log_end_offset):
        with contextlib.suppress(UnorderedRangeError):
            return _stream_range(plan, number, open_reader, folder, throttle)
    return _sort_range(plan, number, open_reader, folder, budget, throttle)


def survey_objects(number: int, open_reader: OpenReader, numbers: Sequence[int]) -> RangeResult:
    """Find out the offsets of the records of objects: from their footers if those tell, else by reading all of them."""
    with open_reader() as reader:
        for each in numbers:
            if not reader.survey_footer(each):
                for _ in reader.read(each):
                    pass
        return RangeResult(number, reader.collect_findings())


def _stream_range(
    plan: IngestPlan, number: int, open_reader: OpenReader, folder: str, throttle: Throttle
) -> RangeResult:
    """Write records as they are read.

    Raises:
        UnorderedRangeError: a record needs the spool.
    """
    mine = plan.ranges[0]
    writer = RangeWriter(plan, mine, folder)
    last = mine.log_end_offset - 1
    try:
        with open_reader() as reader, OrderedWorker() as writing:
            for each in mine.objects:
                for batch in reader.read(each):
                    selected = select_range(batch, mine.partition, mine.offsets)
                    if not selected.num_rows:
                        continue
                    offsets = selected.column("offset").to_numpy()
                    if offsets[0] <= last or (np.diff(offsets) <= 0).any():
                        raise UnorderedRangeError
                    last = int(offsets[-1])
                    writing.put(writer.write, np.full(selected.num_rows, each), selected)
            writing.settle()
            findings = reader.collect_findings()
        segments = writer.finish()
    except BaseException:
        writer.abandon()
        raise
    throttle.take(sum(segment.size_bytes for segment in segments))
    return _build_result(number, findings, writer, segments, records=writer.records)


def _build_result(
    number: int, findings: TaskFindings, writer: RangeWriter, segments: tuple[Segment, ...], *, records: int
) -> RangeResult:
    return RangeResult(
        number,
        findings,
        records=records,
        segments=segments,
        appended_objects=tuple(sorted(writer.numbers)),
        keyless=writer.keyless,
    )


class _RangeInput:
    """The records in a range as the input of a spool, object by object; its file numbers are places in ``numbers``."""

    is_ordered = False

    def __init__(self, plan: IngestPlan, mine: IngestRange, reader: ObjectReader) -> None:
        self._mine = mine
        self._reader = reader
        self.records_of = TopicFilter(plan.topic, plan.source_topic)
        self.numbers = sorted({*mine.objects, *mine.reaching})
        paths = {each.number: each.uri for each in plan.objects}
        self.names = [paths[number] for number in self.numbers]

    def measure(self, number: int) -> int:
        """Return 0: nobody follows the progress."""
        return number * 0

    def open_pass(self, _partitions: int) -> _RangeInput:
        """Begin to read; once only."""
        return self

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of an object that are in the range."""
        for batch in self._reader.read(self.numbers[number]):
            selected = select_range(batch, self._mine.partition, self._mine.offsets)
            if selected.num_rows:
                yield selected

    def finish(self) -> None:
        """Check nothing: the application is asked as a whole."""


def _sort_range(
    plan: IngestPlan, number: int, open_reader: OpenReader, folder: str, budget: TaskBudget, throttle: Throttle
) -> RangeResult:
    """Write records by way of a spool."""
    mine = plan.ranges[0]
    with open_reader() as reader:
        source = _RangeInput(plan, mine, reader)
        with Spool(plan.topic, plan.partition_count, budget, source) as spool:
            spool.read()
            findings = reader.collect_findings()
            absent = _compare(mine, spool)
            records = sum(file.records for file in spool.files)
            repeats = sum(spool.repeats.values())
            writer = RangeWriter(plan, mine, folder)
            try:
                _write_sorted(writer, spool, source.numbers)
                segments = writer.finish()
            except BaseException:
                writer.abandon()
                raise
    throttle.take(sum(segment.size_bytes for segment in segments))
    result = _build_result(number, findings, writer, segments, records=records)
    return replace(
        result,
        repeats=repeats,
        skipped=records - repeats - writer.records,
        absent=tuple(RecordPlace(source.numbers[each.file], each.row, each.offset) for each in absent.firsts),
        absent_records=absent.count,
        absent_later=absent.later,
    )


def _compare(mine: IngestRange, spool: Spool) -> AbsentRecords:
    """Compare with the log; return the records that may have been compacted away."""
    taken = [file.number for file in spool.files]
    with compare_with_log(
        spool, mine.partition, mine.log_end_offset, mine.segments, taken, newest_ms=mine.newest_ms
    ) as compared:
        if compared is None:
            return AbsentRecords()
        compared.require_equal()
        compared.require_present(mine.cleaned_offset, mine.log_end_offset)
        return compared.list_absent()


def _write_sorted(writer: RangeWriter, spool: Spool, numbers: Sequence[int]) -> None:
    condition = f'"offset" >= {writer.range.log_end_offset}'
    own = np.array(numbers, np.int64)
    for batch in spool.stream(condition, [file.number for file in spool.files], MAXIMUM_SLICE_ROWS):
        writer.write(own[batch.column("file").to_numpy()], batch)
