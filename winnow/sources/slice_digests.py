"""Computes the digests that identify a file's records per partition, independent of its format.

Several streams per partition are hashed in parallel, each in record order: the numbers of every record with the lengths
of its bytes, the bytes of all keys, those of all values, and the same for headers. Batch boundaries do not change the
streams; lengths and counts make them decodable, so different records never give the same.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SLICE = b"winnow slice 1\n"
_FILE = b"winnow file 1\n"
_NULL = -1
"""Stands for null among numbers and lengths, which are 0 or more."""
_RECORD = np.dtype([(name, "<i8") for name in ("offset", "timestamp", "kind", "key", "value", "headers")])
_HEADER = np.dtype([(name, "<i8") for name in ("key", "value")])
_STREAMS = ("records", "keys", "values", "headers", "header keys", "header values")

Lengths = npt.NDArray[np.int64]


class SliceDigests:
    """Running SHA-256 digests over batches of :data:`winnow.files.record_batch.RECORD_SCHEMA`, per partition.

    Row numbers do not count, nor does the order of records of different partitions.
    """

    def __init__(self) -> None:
        self._slices: dict[int | None, _Slice] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the next records of the file."""
        if not batch.num_rows:
            return
        partitions = _get_lengths(batch.column("partition"))
        if (np.diff(partitions) < 0).any():
            order = np.argsort(partitions, kind="stable")
            batch, partitions = batch.take(pa.array(order)), partitions[order]
        streams = _ByteStreams(batch)
        cuts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(cuts):
            number = int(partitions[start])
            self._slices.setdefault(None if number == _NULL else number, _Slice()).update(streams, start, end)

    def digests(self) -> dict[int | None, str]:
        """Return the SHA-256 (hex) of every partition's records so far; None: keyless records without a partition."""
        return {partition: piece.digest().hex() for partition, piece in self._sort_slices()}

    def file_digest(self) -> str:
        """Return the SHA-256 (hex) over all partitions: equal exactly if every partition's records are."""
        whole = hashlib.sha256(_FILE)
        for partition, piece in self._sort_slices():
            number = _NULL if partition is None else partition
            whole.update(np.array([number, piece.records], "<i8").tobytes() + piece.digest())
        return whole.hexdigest()

    def _sort_slices(self) -> list[tuple[int | None, _Slice]]:
        return sorted(self._slices.items(), key=lambda item: _NULL if item[0] is None else item[0])


class _Slice:
    """The running hashes of one partition."""

    __slots__ = ("_hashes", "records")

    def __init__(self) -> None:
        self.records = 0
        self._hashes = [hashlib.sha256() for _ in _STREAMS]

    def update(self, streams: _ByteStreams, start: int, end: int) -> None:
        self.records += end - start
        for running, data in zip(self._hashes, streams.slice_streams(start, end), strict=True):
            if len(data):
                running.update(data)

    def digest(self) -> bytes:
        whole = hashlib.sha256(_SLICE + np.array([self.records], "<i8").tobytes())
        for running in self._hashes:
            whole.update(running.digest())
        return whole.digest()


class _ByteStreams:
    """A batch as byte streams, with the position of each record in them."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        numbers = np.empty(batch.num_rows, _RECORD)
        for name, column in (("offset", "offset"), ("timestamp", "timestamp"), ("kind", "timestampType")):
            numbers[name] = _get_lengths(batch.column(column))
        numbers["key"], keys = _get_bytes(batch.column("key"))
        numbers["value"], values = _get_bytes(batch.column("value"))
        numbers["headers"] = _get_lengths(pc.list_value_length(batch.column("headers")))
        flat = batch.column("headers").flatten()
        lengths = np.empty(len(flat), _HEADER)
        lengths["key"], header_keys = _get_bytes(flat.field("key"))
        lengths["value"], header_values = _get_bytes(flat.field("value"))
        first_header = _compute_starts(numbers["headers"])
        # In the order of _STREAMS.
        self._data = [_read_buffer(numbers), keys, values, _read_buffer(lengths), header_keys, header_values]
        self._starts = [
            np.arange(batch.num_rows + 1) * _RECORD.itemsize,
            _compute_starts(numbers["key"]),
            _compute_starts(numbers["value"]),
            first_header * _HEADER.itemsize,
            _compute_starts(lengths["key"])[first_header],
            _compute_starts(lengths["value"])[first_header],
        ]

    def slice_streams(self, start: int, end: int) -> list[memoryview]:
        """Return the bytes of the records from ``start`` to before ``end``, per stream."""
        return [data[at[start] : at[end]] for data, at in zip(self._data, self._starts, strict=True)]


def _get_lengths(column: Any) -> Lengths:
    return np.asarray(column.fill_null(_NULL).to_numpy(zero_copy_only=False), np.int64)


def _compute_starts(lengths: Lengths) -> Lengths:
    """Return the start of each value, and the end of the last; null has length 0."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(lengths, 0))))


def _read_buffer(numbers: npt.NDArray[np.void]) -> memoryview:
    return memoryview(numbers.tobytes())


def _get_bytes(column: Any) -> tuple[Lengths, memoryview]:
    """Return the length of every value (-1 for null) and all values concatenated."""
    lengths = _get_lengths(pc.binary_length(column))
    if column.null_count:
        # A null may have leftover bytes in the buffer.
        column = column.drop_null()
    if not len(column):
        return lengths, memoryview(b"")
    ends = np.frombuffer(column.buffers()[1], np.int32)
    start, end = int(ends[column.offset]), int(ends[column.offset + len(column)])
    return lengths, memoryview(column.buffers()[2])[start:end] if end > start else memoryview(b"")
