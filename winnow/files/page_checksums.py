"""Whether the pages of a Parquet file are those that were written, by the checksums in their headers.

DuckDB does not look at them, and zstd frames as Arrow writes them have none of their own: a bit that flipped in a value
would be decoded, copied, and given a new and sound checksum. Nothing is decoded here: the bytes of a page, as they lie
in the file, are what its checksum is about.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import DamagedSegmentError
from winnow.files import storage

_BLOCK_BYTES: Final = 1 << 20
_HEADER_BYTES: Final = 256
"""More than Arrow's headers have without minima and maxima of long texts."""

# Thrift's compact protocol, as far as Parquet's page headers go.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS: Final = (4, 5, 6)
_COMPRESSED_SIZE, _CRC = 3, 4
_COUNT_FOLLOWS: Final = 15
_LARGEST_SHIFT: Final = 63


def check_pages(uri: str, passed: Callable[[int], None] = lambda size_bytes: None) -> None:
    """Read a segment on a local disk and compare every page that has a checksum with it.

    Args:
        uri: the segment.
        passed: told after each piece how many of the file's bytes were read.

    Raises:
        DamagedSegmentError: a page differs, or pages do not fill the place that the footer gives them.
        OSError: the file is missing or cannot be read.
    """
    try:
        chunks = _chunks(uri)
    except pa.ArrowException as problem:
        raise _damaged(uri) from problem
    with storage.local_path(uri).open("rb", buffering=0) as file:
        block = memoryview(bytearray(_BLOCK_BYTES))
        for start, end in chunks:
            at = start
            while at < end:
                page = _page_at(file, at, end)
                if page is None or page.end > end:
                    raise _damaged(uri)
                if page.checksum is not None and _checksum(file, page, block) != page.checksum:
                    raise _damaged(uri)
                passed(page.end - at)
                at = page.end


@dataclass(frozen=True, slots=True)
class _Page:
    """From where to where the bytes of a page are, and what they should amount to."""

    start: int
    end: int
    checksum: int | None


def _damaged(uri: str) -> DamagedSegmentError:
    return DamagedSegmentError(f"segment {uri} cannot be decoded: a page is not the one that was written")


def _chunks(uri: str) -> list[tuple[int, int]]:
    """Where the pages of each column of each row group are, in the order of the file."""
    with pq.ParquetFile(storage.local_path(uri)) as source:
        metadata = source.metadata
        found = []
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                column = metadata.row_group(group).column(number)
                start = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)), default=0)
                found.append((start, start + column.total_compressed_size))
    return sorted(found)


def _page_at(file: IO[bytes], at: int, end: int) -> _Page | None:
    """The page whose header begins at ``at``; None: there is none that ends by ``end``."""
    size_bytes = _HEADER_BYTES
    while True:
        file.seek(at)
        header = _Header(file.read(min(size_bytes, end - at)))
        try:
            compressed_bytes, checksum = header.read()
        except IndexError:
            if size_bytes >= end - at:
                return None
            size_bytes *= 16
            continue
        except ValueError:
            return None
        start = at + header.at
        return _Page(start, start + compressed_bytes, checksum)


def _checksum(file: IO[bytes], page: _Page, block: memoryview) -> int:
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

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def read(self) -> tuple[int, int | None]:
        """Bytes of the page as it lies in the file, and its checksum, None where it has none.

        Raises:
            IndexError: the header goes on behind the data.
            ValueError: it is none.
        """
        numbers = self._struct()
        compressed_bytes, checksum = numbers.get(_COMPRESSED_SIZE), numbers.get(_CRC)
        if compressed_bytes is None or compressed_bytes < 0:
            raise ValueError("no page header")
        return compressed_bytes, None if checksum is None else checksum & 0xFFFFFFFF

    def _struct(self) -> dict[int, int]:
        """The numbers among the fields of a struct; all else is passed over."""
        numbers: dict[int, int] = {}
        field = 0
        while (byte := self._byte()) != _STOP:
            kind = byte & 0x0F
            field = field + (byte >> 4) if byte >> 4 else self._number()
            if kind in _NUMBERS:
                numbers[field] = self._number()
            else:
                self._pass_over(kind)
        return numbers

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
