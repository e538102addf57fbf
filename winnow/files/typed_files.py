"""Files of rows with typed columns: written as the schema grows, and read by field id into another schema.

The columns that every such file has lie under the field ids of a segment's (:mod:`winnow.files.segments`), so a
manifest has the same figures of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.errors import BadInputError, DamagedSegmentError
from winnow.files import object_store, storage
from winnow.files.parquet_writer import RollingParquetWriter
from winnow.files.segments import FIELD_ID_KEY
from winnow.values.model import Segment
from winnow.values.typed_columns import SystemColumn

PARTITION_COLUMN: Final = SystemColumn.PARTITION.value
OFFSET_COLUMN: Final = SystemColumn.OFFSET.value
TIMESTAMP_COLUMN: Final = SystemColumn.TIMESTAMP.value


class TypedFileWriter:
    """Writes rows of one partition, in offset order, into files of about ``file_bytes`` or less.

    A batch of another schema than the one before begins a new file. Minima and maxima are written of partition, offset
    and timestamp, and of those that ``list_columns`` lists of a schema; of no others.

    ``measure``: gives further minima and maxima of rows by field id, of which ``note`` gets those of each file.
    ``is_sorted``: rows come in another order than that of offsets.
    """

    def __init__(
        self,
        *,
        partition: int,
        file_bytes: int,
        name: Callable[[], str],
        below: str,
        list_columns: Callable[[pa.Schema], list[str]] = lambda _: [],
        measure: Callable[[pa.RecordBatch], Mapping[int, tuple[Any, Any]]] = lambda _: {},
        note: Callable[[str, Mapping[int, tuple[Any, Any]]], None] = lambda *_: None,
        is_sorted: bool = False,
    ) -> None:
        self._is_sorted = is_sorted
        self._partition = partition
        self._list_columns = list_columns
        self._measure = measure
        self._note = note
        self._file_bytes = file_bytes
        self._name = name
        self._below = below
        self._open: _OneSchemaWriter | None = None
        self._schema: pa.Schema | None = None
        self._finished: list[Segment] = []
        self._uris: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, whose offsets are above all written before, unless they are sorted in another way.

        Raises:
            ValueError: they are not.
        """
        if not batch.num_rows:
            return
        if self._open is None or self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self._close()
            self._schema = batch.schema
            self._open = _OneSchemaWriter(
                self._partition,
                batch.schema,
                self._file_bytes,
                self._name,
                self._below,
                further=self._list_columns(batch.schema),
                note=self._note,
            )
        last = self._finished[-1].last_offset if self._finished else -1
        self._open.write_after(None if self._is_sorted else last, batch, self._measure(batch))

    @property
    def held_bytes(self) -> int:
        """Arrow bytes of the rows that are not written yet."""
        return 0 if self._open is None else self._open.held_bytes

    @property
    def has_open_file(self) -> bool:
        """Whether a file is open."""
        return self._open is not None and self._open.has_open_file

    def flush(self) -> None:
        """Write the rows that are held."""
        if self._open is not None:
            self._open.flush()

    def finish(self) -> tuple[Segment, ...]:
        """Close the open file and return all in offset order; they are complete, but not synced yet."""
        self._close()
        return tuple(self._finished)

    def abandon(self) -> list[str]:
        """Close the open file early and return the URIs of everything written, for the caller to remove."""
        return self._uris + ([] if self._open is None else self._open.abandon())

    def _close(self) -> None:
        if self._open is not None:
            self._finished += self._open.finish()
            self._uris = [segment.path for segment in self._finished]
            self._open = None


