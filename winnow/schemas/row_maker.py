"""Makes rows of typed columns of records, for the table of a topic's latest state.

One pass: the columns grow while records are read. A file has the columns that there were when its first row was
written; Iceberg finds columns by their ids, so older files need not be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.schemas.column_names import name_rows
from winnow.schemas.debezium import unwrap_payload, unwrap_rows
from winnow.schemas.decoder import DecodedBatch, DecodedGroup, Decoder
from winnow.schemas.masks import mask_row_type, mask_rows
from winnow.schemas.row_types import find_side, merge_row_types, project_rows
from winnow.values.latest_fields import FieldRules
from winnow.values.row_shape import Envelope
from winnow.values.typed_columns import Side, SystemColumn

_NO_CHANGE: Final = "It is no change of a row in Debezium's envelope."

Mask = npt.NDArray[np.bool_]


_Groups = dict[Side, list[tuple[pa.Array, pa.StructArray]]]
RowTypes = tuple[tuple[Side, pa.StructType], ...]
"""The types of the rows in a batch, with the datum that they are of: none is masked yet, columns are named."""


class RowMaker:
    """Makes rows of one table.

    ``key``, ``value``: decode them. ``columns``: those with which it goes on. ``fields``: all of the topic that are
    known, not masked; None: no others. ``build_schema``: builds the schema of rows, with field ids, when there are
    other columns. ``rules``: which fields are shown, and how, with ``secret``; if any is hidden, so are bytes that are
    not decoded, and headers. ``envelope``: what is around the row in a value.
    """

    def __init__(
        self,
        key: Decoder,
        value: Decoder,
        *,
        columns: pa.StructType,
        build_schema: Callable[[pa.StructType], pa.Schema],
        rules: FieldRules,
        secret: bytes | None,
        envelope: Envelope = Envelope.NONE,
        fields: pa.StructType | None = None,
    ) -> None:
        self._decoders = {Side.KEY: key, Side.VALUE: value}
        self._rules = rules
        self._secret = secret
        self._columns = columns
        self._fields = columns if fields is None else fields
        self._known = {field.name for field in columns}
        self.rows_not_decoded = 0
        self._envelope = envelope
        self._build_schema = build_schema
        self._schema = build_schema(columns)

    @property
    def columns(self) -> pa.StructType:
        """The columns so far, without those of the table's own."""
        return self._columns

    @property
    def fields(self) -> pa.StructType:
        """All fields of the topic that are known so far, not masked."""
        return self._fields

    @property
    def drops_rows(self) -> bool:
        """Whether a record can be no row: one that says that its row was deleted."""
        return self._envelope is not Envelope.NONE

    def get_schema(self) -> pa.Schema:
        """Return the schema of rows, with field ids."""
        return self._schema

    def list_added_columns(self) -> tuple[str, ...]:
        """List the columns that the table did not have before, in their order."""
        return tuple(field.name for field in self._columns if field.name not in self._known)

    def read_types(self, records: pa.RecordBatch) -> RowTypes:
        """Decode ``records``, and return the types of what would be rows: :meth:`learn` makes columns of them.

        Raises:
            ServiceError: a registry that is needed does not answer.
        """
        _, groups, _ = self._decode(records)
        return _list_types(groups)

    def learn(self, types: RowTypes) -> None:
        """Have the columns that rows of ``types`` need. Types that are known already change nothing.

        Raises:
            ValueError: a type that no column has.
        """
        fields, columns = self._fields, self._columns
        if self._rules.hides:
            # By a rule's other names a field that was renamed is hidden, too.
            for _, row_type in types:
                fields = merge_row_types(fields, row_type)
        for _, row_type in types:
            columns = merge_row_types(columns, mask_row_type(row_type, self._rules, fields))
        if not columns.equals(self._columns, check_metadata=True):
            self._schema = self._build_schema(columns)
            self._columns = columns
        self._fields = fields

    def convert(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Make the rows of ``records``, none of which is a tombstone, in their order; a deleted row is none.

        Raises:
            ServiceError: a registry that is needed does not answer.
        """
        decoded, groups, deleted = self._decode(records)
        self.learn(_list_types(groups))
        columns = self._columns
        groups = {side: [(places, self._mask(rows)) for places, rows in parts] for side, parts in groups.items()}
        fields = {side: _gather(groups[side], columns, records.num_rows) for side in Side}
        values = {field.name: fields[find_side(field)].field(number) for number, field in enumerate(columns)}
        values.update(self._make_system_columns(records, decoded))
        arrays = [
            values[field.name] if field.name in values else pa.nulls(records.num_rows, field.type)
            for field in self._schema
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return rows.filter(pa.array(~deleted)) if deleted.any() else rows

    def _decode(self, records: pa.RecordBatch) -> tuple[dict[Side, DecodedBatch], _Groups, Mask]:
        decoded = {side: decoder.decode(records.column(side.value)) for side, decoder in self._decoders.items()}
        deleted = np.zeros(records.num_rows, np.bool_)
        if self.drops_rows:
            decoded = {
                Side.KEY: _unwrap_keys(decoded[Side.KEY]),
                Side.VALUE: _unwrap_values(decoded[Side.VALUE], deleted),
            }
        groups = {
            side: [(group.positions, name_rows(group.rows, side)) for group in batch.groups]
            for side, batch in decoded.items()
        }
        return decoded, groups, deleted

    def _mask(self, rows: pa.StructArray) -> pa.StructArray:
        return mask_rows(rows, self._rules, self._secret, self._fields)

    def _make_system_columns(self, records: pa.RecordBatch, decoded: dict[Side, DecodedBatch]) -> dict[str, pa.Array]:
        # Where both are wrong, the key's sentence is the one.
        errors = {
            position: f"{side.value}: {sentence}"
            for side in (Side.VALUE, Side.KEY)
            for position, sentence in decoded[side].errors.items()
        }
        self.rows_not_decoded += len(errors)
        made = {
            SystemColumn.ERROR: _spread(errors, records.num_rows),
            SystemColumn.PARTITION: records.column("partition"),
            SystemColumn.OFFSET: records.column("offset"),
            SystemColumn.TIMESTAMP: records.column("timestamp"),
        }
        if not self._rules.hides:
            made[SystemColumn.RAW] = _keep_at(records.column("value"), decoded[Side.VALUE].errors)
            made[SystemColumn.RAW_KEY] = _keep_at(records.column("key"), decoded[Side.KEY].errors)
            made[SystemColumn.HEADERS] = records.column("headers")
        return {column.value: array for column, array in made.items()}


def _list_types(groups: _Groups) -> RowTypes:
    return tuple((side, rows.type) for side in (Side.VALUE, Side.KEY) for _, rows in groups[side])


def _unwrap_keys(batch: DecodedBatch) -> DecodedBatch:
    groups = [DecodedGroup(group.positions, unwrap_payload(group.rows)) for group in batch.groups]
    return DecodedBatch(groups, batch.errors)


def _unwrap_values(batch: DecodedBatch, deleted: Mask) -> DecodedBatch:
    """Take rows out of their envelopes, and note in ``deleted`` what deletes one."""
    groups, errors = [], dict(batch.errors)
    for group in batch.groups:
        unwrapped = unwrap_rows(group.rows)
        deleted[group.positions.take(unwrapped.deleted).to_numpy()] = True
        errors.update(dict.fromkeys(group.positions.take(unwrapped.others).to_pylist(), _NO_CHANGE))
        if len(unwrapped.rows):
            groups.append(DecodedGroup(group.positions.take(unwrapped.positions), unwrapped.rows))
    return DecodedBatch(groups, errors)


def _gather(groups: Sequence[tuple[pa.Array, pa.StructArray]], columns: pa.StructType, rows: int) -> pa.StructArray:
    """Put the rows of all groups where they stand in their batch; the others are null."""
    if not groups:
        return pa.nulls(rows, columns)
    projected = pa.concat_arrays([project_rows(part, columns) for _, part in groups])
    positions = np.concatenate([positions.to_numpy() for positions, _ in groups])
    if np.array_equal(positions, np.arange(rows)):
        return projected
    places = np.full(rows, -1, np.int64)
    places[positions] = np.arange(len(projected))
    return projected.take(pa.array(places, mask=places < 0))


def _spread(sentences: Mapping[int, str], rows: int) -> pa.Array:
    if not sentences:
        return pa.nulls(rows, pa.string())
    return pa.array([sentences.get(position) for position in range(rows)], pa.string())


def _keep_at(datums: pa.Array, positions: Collection[int]) -> pa.Array:
    if not positions:
        return pa.nulls(len(datums), datums.type)
    kept = np.zeros(len(datums), np.bool_)
    kept[list(positions)] = True
    return pc.if_else(pa.array(kept), datums, None)
