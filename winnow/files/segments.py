"""Writing segment files: one Parquet file after another, rolled by size, sorted by offset, with checksummed pages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.files import storage
from winnow.files.schema import ARROW_SCHEMA
from winnow.model import Segment

CODEC = "zstd"
ROW_GROUP_BYTES = 32 << 20
"""Arrow bytes buffered before a row group is written: what one open writer holds in memory."""


class SegmentWriter:
    """Writes the records of one topic partition, in offset order, into files of at most about ``segment_bytes``.

    ``name(n)`` gives the URI of the n-th file (from 0). Nothing is renamed. Use as a context manager: leaving
    it by an exception closes the open file and leaves it behind, unreferenced, for the sweep.
    """

    def __init__(self, *, partition: int, segment_bytes: int, name: Callable[[int], str]) -> None:
        self._partition = partition
        self._segment_bytes = segment_bytes
        self._name = name
        self._finished: list[Segment] = []
        self._writer: pq.ParquetWriter | None = None
        self._stream: Any = None
        self._uri = ""
        self._batches: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._reset()

    def _reset(self) -> None:
        self._first: int | None = None
        self._last = -1
        self._records = 0
        self._tombstones = 0
        self._keyless = 0
        self._min_ms: int | None = None
        self._max_ms: int | None = None

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.finish()
        elif self._stream is not None:
            self._stream.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add records; ``batch`` has the columns of :data:`ARROW_SCHEMA` and offsets above all written before."""
        if batch.num_rows == 0:
            return
        offsets = batch.column("offset").to_numpy(zero_copy_only=True)
        if offsets[0] <= self._last or (np.diff(offsets) <= 0).any():
            raise ValueError("offsets must increase within a segment writer")
        self._first = int(offsets[0]) if self._first is None else self._first
        self._last = int(offsets[-1])
        self._records += batch.num_rows
        self._tombstones += batch.column("value").null_count
        self._keyless += batch.column("key").null_count
        bounds = pc.min_max(batch.column("timestamp").cast(pa.int64()))
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and high is not None:
            self._min_ms = low // 1000 if self._min_ms is None else min(self._min_ms, low // 1000)
            self._max_ms = high // 1000 if self._max_ms is None else max(self._max_ms, high // 1000)
        self._batches.append(batch)
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= min(ROW_GROUP_BYTES, max(self._segment_bytes, 1 << 16)):
            self._flush()
            if self._stream.tell() >= self._segment_bytes:
                self._close()

    def _open(self) -> None:
        self._uri = self._name(len(self._finished))
        storage.make_parent(self._uri)
        filesystem, path = storage.filesystem_for(self._uri)
        self._stream = filesystem.open_output_stream(path)
        self._writer = pq.ParquetWriter(
            self._stream,
            ARROW_SCHEMA,
            compression=CODEC,
            write_page_checksum=True,
            store_schema=False,
            # No minima and maxima of user bytes, not even in the data file's own footer.
            write_statistics=["partition", "offset", "timestamp", "timestampType"],
            use_dictionary=["partition", "timestampType", "headers.list.element.key"],
        )

    def _flush(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            self._open()
        assert self._writer is not None
        table = pa.Table.from_batches(self._batches)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._buffered_bytes = [], 0

    def _close(self) -> None:
        if self._writer is None or self._first is None:
            return
        self._writer.close()
        size_bytes = self._stream.tell()
        self._stream.close()
        self._finished.append(
            Segment(
                path=self._uri,
                partition=self._partition,
                first_offset=self._first,
                last_offset=self._last,
                records=self._records,
                size_bytes=size_bytes,
                min_timestamp_ms=self._min_ms,
                max_timestamp_ms=self._max_ms,
                tombstones=self._tombstones,
                keyless=self._keyless,
            )
        )
        self._writer, self._stream = None, None
        last = self._last
        self._reset()
        self._last = last

    def abandon(self) -> list[str]:
        """Stop in the middle: close the open file. The URIs of everything written, for the caller to remove."""
        written = [segment.path for segment in self._finished]
        if self._writer is not None:
            written.append(self._uri)
            with contextlib.suppress(Exception):  # why the caller gives up is what matters
                self._writer.close()
                self._stream.close()
            self._writer, self._stream = None, None
        return written

    def finish(self) -> tuple[Segment, ...]:
        """Close the open file; the segments written, in offset order (none when nothing was written)."""
        self._flush()
        self._close()
        return tuple(self._finished)


def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with exactly the types and field ids of :data:`ARROW_SCHEMA`; its columns must be in that order."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
