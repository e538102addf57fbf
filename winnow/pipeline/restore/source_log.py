"""The log that a restore reads: one snapshot of it, up to a bound, with every page checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError, DamagedSegmentError, UsageError, WinnowError
from winnow.files.checked_reading import make_damage_error, read_segment
from winnow.files.segments import read_offsets
from winnow.values.epochs import Epoch
from winnow.values.model import OffsetRange, Segment

READ_BYTES = 1 << 20
"""Bytes read of a column at a time, so that memory does not depend on the size of a row group."""


@dataclass(frozen=True, slots=True)
class RestoreBound:
    """Where a restore ends: before an offset (of every partition, or per partition), or before a time.

    ``time_ms``: a partition ends before its first record with this timestamp or a later one, as Kafka finds offsets by
    time. Nothing set: the whole log.
    """

    offset: int | None = None
    offsets: Mapping[int, int] | None = None
    time_ms: int | None = None

    def __str__(self) -> str:
        if self.offset is not None:
            return f"offset {self.offset}"
        if self.offsets is not None:
            return "offsets " + ",".join(f"{number}:{offset}" for number, offset in sorted(self.offsets.items()))
        return "all" if self.time_ms is None else f"time {self.time_ms}"


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The records of one snapshot of a topic, or those of some of its partitions.

    ``partitions``: where each begins and ends. ``is_live``: whether the newest snapshot has a segment, too.
    """

    topic: str
    snapshot_id: int | None
    partitions: Mapping[int, OffsetRange]
    segments: Mapping[int, Sequence[Segment]]
    is_live: Callable[[Segment], bool]
    epochs: Sequence[Epoch] = ()

    def find_ranges(self, bound: RestoreBound) -> dict[int, OffsetRange]:
        """Find the offsets to restore of each partition; reads at most one segment of each.

        Raises:
            UsageError: the bound names a partition that the topic does not have.
            DamagedSegmentError: a segment cannot be read.
        """
        strange = sorted(set(bound.offsets or ()) - self.partitions.keys())
        if strange:
            raise UsageError(
                f"Topic {self.topic} has partitions 0 to {len(self.partitions) - 1}; there is no partition "
                f"{strange[0]}.",
                left="Nothing was restored.",
            )
        ranges = {}
        for number, whole in self.partitions.items():
            start, end = whole.start, whole.end
            if bound.offset is not None:
                end = min(end, bound.offset)
            elif bound.offsets is not None:
                end = min(end, bound.offsets.get(number, end))
            elif bound.time_ms is not None:
                end = self._find_offset_by_time(number, start, end, bound.time_ms)
            ranges[number] = OffsetRange(start, max(start, end))
        return ranges

    def _find_offset_by_time(self, partition: int, start: int, end: int, time_ms: int) -> int:
        for segment in self._list_segments(partition, OffsetRange(start, end)):
            if segment.max_timestamp_ms is None or segment.max_timestamp_ms < time_ms:
                continue
            for batch in self._read_segment(segment, start, lambda size_bytes: None):
                late = pc.greater_equal(batch.column("timestamp").cast(pa.int64()), time_ms * 1000).fill_null(False)
                found = np.flatnonzero(late.to_numpy(zero_copy_only=False))
                if len(found):
                    return int(read_offsets(batch)[found[0]])
        return end

    def _list_segments(self, partition: int, wanted: OffsetRange) -> list[Segment]:
        return [
            segment
            for segment in self.segments.get(partition, ())
            if segment.last_offset >= wanted.start and segment.first_offset < wanted.end
        ]

    def compute_size_bytes(self, partition: int, wanted: OffsetRange) -> int:
        """Return the bytes of the segments that hold the offsets of ``wanted``."""
        return sum(segment.size_bytes for segment in self._list_segments(partition, wanted))

    def find_lowest_timestamp_ms(self, partition: int, wanted: OffsetRange) -> int | None:
        """Return the lowest timestamp in the segments of ``wanted``, from the manifests; None: there is none."""
        found = [segment.min_timestamp_ms for segment in self._list_segments(partition, wanted)]
        return min((each for each in found if each is not None), default=None)

    def find_highest_timestamp_ms(self, partition: int, wanted: OffsetRange) -> int | None:
        """Return the highest timestamp in the segments of ``wanted``, from the manifests; None: there is none."""
        found = [segment.max_timestamp_ms for segment in self._list_segments(partition, wanted)]
        return max((each for each in found if each is not None), default=None)

    def read(
        self, partition: int, wanted: OffsetRange, on_progress: Callable[[int], None] = lambda size_bytes: None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of ``wanted`` in offset order; ``on_progress`` is called with bytes that are being read.

        Raises:
            DamagedSegmentError: a segment is missing or is not what was written.
            BadInputError: the snapshot's files were deleted meanwhile.
        """
        for segment in self._list_segments(partition, wanted):
            for batch in self._read_segment(segment, wanted.start, on_progress):
                offsets = read_offsets(batch)
                if int(offsets[-1]) < wanted.end:
                    yield batch
                    continue
                inside = batch.slice(0, int(np.searchsorted(offsets, wanted.end)))
                if inside.num_rows:
                    yield inside
                break

    def _read_segment(
        self, segment: Segment, start: int, on_progress: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_segment(segment, start, buffer_bytes=READ_BYTES, on_progress=on_progress)
        except FileNotFoundError as problem:
            raise self.explain_missing(segment) from problem
        except DamagedSegmentError as problem:
            raise self._make_damage_error(segment, str(problem)) from problem

    def explain_missing(self, segment: Segment) -> WinnowError:
        """Return the error about a segment that is not there: it is damage only if the newest snapshot has it."""
        if self.is_live(segment):
            return self._make_damage_error(segment, "is missing")
        return BadInputError(
            f"A segment of snapshot {self.snapshot_id} of topic {self.topic} was swept: {segment.path}. The tag that "
            "pins the snapshot was removed, so this restore cannot go on.",
            next="Delete the target topic and run it again: it restores the newest snapshot.",
        )

    def _make_damage_error(self, segment: Segment, wrong: str) -> DamagedSegmentError:
        after = "The restore needs it to go on."
        return make_damage_error(self.topic, segment, wrong, after)
