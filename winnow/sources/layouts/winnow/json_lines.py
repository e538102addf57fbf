"""Reads JSON lines, plain or gzipped, one record per line, into checked batches.

msgspec rejects wrong types, unknown fields and invalid base64. Two faults that it accepts are found per batch: a
repeated field name, by counting quotation marks, and base64 with leftover bits, by its last characters. Then
:mod:`winnow.sources.layouts.winnow.line_faults` finds the first faulty line and its fault.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, Meta, Struct, UnsetType

from winnow.files.record_batch import (
    MAXIMUM_BATCH_ROWS,
    MAXIMUM_OFFSET,
    MAXIMUM_TIMESTAMP_MS,
    NO_TIMESTAMP_MS,
    ROW_BYTES,
    TIMESTAMP_TYPES,
    Integers,
    make_batch,
    make_headers,
)
from winnow.sources.input_errors import make_file_error, make_read_error, make_record_error, open_to_read
from winnow.sources.layouts.winnow.line_faults import MAXIMUM_PARTITIONS, UNKNOWN_FAULT, find_fault
from winnow.sources.topic_filter import TopicFilter

BLOCK_BYTES = 1 << 20

MINIMUM_BLOCK_BYTES = 1 << 16

MAXIMUM_LINE_BYTES = 1 << 30
"""No broker takes a record near this; without a maximum a file without line breaks would be read into memory whole."""

_CUT_OFF = "the gzip data is damaged or cut off"

_COPY_AGAIN = "copy the file from its source again"


@dataclass(slots=True)
class LineGroup:
    """Neighbouring lines without their line feeds; ``first`` is the number of the first one, from 1."""

    first: int
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


def read_line_groups(path: str, batch_bytes: int) -> Iterator[LineGroup]:
    """Yield the lines of ``path`` in groups of at most ``batch_bytes`` as Arrow and :data:`MAXIMUM_BATCH_ROWS`.

    Raises:
        BadInputError: the file cannot be read, its compression is damaged, or a line is longer than 1 GiB.
        ServiceError: its object store cannot be reached.
    """
    group = LineGroup(1)
    for block in _read_blocks(path, max(MINIMUM_BLOCK_BYTES, min(BLOCK_BYTES, batch_bytes))):
        ends = np.cumsum(np.fromiter(map(len, block), np.int64, len(block)) + ROW_BYTES)
        start, before = 0, 0
        while start < len(block):
            fit = int(np.searchsorted(ends, before + batch_bytes - group.size_bytes, side="right"))
            fit = max(start, min(fit, start + MAXIMUM_BATCH_ROWS - len(group.lines)))
            if fit == start and not group.lines:
                fit = start + 1
            if fit > start:
                group.lines += block[start:fit]
                group.size_bytes += int(ends[fit - 1]) - before
                start, before = fit, int(ends[fit - 1])
            if start < len(block):
                yield group
                group = LineGroup(group.first + len(group.lines))
    if group.lines:
        yield group


def _read_blocks(path: str, block_bytes: int) -> Iterator[list[bytes]]:
    """Yield the complete lines of each block of the file."""
    begun: list[bytes] = []
    begun_bytes = 0
    for data in _read_pieces(path, block_bytes):
        head, feed, tail = data.rpartition(b"\n")
        if feed:
            yield b"".join([*begun, head]).split(b"\n")
            begun, begun_bytes = [], 0
        begun.append(tail)
        begun_bytes += len(tail)
        if begun_bytes > MAXIMUM_LINE_BYTES:
            raise make_file_error(
                path, "a line is longer than 1 GiB", "write one record a line, each with a line break"
            )
    if begun_bytes:
        yield [b"".join(begun)]


def _read_pieces(path: str, block_bytes: int) -> Iterator[bytes]:
    with open_to_read(path) as stream:
        source: Any = stream
        if path.endswith(".gz"):
            if stream.size() == 0:
                # Python reads this as no data; it is the most common trace of a failed upload.
                raise make_file_error(path, _CUT_OFF, _COPY_AGAIN)
            source = gzip.GzipFile(fileobj=stream)
        while data := _read_bytes(path, source, block_bytes):
            yield data


def _read_bytes(path: str, source: Any, block_bytes: int) -> bytes:
    try:
        return bytes(source.read(block_bytes))
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise make_file_error(path, _CUT_OFF, _COPY_AGAIN) from None
    except OSError:
        raise make_read_error(path, "reading it failed", "check the disk and the file's permissions") from None


_PARTITION = Annotated[int, Meta(ge=0, le=2**31 - 1)]

_OFFSET = Annotated[int, Meta(ge=0, le=MAXIMUM_OFFSET)]

_TIMESTAMP = Annotated[int, Meta(ge=NO_TIMESTAMP_MS, le=MAXIMUM_TIMESTAMP_MS)]

_TIMESTAMP_TYPE = Annotated[int, Meta(ge=TIMESTAMP_TYPES[0], le=TIMESTAMP_TYPES[1])]

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)

_ESCAPED = {b"\\u%04x" % byte: bytes([byte]) for byte in _BASE64 + b"="} | {b"\\/": b"/"}

_QUOTE, _PAD = ord('"'), ord("=")


class _Header(Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: bytes | None


class _Line(Struct, forbid_unknown_fields=True, gc=False):
    """A record as documented. UNSET marks fields that were left out, which matters for counting quotation marks."""

    key: bytes | None
    value: bytes | None
    partition: _PARTITION | UnsetType | None = UNSET
    offset: _OFFSET | UnsetType | None = UNSET
    timestamp: _TIMESTAMP | UnsetType | None = UNSET
    kind: _TIMESTAMP_TYPE | UnsetType | None = msgspec.field(name="timestampType", default=UNSET)
    headers: list[_Header] | UnsetType | None = UNSET
    topic: str | UnsetType | None = UNSET
    epoch: int | UnsetType | None = UNSET
    source_offset: int | UnsetType | None = msgspec.field(default=UNSET, name="sourceOffset")


_decode = msgspec.json.Decoder(_Line).decode

_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_json_lines(
    path: str, *, records_of: TopicFilter, partitions: int | None, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``path`` in batches; blank lines are skipped but counted.

    Raises:
        BadInputError: a line is not a record as documented or of another topic, or the file cannot be read to its end.
        ServiceError: its object store cannot be reached.
    """
    reader = _Reader(path, records_of, partitions)
    for group in read_line_groups(path, batch_bytes):
        batch = reader.batch(group)
        if batch.num_rows:
            yield batch


