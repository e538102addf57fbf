"""Reads the columns of a Parquet object in bounded batches.

Byte columns at the top are read as dictionaries where the file has them so: a few kilobytes of dictionary can stand for
gigabytes of records, and are expanded slice by slice only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import WinnowError
from winnow.files.parquet_footer import ColumnChunk, read_footer
from winnow.files.record_batch import MAXIMUM_BATCH_ROWS, Integers
from winnow.sources.formats.batches import measure_bytes, slice_by_size
from winnow.sources.formats.compression import open_seekable, read_start
from winnow.sources.input_errors import (
    COPY_AGAIN_ADVICE,
    DAMAGED_ADVICE,
    make_file_error,
    make_read_error,
    open_to_read,
)
from winnow.sources.objects import StoredObject

MAGIC = b"PAR1"
NOT_PARQUET = "this is not Parquet, or its footer or a page is damaged"

_BUFFER_BYTES = 1 << 20

_PLAIN_ROWS = 1024
"""Rows read at a time where dictionaries must be expanded at once."""
_NESTED_ROWS = 8192
"""Likewise where there are nested columns: bytes in them are few, but expanded at once; some become Python values."""
_DECODED_ROWS = 4096
"""Rows that are Python values at a time, at most."""
_DAMAGE = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError)
"""Names that are not UTF-8, and contradictions within the footer, raise Python's own errors."""


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
    with translate_parquet_errors(uri):
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
    with open_seekable(obj) as stream, translate_parquet_errors(obj.uri):
        return int(_open(stream).metadata.num_rows)


def read_footer_offsets(uri: str, partition: int | None, partitions: int) -> dict[int, tuple[int, int]] | None:
    """Return the lowest and the highest offset per partition; None if the footer does not tell them for certain.

    Records have columns ``offset`` and ``partition``. ``partition``: that of records that name none. ``partitions``:
    how many the topic has; with others, records have to be read to say which is wrong.
    """
    try:
        with open_to_read(uri) as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                return None
            footer = read_footer(stream)
        schema = footer.read_metadata().schema.to_arrow_schema()
    except (WinnowError, OSError, pa.ArrowException, UnicodeDecodeError):
        return None  # whoever reads the records says what is wrong
    numbers = {field.name for field in schema if pa.types.is_signed_integer(field.type)}
    bounds: dict[int, tuple[int, int]] = {}
    for group in footer.groups:
        chunks = {chunk.path: chunk for chunk in group.chunks}
        offsets = _find_bounds(chunks, "offset", numbers)
        named = (partition, partition) if "partition" not in chunks else _find_bounds(chunks, "partition", numbers)
        if offsets is None or named is None or named[0] is None or named[0] != named[1]:
            return None
        if not 0 <= named[0] < partitions:
            return None
        known = bounds.get(named[0], offsets)
        bounds[named[0]] = min(known[0], offsets[0]), max(known[1], offsets[1])
    return bounds


def _find_bounds(chunks: Mapping[str, ColumnChunk], column: str, numbers: Collection[str]) -> tuple[int, int] | None:
    """Return the bounds of an integer column of a row group, if it has no nulls."""
    chunk = chunks.get(column)
    if chunk is None or column not in numbers or chunk.nulls != 0:
        return None
    return chunk.bounds if chunk.bounds is not None and chunk.bounds[0] >= 0 else None


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
    file = ParquetReader(uri, stream, columns)
    _require_distinct(uri, file.schema)
    for batch in file.read(batch_bytes):
        with translate_parquet_errors(uri):
            sizes = _measure_rows(batch)
        for start, end in slice_by_size(sizes, batch_bytes):
            with translate_parquet_errors(uri):
                part = _expand(batch.slice(start, end - start))
            yield part


def read_parquet_values(obj: StoredObject, block_bytes: int, column: str | None = None) -> Iterator[Any]:
    """Yield each row as a dict, or the value of its ``column``: for structures that become JSON text.

    Raises:
        BadInputError: the object is damaged or cut off, or has no such column.
        ServiceError: its object store cannot be reached.
    """
    with open_seekable(obj) as stream:
        file = ParquetReader(
            obj.uri,
            stream,
            None if column is None else [column],
            is_compact=lambda _: False,
            most_rows=_DECODED_ROWS,
            advice=COPY_AGAIN_ADVICE,
            shorter=NOT_PARQUET,
        )
        if column is not None and column not in file.schema.names:
            raise make_file_error(obj.uri, f"it has no column {column}", "choose another --layout")
        _require_distinct(obj.uri, file.schema)
        for batch in file.read(block_bytes):
            with translate_parquet_errors(obj.uri, COPY_AGAIN_ADVICE):
                rows = batch.to_pylist(maps_as_pydicts="strict")
            yield from rows if column is None else (row[column] for row in rows)


