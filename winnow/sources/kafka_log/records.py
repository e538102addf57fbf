"""Turns the uncompressed records of many batches into Arrow columns at once.

Only where each record begins is found one by one. Every field of all records is then decoded together: lengths and
deltas are numbers of one to ten bytes (Protobuf's varints, zigzag), decoded byte by byte across records. Keys, values
and headers are slices of one buffer, which Arrow copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.files.record_batch import (
    HEADER_BYTES,
    MAXIMUM_TIMESTAMP_MS,
    NO_TIMESTAMP_MS,
    RECORD_SCHEMA,
    ROW_BYTES,
    Integers,
    make_headers,
)
from winnow.sources.kafka_log.batches import BatchHeader, Bytes

MAXIMUM_INT_BYTES = 5
MAXIMUM_LONG_BYTES = 10
_PADDING = bytes(MAXIMUM_LONG_BYTES)
_LAST_BYTE = 0x80
_FEW = 16
"""Below this many records with a further header, stepping through them one by one is faster."""


class MalformedRecordError(Exception):
    """A record contradicts itself. ``batch``: the index of its batch. The text completes "a record of it …"."""

    def __init__(self, batch: int, wrong: str) -> None:
        super().__init__(wrong)
        self.batch = batch


def find_ends(data: bytes, count: int) -> list[int]:
    """Return where each of the first ``count`` records in ``data`` ends; fewer if ``data`` ends before.

    Lengths below zero, which are damage, are taken for their opposite: columns are checked later.
    """
    ends: list[int] = []
    append = ends.append
    position, size = 0, len(data)
    try:
        for _ in repeat(None, count):
            byte = data[position]
            if byte < 0x80:  # noqa: PLR2004
                position += 1 + (byte >> 1)
            else:
                second = data[position + 1]
                if second < 0x80:  # noqa: PLR2004
                    position += 2 + ((byte & 0x7F | second << 7) >> 1)
                else:
                    position = _skip_long(data, position)
            append(position)
    except IndexError:
        pass
    while ends and ends[-1] > size:
        ends.pop()
    return ends


def measure_record(data: bytes) -> int:
    """Return how many bytes the record that begins ``data`` has; one more than there are if that cannot be told yet."""
    try:
        return _skip_long(data, 0) if data[0] & 1 == 0 else len(data) + 1
    except IndexError:
        return len(data) + 1


def _skip_long(data: bytes, position: int) -> int:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:  # noqa: PLR2004
            return position + (value >> 1)
        shift += 7


@dataclass(slots=True)
class RecordGroup:
    """Whole records of consecutive batches. A batch may be spread over several groups."""

    headers: list[BatchHeader] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    ends: list[Sequence[int]] = field(default_factory=list)
    size_bytes: int = 0
    rows: int = 0

    def add(self, header: BatchHeader, piece: bytes, ends: Sequence[int], size_bytes: int) -> None:
        """Add records of the batch of ``header``: those that end in ``piece`` at ``ends``.

        ``piece`` begins with the first of them. ``size_bytes``: what :meth:`measure` says.
        """
        self.headers.append(header)
        self.counts.append(len(ends))
        self.pieces.append(piece)
        self.ends.append(ends)
        self.size_bytes += size_bytes
        self.rows += len(ends)

    @staticmethod
    def measure(piece: bytes, ends: Sequence[int]) -> int:
        """Return the bytes of memory that the records in ``piece`` take."""
        return len(piece) + ROW_BYTES * len(ends)


@dataclass(frozen=True, slots=True)
class ParsedRecords:
    """``columns``: of the record schema but for ``row`` and ``partition``. ``sizes``: Arrow's bytes per record."""

    columns: dict[str, Any]
    sizes: Integers

    def make_batches(self, partition: int, first_row: int, batch_bytes: int, batch_rows: int) -> list[pa.RecordBatch]:
        """Make batches of at most ``batch_bytes`` and ``batch_rows``; a larger record is a batch by itself."""
        total = len(self.sizes)
        columns = {
            **self.columns,
            "row": pa.array(np.arange(first_row, first_row + total)),
            "partition": pa.array(np.full(total, partition, np.int32)),
        }
        whole = pa.RecordBatch.from_arrays([columns[name] for name in RECORD_SCHEMA.names], schema=RECORD_SCHEMA)
        ends = np.cumsum(self.sizes)
        batches, start, before = [], 0, 0
        while start < total:
            end = int(np.searchsorted(ends, before + batch_bytes, side="right"))
            end = min(max(end, start + 1), start + batch_rows)
            batches.append(whole.slice(start, end - start))
            start, before = end, int(ends[end - 1])
        return batches


def parse_records(group: RecordGroup, first_offset: int, end_offset: int) -> ParsedRecords:
    """Decode the records of ``group`` from ``first_offset`` on, below ``end_offset``.

    Raises:
        MalformedRecordError: a record contradicts itself or its batch.
    """
    return _Parser(group).parse(first_offset, end_offset)