class _OneSchemaWriter(RollingParquetWriter):
    def __init__(
        self,
        partition: int,
        schema: pa.Schema,
        file_bytes: int,
        name: Callable[[], str],
        below: str,
        *,
        further: list[str],
        note: Callable[[str, Mapping[int, tuple[Any, Any]]], None],
    ) -> None:
        super().__init__(
            schema,
            file_bytes=file_bytes,
            name=lambda _: name(),
            below=below,
            store_schema=False,
            write_statistics=[PARTITION_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, *further],
        )
        self._partition = partition
        self._note = note
        self._finished: list[Segment] = []
        self._last = -1
        self._reset()

    def _reset(self) -> None:
        self._first: int | None = None
        self._records = 0
        self._times_ms: list[int] = []
        self._bounds: dict[int, tuple[Any, Any]] = {}

    def write_after(self, last: int | None, batch: pa.RecordBatch, measured: Mapping[int, tuple[Any, Any]]) -> None:
        offsets = batch.column(OFFSET_COLUMN).to_numpy(zero_copy_only=True)
        if last is not None and (offsets[0] <= max(last, self._last) or (np.diff(offsets) <= 0).any()):
            raise ValueError("offsets must increase within a writer of rows")
        lowest, highest = int(offsets.min()), int(offsets.max())
        self._last = highest if self._first is None else max(highest, self._last)
        self._first = lowest if self._first is None else min(lowest, self._first)
        self._records += batch.num_rows
        bounds = pc.min_max(batch.column(TIMESTAMP_COLUMN).cast(pa.int64()))
        times = [bound.as_py() // 1000 for bound in bounds.values() if bound.is_valid]
        self._times_ms = [min(self._times_ms + times), max(self._times_ms + times)] if self._times_ms or times else []
        for number, (low, high) in measured.items():
            known = self._bounds.get(number, (low, high))
            self._bounds[number] = min(low, known[0]), max(high, known[1])
        super().write(batch)

    def _handle_closed_file(self, uri: str, size_bytes: int) -> None:
        assert self._first is not None
        low, high = self._times_ms or (None, None)
        self._note(uri, self._bounds)
        self._finished.append(
            Segment(uri, self._partition, self._first, self._last, self._records, size_bytes, low, high, tombstones=0)
        )
        self._reset()

    def finish(self) -> list[Segment]:
        self._end()
        return self._finished


def read_typed_rows(uri: str, schema: pa.Schema, rows_per_batch: int, start_row: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in ``schema``, which comes from the file's by adding, widening and renaming columns.

    ``start_row``: how many rows are left out; row groups in which there are no others are not read.

    Columns are found by their field ids, at every level; what the file does not have is null.

    Raises:
        DamagedSegmentError: the file is damaged.
        OSError: it cannot be read.
    """
    filesystem, path = storage.open_filesystem(uri)
    try:
        with storage.translate_store_errors(uri), filesystem.open_input_file(path) as stream:
            source = pq.ParquetFile(stream, page_checksum_verification=True)
            wanted = {_read_id(field) for field in schema}
            present = source.schema_arrow
            names = [field.name for field in present if _read_id(field) in wanted]
            columns = names if len(names) < len(present) else None
            groups, skipped = _find_groups(source.metadata, start_row)
            for batch in source.iter_batches(rows_per_batch, row_groups=groups, columns=columns):
                rest = batch.slice(skipped)
                skipped -= batch.num_rows - rest.num_rows
                if rest.num_rows:
                    yield fit_rows(rest, schema)
    except (MemoryError, FileNotFoundError):
        raise
    except (pa.ArrowException, EOFError, OSError) as problem:
        # Arrow has no other error for the header of a page, which no checksum covers.
        if isinstance(problem, OSError) and (problem.errno is not None or object_store.is_store_error(problem)):
            raise
        raise DamagedSegmentError(f"File {uri} cannot be decoded ({type(problem).__name__}).") from problem


def _find_groups(figures: pq.FileMetaData, start_row: int) -> tuple[list[int], int]:
    """Return the row groups from that of ``start_row`` on, and how many of their first rows come before it."""
    number = 0
    while number < figures.num_row_groups and start_row >= figures.row_group(number).num_rows:
        start_row -= figures.row_group(number).num_rows
        number += 1
    return list(range(number, figures.num_row_groups)), start_row


def fit_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of ``batch`` in ``schema``, found by their field ids."""
    return pa.RecordBatch.from_arrays(_fit_fields(batch.schema, batch.columns, schema, batch.num_rows), schema=schema)


def _fit_fields(
    present: pa.Schema | pa.StructType, columns: list[pa.Array], wanted: pa.Schema | pa.StructType, rows: int
) -> list[pa.Array]:
    by_id = {_read_id(field): column for field, column in zip(present, columns, strict=True)}
    fields = {_read_id(field): field for field in present}
    fitted = []
    for field in wanted:
        number = _read_id(field)
        column = by_id.get(number)
        fitted.append(
            pa.nulls(rows, field.type) if column is None else _fit_column(column, fields[number].type, field.type)
        )
    return fitted


def _fit_column(column: pa.Array, present: pa.DataType, wanted: pa.DataType) -> pa.Array:
    if present.equals(wanted, check_metadata=True):
        return column
    if pa.types.is_struct(wanted):
        children = [column.field(number) for number in range(present.num_fields)]
        fields = [wanted.field(number) for number in range(wanted.num_fields)]
        fitted = _fit_fields(present, children, wanted, len(column))
        return pa.StructArray.from_arrays(fitted, fields=fields, mask=column.is_null())
    if pa.types.is_list(wanted):
        values = _fit_column(column.flatten(), present.value_type, wanted.value_type)
        return pa.ListArray.from_arrays(_measure_offsets(column), values, type=wanted, mask=column.is_null())
    if pa.types.is_map(wanted):
        lists = column.cast(pa.list_(pa.struct([present.key_field, present.item_field])))
        pairs = lists.flatten()
        items = _fit_column(pairs.field(1), present.item_type, wanted.item_type)
        return pa.MapArray.from_arrays(
            _measure_offsets(lists), pairs.field(0), items, type=wanted, mask=column.is_null()
        )
    if isinstance(wanted, pa.BaseExtensionType):
        storage_array = column.storage if isinstance(column, pa.ExtensionArray) else column
        return pa.ExtensionArray.from_storage(wanted, storage_array)
    return column.cast(wanted)


def _measure_offsets(column: pa.Array) -> pa.Array:
    """Measure where each list begins among the values that flattening leaves: those of lists that are not null."""
    lengths = pc.list_value_length(column).fill_null(0)
    return pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]), pa.int32())


def _read_id(field: pa.Field) -> int:
    number = (field.metadata or {}).get(FIELD_ID_KEY)
    if number is None:
        raise BadInputError(f"column {field.name} has no field id")
    return int(number)
