"""Checks the pages of Parquet files against the checksums in their headers.

DuckDB ignores them, and zstd frames as Arrow writes them have none of their own: a flipped bit in a value would be
decoded, copied, and given a new, valid checksum. Nothing is decoded here: a page's checksum covers its bytes in the
file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import IO, Final

import pyarrow as pa

from winnow.errors import BadInputError, DamagedSegmentError
from winnow.files import storage
from winnow.files.parquet_footer import read_footer
from winnow.files.thrift_structs import ThriftReader

_BLOCK_BYTES: Final = 1 << 20
_HEADER_BYTES: Final = 256
"""More than Arrow's headers take without minima and maxima of long texts."""

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
    with storage.parse_local_path(uri).open("rb", buffering=0) as file:
        try:
            footer = read_footer(file)
            footer.read_metadata()
            chunks = footer.list_column_chunks()
        except (pa.ArrowException, UnicodeDecodeError, BadInputError) as problem:
            raise make_damaged_page_error(uri) from problem
        except OSError as problem:
            if problem.errno is not None:
                raise
            raise make_damaged_page_error(uri) from problem
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
class _Page:
    """The byte range of a page, its checksum, and the number of values it adds (0 for a dictionary)."""

    start: int
    end: int
    checksum: int | None
    values: int


def make_damaged_page_error(uri: str) -> DamagedSegmentError:
    """Make the error about a file with a changed page, footer or page header."""
    return DamagedSegmentError(f"segment {uri} cannot be decoded: a page is not the one that was written")


def _read_page(file: IO[bytes], at: int, end: int) -> _Page | None:
    """Return the page whose header begins at ``at``; None if none ends by ``end``."""
    size_bytes = _HEADER_BYTES
    while True:
        file.seek(at)
        reader = ThriftReader(file.read(min(size_bytes, end - at)))
        try:
            compressed_bytes, checksum, values = read_page_header(reader)
        except IndexError:
            if size_bytes >= end - at:
                return None
            size_bytes *= 16
            continue
        except ValueError:
            return None
        start = at + reader.at
        return _Page(start, start + compressed_bytes, checksum, values)


def _find_page(data: memoryview, at: int) -> _Page | None:
    """Return the page whose header begins at ``at`` of a chunk in memory; None if there is none."""
    reader = ThriftReader(data[at:])
    try:
        compressed_bytes, checksum, values = read_page_header(reader)
    except (IndexError, ValueError):
        return None
    start = at + reader.at
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


def read_page_header(reader: ThriftReader) -> tuple[int, int | None, int]:
    """Return the page's compressed size in bytes, its checksum (None without one), and its number of values.

    Raises:
        IndexError: the header continues beyond the data.
        ValueError: this is not a page header.
    """
    header = reader.read_struct()
    page_type, compressed_bytes, checksum = header.get(_PAGE_TYPE), header.get(_COMPRESSED_SIZE), header.get(_CRC)
    if not isinstance(page_type, int) or not isinstance(compressed_bytes, int) or compressed_bytes < 0:
        raise ValueError("no page header")
    # Readers silently skip pages of other types.
    inner = header.get(_HEADER_OF_TYPE.get(page_type, -1))
    if not isinstance(inner, dict):
        raise ValueError("no page header")
    values = 0 if _DICTIONARY_PAGE in header else inner.get(_NUM_VALUES, -1)
    if _DATA_PAGE in header and (inner.get(_DEFINITION_LEVELS), inner.get(_REPETITION_LEVELS)) != (_RLE, _RLE):
        raise ValueError("levels in another encoding")
    if not isinstance(values, int) or not isinstance(checksum, int | None):
        raise ValueError("no page header")
    return compressed_bytes, None if checksum is None else checksum & 0xFFFFFFFF, values
