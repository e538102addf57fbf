"""Checks the pages of Parquet files against the checksums in their headers.

DuckDB ignores them, and zstd frames as Arrow writes them have none of their own: a flipped bit in a value would be
decoded, copied, and given a new, valid checksum. Nothing is decoded here: a page's checksum covers its bytes in the
file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import BadInputError, DamagedSegmentError
from winnow.files import storage

_BLOCK_BYTES: Final = 1 << 20
_HEADER_BYTES: Final = 256
"""More than Arrow's headers take without minima and maxima of long texts."""

# The part of Thrift's compact protocol that Parquet's page headers use.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS: Final = (4, 5, 6)
_COUNT_FOLLOWS: Final = 15
_LARGEST_SHIFT: Final = 63

# Fields of Parquet's PageHeader and of the headers inside it.
_PAGE_TYPE, _COMPRESSED_SIZE, _CRC, _DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 1, 3, 4, 5, 7, 8
_HEADER_OF_TYPE: Final = {0: _DATA_PAGE, 2: _DICTIONARY_PAGE, 3: _DATA_PAGE_V2}
_NUM_VALUES, _DEFINITION_LEVELS, _REPETITION_LEVELS = 1, 3, 4
_RLE: Final = 3


def check_pages(
    uri: str,
    on_progress: Callable[[int], None] = lambda size_bytes: None,
    *,
    columns: Collection[str] | None = None,
) -> None:
    """Compare every page of a local segment that has a checksum with it.

    Page headers have no checksum. What a reader would skip silently is an error: a page of an unknown type, levels in
    another encoding, and pages whose values do not add up to the footer's.

    Args:
        uri: the segment.
        on_progress: called after each page with the number of bytes read.
        columns: the top-level columns whose pages are read; None: all.

    Raises:
        DamagedSegmentError: a page differs, or pages do not fill the bytes that the footer gives them.
        OSError: the file is missing or cannot be read.
    """
    try:
        with pq.ParquetFile(storage.parse_local_path(uri)) as source:
            chunks = list_column_chunks(source.metadata)
    except (pa.ArrowException, UnicodeDecodeError, BadInputError) as problem:
        raise make_damaged_page_error(uri) from problem
    except OSError as problem:
        if problem.errno is not None:
            raise
        raise make_damaged_page_error(uri) from problem
    with storage.parse_local_path(uri).open("rb", buffering=0) as file:
        block = memoryview(bytearray(_BLOCK_BYTES))
        for chunk in chunks:
            if columns is not None and chunk.column not in columns:
                continue
            at, values = chunk.start, 0
            while at < chunk.end:
                page = _read_page(file, at, chunk.end)
                if page is None or page.end > chunk.end:
                    raise make_damaged_page_error(uri)
                if page.checksum is not None and _compute_checksum(file, page, block) != page.checksum:
                    raise make_damaged_page_error(uri)
                on_progress(page.end - at)
                at, values = page.end, values + page.values
            if values != chunk.values:
                raise make_damaged_page_error(uri)


def check_local_pages(uris: Iterable[str], columns: Collection[str] | None) -> None:
    """Run :func:`check_pages` on the local files among ``uris``, before these columns of them are read; None: all.

    On an object store it would be a second transfer.

    Raises:
        DamagedSegmentError, OSError: as :func:`check_pages`.
    """
    for uri in uris:
        if storage.is_local(uri):
            check_pages(uri, columns=columns)


def check_chunk(uri: str, data: memoryview, values: int) -> None:
    """Compare the pages of a column chunk that is in memory with their checksums.

    Raises:
        DamagedSegmentError: a page of the file ``uri`` differs, or the pages do not hold ``values`` values in total.
    """
    at = found = 0
    while at < len(data):
        page = _find_page(data, at)
        if page is None or page.end > len(data):
            raise make_damaged_page_error(uri)
        if page.checksum is not None and zlib.crc32(data[page.start : page.end]) != page.checksum:
            raise make_damaged_page_error(uri)
        at, found = page.end, found + page.values
    if found != values:
        raise make_damaged_page_error(uri)


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """The byte range of a top-level column in a row group, and the number of its values."""

    column: str
    start: int
    end: int
    values: int


@dataclass(frozen=True, slots=True)
class _Page:
    """The byte range of a page, its checksum, and the number of values it adds (0 for a dictionary)."""

    start: int
    end: int
    checksum: int | None
    values: int


def make_damaged_page_error(uri: str) -> DamagedSegmentError:
    """Make the error about a file with a changed page, footer or page header."""
    return DamagedSegmentError(f"segment {uri} cannot be decoded: a page is not the one that was written")


