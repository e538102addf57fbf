"""Gives DuckDB access to object stores, with page checksums checked on reading.

DuckDB reads ahead with threads of its own, several of which use one file object: each moves to a place and reads there,
in two calls. With one position for all of them, which is what Arrow's files have, a thread would get the bytes of
another's place. So each thread has a position of its own here.

From an object store DuckDB fetches whole column chunks, several in one request. Those are checked in memory, page by
page, against their checksums before they are handed over, so no byte is transferred twice but the footer's.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.arrow import ArrowFSWrapper

from winnow.errors import BadInputError
from winnow.files.page_checksums import ColumnChunk, check_chunk, list_column_chunks, make_damaged_page_error

if TYPE_CHECKING:
    from pyarrow import NativeFile

_MAXIMUM_CACHED_FILES: Final = 64
"""Footers that are kept: DuckDB opens a file several times, and goes through files one after another."""


class CheckedFileSystem(ArrowFSWrapper):  # type: ignore[misc]
    """Arrow's client of one store under fsspec's interface. ``protocol`` is set by those who derive from this."""

    cachable = False

    def __init__(self, filesystem: Any) -> None:
        super().__init__(filesystem)
        self._chunks: OrderedDict[str, list[ColumnChunk]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """A file for reading; anything else as fsspec does it."""
        if mode != "rb":
            return super().open(path, mode, **options)
        return CheckedFile(self, path, self.fs.open_input_file(self._strip_protocol(path)))

    def find_column_chunks(self, path: str, stream: NativeFile) -> list[ColumnChunk]:
        """Where the column chunks of a file are; the footer is read once.

        Raises:
            DamagedSegmentError: the footer is not what was written.
        """
        with self._lock:
            if path in self._chunks:
                self._chunks.move_to_end(path)
                return self._chunks[path]
        try:
            found = list_column_chunks(pq.read_metadata(stream))
        except (pa.ArrowInvalid, UnicodeDecodeError, BadInputError) as problem:
            raise make_damaged_page_error(path) from problem
        with self._lock:
            self._chunks[path] = found
            while len(self._chunks) > _MAXIMUM_CACHED_FILES:
                self._chunks.popitem(last=False)
        return found


class CheckedFile:
    """One open file. Threads may use it together: each has a position of its own."""

    def __init__(self, store: CheckedFileSystem, path: str, stream: NativeFile) -> None:
        self._store = store
        self._path = path
        self._stream = stream
        self._place = threading.local()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self._stream.size())

    def seek(self, position: int, whence: int = 0) -> int:
        """Move this thread's position; ``whence`` as in :meth:`io.IOBase.seek`."""
        base = (0, self.tell(), self.size)[whence]
        self._place.position = base + position
        return base + position

    def tell(self) -> int:
        """This thread's position."""
        return int(getattr(self._place, "position", 0))

    def read(self, size_bytes: int = -1) -> bytes:
        """The bytes from this thread's position on; column chunks among them were checked.

        Raises:
            DamagedSegmentError: a page is not the one that was written.
        """
        start = self.tell()
        wanted = self.size - start if size_bytes < 0 else size_bytes
        data: bytes = self._stream.read_at(wanted, start)
        self._place.position = start + len(data)
        self._check(data, start)
        return data

    def close(self) -> None:
        """Close it."""
        self._stream.close()

    def flush(self) -> None:
        """Nothing is written."""

    def _check(self, data: bytes, start: int) -> None:
        if not self._path.endswith(".parquet"):
            return  # has no pages
        chunks = self._store.find_column_chunks(self._path, self._stream)
        # What reaches beyond was fetched ahead of need; it is checked when its chunk is fetched.
        for chunk in chunks:
            if start <= chunk.start and chunk.end <= start + len(data):
                check_chunk(self._path, memoryview(data)[chunk.start - start : chunk.end - start], chunk.values)
