"""Writes records as a Parquet file that people take away: no segment, and nothing of Winnow reads it."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.files.segments import ARROW_SCHEMA

ROW_GROUP_BYTES: Final = 32 << 20
"""Arrow bytes buffered before a row group of the Parquet file is written."""


class ParquetFile:
    """One Parquet file with the columns and types of a segment, or those of ``schema``."""

    def __init__(self, stream: Any, schema: pa.Schema | None = None) -> None:
        self._writer = pq.ParquetWriter(stream, schema or ARROW_SCHEMA, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Hold ``batch`` until a row group is full."""
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._held, self._held_bytes = [], 0

    def close(self) -> None:
        """Write the last row group and the footer."""
        self._flush()
        self._writer.close()
