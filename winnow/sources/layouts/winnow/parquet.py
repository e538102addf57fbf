"""Reads Parquet files with the columns of Spark's Kafka source in bounded batches.

Byte columns are read as dictionaries where the file has them so: a few kilobytes of dictionary can stand for gigabytes
of records, and are expanded slice by slice only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.files.record_batch import HEADER_BYTES, MAXIMUM_BATCH_BYTES, MAXIMUM_BATCH_ROWS, ROW_BYTES, Integers
from winnow.sources.input_errors import RecordFault, make_file_error, make_read_error, make_record_error, open_to_read
from winnow.sources.layouts.winnow.parquet_columns import COLUMNS, RowFaultError, check_schema, convert_to_record_schema
from winnow.sources.topic_filter import TopicFilter

BUFFER_BYTES = 1 << 20
PLAIN_ROWS = 1024
"""Rows read at a time where dictionaries must be expanded at once."""


def read_parquet(
    path: str, *, records_of: TopicFilter, partitions: int | None, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``path`` in batches; columns that are not Kafka's are ignored.

    Corruption is detected by the file's structure and, if the writer stored them, by its page checksums.

    Raises:
        BadInputError: a record is not as documented or of another topic, a column is missing or of another type, or
            the file is damaged.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(path) as stream:
        file = _File(path, stream)
        problem = check_schema(file.schema)
        if problem is not None:
            raise make_file_error(path, *problem)
        first = 1
        for batch, sizes in file.batches(batch_bytes):
            if not batch.num_rows:
                continue
            names = batch.column("topic") if "topic" in batch.schema.names else None
            selected = records_of.select_rows(names, path, first, partial(_read_coordinates, batch))
            rows: Integers = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            if selected is not None:
                batch, sizes, rows = batch.filter(pa.array(selected)), sizes[selected], rows[selected]  # noqa: PLW2901
            done = 0
            try:
                for part in _slice_batch(batch, np.cumsum(sizes), batch_bytes):
                    mine = rows[done : done + part.num_rows]
                    yield convert_to_record_schema(part, rows=mine, topic=records_of.topic, partitions=partitions)
                    done += part.num_rows
            except RowFaultError as found:
                raise make_record_error(path, "row", int(rows[done + found.index]), found.fault) from None


def _read_coordinates(batch: pa.RecordBatch, at: int) -> tuple[int | None, int | None]:
    """Return partition and offset of the record at index ``at``, None where it names none."""
    named = [batch.column(name)[at].as_py() if name in batch.schema.names else None for name in ("partition", "offset")]
    return named[0], named[1]


def list_extra_columns(path: str) -> list[str]:
    """Return the columns of ``path`` that records do not use, in the order of the file.

    Raises:
        BadInputError: this is not Parquet.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(path) as stream, _translate_read_errors(path):
        return [name for name in _open(stream).schema_arrow.names if name not in COLUMNS]


def _open(stream: Any, read_dictionary: list[str] | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(
        stream,
        read_dictionary=read_dictionary,
        pre_buffer=False,
        buffer_size=BUFFER_BYTES,
        page_checksum_verification=True,
        # Nanoseconds, the default, silently wrap beyond the year 2262; fractions of a microsecond are cut off instead.
        coerce_int96_timestamp_unit="us",
    )


@contextmanager
def _translate_read_errors(path: str) -> Iterator[None]:
    """Turn every error of the Parquet library but a lack of memory into one about a damaged file."""
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError):
        # Names that are not UTF-8, and contradictions within the footer, raise Python's own errors.
        raise make_read_error(
            path, "this is not Parquet, or its footer or a page is damaged", "copy the file from its source again"
        ) from None


