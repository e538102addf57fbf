"""The Parquet schema of a segment, writing segment files sorted by offset, and counting their records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.files import storage
from winnow.files.parquet_writer import RollingParquetWriter
from winnow.values.model import Segment

Offsets = npt.NDArray[np.int64]


@dataclass(slots=True)
class FileFigures:
    """The figures of one file, counted batch by batch."""

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    lowest_offset: int | None = None
    highest_offset: int | None = None
    tombstones: int = 0
    keyless: int = 0
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    wrong_partition: int = 0
    order_violations: int = 0

    def add(self, batch: pa.RecordBatch, partition: int) -> Offsets:
        """Count one batch and return its offsets.

        Raises:
            BadInputError: a record without offset.
        """
        offsets = read_offsets(batch)
        if len(offsets) == 0:
            return offsets
        first, last = int(offsets[0]), int(offsets[-1])
        self.order_violations += int((offsets[1:] <= offsets[:-1]).sum())
        if self.last_offset is not None and first <= self.last_offset:
            self.order_violations += 1
        self.first_offset = first if self.first_offset is None else self.first_offset
        self.last_offset = last
        self.lowest_offset = _find_minimum(self.lowest_offset, int(offsets.min()))
        self.highest_offset = _find_maximum(self.highest_offset, int(offsets.max()))
        self.records += len(offsets)
        self.tombstones += batch.column("value").null_count
        self.keyless += batch.column("key").null_count
        same = pc.equal(batch.column("partition"), partition).fill_null(False)
        self.wrong_partition += len(offsets) - int(same.true_count)
        bounds = pc.min_max(batch.column("timestamp").cast(pa.int64()))
        if bounds["min"].is_valid:
            self.min_timestamp_ms = _find_minimum(self.min_timestamp_ms, bounds["min"].as_py() // 1000)
            self.max_timestamp_ms = _find_maximum(self.max_timestamp_ms, bounds["max"].as_py() // 1000)
        return offsets

    def agrees_with(self, segment: Segment) -> bool:
        """Check whether the manifest entry has these figures."""
        return (
            self.records == segment.records
            and self.lowest_offset == segment.first_offset
            and self.highest_offset == segment.last_offset
            and self.tombstones == segment.tombstones
            and self.keyless == segment.keyless
            and self.min_timestamp_ms == segment.min_timestamp_ms
            and self.max_timestamp_ms == segment.max_timestamp_ms
        )


def read_offsets(batch: pa.RecordBatch) -> Offsets:
    """Return the offsets of a batch.

    Raises:
        BadInputError: a record without offset.
    """
    column = batch.column("offset")
    if column.null_count:
        raise BadInputError("The segment file has a record without offset.")
    values: Offsets = column.to_numpy(zero_copy_only=False)
    return values


def _find_minimum(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def _find_maximum(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)


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


FIELD_ID_KEY = b"PARQUET:field_id"
"""Where Arrow keeps the id of a field, which it writes into a Parquet file."""


def make_field_id(field_id: int) -> dict[bytes, bytes]:
    """Make the metadata of a field with this id."""
    return {FIELD_ID_KEY: str(field_id).encode()}


def _make_field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=True, metadata=make_field_id(field_id))


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

    def __init__(
        self, *, partition: int, segment_bytes: int, name: Callable[[int], str], below: str | None = None
    ) -> None:
        super().__init__(
            ARROW_SCHEMA,
            file_bytes=segment_bytes,
            name=name,
            below=below,
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

    def _handle_closed_file(self, uri: str, size_bytes: int) -> None:
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


def locate_segment(folder: str, partition: int, first_offset: int, number: int) -> str:
    """Return the place below ``folder`` of the segment of that ``number`` among those from ``first_offset`` on."""
    return storage.join(folder, f"{partition:05d}-{first_offset:020d}-{number:05d}.parquet")


def cast_to_segment_schema(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cast ``batch``, whose columns are in order, to exactly the types and field ids of :data:`ARROW_SCHEMA`."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
