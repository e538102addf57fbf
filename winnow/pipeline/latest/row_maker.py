"""Makes rows of typed columns of records, for the table of a topic's latest state.

One pass: the columns grow while records are read. A file has the columns that there were when its first row was
written; Iceberg finds columns by their ids, so older files need not be written again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.log.typed_schema import TypedSchema
from winnow.pipeline.latest.record_decoder import DecodedRecords, RecordDecoder, ShownGroup
from winnow.schemas.row_types import find_side, merge_row_types, project_rows
from winnow.values.typed_columns import Side, SystemColumn

_RAW: Final = (SystemColumn.RAW, SystemColumn.RAW_KEY, SystemColumn.HEADERS)
"""The columns that show what rules hide."""


class RowMaker:
    """Makes rows of one table.

    ``decoder``: decodes the records; if it hides any field, bytes that are not decoded and headers are no columns.
    ``present``: the schema with whose columns it goes on.
    """

    def __init__(self, decoder: RecordDecoder, present: TypedSchema) -> None:
        self._decoder = decoder
        self._columns = present.columns
        self._known = {field.name for field in self._columns}
        self.rows_not_decoded = 0
        self._set_schema(present)

    @property
    def table_schema(self) -> TypedSchema:
        """The table's schema so far."""
        return self._table_schema

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

    def convert(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Make the rows of ``records``, none of which is a tombstone, in their order; a deleted row is none.

        Raises:
            ServiceError: a registry that is needed does not answer.
        """
        decoded = self._decoder.decode(records)
        columns = self._columns
        for side in (Side.VALUE, Side.KEY):
            for group in decoded.groups[side]:
                columns = merge_row_types(columns, group.rows.type)
        if not columns.equals(self._columns, check_metadata=True):
            self._columns = columns
            self._set_schema(self._table_schema)
        fields = {side: _gather(decoded.groups[side], columns, records.num_rows) for side in Side}
        values = {field.name: fields[find_side(field)].field(number) for number, field in enumerate(columns)}
        values.update(self._make_system_columns(records, decoded))
        arrays = [
            values[field.name] if field.name in values else pa.nulls(records.num_rows, field.type)
            for field in self._schema
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return rows.filter(pa.array(~decoded.deleted)) if decoded.deleted.any() else rows

    def _make_system_columns(self, records: pa.RecordBatch, decoded: DecodedRecords) -> dict[str, pa.Array]:
        errors = decoded.list_errors()
        self.rows_not_decoded += sum(error is not None for error in errors)
        made = {
            SystemColumn.ERROR: pa.array(errors, pa.string()),
            SystemColumn.PARTITION: records.column("partition"),
            SystemColumn.OFFSET: records.column("offset"),
            SystemColumn.TIMESTAMP: records.column("timestamp"),
        }
        if not self._decoder.hides:
            made[SystemColumn.RAW] = _keep_at(records.column("value"), decoded.errors[Side.VALUE])
            made[SystemColumn.RAW_KEY] = _keep_at(records.column("key"), decoded.errors[Side.KEY])
            made[SystemColumn.HEADERS] = records.column("headers")
        return {column.value: array for column, array in made.items()}

    def _set_schema(self, present: TypedSchema) -> None:
        self._table_schema = present.evolve(self._columns, omit=_RAW if self._decoder.hides else ())
        self._schema = self._table_schema.build_arrow_schema()


def _gather(groups: Sequence[ShownGroup], columns: pa.StructType, rows: int) -> pa.StructArray:
    """Put the rows of all groups where they stand in their batch; the others are null."""
    if not groups:
        return pa.nulls(rows, columns)
    projected = pa.concat_arrays([project_rows(group.rows, columns) for group in groups])
    places = np.full(rows, -1, np.int64)
    places[np.concatenate([group.positions.to_numpy() for group in groups])] = np.arange(len(projected))
    return projected.take(pa.array(places, mask=places < 0))


def _keep_at(datums: pa.Array, positions: Collection[int]) -> pa.Array:
    kept = np.zeros(len(datums), np.bool_)
    kept[list(positions)] = True
    return pc.if_else(pa.array(kept), datums, None)