class _Reader:
    def __init__(self, path: str, records_of: TopicFilter, partitions: int | None) -> None:
        self._path = path
        self._records_of = records_of
        self._partitions = partitions or 1
        self._maximum = partitions or MAXIMUM_PARTITIONS

    def batch(self, group: LineGroup) -> pa.RecordBatch:
        """Return the selected records of ``group``; raise for the first invalid line."""
        try:
            records = [_decode(line) for line in group.lines]
            rows = np.arange(group.first, group.first + len(records))
        except _UNDECODABLE:
            records, rows = self._decode_one_by_one(group)
        columns = _Columns(records)
        if _is_suspicious(group.lines, columns.quotes):
            self._require_records(group)
        taken = self._records_of.select_lines(columns.topics, self._path, rows, columns.get_coordinates)
        found = {"row": pa.array(rows, pa.int64()), **columns.get_by_name()}
        if taken is not None:
            # Before partitions are checked: another topic may have more of them.
            mask = pa.array(taken)
            found = {name: column.filter(mask) for name, column in found.items()}
        if _is_partition_out_of_range(found["partition"], self._maximum):
            self._require_records(group)
        return make_batch(found, self._partitions)

    def _decode_one_by_one(self, group: LineGroup) -> tuple[list[_Line], Integers]:
        """Decode a group line by line: it has blank or invalid lines."""
        records: list[_Line] = []
        rows: list[int] = []
        for number, line in enumerate(group.lines, group.first):
            if not _is_blank(line):
                try:
                    records.append(_decode(line))
                except _UNDECODABLE:
                    self._require_records(group)
                    raise make_record_error(self._path, "line", number, UNKNOWN_FAULT) from None
                rows.append(number)
        return records, np.array(rows, np.int64)

    def _require_records(self, group: LineGroup) -> None:
        for number, line in enumerate(group.lines, group.first):
            fault = None if _is_blank(line) else find_fault(line, self._records_of, self._maximum)
            if fault is not None:
                raise make_record_error(self._path, "line", number, fault) from None


