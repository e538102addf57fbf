"""Writes Parquet files of limited size, with page checksums and bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.files import storage

CODEC = "zstd"
ROW_GROUP_BYTES = 32 << 20
"""Arrow bytes buffered before a row group is written: the memory that one open writer holds."""


class RollingParquetWriter:
    """Writes rows of ``schema`` into files of about ``file_bytes`` or less.

    ``name(n)`` gives the URI of the n-th file (from 0); ``below``: the root under which no folder may be a link;
    ``parquet`` is passed to PyArrow's writer. Nothing is renamed.
    Use as a context manager: on an exception the open file is closed and left behind, unreferenced.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        file_bytes: int,
        name: Callable[[int], str],
        below: str | None = None,
        **parquet: Any,
    ) -> None:
        self._schema = schema
        self._below = below
        self._file_bytes = file_bytes
        self._name = name
        self._parquet = parquet
        self._write: list[str] = []
        self._writer: pq.ParquetWriter | None = None
        self._stream: Any = None
        self._batches: list[pa.RecordBatch] = []
        self._buffered_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._end()
        elif self._stream is not None:
            self._stream.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= min(ROW_GROUP_BYTES, max(self._file_bytes, 1 << 16)):
            self.flush()

    @property
    def held_bytes(self) -> int:
        """Arrow bytes of the rows buffered for the next row group."""
        return self._buffered_bytes

    @property
    def has_open_file(self) -> bool:
        """Whether a file is open."""
        return self._writer is not None

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        self._flush()
        if self._stream is not None and self._stream.tell() >= self._file_bytes:
            self._close()

    def abandon(self) -> list[str]:
        """Close the open file early and return the URIs of everything written, for the caller to remove."""
        if self._writer is not None:
            with contextlib.suppress(Exception):  # the caller is already failing for another reason
                self._writer.close()
                self._stream.close()
            self._writer, self._stream = None, None
        return list(self._write)

    def _end(self) -> None:
        self._flush()
        self._close()

    def _flush(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            uri = self._name(len(self._write))
            with storage.translate_store_errors(uri):
                self._stream = storage.create_file(uri, below=self._below)
            self._writer = pq.ParquetWriter(
                self._stream, self._schema, compression=CODEC, write_page_checksum=True, **self._parquet
            )
            self._write.append(uri)
        table = pa.Table.from_batches(self._batches, self._schema)
        with storage.translate_store_errors(self._write[-1]):
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._buffered_bytes = [], 0

    def _close(self) -> None:
        if self._writer is None:
            return
        with storage.translate_store_errors(self._write[-1]):
            self._writer.close()
            size_bytes = self._stream.tell()
            self._stream.close()
        self._writer, self._stream = None, None
        self._handle_closed_file(self._write[-1], size_bytes)

    def _handle_closed_file(self, uri: str, size_bytes: int) -> None:
        """Handle a complete file; subclasses override this."""
