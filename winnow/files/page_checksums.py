"""Checks the pages of Parquet files against the checksums in their headers.

DuckDB does not look at them, and zstd frames as Arrow writes them have none of their own: a bit that flipped in a value
would be decoded, copied, and given a new and sound checksum. Nothing is decoded here: the bytes of a page, as they lie
in the file, are what its checksum is about.
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
"""More than Arrow's headers have without minima and maxima of long texts."""

# Thrift's compact protocol, as far as Parquet's page headers go.
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
    passed: Callable[[int], None] = lambda size_bytes: None,
    *,
    columns: Collection[str] | None = None,
) -> None:
    """Read a segment on a local disk and compare every page that has a checksum with it.

    The headers of pages have none. What a reader would follow silently is checked: a page of a type that readers pass
    over, levels in another encoding, and pages that do not add up to the number of values that the footer gives.

    Args:
        uri: the segment.
        passed: called after each page with how many of the file's bytes were read.
        columns: the top-level columns whose pages are read; None: all.

    Raises:
        DamagedSegmentError: a page differs, or pages do not fill the place that the footer gives them.
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
                passed(page.end - at)
                at, values = page.end, values + page.values
            if values != chunk.values:
                raise make_damaged_page_error(uri)


def check_local_pages(uris: Iterable[str], columns: Collection[str]) -> None:
    """:func:`check_pages` of those ``uris`` that are on a local disk, before DuckDB reads these columns of them.

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
        DamagedSegmentError: a page of the file ``uri`` differs, or they do not hold ``values`` values together.
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
    """From where to where the pages of a column of a row group are, and how many values they hold.

    ``column`` is the top-level column.
    """

    column: str
    start: int
    end: int
    values: int


@dataclass(frozen=True, slots=True)
class _Page:
    """From where to where the bytes of a page are, their checksum, and how many values it adds (a dictionary: 0)."""

    start: int
    end: int
    checksum: int | None
    values: int


def make_damaged_page_error(uri: str) -> DamagedSegmentError:
    """The error about a file of which a page, or what leads to its pages, is not what was written."""
    return DamagedSegmentError(f"segment {uri} cannot be decoded: a page is not the one that was written")


def list_column_chunks(metadata: pq.FileMetaData) -> list[ColumnChunk]:
    """Where the pages of each column of each row group are, in the order of the file.

    Raises:
        BadInputError: two of them overlap, so a footer that was damaged makes one column of another's bytes.
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
    """The page whose header begins at ``at``; None: there is none that ends by ``end``."""
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
    """The page whose header begins at ``at`` of a chunk in memory; None: there is none."""
    header = _Header(data[at:])
    try:
        compressed_bytes, checksum, values = header.read()
    except (IndexError, ValueError):
        return None
    start = at + header.at
    return _Page(start, start + compressed_bytes, checksum, values)


def _compute_checksum(file: IO[bytes], page: _Page, block: memoryview) -> int:
    file.seek(page.start)
    checksum, left = 0, page.end - page.start
    while left:
        read_bytes = file.readinto(block[:left])  # type: ignore[attr-defined]
        if not read_bytes:
            return -1  # cut off meanwhile
        checksum = zlib.crc32(block[:read_bytes], checksum)
        left -= read_bytes
    return checksum


class _Header:
    """A page header: a struct of which two fields count. ``at``: how far it has been read."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self.at = 0

    def read(self) -> tuple[int, int | None, int]:
        """Bytes of the page as it lies in the file, its checksum (None where it has none), and its values.

        Raises:
            IndexError: the header goes on behind the data.
            ValueError: it is none.
        """
        numbers, structs = self._struct()
        compressed_bytes, checksum = numbers.get(_COMPRESSED_SIZE), numbers.get(_CRC)
        # Readers pass over pages of other types without a word.
        inner = structs.get(_HEADER_OF_TYPE.get(numbers.get(_PAGE_TYPE, -1), -1))
        if compressed_bytes is None or compressed_bytes < 0 or inner is None:
            raise ValueError("no page header")
        values = 0
        if _DICTIONARY_PAGE not in structs:
            values = inner.get(_NUM_VALUES, -1)
        if _DATA_PAGE in structs and (inner.get(_DEFINITION_LEVELS), inner.get(_REPETITION_LEVELS)) != (_RLE, _RLE):
            raise ValueError("levels in another encoding")
        return compressed_bytes, None if checksum is None else checksum & 0xFFFFFFFF, values

    def _struct(self) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
        """The numbers among the fields of a struct, and those of the structs in it; all else is passed over."""
        numbers: dict[int, int] = {}
        structs: dict[int, dict[int, int]] = {}
        field = 0
        while (byte := self._byte()) != _STOP:
            kind = byte & 0x0F
            field = field + (byte >> 4) if byte >> 4 else self._number()
            if kind in _NUMBERS:
                numbers[field] = self._number()
            elif kind == _STRUCT:
                structs[field] = self._struct()[0]
            else:
                self._pass_over(kind)
        return numbers, structs

    def _pass_over(self, kind: int) -> None:
        if kind in (_TRUE, _FALSE):
            return
        if kind == _BYTE:
            self._skip(1)
        elif kind in _NUMBERS:
            self._varint()
        elif kind == _DOUBLE:
            self._skip(8)
        elif kind == _BINARY:
            self._skip(self._varint())
        elif kind in (_LIST, _SET):
            byte = self._byte()
            for _ in range(byte >> 4 if byte >> 4 < _COUNT_FOLLOWS else self._varint()):
                self._skip(1) if byte & 0x0F in (_TRUE, _FALSE) else self._pass_over(byte & 0x0F)
        elif kind == _STRUCT:
            self._struct()
        else:
            raise ValueError("no page header")

    def _skip(self, size_bytes: int) -> None:
        self.at += size_bytes
        if self.at > len(self._data):
            raise IndexError

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > _LARGEST_SHIFT:
                raise ValueError("no page header")
        return value | byte << shift

    def _number(self) -> int:
        zigzag = self._varint()
        return (zigzag >> 1) ^ -(zigzag & 1)