def list_column_chunks(metadata: pq.FileMetaData) -> list[ColumnChunk]:
    """List the column chunks of all row groups, in the order of the file.

    Raises:
      BadInputError: two of them overlap, so the footer is damaged.
    """
    found = []
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            start = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)), default=0)
            name = column.path_in_schema.split(".", 1)[0]
            found.append(ColumnChunk(name, start, start + column.total_compressed_size, column.num_values))
    found.sort(key=lambda chunk: chunk.start)
    if any(after.start < before.end for before, after in pairwise(found)):
        raise BadInputError("The footer gives two columns the same bytes.")
    return found


def _read_page(file: IO[bytes], at: int, end: int) -> _Page | None:
    """Return the page whose header begins at ``at``; None if none ends by ``end``."""
    size_bytes = _HEADER_BYTES
    while True:
        file.seek(at)
        header = _Header(file.read(min(size_bytes, end - at)))
        try:
            compressed_bytes, checksum, values = header.read()
        except IndexError:
            if size_bytes >= end - at:
                return None
            size_bytes *= 16
            continue
        except ValueError:
            return None
        start = at + header.at
        return _Page(start, start + compressed_bytes, checksum, values)


def _find_page(data: memoryview, at: int) -> _Page | None:
    """Return the page whose header begins at ``at`` of a chunk in memory; None if there is none."""
    header = _Header(data[at:])
    try:
        compressed_bytes, checksum, values = header.read()
    except (IndexError, ValueError):
        return None
    start = at + header.at
    return _Page(start, start + compressed_bytes, checksum, values)


def _compute_checksum(file: IO[bytes], page: _Page, block: memoryview) -> int:
    file.seek(page.start)
    checksum, remaining = 0, page.end - page.start
    while remaining:
        read_bytes = file.readinto(block[:remaining])  # type: ignore[attr-defined]
        if not read_bytes:
            return -1  # truncated meanwhile
        checksum = zlib.crc32(block[:read_bytes], checksum)
        remaining -= read_bytes
    return checksum


class _Header:
    """A page header: a Thrift struct, of which few fields are used. ``at``: the number of bytes parsed."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self.at = 0

    def read(self) -> tuple[int, int | None, int]:
        """Return the page's compressed size in bytes, its checksum (None without one), and its number of values.

        Raises:
          IndexError: the header continues beyond the data.
          ValueError: this is not a page header.
        """
        numbers, structs = self._read_struct()
        compressed_bytes, checksum = numbers.get(_COMPRESSED_SIZE), numbers.get(_CRC)
        # Readers silently skip pages of other types.
        inner = structs.get(_HEADER_OF_TYPE.get(numbers.get(_PAGE_TYPE, -1), -1))
        if compressed_bytes is None or compressed_bytes < 0 or inner is None:
            raise ValueError("no page header")
        values = 0
        if _DICTIONARY_PAGE not in structs:
            values = inner.get(_NUM_VALUES, -1)
        if _DATA_PAGE in structs and (inner.get(_DEFINITION_LEVELS), inner.get(_REPETITION_LEVELS)) != (_RLE, _RLE):
            raise ValueError("levels in another encoding")
        return compressed_bytes, None if checksum is None else checksum & 0xFFFFFFFF, values

    def _read_struct(self) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
        """Return the number fields of a struct and those of the structs in it; other fields are skipped."""
        numbers: dict[int, int] = {}
        structs: dict[int, dict[int, int]] = {}
        field = 0
        while (byte := self._read_byte()) != _STOP:
            kind = byte & 0x0F
            field = field + (byte >> 4) if byte >> 4 else self._read_number()
            if kind in _NUMBERS:
                numbers[field] = self._read_number()
            elif kind == _STRUCT:
                structs[field] = self._read_struct()[0]
            else:
                self._skip_field(kind)
        return numbers, structs

    def _skip_field(self, kind: int) -> None:
        if kind in (_TRUE, _FALSE):
            return
        if kind == _BYTE:
            self._skip(1)
        elif kind in _NUMBERS:
            self._read_varint()
        elif kind == _DOUBLE:
            self._skip(8)
        elif kind == _BINARY:
            self._skip(self._read_varint())
        elif kind in (_LIST, _SET):
            byte = self._read_byte()
            for _ in range(byte >> 4 if byte >> 4 < _COUNT_FOLLOWS else self._read_varint()):
                self._skip(1) if byte & 0x0F in (_TRUE, _FALSE) else self._skip_field(byte & 0x0F)
        elif kind == _STRUCT:
            self._read_struct()
        else:
            raise ValueError("no page header")

    def _skip(self, size_bytes: int) -> None:
        self.at += size_bytes
        if self.at > len(self._data):
            raise IndexError

    def _read_byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _read_varint(self) -> int:
        value = shift = 0
        while (byte := self._read_byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > _LARGEST_SHIFT:
                raise ValueError("no page header")
        return value | byte << shift

    def _read_number(self) -> int:
        zigzag = self._read_varint()
        return (zigzag >> 1) ^ -(zigzag & 1)
