"""Reads the rows of a Parquet object as Python values, with bounded memory: for structures that become JSON text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.sources.formats.compression import open_seekable
from winnow.sources.input_errors import make_file_error, make_read_error
from winnow.sources.objects import StoredObject

MAGIC = b"PAR1"

BUFFER_BYTES = 1 << 20

MAXIMUM_ROWS = 4096
"""Rows that are Python values at a time, at most."""

_ADVICE = "copy the object from its source again, or leave it out with --exclude"


def read_rows(obj: StoredObject, block_bytes: int, column: str | None = None) -> Iterator[Any]:
    """Yield each row as a dict, or the value of its ``column``.

    Raises:
        BadInputError: the object is damaged or cut off, or has no such column.
        ServiceError: its object store cannot be reached.
    """
    with open_seekable(obj) as stream:
        with _translate_errors(obj.uri):
            file = _open(stream)
            names = file.schema_arrow.names
        if column is not None and column not in names:
            raise make_file_error(obj.uri, f"it has no column {column}", "choose another --layout")
        if len(set(names)) < len(names):
            raise make_file_error(obj.uri, "two columns have the same name", "leave the object out with --exclude")
        for batch in _read_batches(obj.uri, file, block_bytes, column):
            with _translate_errors(obj.uri):
                rows = batch.to_pylist(maps_as_pydicts="strict")
            yield from rows if column is None else (row[column] for row in rows)


def _open(stream: BinaryIO) -> pq.ParquetFile:
    return pq.ParquetFile(
        stream,
        pre_buffer=False,
        buffer_size=BUFFER_BYTES,
        page_checksum_verification=True,
        # Nanoseconds, the default, silently wrap beyond the year 2262; fractions of a microsecond are cut off instead.
        coerce_int96_timestamp_unit="us",
    )


def _read_batches(uri: str, file: pq.ParquetFile, block_bytes: int, column: str | None) -> Iterator[pa.RecordBatch]:
    # Metadata of column chunks is not read: PyArrow ends the process if a damaged footer contradicts itself there.
    with _translate_errors(uri):
        groups = file.metadata.num_row_groups
    for number in range(groups):
        with _translate_errors(uri):
            group = file.metadata.row_group(number)
            missing = group.num_rows
            wanted = block_bytes * max(1, missing) // max(1, group.total_byte_size)
            batches = file.iter_batches(
                max(1, min(MAXIMUM_ROWS, wanted)), row_groups=[number], columns=None if column is None else [column]
            )
        while True:
            with _translate_errors(uri):
                batch = next(batches, None)
                if batch is None:
                    # Arrow does not notice a column chunk that ends too early.
                    if missing:
                        raise pa.ArrowInvalid("fewer rows than the footer says")
                    break
            missing -= batch.num_rows
            yield batch


@contextmanager
def _translate_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError):
        raise make_read_error(uri, "this is not Parquet, or its footer or a page is damaged", _ADVICE) from None
