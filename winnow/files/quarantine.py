"""What a file of quarantined records is and where those of a compaction rest.

A compaction writes the keyless records that leave the log straight into the quarantine's folder, under plan id and
attempt, where the sweep of the log never looks. They count when the quarantine's table names the file and the log's
state names their ingest id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.files import storage

QUARANTINE_SCHEMA = pa.schema(
    [
        ("ingest_id", pa.string()),
        ("file_digest", pa.string()),
        ("row", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
    ]
)
"""Column order and types. ``file_digest`` and ``row`` are null for records that a compaction moved."""

ROW_GROUP_BYTES = 32 << 20
"""Arrow bytes buffered before a row group is written: what one open writer holds in memory."""


def moved_id(plan_id: str, attempt: str) -> str:
    """The ingest id of the keyless records that one attempt at a plan moved."""
    return f"{plan_id}-{attempt}"


def moved_folder(location: str, plan_id: str) -> str:
    """The folder, below the quarantine's ``location``, of the files that attempts at a plan wrote."""
    return storage.join(location, "data", plan_id)


def moved_file(location: str, plan_id: str, attempt: str, partition: int, number: int) -> str:
    """The URI of the ``number``-th file with keyless records of ``partition`` that one attempt writes."""
    return storage.join(moved_folder(location, plan_id), attempt, f"{partition:05d}-{number:05d}.parquet")


class QuarantineWriter:
    """Writes rows of :data:`QUARANTINE_SCHEMA` into files of at most about ``file_bytes``.

    ``name(n)`` gives the URI of the n-th file (from 0). Use as a context manager: leaving it by an exception closes the
    open file and leaves it behind, unreferenced.
    """

    def __init__(self, *, file_bytes: int, name: Callable[[int], str]) -> None:
        self._file_bytes = file_bytes
        self._name = name
        self._written: list[str] = []
        self._writer: pq.ParquetWriter | None = None
        self._stream: Any = None
        self._batches: list[pa.RecordBatch] = []
        self._buffered_bytes = 0

    def __enter__(self) -> QuarantineWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.finish()
        elif self._stream is not None:
            self._stream.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= min(ROW_GROUP_BYTES, max(self._file_bytes, 1 << 16)):
            self._flush()
            if self._stream.tell() >= self._file_bytes:
                self._close()

    def finish(self) -> tuple[str, ...]:
        """Close the open file; the URIs of all files (none when there were no rows)."""
        self._flush()
        self._close()
        return tuple(self._written)

    def _flush(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            uri = self._name(len(self._written))
            storage.make_parent(uri)
            filesystem, path = storage.filesystem_for(uri)
            self._stream = filesystem.open_output_stream(path)
            self._writer = pq.ParquetWriter(
                self._stream,
                QUARANTINE_SCHEMA,
                compression="zstd",
                write_page_checksum=True,
                # As in segments: no minima and maxima of user bytes.
                write_statistics=["ingest_id", "row", "partition", "offset"],
            )
            self._written.append(uri)
        table = pa.Table.from_batches(self._batches, QUARANTINE_SCHEMA)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._buffered_bytes = [], 0

    def _close(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._stream.close()
        self._writer, self._stream = None, None
