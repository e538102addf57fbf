"""Where the columns of a Parquet file lie, and the bounds of those of whole numbers, by its footer.

Arrow's own ``metadata.row_group(0).column(0)`` ends the whole process where a bit of the footer has changed (PyArrow
25: an exception of its Parquet library that nothing catches), so it is asked for none of that here or elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from winnow.errors import BadInputError
from winnow.files.thrift_structs import Struct, ThriftReader

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8
"""The length of the footer, and the magic number."""
_READ_BYTES: Final = 64 << 10
"""Read at once from the end of a file: most footers are shorter."""

# Fields of Parquet's FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and Statistics.
_ROW_GROUPS, _COLUMNS, _DECODED_BYTES, _ROWS, _META_DATA = 4, 1, 2, 3, 3
_TYPE, _PATH, _NUM_VALUES, _COMPRESSED_BYTES, _DATA_PAGE, _DICTIONARY_PAGE, _STATISTICS = 1, 3, 5, 7, 9, 11, 12
_OLD_MAXIMUM, _OLD_MINIMUM, _NULL_COUNT, _MAXIMUM, _MINIMUM = 1, 2, 3, 5, 6
_WHOLE_NUMBER_BYTES: Final = {1: 4, 2: 8}
"""Of Parquet's physical types INT32 and INT64."""


@runtime_checkable
class SharedFile(Protocol):
    """A file of Arrow's that is open to read: threads share its position, which is left alone."""

    def size(self) -> int:
        """Return its size in bytes."""

    def read_at(self, size: int, offset: int, /) -> bytes:
        """Read so many bytes from a place on, fewer only at the end."""


class SeekableFile(Protocol):
    """A file of Python's that is open to read."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a place; return it."""

    def read(self, size: int, /) -> bytes:
        """Read so many bytes, fewer only at the end."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """The byte range of a leaf column in a row group, and the number of its values.

    ``path``: the column's path, with dots. ``bounds``: the lowest and the highest of its values, if it is of whole
    numbers (signed or not: as if they were signed), and the footer tells. ``nulls``: how many there are; None: unknown.
    """

    path: str
    start: int
    end: int
    values: int
    bounds: tuple[int, int] | None = None
    nulls: int | None = None

    @property
    def column(self) -> str:
        """The top-level column."""
        return self.path.split(".", 1)[0]

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group. ``decoded_bytes``: of its pages, not compressed."""

    rows: int
    decoded_bytes: int
    chunks: tuple[ColumnChunk, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return sum(chunk.size_bytes for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Footer:
    """A footer. ``end``: the end of the file, from the footer on."""

    groups: tuple[RowGroup, ...]
    end: bytes

    def list_column_chunks(self) -> list[ColumnChunk]:
        """List the column chunks of all row groups, in the order of the file.

        Raises:
            BadInputError: two of them overlap, so the footer is damaged.
        """
        chunks = sorted((chunk for group in self.groups for chunk in group.chunks), key=lambda chunk: chunk.start)
        if any(after.start < before.end for before, after in pairwise(chunks)):
            raise BadInputError("The footer gives two columns the same bytes.")
        return chunks

    def read_metadata(self) -> pq.FileMetaData:
        """Have Arrow parse it, without reading it again.

        Raises:
            pa.ArrowException, OSError: it cannot.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pq.read_metadata(pa.BufferReader(self.end))


def read_footer(file: SeekableFile | SharedFile) -> Footer:
    """Read the footer of an open file. Several threads may do so at the same time where the file is Arrow's.

    Raises:
        BadInputError: this is no Parquet, or the footer is damaged.
        OSError: it cannot be read.
    """
    end = file.size() if isinstance(file, SharedFile) else file.seek(0, 2)
    tail = _read_end(file, end, min(end, _READ_BYTES))
    size_bytes = int.from_bytes(tail[-_TAIL_BYTES : -len(_MAGIC)], "little")
    if len(tail) < _TAIL_BYTES or tail[-len(_MAGIC) :] != _MAGIC or size_bytes > end - _TAIL_BYTES:
        raise BadInputError("The file does not end as Parquet does.")
    if size_bytes + _TAIL_BYTES > len(tail):
        tail = _read_end(file, end, size_bytes + _TAIL_BYTES)
    tail = tail[-_TAIL_BYTES - size_bytes :]
    try:
        footer = ThriftReader(tail[:-_TAIL_BYTES]).read_struct()
        groups = tuple(_make_group(group, end) for group in footer[_ROW_GROUPS])
    except (IndexError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise BadInputError("The footer of the file is damaged.") from problem
    return Footer(groups, tail)


def _read_end(file: SeekableFile | SharedFile, end: int, size_bytes: int) -> bytes:
    if isinstance(file, SharedFile):
        return file.read_at(size_bytes, end - size_bytes)
    file.seek(end - size_bytes)
    return file.read(size_bytes)


def _make_group(group: Struct, file_bytes: int) -> RowGroup:
    if group[_ROWS] < 0 or group[_DECODED_BYTES] < 0:
        raise ValueError("less than nothing")
    return RowGroup(
        group[_ROWS], group[_DECODED_BYTES], tuple(_make_chunk(column, file_bytes) for column in group[_COLUMNS])
    )


def _make_chunk(column: Struct, file_bytes: int) -> ColumnChunk:
    found = column[_META_DATA]
    start = min(filter(None, (found.get(_DICTIONARY_PAGE), found[_DATA_PAGE])), default=0)
    statistics = found.get(_STATISTICS, {})
    low, high = (statistics.get(new, statistics.get(old)) for new, old in _BOUNDS)
    number_bytes = _WHOLE_NUMBER_BYTES.get(found[_TYPE])
    told = number_bytes is not None and low is not None and high is not None and len(low) == len(high) == number_bytes
    if not 0 <= start <= start + found[_COMPRESSED_BYTES] <= file_bytes or found[_NUM_VALUES] < 0:
        raise ValueError("a column chunk outside of the file")
    return ColumnChunk(
        path=b".".join(found[_PATH]).decode(),
        start=start,
        end=start + found[_COMPRESSED_BYTES],
        values=found[_NUM_VALUES],
        bounds=(_decode(low), _decode(high)) if told else None,
        nulls=statistics.get(_NULL_COUNT),
    )


_BOUNDS: Final = ((_MINIMUM, _OLD_MINIMUM), (_MAXIMUM, _OLD_MAXIMUM))


def _decode(number: bytes) -> int:
    return int.from_bytes(number, "little", signed=True)


def require_readable_footer(file: pq.ParquetFile) -> None:
    """Read a page of each column chunk: where Arrow cannot take what a footer says of one, reading gives an error.

    For readers that choose row groups by their statistics, as Arrow's datasets: these end the process there.

    Raises:
        pa.ArrowException, OSError: a column chunk cannot be read.
    """
    for number in range(file.num_row_groups):
        next(file.iter_batches(batch_size=1, row_groups=[number], use_threads=False), None)
