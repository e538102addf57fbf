"""The Parquet schema of a segment, and writing segment files sorted by offset."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.files.parquet_writer import RollingParquetWriter
from winnow.model import Segment

FIELD_IDS: dict[str, int] = {
    "partition": 1,
    "offset": 2,
    "timestamp": 3,
    "timestampType": 4,
    "key": 5,
    "value": 6,
    "headers": 7,
}

HEADERS_ELEMENT_ID, HEADER_KEY_ID, HEADER_VALUE_ID = 8, 9, 10


def _make_field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=True, metadata={b"PARQUET:field_id": str(field_id).encode()})


HEADERS_TYPE = pa.list_(
    _make_field(
        "element",
        pa.struct([_make_field("key", pa.string(), HEADER_KEY_ID), _make_field("value", pa.binary(), HEADER_VALUE_ID)]),
        HEADERS_ELEMENT_ID,
    )
)

ARROW_SCHEMA = pa.schema(
    [
        _make_field("partition", pa.int32(), FIELD_IDS["partition"]),
        _make_field("offset", pa.int64(), FIELD_IDS["offset"]),
        _make_field("timestamp", pa.timestamp("us", tz="UTC"), FIELD_IDS["timestamp"]),
        _make_field("timestampType", pa.int32(), FIELD_IDS["timestampType"]),
        _make_field("key", pa.binary(), FIELD_IDS["key"]),
        _make_field("value", pa.binary(), FIELD_IDS["value"]),
        _make_field("headers", HEADERS_TYPE, FIELD_IDS["headers"]),
    ]
)
"""Column order and types of every segment. Timestamps are microseconds in UTC and always whole milliseconds."""


class SegmentWriter(RollingParquetWriter):
    """Writes the records of one partition, in offset order, into files of about ``segment_bytes`` or less.

    Files left behind by an exception are deleted by the sweep.
    """

    def __init__(self, *, partition: int, segment_bytes: int, name: Callable[[int], str]) -> None:
        super().__init__(
            ARROW_SCHEMA,
            file_bytes=segment_bytes,
            name=name,
            store_schema=False,
            # No minima and maxima of user bytes, not even in the data file's own footer.
            write_statistics=["partition", "offset", "timestamp", "timestampType"],
            use_dictionary=["partition", "timestampType", "headers.list.element.key"],
        )
        self._partition = partition
        self._finished: list[Segment] = []
        self._last = -1
        self._reset()

    def _reset(self) -> None:
        self._first: int | None = None
        self._records = 0
        self._tombstones = 0
        self._keyless = 0
        self._min_ms: int | None = None
        self._max_ms: int | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add records with the columns of :data:`ARROW_SCHEMA` and offsets above all written before."""
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
        super().write(batch)

    def _closed(self, uri: str, size_bytes: int) -> None:
        assert self._first is not None
        self._finished.append(
            Segment(
                path=uri,
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
        self._reset()

    def finish(self) -> tuple[Segment, ...]:
        """Close the open file and return the segments in offset order (none when nothing was written)."""
        self._end()
        return tuple(self._finished)


def cast_to_segment_schema(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cast ``batch``, whose columns are in order, to exactly the types and field ids of :data:`ARROW_SCHEMA`."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
