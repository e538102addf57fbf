"""Makes rows of typed columns of records, for the table of a topic's latest state.

One pass: the columns grow while records are read. A file has the columns that there were when its first row was
written; Iceberg finds columns by their ids, so older files need not be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.schemas.record_decoder import DecodedRecords, RecordDecoder, RowTypes, ShownGroup
from winnow.schemas.row_types import find_side, merge_row_types, project_rows
from winnow.values.typed_columns import Side, SystemColumn


class RowMaker:
    """Makes rows of one table.

    ``decoder``: decodes the records; if it hides any field, bytes that are not decoded and headers are no columns.
    ``columns``: those with which it goes on. ``build_schema``: builds the schema of rows, with field ids, when there
    are other columns.
    """

    def __init__(
        self, decoder: RecordDecoder, columns: pa.StructType, build_schema: Callable[[pa.StructType], pa.Schema]
    ) -> None:
        self._decoder = decoder
        self._columns = columns
        self._known = {field.name for field in columns}
        self.rows_not_decoded = 0
        self._build_schema = build_schema
        self._schema = build_schema(columns)

    @property
    def columns(self) -> pa.StructType:
        """The columns so far, without those of the table's own."""
        return self._columns

    @property
    def fields(self) -> pa.StructType:
        """All fields of the topic that are known so far, not masked."""
        return self._decoder.fields

    @property
    def drops_rows(self) -> bool:
        """Whether a record can be no row: one that says that its row was deleted."""
        return self._decoder.drops_rows

    def get_schema(self) -> pa.Schema:
        """Return the schema of rows, with field ids."""
        return self._schema

    def list_added_columns(self) -> tuple[str, ...]:
        """List the columns that the table did not have before, in their order."""
        return tuple(field.name for field in self._columns if field.name not in self._known)

    def learn(self, types: RowTypes) -> None:
        """Have the columns that rows of ``types`` need. Types that are known already change nothing.

        Raises:
            ValueError: a type that no column has.
        """
        self._decoder.note_types(row_type for _, row_type in types)
        self._add_columns([self._decoder.mask_type(row_type) for _, row_type in types])

    def convert(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Make the rows of ``records``, none of which is a tombstone, in their order; a deleted row is none.

        Raises:
            ServiceError: a registry that is needed does not answer.
        """
        decoded = self._decoder.decode(records)
        self._add_columns([group.rows.type for side in (Side.VALUE, Side.KEY) for group in decoded.groups[side]])
        columns = self._columns
        fields = {side: _gather(decoded.groups[side], columns, records.num_rows) for side in Side}
        values = {field.name: fields[find_side(field)].field(number) for number, field in enumerate(columns)}
        values.update(self._make_system_columns(records, decoded))
        arrays = [
            values[field.name] if field.name in values else pa.nulls(records.num_rows, field.type)
            for field in self._schema
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return rows.filter(pa.array(~decoded.deleted)) if decoded.deleted.any() else rows

    def _add_columns(self, types: Sequence[pa.StructType]) -> None:
        columns = self._columns
        for row_type in types:
            columns = merge_row_types(columns, row_type)
        if not columns.equals(self._columns, check_metadata=True):
            self._schema = self._build_schema(columns)
            self._columns = columns

    def _make_system_columns(self, records: pa.RecordBatch, decoded: DecodedRecords) -> dict[str, pa.Array]:
        self.rows_not_decoded += len(decoded.errors[Side.KEY].keys() | decoded.errors[Side.VALUE].keys())
        made = {
            SystemColumn.ERROR: pa.array(decoded.list_errors(), pa.string()),
            SystemColumn.PARTITION: records.column("partition"),
            SystemColumn.OFFSET: records.column("offset"),
            SystemColumn.TIMESTAMP: records.column("timestamp"),
        }
        if not self._decoder.hides:
            made[SystemColumn.RAW] = _keep_at(records.column("value"), decoded.errors[Side.VALUE])
            made[SystemColumn.RAW_KEY] = _keep_at(records.column("key"), decoded.errors[Side.KEY])
            made[SystemColumn.HEADERS] = records.column("headers")
        return {column.value: array for column, array in made.items()}


def _gather(groups: Sequence[ShownGroup], columns: pa.StructType, rows: int) -> pa.StructArray:
    """Put the rows of all groups where they stand in their batch; the others are null."""
    if not groups:
        return pa.nulls(rows, columns)
    projected = pa.concat_arrays([project_rows(group.rows, columns) for group in groups])
    positions = np.concatenate([group.positions.to_numpy() for group in groups])
    if np.array_equal(positions, np.arange(rows)):
        return projected
    places = np.full(rows, -1, np.int64)
    places[positions] = np.arange(len(projected))
    return projected.take(pa.array(places, mask=places < 0))


def _keep_at(datums: pa.Array, positions: Collection[int]) -> pa.Array:
    if not positions:
        return pa.nulls(len(datums), datums.type)
    kept = np.zeros(len(datums), np.bool_)
    kept[list(positions)] = True
    return pc.if_else(pa.array(kept), datums, None)