class _File:
    """One file, opened twice: with its byte columns as dictionaries, and as they are.

    Metadata of column chunks is not read: PyArrow ends the whole process if a damaged footer contradicts itself there.
    """

    def __init__(self, path: str, stream: Any) -> None:
        self._path = path
        with _translate_read_errors(path):
            self._plain = _open(stream)
            leaves = [self._plain.schema.column(index) for index in range(self._plain.metadata.num_columns)]
            self._compact = _open(
                stream,
                [leaf.path for leaf in leaves if _is_byte_column(leaf.path) and leaf.physical_type == "BYTE_ARRAY"],
            )
            self.schema: pa.Schema = self._plain.schema_arrow
            self._groups = self._plain.metadata.num_row_groups

    def batches(self, batch_bytes: int) -> Iterator[tuple[pa.RecordBatch, Integers]]:
        """Yield the file's own columns in batches, each with the expanded size in bytes of every record."""
        # One row group at a time: nested dictionaries cannot be read across two.
        for number in range(self._groups):
            with _translate_read_errors(self._path):
                group = self._plain.metadata.row_group(number)
                wanted = batch_bytes * max(1, group.num_rows) // max(1, group.total_byte_size)
                rows = max(1, min(MAXIMUM_BATCH_ROWS, wanted))
            missing = group.num_rows
            for batch in self._group(number, rows):
                with _translate_read_errors(self._path):
                    sizes = _measure_rows(batch)
                yield batch, sizes
                missing -= batch.num_rows
            with _translate_read_errors(self._path):
                # Arrow does not notice a column chunk that ends too early.
                if missing:
                    raise pa.ArrowInvalid("fewer records than the footer says")

    def _group(self, number: int, rows: int) -> Iterator[pa.RecordBatch]:
        done = 0
        with suppress(pa.ArrowException, OSError):
            for batch in self._compact.iter_batches(rows, row_groups=[number], columns=list(COLUMNS)):
                yield batch
                done += batch.num_rows
            return
        # Pages in a delta encoding cannot be read as dictionaries. Damaged ones fail here too.
        plain = self._plain.iter_batches(min(rows, PLAIN_ROWS), row_groups=[number], columns=list(COLUMNS))
        while True:
            with _translate_read_errors(self._path):
                batch = next(plain, None)
            if batch is None:
                return
            fresh = batch.slice(min(done, batch.num_rows))
            done -= batch.num_rows - fresh.num_rows
            if fresh.num_rows:
                yield fresh


def _is_byte_column(leaf: str) -> bool:
    return leaf in ("key", "value", "topic") or leaf.startswith("headers.")


def _slice_batch(batch: pa.RecordBatch, ends: Integers, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield ``batch`` in slices whose expanded records stay below the maximum; a larger record is alone."""
    start, before = 0, 0
    while start < batch.num_rows:
        if int(ends[start]) - before > MAXIMUM_BATCH_BYTES:
            raise RowFaultError(0, RecordFault("the record is larger than 1 GiB", "no broker accepts it; leave it out"))
        end = max(start + 1, int(np.searchsorted(ends, before + batch_bytes, side="right")))
        end = min(end, start + MAXIMUM_BATCH_ROWS)
        yield batch.slice(start, end - start)
        start, before = end, int(ends[end - 1])


def _measure_rows(batch: pa.RecordBatch) -> Integers:
    """Return the size in bytes of each record in a batch of the record schema."""
    if "topic" in batch.schema.names:
        _measure_values(batch.column("topic"))  # takes no space there, but may point outside its dictionary
    sizes = np.full(batch.num_rows, ROW_BYTES, np.int64)
    for name in ("key", "value"):
        sizes += _measure_values(batch.column(name))
    if "headers" not in batch.schema.names or pa.types.is_null(batch.column("headers").type):
        return sizes
    headers = batch.column("headers")
    flat = headers.flatten()
    each = HEADER_BYTES + _measure_values(flat.field("key")) + _measure_values(flat.field("value"))
    ends = np.concatenate(([0], np.cumsum(each)))
    counts = np.concatenate(([0], np.cumsum(pc.fill_null(pc.list_value_length(headers), 0).to_numpy())))
    return sizes + np.diff(ends[counts])


def _measure_values(column: Any) -> Integers:
    """Return the bytes per value of a byte or string column, 0 for null."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_dictionary(column.type):
        lengths = np.append(_measure_values(column.dictionary), 0)
        places = column.indices.drop_null().to_numpy()
        # A damaged page may point outside its dictionary, and Arrow does not check before it reads there.
        if len(places) and not 0 <= places.min() <= places.max() < len(column.dictionary):
            raise pa.ArrowInvalid("a place outside the dictionary")
        return np.asarray(lengths[pc.fill_null(column.indices, len(column.dictionary)).to_numpy()], np.int64)
    return np.asarray(pc.fill_null(pc.binary_length(column), 0).to_numpy(), np.int64)
