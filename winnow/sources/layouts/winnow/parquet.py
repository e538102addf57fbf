"""Reads Parquet files with the columns of Spark's Kafka source in bounded batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from winnow.files.record_batch import MAXIMUM_BATCH_BYTES, MAXIMUM_BATCH_ROWS, ROW_BYTES, Integers
from winnow.sources.formats.batches import measure_bytes, measure_headers, slice_by_size
from winnow.sources.formats.parquet import NOT_PARQUET, ParquetReader, translate_parquet_errors
from winnow.sources.input_errors import RecordFault, make_file_error, make_record_error, open_to_read
from winnow.sources.layouts.winnow.parquet_columns import COLUMNS, RowFaultError, check_schema, convert_to_record_schema
from winnow.sources.topic_filter import TopicFilter

_ADVICE = "copy the file from its source again"


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
        file = _open(path, stream)
        problem = check_schema(file.schema)
        if problem is not None:
            raise make_file_error(path, *problem)
        first = 1
        for batch in file.read(batch_bytes):
            with translate_parquet_errors(path, _ADVICE):
                sizes = _measure_rows(batch)
            if not batch.num_rows:
                continue
            names = batch.column("topic") if "topic" in batch.schema.names else None
            selected = records_of.select_rows(names, path, first, partial(_read_coordinates, batch))
            rows: Integers = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            if selected is not None:
                batch, sizes, rows = batch.filter(pa.array(selected)), sizes[selected], rows[selected]  # noqa: PLW2901
            start = 0
            try:
                for start, end in slice_by_size(sizes, batch_bytes):
                    if sizes[start] + ROW_BYTES > MAXIMUM_BATCH_BYTES:
                        fault = RecordFault("the record is larger than 1 GiB", "no broker accepts it; leave it out")
                        raise RowFaultError(0, fault)
                    part = batch.slice(start, end - start)
                    yield convert_to_record_schema(
                        part, rows=rows[start:end], topic=records_of.topic, partitions=partitions
                    )
            except RowFaultError as found:
                raise make_record_error(path, "row", int(rows[start + found.index]), found.fault) from None


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
    with open_to_read(path) as stream:
        return [name for name in _open(path, stream).schema.names if name not in COLUMNS]


def _open(path: str, stream: BinaryIO) -> ParquetReader:
    return ParquetReader(
        path,
        stream,
        COLUMNS,
        is_compact=_is_byte_column,
        most_rows=MAXIMUM_BATCH_ROWS,
        advice=_ADVICE,
        shorter=NOT_PARQUET,
    )


def _is_byte_column(leaf: str) -> bool:
    return leaf in ("key", "value", "topic") or leaf.startswith("headers.")


def _measure_rows(batch: pa.RecordBatch) -> Integers:
    """Return the size in bytes of each record in a batch of the record schema."""
    if "topic" in batch.schema.names:
        measure_bytes(batch.column("topic"))  # takes no space there, but may point outside its dictionary
    sizes = measure_bytes(batch.column("key")) + measure_bytes(batch.column("value"))
    if "headers" not in batch.schema.names or pa.types.is_null(batch.column("headers").type):
        return sizes
    return sizes + measure_headers(batch.column("headers"))
