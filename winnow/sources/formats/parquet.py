"""Reads the columns of a Parquet object in bounded batches.

Byte columns at the top are read as dictionaries where the file has them so: a few kilobytes of dictionary can stand for
gigabytes of records, and are expanded slice by slice only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.files.record_batch import MAXIMUM_BATCH_ROWS, Integers
from winnow.sources.formats.batch_sizes import slice_by_size
from winnow.sources.formats.compression import open_seekable, read_start
from winnow.sources.input_errors import DAMAGED_ADVICE, make_file_error, make_read_error
from winnow.sources.objects import StoredObject

MAGIC = b"PAR1"

_BUFFER_BYTES = 1 << 20

_PLAIN_ROWS = 1024
"""Rows read at a time where dictionaries must be expanded at once."""
_NESTED_ROWS = 8192
"""Likewise where there are nested columns: bytes in them are few, but expanded at once; some become Python values."""


@dataclass(frozen=True, slots=True)
class ParquetSchema:
    """``columns``: as Arrow reads them. ``avro``: the Avro schema that they were made of, if a writer left it."""

    columns: pa.Schema
    avro: bytes | None


def read_parquet_schema(obj: StoredObject) -> ParquetSchema:
    """Return the schema in the footer of ``obj``.

    Raises:
        BadInputError: this is not Parquet, or damaged or cut off.
        ServiceError: an object store cannot be reached.
    """
    with open_seekable(obj) as stream:
        return read_stream_schema(obj.uri, stream)


def read_stream_schema(uri: str, stream: BinaryIO) -> ParquetSchema:
    """Do the same as :func:`read_parquet_schema` for an open stream; ``uri`` is for messages."""
    with _translate_errors(uri):
        schema = _open(stream).schema_arrow
        return ParquetSchema(schema, (schema.metadata or {}).get(b"parquet.avro.schema"))


def count_parquet_rows(obj: StoredObject) -> int | None:
    """Return the number of rows in the footer of ``obj``, None if it is no Parquet.

    Raises:
        BadInputError: it is damaged or cut off.
        ServiceError: an object store cannot be reached.
    """
    if read_start(obj, len(MAGIC)) != MAGIC:
        return None
    with open_seekable(obj) as stream, _translate_errors(obj.uri):
        return int(_open(stream).metadata.num_rows)


def read_parquet_batches(
    obj: StoredObject, batch_bytes: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``obj`` with the columns that it has of ``columns`` (None: all), without dictionaries.

    Raises:
        BadInputError: this is not Parquet, or damaged or cut off, or two columns have the same name.
        ServiceError: an object store cannot be reached.
    """
    with open_seekable(obj) as stream:
        yield from read_stream_batches(obj.uri, stream, batch_bytes, columns)


def read_stream_batches(
    uri: str, stream: BinaryIO, batch_bytes: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Do the same as :func:`read_parquet_batches` for an open stream; ``uri`` is for messages."""
    with _translate_errors(uri):
        file = _File(uri, stream, columns)
    if len(set(file.schema.names)) < len(file.schema.names):
        raise make_file_error(uri, "two columns have the same name", "leave the object out with --exclude")
    for batch in file.read(batch_bytes):
        with _translate_errors(uri):
            sizes = _measure_rows(batch)
        for start, end in slice_by_size(sizes, batch_bytes):
            with _translate_errors(uri):
                part = _expand(batch.slice(start, end - start))
            yield part


def _open(stream: BinaryIO, read_dictionary: list[str] | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(
        stream,
        read_dictionary=read_dictionary,
        pre_buffer=False,
        buffer_size=_BUFFER_BYTES,
        page_checksum_verification=True,
        # Nanoseconds, the default, silently wrap beyond the year 2262; fractions of a microsecond are cut off instead.
        coerce_int96_timestamp_unit="us",
    )


@contextmanager
def _translate_errors(uri: str) -> Iterator[None]:
    """Turn every error of the Parquet library but a lack of memory into one about a damaged object."""
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError):
        # Names that are not UTF-8, and contradictions within the footer, raise Python's own errors.
        wrong = "this is not Parquet, or its footer or a page is damaged"
        raise make_read_error(uri, wrong, DAMAGED_ADVICE) from None


class _File:
    """One file, opened twice: with its byte columns as dictionaries, and as they are.

    Metadata of column chunks is not read: PyArrow ends the whole process if a damaged footer contradicts itself there.
    """

    def __init__(self, uri: str, stream: BinaryIO, columns: Sequence[str] | None) -> None:
        self._uri = uri
        self._plain = _open(stream)
        self.schema: pa.Schema = self._plain.schema_arrow
        leaves = [self._plain.schema.column(index) for index in range(self._plain.metadata.num_columns)]
        compact = [leaf.path for leaf in leaves if "." not in leaf.path and leaf.physical_type == "BYTE_ARRAY"]
        self._compact = _open(stream, compact)
        self._columns = None if columns is None else [name for name in columns if name in self.schema.names]
        nested = [field for field in self.schema if pa.types.is_nested(field.type)]
        self._most_rows = _NESTED_ROWS if nested else MAXIMUM_BATCH_ROWS

    def read(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        with _translate_errors(self._uri):
            groups = self._plain.metadata.num_row_groups
        # One row group at a time: dictionaries cannot be read across two.
        for number in range(groups):
            with _translate_errors(self._uri):
                group = self._plain.metadata.row_group(number)
                wanted = batch_bytes * max(1, group.num_rows) // max(1, group.total_byte_size)
                missing = group.num_rows
            for batch in self._read_group(number, max(1, min(self._most_rows, wanted))):
                missing -= batch.num_rows
                yield batch
            if missing:
                # Arrow does not notice a column chunk that ends too early.
                raise make_file_error(self._uri, "it holds fewer records than its footer says", DAMAGED_ADVICE)

    def _read_group(self, number: int, rows: int) -> Iterator[pa.RecordBatch]:
        done = 0
        with suppress(pa.ArrowException, OSError):
            for batch in self._compact.iter_batches(rows, row_groups=[number], columns=self._columns):
                yield batch
                done += batch.num_rows
            return
        # Pages in a delta encoding cannot be read as dictionaries. Damaged ones fail here too.
        plain = self._plain.iter_batches(min(rows, _PLAIN_ROWS), row_groups=[number], columns=self._columns)
        while True:
            with _translate_errors(self._uri):
                batch = next(plain, None)
            if batch is None:
                return
            fresh = batch.slice(min(done, batch.num_rows))
            done -= batch.num_rows - fresh.num_rows
            if fresh.num_rows:
                yield fresh


def _measure_rows(batch: pa.RecordBatch) -> Integers:
    """Return the expanded size in bytes of each row; nested columns count with their average."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            sizes += _measure_dictionary(column)
        elif _is_bytes(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
        else:
            sizes += column.nbytes // max(1, batch.num_rows)
    return sizes


def _measure_dictionary(column: Any) -> Integers:
    lengths = np.append(pc.fill_null(pc.binary_length(column.dictionary), 0).to_numpy(), 0)
    places = column.indices.drop_null().to_numpy()
    # A damaged page may point outside its dictionary, and Arrow does not check before it reads there.
    if len(places) and not 0 <= places.min() <= places.max() < len(column.dictionary):
        raise pa.ArrowInvalid("a place outside the dictionary")
    return np.asarray(lengths[pc.fill_null(column.indices, len(column.dictionary)).to_numpy()], np.int64)


def _is_bytes(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind))


def _expand(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
