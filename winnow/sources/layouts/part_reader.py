"""Reads one object of Confluent's S3 sink, values, keys or headers, as columns of its entries in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa

from winnow.errors import BadInputError
from winnow.sources.input_errors import RecordFault, make_file_error, make_read_error, make_record_error, open_to_read
from winnow.sources.layouts import decoded_entries, json_entries
from winnow.sources.layouts.avro_file import open_avro
from winnow.sources.layouts.compression import open_decompressed
from winnow.sources.layouts.confluent_names import HEADERS, KEY, VALUE, ConfluentName, Format
from winnow.sources.layouts.delimited import split_entries
from winnow.sources.layouts.entries import EntryError
from winnow.sources.layouts.objects import StoredObject
from winnow.sources.layouts.parquet_rows import read_rows

LINE_END = b"\n"

MINIMUM_BLOCK_BYTES = 1 << 16
MAXIMUM_BLOCK_BYTES = 1 << 21

_ADVICE = "copy the object from its source again, or leave it out with --exclude"

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
            raise make_file_error(self.part.uri, wrong, _ADVICE)

    @property
    def _block_bytes(self) -> int:
        return max(MINIMUM_BLOCK_BYTES, min(MAXIMUM_BLOCK_BYTES, self.batch_bytes))

    def _read_json(self) -> Iterator[Any]:
        is_headers = self.name.role == HEADERS
        convert = json_entries.convert_headers if is_headers else json_entries.convert_values
        done = 0
        with open_decompressed(self.part) as stream:
            for lines in split_entries(self.part.uri, stream, LINE_END, self._block_bytes):
                try:
                    array = convert(lines)
                except EntryError as found:
                    raise self._make_entry_error("line", done + found.index + 1) from None
                self.is_structured |= not is_headers and json_entries.has_structures(lines)
                yield array
                done += len(lines)

    def _read_bin(self) -> Iterator[Any]:
        if self.name.role == HEADERS:
            raise make_file_error(self.part.uri, "headers are never in this format", "leave it out with --exclude")
        with self._open_bin() as stream:
            for entries in split_entries(self.part.uri, stream, self.separator, self._block_bytes):
                yield pa.array(entries, pa.binary())

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
                    raise make_read_error(self.part.uri, "it cannot be read to its end", _ADVICE) from None

    def _read_avro(self) -> Iterator[Any]:
        with open_avro(self.part) as file:
            yield from self._convert(file.read_records())

    def _read_parquet(self) -> Iterator[Any]:
        # Values are the rows themselves; keys and headers are wrapped in a record.
        column = {KEY: "key", HEADERS: "headers"}.get(self.name.role)
        return self._convert(read_rows(self.part, self._block_bytes, column))

    def _convert(self, entries: Iterator[Any]) -> Iterator[Any]:
        is_headers = self.name.role == HEADERS
        convert = decoded_entries.convert_headers if is_headers else decoded_entries.convert_values
        try:
            yield from convert(entries, self._block_bytes)
        except EntryError as found:
            raise self._make_entry_error("row", found.index + 1) from None

    def _make_entry_error(self, unit: str, number: int) -> BadInputError:
        wrong = f"this is not {_DESCRIPTIONS[self.name.role]} as this sink writes it"
        return make_record_error(self.part.uri, unit, number, RecordFault(wrong, _ADVICE, self.name.partition))