class _Parser:
    def __init__(self, group: RecordGroup) -> None:
        self._group = group
        self._buffer = b"".join([*group.pieces, _PADDING])
        self._data: Bytes = np.frombuffer(self._buffer, np.uint8)
        counts = np.array(group.counts, np.int64)
        self._batch = np.repeat(np.arange(len(counts)), counts)
        bases = np.cumsum([0, *map(len, group.pieces)])[:-1]
        flat = np.fromiter(chain.from_iterable(group.ends), np.int64, group.rows)
        self._ends = flat + bases[self._batch]
        starts = np.empty_like(self._ends)
        starts[1:] = self._ends[:-1]
        filled = counts > 0
        # Each piece begins with a record, whatever the one before ends with.
        starts[(np.cumsum(counts) - counts)[filled]] = bases[filled]
        self._starts = starts

    def parse(self, first_offset: int, end_offset: int) -> ParsedRecords:
        length, at = self._decode(self._starts, MAXIMUM_INT_BYTES)
        self._require_none(at + length != self._ends, "has an impossible length")
        time_delta, at = self._decode(at + 1, MAXIMUM_LONG_BYTES)
        offset_delta, at = self._decode(at, MAXIMUM_INT_BYTES)
        key_size, key_at = self._decode(at, MAXIMUM_INT_BYTES)
        value_size, value_at = self._decode(key_at + np.maximum(key_size, 0), MAXIMUM_INT_BYTES)
        counts, at = self._decode(value_at + np.maximum(value_size, 0), MAXIMUM_INT_BYTES)
        # A header has two bytes at least.
        self._require_none((counts < 0) | (2 * counts > self._ends - at), "has an impossible number of headers")
        headers = self._walk_headers(counts, at)
        offset = self._check_offsets(offset_delta)
        timestamp, kind = self._make_timestamps(time_delta)
        keep = (offset >= first_offset) & (offset < end_offset)
        if not keep.all():
            headers = headers.take(np.repeat(keep, counts))
            counts, offset, timestamp, kind = counts[keep], offset[keep], timestamp[keep], kind[keep]
            key_at, key_size, value_at, value_size = key_at[keep], key_size[keep], value_at[keep], value_size[keep]
            self._batch = self._batch[keep]
        names = self._cut(headers.key_at, headers.key_size)
        return ParsedRecords(
            {
                "offset": pa.array(offset),
                "timestamp": pa.array(timestamp, mask=timestamp == NO_TIMESTAMP_MS),
                "timestampType": pa.array(kind),
                "key": self._cut(key_at, key_size),
                "value": self._cut(value_at, value_size),
                "headers": make_headers(
                    counts, self._decode_names(names, counts), self._cut(headers.value_at, headers.value_size)
                ),
            },
            _measure(counts, key_size, value_size, headers),
        )

    def _decode(self, at: Integers, maximum: int, rows: Integers | None = None) -> tuple[Integers, Integers]:
        """Decode the numbers at ``at``, one of each record (of ``rows``); return them and where they end."""
        limits = self._ends if rows is None else self._ends[rows]
        # A record that ends before leaves the first of these positions inside of the padding.
        self._require_none(at >= limits, "ends too early", rows)
        byte = self._data[at]
        value = (byte & 0x7F).astype(np.uint64)
        more = np.flatnonzero(byte >= _LAST_BYTE)
        at = at + 1
        shift = 7
        while len(more):
            if shift >= 7 * maximum:
                self._raise_malformed(int(more[0]), "has a number with too many bytes", rows)
            byte = self._data[at[more]]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more = more[byte >= _LAST_BYTE]
            shift += 7
        self._require_none(at > limits, "ends too early", rows)
        if maximum == MAXIMUM_INT_BYTES:
            self._require_none(value >> np.uint64(32) != 0, "has a number that is too large", rows)
        one = np.uint64(1)
        return ((value >> one) ^ (np.uint64(0) - (value & one))).view(np.int64), at

    def _walk_headers(self, counts: Integers, at: Integers) -> _Headers:
        total = int(counts.sum())
        headers = _Headers(*(np.zeros(total, np.int64) for _ in range(4)))
        first = np.cumsum(counts) - counts
        rows = np.flatnonzero(counts)
        at = at.copy()
        number = 0
        while len(rows) >= _FEW:
            here = at[rows]
            key_size, key_at = self._decode(here, MAXIMUM_INT_BYTES, rows)
            self._require_none(key_size < 0, "has a header without a name", rows)
            value_size, value_at = self._decode(key_at + key_size, MAXIMUM_INT_BYTES, rows)
            headers.put(first[rows] + number, key_at, key_size, value_at, value_size)
            at[rows] = value_at + np.maximum(value_size, 0)
            number += 1
            rows = rows[counts[rows] > number]
        for row in rows.tolist():
            at[row] = self._walk_one(
                row, int(at[row]), range(int(first[row]) + number, int(first[row] + counts[row])), headers
            )
        self._require_none(at != self._ends, "is longer or shorter than its fields")
        return headers

    def _walk_one(self, row: int, at: int, places: range, headers: _Headers) -> int:
        for place in places:
            key_size, key_at = self._decode_one(row, at)
            if key_size < 0:
                self._raise_malformed(row, "has a header without a name")
            value_size, value_at = self._decode_one(row, key_at + key_size)
            headers.put(place, key_at, key_size, value_at, value_size)
            at = value_at + max(value_size, 0)
        return at

    def _decode_one(self, row: int, at: int) -> tuple[int, int]:
        value, at = 0, int(at)
        for shift in range(0, 7 * MAXIMUM_INT_BYTES, 7):
            if at >= self._ends[row]:
                self._raise_malformed(row, "ends too early")
            byte = self._buffer[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < _LAST_BYTE:
                break
        else:
            self._raise_malformed(row, "has a number with too many bytes")
        if value >> 32:
            self._raise_malformed(row, "has a number that is too large")
        return (value >> 1) ^ -(value & 1), at

    def _check_offsets(self, delta: Integers) -> Integers:
        last = np.array([header.last_offset_delta for header in self._group.headers], np.int64)[self._batch]
        base = np.array([header.base_offset for header in self._group.headers], np.int64)[self._batch]
        self._require_none((delta < 0) | (delta > last), "has an offset outside of the batch")
        offset: Integers = base + delta
        self._require_none(np.append(False, np.diff(offset) <= 0), "has an offset that is not above the one before")
        return offset

    def _make_timestamps(self, delta: Integers) -> tuple[Integers, npt.NDArray[np.int32]]:
        headers = self._group.headers
        appended = np.array([header.has_append_time for header in headers])[self._batch]
        base = np.array([header.base_timestamp for header in headers], np.int64)[self._batch]
        maximum = np.array([header.maximum_timestamp for header in headers], np.int64)[self._batch]
        timestamp = np.where(appended, maximum, base + delta)
        impossible = (timestamp < NO_TIMESTAMP_MS) | (timestamp > MAXIMUM_TIMESTAMP_MS)
        self._require_none(impossible, "has a timestamp that no client sends")
        return timestamp, appended.astype(np.int32)

    def _cut(self, at: Integers, size: Integers) -> Any:
        """Return the byte strings of ``size`` at ``at``, in ascending order, as a column; null where it is negative."""
        total = len(at)
        bounds = np.empty(2 * total + 1, np.int32)
        bounds[0:-1:2] = at
        bounds[1::2] = at + np.maximum(size, 0)
        bounds[-1] = len(self._buffer)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._buffer)]
        # Every second one; the others are what lies between.
        slices = pa.BinaryArray.from_buffers(pa.binary(), 2 * total, buffers)
        missing = size < 0
        places = pa.array(np.arange(0, 2 * total, 2), mask=missing if missing.any() else None)
        return slices.take(places)

    def _decode_names(self, names: Any, counts: Integers) -> Any:
        try:
            return names.cast(pa.string())
        except pa.ArrowInvalid:
            faulty = [not _is_utf8(name) for name in names.to_pylist()]
            row = np.repeat(np.arange(len(counts)), counts)[faulty.index(True)]
            raise MalformedRecordError(int(self._batch[row]), "has a header whose name is not UTF-8") from None

    def _require_none(self, wrong: npt.NDArray[np.bool_], words: str, rows: Integers | None = None) -> None:
        if wrong.any():
            self._raise_malformed(int(np.argmax(wrong)), words, rows)

    def _raise_malformed(self, index: int, words: str, rows: Integers | None = None) -> None:
        row = index if rows is None else int(rows[index])
        raise MalformedRecordError(int(self._batch[row]), words) from None


@dataclass(slots=True)
class _Headers:
    """Where names and values of headers are, and how long; -1 for null."""

    key_at: Integers
    key_size: Integers
    value_at: Integers
    value_size: Integers

    def put(self, place: Any, key_at: Any, key_size: Any, value_at: Any, value_size: Any) -> None:
        self.key_at[place], self.key_size[place] = key_at, key_size
        self.value_at[place], self.value_size[place] = value_at, value_size

    def take(self, keep: npt.NDArray[np.bool_]) -> _Headers:
        return _Headers(self.key_at[keep], self.key_size[keep], self.value_at[keep], self.value_size[keep])


def _measure(counts: Integers, key_size: Integers, value_size: Integers, headers: _Headers) -> Integers:
    each = HEADER_BYTES + headers.key_size + np.maximum(headers.value_size, 0)
    ends = np.append(0, np.cumsum(each))
    bounds = np.append(0, np.cumsum(counts))
    sizes: Integers = ROW_BYTES + np.maximum(key_size, 0) + np.maximum(value_size, 0) + np.diff(ends[bounds])
    return sizes


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
