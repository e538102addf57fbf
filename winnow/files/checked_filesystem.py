"""Gives DuckDB access to object stores, with page checksums checked on reading.

DuckDB reads ahead with several threads on one file object: each seeks and reads in two calls. Arrow's files have one
position for all threads, so a thread would read at another's position. Here each thread has its own.

From an object store DuckDB fetches whole column chunks, several in one request. They are checked in memory, page by
page, before they are handed over, so only the footer is transferred twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from fsspec.implementations.arrow import ArrowFSWrapper

from winnow.errors import BadInputError
from winnow.files.page_checksums import check_chunk, make_damaged_page_error
from winnow.files.parquet_footer import ColumnChunk, read_footer

if TYPE_CHECKING:
    from pyarrow import NativeFile

_MAXIMUM_CACHED_FILES: Final = 64
"""Footers kept in memory: DuckDB opens a file several times, and goes through files one after another."""


class CheckedFileSystem(ArrowFSWrapper):  # type: ignore[misc]
    """Arrow's client of one store behind fsspec's interface. Subclasses set ``protocol``."""

    cachable = False

    def __init__(self, filesystem: Any) -> None:
        super().__init__(filesystem)
        self._chunks: OrderedDict[str, list[ColumnChunk]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file for reading with checks; other modes are fsspec's."""
        if mode != "rb":
            return super().open(path, mode, **options)
        return CheckedFile(self, path, self.fs.open_input_file(self._strip_protocol(path)))

    def find_column_chunks(self, path: str, stream: NativeFile) -> list[ColumnChunk]:
        """Return the positions of a file's column chunks; the footer is read once.

        Raises:
            DamagedSegmentError: the footer is not what was written.
        """
        with self._lock:
            if path in self._chunks:
                self._chunks.move_to_end(path)
                return self._chunks[path]
        try:
            found = read_footer(stream).list_column_chunks()
        except BadInputError as problem:
            raise make_damaged_page_error(path) from problem
        with self._lock:
            self._chunks[path] = found
            while len(self._chunks) > _MAXIMUM_CACHED_FILES:
                self._chunks.popitem(last=False)
        return found


class CheckedFile:
    """One open file that threads can share: each has its own position."""

    def __init__(self, store: CheckedFileSystem, path: str, stream: NativeFile) -> None:
        self._store = store
        self._path = path
        self._stream = stream
        self._place = threading.local()

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return int(self._stream.size())

    def seek(self, position: int, whence: int = 0) -> int:
        """Move this thread's position; ``whence`` is that of :meth:`io.IOBase.seek`."""
        base = (0, self.tell(), self.size)[whence]
        self._place.position = base + position
        return base + position

    def tell(self) -> int:
        """Return this thread's position."""
        return int(getattr(self._place, "position", 0))

    def read(self, size_bytes: int = -1) -> bytes:
        """Read from this thread's position on and check the column chunks among the bytes.

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
        """Close the file."""
        self._stream.close()

    def flush(self) -> None:
        """Do nothing: the file is open for reading only."""

    def _check(self, data: bytes, start: int) -> None:
        if not self._path.endswith(".parquet"):
            return  # has no pages
        chunks = self._store.find_column_chunks(self._path, self._stream)
        # A chunk that is only partly in these bytes was fetched ahead; it is checked when it is fetched whole.
        for chunk in chunks:
            if start <= chunk.start and chunk.end <= start + len(data):
                check_chunk(self._path, memoryview(data)[chunk.start - start : chunk.end - start], chunk.values)
