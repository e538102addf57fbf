"""Reads archives of Confluent's S3 sink: values, keys and headers lie beside each other and are joined by line number.

No format has offsets or timestamps. The first record of an object has the offset in its name, each further one the
next: these offsets are derived, and lower than the true ones behind a gap (transaction markers, records that the sink
skipped, tombstones among the values, records that a partitioner put elsewhere).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from winnow.errors import BadInputError
from winnow.files.record_batch import MAXIMUM_OFFSET
from winnow.sources.envelope import make_chunk, tell_by_name
from winnow.sources.formats.avro import open_avro
from winnow.sources.formats.batches import measure_bytes, measure_headers, slice_by_size
from winnow.sources.formats.compression import open_decompressed
from winnow.sources.formats.lines import split_entries
from winnow.sources.formats.parquet import read_parquet_values
from winnow.sources.input_errors import (
    COPY_AGAIN_ADVICE,
    Place,
    RecordFault,
    make_file_error,
    make_read_error,
    make_record_error,
    open_to_read,
)
from winnow.sources.layouts.confluent import entries
from winnow.sources.layouts.confluent.entries import EntryError
from winnow.sources.layouts.confluent.names import (
    HEADERS,
    KEY,
    VALUE,
    ConfluentName,
    Format,
    parse_last_offset,
    parse_name,
)
from winnow.sources.objects import ArchiveObject, ReadOptions, RecordChunk, StoredObject


class UnequalLengthsError(Exception):
    """The columns do not have the same number of entries: ``counts`` by name."""

    def __init__(self, counts: dict[str, int]) -> None:
        super().__init__(counts)
        self.counts = counts


def align_columns(columns: Mapping[str, Iterator[Any]]) -> Iterator[dict[str, Any]]:
    """Yield slices of equal length of all ``columns`` (iterators of Arrow arrays).

    Raises:
        UnequalLengthsError: one of them ends before the others; found at its end, not before.
    """
    heads: dict[str, Any] = {}
    done = 0
    while True:
        for name, arrays in columns.items():
            while name not in heads or len(heads[name]) == 0:
                following = next(arrays, None)
                if following is None:
                    heads.pop(name, None)
                    break
                heads[name] = following
        if not heads:
            return
        if len(heads) < len(columns):
            rest = {name: len(heads.get(name, ())) + sum(map(len, arrays)) for name, arrays in columns.items()}
            raise UnequalLengthsError({name: done + count for name, count in rest.items()})
        length = min(map(len, heads.values()))
        yield {name: array.slice(0, length) for name, array in heads.items()}
        heads = {name: array.slice(length) for name, array in heads.items()}
        done += length


def slice_columns(columns: Mapping[str, Any], batch_bytes: int) -> Iterator[dict[str, Any]]:
    """Yield ``columns`` in slices of at most ``batch_bytes`` and the maximum of rows; a larger record is alone."""
    measured = [
        measure_headers(column) if pa.types.is_list(column.type) else measure_bytes(column)
        for column in columns.values()
    ]
    for start, end in slice_by_size(np.sum(measured, axis=0), batch_bytes):
        yield {name: array.slice(start, end - start) for name, array in columns.items()}


LINE_END = b"\n"

MINIMUM_BLOCK_BYTES = 1 << 16
MAXIMUM_BLOCK_BYTES = 1 << 21

_DESCRIPTIONS = {VALUE: "a value", KEY: "a key", HEADERS: "an array of headers"}


@dataclass(slots=True)
class PartReader:
    """Reads one object, once.

    ``name``: what the object's name tells. ``batch_bytes``: about how much to read at a time. ``separator``: what ends
    each entry of ``bin`` (``format.bytearray.separator``). ``is_structured``: whether an entry of JSON read so far was
    neither a string nor null.
    """

    part: StoredObject
    name: ConfluentName
    batch_bytes: int
    separator: bytes = LINE_END
    is_structured: bool = False

    def read(self) -> Iterator[Any]:
        """Yield the entries as Arrow arrays of any length above 0: bytes, or headers as in a record batch.

        Raises:
            BadInputError: the object is damaged or cut off, or an entry is not what this sink writes.
            ServiceError: its object store cannot be reached.
        """
        readers = {
            Format.JSON: self._read_json,
            Format.BIN: self._read_bin,
            Format.AVRO: self._read_avro,
            Format.PARQUET: self._read_parquet,
        }
        is_empty = True
        for array in readers[self.name.format]():
            yield array
            is_empty = False
        if is_empty:
            wrong = "it has no records, and this sink writes no such objects: it is cut off"
            raise make_file_error(self.part.uri, wrong, COPY_AGAIN_ADVICE)

    @property
    def _block_bytes(self) -> int:
        return max(MINIMUM_BLOCK_BYTES, min(MAXIMUM_BLOCK_BYTES, self.batch_bytes))

    def _read_json(self) -> Iterator[Any]:
        is_headers = self.name.role == HEADERS
        convert = entries.convert_json_headers if is_headers else entries.convert_json_values
        done = 0
        with open_decompressed(self.part) as stream:
            for lines in split_entries(self.part.uri, stream, LINE_END, self._block_bytes):
                try:
                    array = convert(lines)
                except EntryError as found:
                    raise self._make_entry_error("line", done + found.index + 1) from None
                self.is_structured |= not is_headers and entries.has_structures(lines)
                yield array
                done += len(lines)

    def _read_bin(self) -> Iterator[Any]:
        if self.name.role == HEADERS:
            raise make_file_error(self.part.uri, "headers are never in this format", "leave it out with --exclude")
        with self._open_bin() as stream:
            for block in split_entries(self.part.uri, stream, self.separator, self._block_bytes):
                yield pa.array(block, pa.binary())

    @contextmanager
    def _open_bin(self) -> Iterator[BinaryIO]:
        """Open bytes. Without compression in the name they are not unpacked: the first value may look compressed."""
        if self.name.compression is not None:
            with open_decompressed(self.part) as stream:
                yield stream
        else:
            with open_to_read(self.part.uri) as stream:
                try:
                    yield cast(BinaryIO, stream)
                except OSError:
                    raise make_read_error(self.part.uri, "it cannot be read to its end", COPY_AGAIN_ADVICE) from None

    def _read_avro(self) -> Iterator[Any]:
        with open_avro(self.part) as file:
            yield from self._convert(file.read_records())

    def _read_parquet(self) -> Iterator[Any]:
        # Values are the rows themselves; keys and headers are wrapped in a record.
        column = {KEY: "key", HEADERS: "headers"}.get(self.name.role)
        return self._convert(read_parquet_values(self.part, self._block_bytes, column))

    def _convert(self, decoded: Iterator[Any]) -> Iterator[Any]:
        is_headers = self.name.role == HEADERS
        convert = entries.convert_headers if is_headers else entries.convert_values
        try:
            yield from convert(decoded, self._block_bytes)
        except EntryError as found:
            raise self._make_entry_error("row", found.index + 1) from None

    def _make_entry_error(self, unit: str, number: int) -> BadInputError:
        wrong = f"this is not {_DESCRIPTIONS[self.name.role]} as this sink writes it"
        return make_record_error(
            self.part.uri, unit, number, RecordFault(wrong, COPY_AGAIN_ADVICE, self.name.partition)
        )


def read_confluent(
    obj: ArchiveObject, options: ReadOptions | None = None, *, separator: bytes = LINE_END
) -> Iterator[RecordChunk]:
    """Yield the records of one archive object; one without values holds tombstones.

    Headers are empty where there is no object of headers, keys null where there is none of keys.

    Args:
        obj: as :func:`winnow.sources.layouts.confluent.names.pair_objects` makes them.
        options: the size of batches.
        separator: what ends each value or key in ``bin`` (``format.bytearray.separator``).

    Raises:
        BadInputError: an object is damaged or cut off, or values, keys and headers do not line up.
        ServiceError: an object store cannot be reached.
    """
    options = options or ReadOptions()
    readers = {role: _make_reader(obj.parts[role], options, separator) for role in obj.parts}
    columns: dict[str, Any] = {role: reader.read() for role, reader in readers.items()}
    done = 0
    try:
        for aligned in align_columns(columns):
            for part in slice_columns(aligned, options.batch_bytes):
                rows = len(next(iter(part.values())))
                _check_offsets(obj, done + rows)
                place = Place(obj.uri, "record", np.arange(done + 1, done + rows + 1))
                structured = [role for role, reader in readers.items() if reader.is_structured]
                yield make_chunk(place, **part, **tell_by_name(obj, place), structured=structured)
                done += rows
    except UnequalLengthsError as found:
        raise _make_unequal_error(obj, found.counts) from None
    finally:
        for column in columns.values():
            column.close()


def _make_reader(part: StoredObject, options: ReadOptions, separator: bytes) -> PartReader:
    name = parse_name(part.uri)
    if name is None:
        raise make_file_error(
            part.uri, "it is not named as Confluent's S3 sink names objects", "choose another --layout"
        )
    return PartReader(part, name, options.batch_bytes, separator)


def _check_offsets(obj: ArchiveObject, records: int) -> None:
    """Raise if so many records have no offsets from the one in the name of ``obj`` on."""
    if obj.first_offset is None:
        return
    last = parse_last_offset(obj.uri)
    if last is not None and obj.first_offset + records - 1 > last:
        raise make_file_error(
            obj.uri,
            f"it holds more records than its name has offsets, from {obj.first_offset} to {last}",
            "is it another program's? Leave it out with --exclude",
        )
    if obj.first_offset + records - 1 > MAXIMUM_OFFSET:
        raise make_file_error(
            obj.uri, "its name has an offset too large for its records", "leave it out with --exclude"
        )


def _make_unequal_error(obj: ArchiveObject, counts: dict[str, int]) -> Exception:
    shown = ", ".join(f"{obj.parts[role].uri} has {counts[role]}" for role in counts)
    wrong = f"values, keys and headers do not line up, so no key can be told to belong to a value: {shown}"
    return make_file_error(
        obj.uri,
        wrong,
        "this sink writes such objects if it skips errors (errors.tolerance=all), or if bytes hold line ends; "
        "leave all of them out with --exclude",
    )