def _is_blank(line: bytes) -> bool:
    return not line.strip(b" \t\r")


class _Columns:
    """Records as Arrow columns. ``quotes``: the number of quotation marks in the records if no name is repeated."""

    def __init__(self, records: list[_Line]) -> None:
        self._names = 2 * len(records)
        self.partition = pa.array(self._fill_absent([record.partition for record in records]), pa.int32())
        self.offset = pa.array(self._fill_absent([record.offset for record in records]), pa.int64())
        moments = self._fill_absent([record.timestamp for record in records])
        self.timestamp = pa.array([None if ms == NO_TIMESTAMP_MS else ms for ms in moments], pa.int64())
        self.kind = pa.array(self._fill_absent([record.kind for record in records]), pa.int32()).fill_null(0)
        self.key = pa.array([record.key for record in records], pa.binary())
        self.value = pa.array([record.value for record in records], pa.binary())
        self.topics: list[str | None] = self._fill_absent([record.topic for record in records])
        # What readers are told beside the record's own fields is not read back.
        self._fill_absent([record.epoch for record in records])
        self._fill_absent([record.source_offset for record in records])
        lists = self._fill_absent([record.headers for record in records])
        strings = 3 * len(records) - self.key.null_count - self.value.null_count - self.topics.count(None)
        headers = [header for each in lists if each for header in each]
        values = pa.array([header.value for header in headers], pa.binary())
        counts = np.array([-1 if each is None else len(each) for each in lists], np.int64)
        self.headers = make_headers(counts, pa.array([header.key for header in headers], pa.string()), values)
        self.quotes = 2 * (self._names + strings + 4 * len(headers) - values.null_count)

    def get_by_name(self) -> dict[str, Any]:
        """Return the columns under their names in the arriving schema."""
        return {
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp,
            "timestampType": self.kind,
            "key": self.key,
            "value": self.value,
            "headers": self.headers,
        }

    def _fill_absent(self, values: list[Any]) -> list[Any]:
        """Return ``values`` with None for fields left out, and count the names of the others."""
        absent = values.count(UNSET)
        self._names += len(values) - absent
        return [None if value is UNSET else value for value in values] if absent else values

    def get_coordinates(self, at: int) -> tuple[int | None, int | None]:
        """Return partition and offset of the record at index ``at``, None where it names none."""
        return self.partition[at].as_py(), self.offset[at].as_py()


def _is_partition_out_of_range(partition: Any, partitions: int) -> bool:
    """Check whether a record names a partition that the topic does not have."""
    named = partition.drop_null().to_numpy()
    return bool(len(named)) and int(named.max()) >= partitions


def _is_suspicious(lines: list[bytes], quotes: int) -> bool:
    """Check whether a field name may be repeated or base64 may have leftover bits; no false negatives."""
    text = b"\n".join(lines)
    if b"\\" in text:
        # An escaped quotation mark is content; an escaped base64 character counts as itself (Gson writes \u003d).
        text = _ESCAPE.sub(lambda found: _ESCAPED.get(found.group().lower(), b""), text)
    data = np.frombuffer(text, np.uint8)
    quoted = data == _QUOTE
    if int(np.count_nonzero(quoted)) != quotes:
        return True
    ends = np.flatnonzero(quoted[1:] & (data[:-1] == _PAD))
    before = data[ends - 1]
    last = np.where(before == _PAD, data[ends - 2], before)
    return bool((_LEFT_OVER[last] & np.where(before == _PAD, 0b1111, 0b11)).any())


def _decode_six_bits() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the six bits of each base64 character; all ones for other characters."""
    table = np.full(256, 0xFF, np.uint8)
    table[list(_BASE64)] = range(64)
    return table


_LEFT_OVER = _decode_six_bits()
