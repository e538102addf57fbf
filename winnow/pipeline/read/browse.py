"""Reads a few records of one partition: from an offset, from an instant, before an offset, or the newest ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import RunAgainError, UsageError
from winnow.files.checked_reading import read_segment_columns
from winnow.log.topic_log import TopicLog
from winnow.pipeline.read.records import explain_segment_errors, find_time_offset, read_log_segment
from winnow.pipeline.topics.topic_view import TopicView
from winnow.planning.cleanable import PartitionLog
from winnow.values.model import Segment


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The offset of a record, and its timestamp."""

    offset: int
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class BrowsedPartition:
    """The records of one partition that readers see, at one head of the log."""

    log: TopicLog
    partition: PartitionLog

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers see."""
        return self.partition.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.partition.state.log_end_offset

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments with records that readers see, in offset order."""
        return [each for each in self.partition.segments if each.last_offset >= self.log_start_offset]

    def read_from(self, offset: int, limit: int) -> Iterator[pa.RecordBatch]:
        """Yield up to ``limit`` records from ``offset`` on, or from the next one that exists.

        Raises:
            DamagedSegmentError: a segment is missing or cannot be read.
            RunAgainError: a segment was swept meanwhile.
        """
        start, left = max(offset, self.log_start_offset), limit
        for segment in self.segments:
            if left <= 0:
                return
            if segment.last_offset < start:
                continue
            with self.explain_errors():
                for batch in read_log_segment(self.log, segment, start, left):
                    part = batch.slice(0, left)
                    left -= part.num_rows
                    yield part
                    if left <= 0:
                        return

    def find_time(self, timestamp_ms: int) -> int:
        """Return the offset of the first record with that timestamp or a later one; the log end if there is none.

        As Kafka's lookup of offsets by time. Segments whose newest record is older are not opened.
        """
        with self.explain_errors():
            found = find_time_offset(self.log, self.segments, timestamp_ms, self.log_start_offset)
        return self.log_end_offset if found is None else found

    def find_page_start(self, before: int, count: int) -> int:
        """Return the offset at which the ``count`` records before offset ``before`` begin, or the log start.

        That is the one after the record before them, so that what is missing between belongs to these records.
        """
        left = count
        for segment in reversed(self.segments):
            if segment.first_offset >= before:
                continue
            if left == 0:
                return max(segment.last_offset + 1, self.log_start_offset)
            is_whole = segment.last_offset < before and segment.first_offset >= self.log_start_offset
            if is_whole and segment.records < left:
                left -= segment.records
                continue
            offsets = self._read_offsets(segment)
            mine = offsets[(offsets < before) & (offsets >= self.log_start_offset)]
            if len(mine) > left:
                return int(mine[len(mine) - left - 1]) + 1
            left -= len(mine)
        return self.log_start_offset

    def list_before(self, before: int, count: int) -> list[RecordPlace]:
        """List the places of up to ``count`` records before offset ``before``, in offset order.

        Raises:
            DamagedSegmentError, RunAgainError: as :meth:`read_from`.
        """
        places: list[RecordPlace] = []
        for segment in reversed(self.segments):
            if segment.first_offset >= before:
                continue
            if len(places) >= count:
                break
            places[:0] = self._read_places(segment, before, count - len(places))
        return places

    def _read_places(self, segment: Segment, before: int, count: int) -> list[RecordPlace]:
        """Read the last ``count`` places of ``segment`` before offset ``before``."""
        places: list[RecordPlace] = []
        with self.explain_errors(), explain_segment_errors(self.log, segment):
            for batch in read_segment_columns(segment, ("offset", "timestamp")):
                offsets = batch.column("offset")
                mine = pc.and_(pc.less(offsets, before), pc.greater_equal(offsets, self.log_start_offset))
                rows = batch.filter(mine)
                rows = rows.slice(max(0, rows.num_rows - count))
                times_us = rows.column("timestamp").cast(pa.int64()).to_pylist()
                places += [
                    RecordPlace(offset, None if time_us is None else time_us // 1000)
                    for offset, time_us in zip(rows.column("offset").to_pylist(), times_us, strict=True)
                ]
                places = places[-count:]
        return places

    def _read_offsets(self, segment: Segment) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        with self.explain_errors(), explain_segment_errors(self.log, segment):
            batches = [each.column("offset").to_numpy() for each in read_segment_columns(segment, ("offset",))]
        return np.concatenate(batches) if batches else np.empty(0, np.int64)

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turn the error of a segment that was swept meanwhile into one that says to ask again.

        Raises:
            RunAgainError: a segment was swept meanwhile.
        """
        try:
            yield
        except FileNotFoundError as problem:
            raise RunAgainError(
                f"A segment of {self.log.topic}-{self.partition.partition} was swept while it was being read.",
                next="Ask again: the newest snapshot is read then.",
            ) from problem


def open_partition(view: TopicView, partition: int) -> BrowsedPartition:
    """Open ``partition`` of the topic of ``view`` to browse it.

    Raises:
        UsageError: there is no such partition.
    """
    last = len(view.partitions) - 1
    if not 0 <= partition <= last:
        raise UsageError(f"Topic {view.log.topic} has partitions 0 to {last}; there is no partition {partition}.")
    return BrowsedPartition(view.log, view.partitions[partition])