def _require_distinct(uri: str, schema: pa.Schema) -> None:
    if len(set(schema.names)) < len(schema.names):
        raise make_file_error(uri, "two columns have the same name", "leave the object out with --exclude")


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
def translate_parquet_errors(uri: str, advice: str = DAMAGED_ADVICE) -> Iterator[None]:
    """Turn every error of the Parquet library but a lack of memory into one about a damaged object.

    Raises:
        BadInputError: there was one.
        ServiceError: there was one, and its object store cannot be reached.
    """
    try:
        yield
    except MemoryError:
        raise
    except _DAMAGE:
        raise make_read_error(uri, NOT_PARQUET, advice) from None


class ParquetReader:
    """One file, opened twice: with its byte columns as dictionaries, and as they are.

    Metadata of column chunks is not read: PyArrow ends the whole process if a damaged footer contradicts itself there.

    Args:
        uri: for messages.
        stream: the file.
        columns: those to read, as far as it has them; None: all.
        is_compact: which byte columns are read as dictionaries, by their paths; those at the top.
        most_rows: at most so many at a time.
        advice: for damage.
        shorter: what to say if there are fewer records than the footer says.

    Raises:
        BadInputError: it is damaged.
        ServiceError: its object store cannot be reached.
    """

    def __init__(
        self,
        uri: str,
        stream: BinaryIO,
        columns: Sequence[str] | None = None,
        *,
        is_compact: Callable[[str], bool] = lambda path: "." not in path,
        most_rows: int | None = None,
        advice: str = DAMAGED_ADVICE,
        shorter: str = "it holds fewer records than its footer says",
    ) -> None:
        self._uri, self._advice, self._shorter = uri, advice, shorter
        with translate_parquet_errors(uri, advice):
            self._plain = _open(stream)
            self.schema: pa.Schema = self._plain.schema_arrow
            leaves = [self._plain.schema.column(index) for index in range(self._plain.metadata.num_columns)]
            compact = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and is_compact(leaf.path)]
            self._compact = _open(stream, compact) if compact else self._plain
            self._columns = None if columns is None else [name for name in columns if name in self.schema.names]
            self._groups = self._plain.metadata.num_row_groups
        if most_rows is None:
            is_nested = any(pa.types.is_nested(field.type) for field in self.schema)
            most_rows = _NESTED_ROWS if is_nested else MAXIMUM_BATCH_ROWS
        self._most_rows = most_rows

    def read(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of about ``batch_bytes`` in the file; raises as the class."""
        # One row group at a time: dictionaries cannot be read across two.
        for number in range(self._groups):
            with translate_parquet_errors(self._uri, self._advice):
                group = self._plain.metadata.row_group(number)
                wanted = batch_bytes * max(1, group.num_rows) // max(1, group.total_byte_size)
                missing = group.num_rows
            for batch in self._read_group(number, max(1, min(self._most_rows, wanted))):
                missing -= batch.num_rows
                yield batch
            if missing:
                # Arrow does not notice a column chunk that ends too early.
                raise make_read_error(self._uri, self._shorter, self._advice)

    def _read_group(self, number: int, rows: int) -> Iterator[pa.RecordBatch]:
        done = 0
        with suppress(*_DAMAGE):
            for batch in self._compact.iter_batches(rows, row_groups=[number], columns=self._columns):
                yield batch
                done += batch.num_rows
            return
        # Pages in a delta encoding cannot be read as dictionaries. Damaged ones fail here too.
        plain = self._plain.iter_batches(min(rows, _PLAIN_ROWS), row_groups=[number], columns=self._columns)
        while True:
            with translate_parquet_errors(self._uri, self._advice):
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
        if pa.types.is_dictionary(column.type) or pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            sizes += measure_bytes(column)
        else:
            sizes += column.nbytes // max(1, batch.num_rows)
    return sizes


def _expand(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
