"""Writes the arriving records of a partition into segments, and checks or assigns their offsets."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.files import storage
from winnow.files.quarantine_files import locate_ingest_folder
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter, cast_to_segment_schema
from winnow.pipeline.ingest.spool import SpooledFile
from winnow.values.model import Append, PartitionState, Segment, TopicState

if TYPE_CHECKING:
    from winnow.store.rows import AppendedRecords

Offsets = npt.NDArray[np.int64]

MAXIMUM_OFFSET = 2**63 - 2
"""The highest offset of a record: the log end offset after it is still a 64-bit number."""


@dataclass
class PreparedSegments:
    """Segments prepared for one head of the log, not yet committed."""

    ingest_id: str
    segments: dict[int, list[Segment]] = field(default_factory=dict)
    slices: dict[int, list[Append]] = field(default_factory=dict)
    log_end: dict[int, int] = field(default_factory=dict)
    lowest: dict[int, int] = field(default_factory=dict)
    appended: dict[int, int] = field(default_factory=dict)
    skipped: dict[int | None, int] = field(default_factory=dict)
    quarantined: dict[int | None, int] = field(default_factory=dict)
    base: dict[int, PartitionState] = field(default_factory=dict)
    recognised: dict[int, list[Append]] = field(default_factory=dict)
    """Slices that add nothing and that no ledger names yet."""

    @property
    def adds_records(self) -> bool:
        """Whether the call has a new record, for the log or the quarantine."""
        return any(self.segments.values()) or bool(self.quarantined)

    @property
    def partitions(self) -> list[int]:
        """The partitions of the records that were read, as far as they name one, in order."""
        return sorted(p for p in {*self.base, *self.skipped, *self.quarantined} if p is not None and p >= 0)

    def list_appended(self, after: TopicState) -> list[AppendedRecords]:
        """List what each partition got by the commit that led to the state ``after``."""
        # Spark executors import this module, and have no metadata store.
        from winnow.store.rows import AppendedRecords

        found: list[AppendedRecords] = []
        for partition, base in sorted(self.base.items()):
            added = self.segments.get(partition, [])
            records, size_bytes = sum(each.records for each in added), sum(each.size_bytes for each in added)
            log_end = after.partitions[partition].log_end_offset
            found.append(AppendedRecords(partition, base.log_end_offset, log_end, records, len(added), size_bytes))
        return found

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not self.adds_records and not self.recognised


class PartitionAppender:
    """Writes the records of one partition: checks that offsets increase, or assigns them where there are none.

    ``joins_slices``: the records of all files are one slice of the ledger, since those of several files may alternate.
    """

    def __init__(
        self,
        partition: int,
        state: PartitionState,
        paths: Sequence[str],
        prepared: PreparedSegments,
        *,
        location: str,
        segment_bytes: int,
        as_of_ms: int,
        now_ms: int,
        joins_slices: bool = False,
    ) -> None:
        self.partition = partition
        self._state = state
        self._paths = paths
        self._prepared = prepared
        self._as_of_ms = as_of_ms
        self._arrived_ms = now_ms if now_ms < as_of_ms else None
        self._joins_slices = joins_slices
        self._next = self._state.log_end_offset
        self._last_arrived = -1
        self._slices: dict[int, tuple[int, int, int]] = {}
        self._appended = 0
        self._segments: tuple[Segment, ...] = ()
        self._writer = SegmentWriter(
            partition=partition,
            segment_bytes=segment_bytes,
            name=lambda number: storage.join(
                locate_ingest_folder(location, prepared.ingest_id),
                f"{partition:05d}-{state.log_end_offset:020d}-{number:05d}.parquet",
            ),
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
        skipped = int((~fresh).sum())
        if skipped:
            prepared = self._prepared
            prepared.skipped[self.partition] = prepared.skipped.get(self.partition, 0) + skipped
            mask = pa.array(fresh)
            batch, offsets = batch.filter(mask), offsets[fresh]
        if not len(offsets):
            return
        self._next = int(offsets[-1]) + 1
        self._appended += len(offsets)
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

    def _note_slices(self, files: Offsets, offsets: Offsets) -> None:
        for number in np.unique(files):
            mine = offsets[files == number]
            first, _, count = self._slices.get(int(number), (int(mine[0]), 0, 0))
            self._slices[int(number)] = (first, int(mine[-1]), count + len(mine))

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

    def note(self, files: Sequence[SpooledFile]) -> None:
        """Record what was appended after :meth:`close`; ``files``: all of the input, with their digests."""
        segments = self._segments
        prepared = self._prepared
        if not segments:
            return
        prepared.segments[self.partition] = list(segments)
        prepared.appended[self.partition] = self._appended
        prepared.lowest[self.partition] = min(
            segments[0].first_offset, prepared.lowest.get(self.partition, segments[0].first_offset)
        )
        prepared.log_end[self.partition] = max(prepared.log_end[self.partition], segments[-1].last_offset + 1)
        found = sorted(self._slices.items())
        slices = [(files[number].slices[self.partition], *extent) for number, extent in found]
        if self._joins_slices:
            digest = join_slice_digests([each[0] for each in slices])
            slices = [(digest, segments[0].first_offset, segments[-1].last_offset, self._appended)]
        prepared.slices[self.partition] = [
            Append(
                digest=digest,
                first_offset=first,
                last_offset=last,
                records=count,
                as_of_ms=self._as_of_ms,
                arrived_ms=self._arrived_ms,
            )
            for digest, first, last, count in slices
        ]


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
