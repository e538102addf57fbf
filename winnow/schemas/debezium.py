"""Debezium's envelope of a change event: the row of ``after``, or a delete.

An envelope has ``op`` and ``after``; Kafka Connect's JSON with schemas puts it into ``payload`` beside ``schema``.
``op`` is ``c`` (created), ``u`` (updated), ``r`` (read by a snapshot) or ``d`` (deleted). Events of another kind, as of
a truncated table, have no row.

Source: Debezium's documentation of its PostgreSQL connector, "Change events".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_OPERATION, _ROW = "op", "after"
_WRAPPER: Final = {"schema", "payload"}
_PAYLOAD: Final = "payload"
_WITH_ROW: Final = ("c", "u", "r")
_DELETE: Final = "d"
_NO_FIELDS: Final = pa.struct([])
_OF_EVENT: Final = "__event"
"""Ends the names of columns that come from the envelope: no column of a row is likely to."""


@dataclass(frozen=True, slots=True)
class UnwrappedRows:
    """Rows of tables out of change events. Every event is in one of three arrays of positions (int64, ascending).

    ``rows``: the rows of the events at ``positions``, none of them null. ``deleted``: events that delete their key.
    ``others``: what is no change of a row.
    """

    rows: pa.StructArray
    positions: pa.Array
    deleted: pa.Array
    others: pa.Array


def unwrap_row_type(row_type: pa.StructType) -> pa.StructType | None:
    """Return the type of the rows that :func:`unwrap_rows` finds in events of ``row_type``; None: there are none.

    It has no fields where ``after`` was null in all events from which the type was told.
    """
    envelope = row_type.field(_PAYLOAD).type if _is_wrapper(row_type) else row_type
    if not pa.types.is_struct(envelope):
        return None
    operation, row = envelope.get_field_index(_OPERATION), envelope.get_field_index(_ROW)
    if operation < 0 or not pa.types.is_string(envelope.field(operation).type):
        return None
    if row < 0:
        return _NO_FIELDS if envelope.get_field_index("before") >= 0 else None
    kind = envelope.field(row).type
    return kind if pa.types.is_struct(kind) else None


def unwrap_payload(rows: pa.StructArray) -> pa.StructArray:
    """Return what is in ``payload`` of keys or values that have it and a ``schema``; other rows as they are.

    None of ``rows`` is null. A ``payload`` that is null is a row whose fields are null.
    """
    if not _is_wrapper(rows.type):
        return rows
    number = rows.type.get_field_index(_PAYLOAD)
    fields = list(rows.type.field(number).type)
    return pa.StructArray.from_arrays(rows.flatten()[number].flatten(), fields=fields)


def unwrap_rows(rows: pa.StructArray, event_fields: Sequence[str] = ()) -> UnwrappedRows:
    """Take the rows of a table out of change events, none of them null.

    ``event_fields``: paths of fields of the event, such as ``source.lsn``, that the rows have behind their own, as
    ``source_lsn__event``. One that an event does not have is left out.
    """
    row_type = unwrap_row_type(rows.type)
    everything = pa.array(range(len(rows)), pa.int64())
    if row_type is None:
        return UnwrappedRows(pa.array([], _NO_FIELDS), everything[:0], everything[:0], everything)
    envelope = unwrap_payload(rows)
    operations = envelope.field(_OPERATION)
    deletes = pc.fill_null(pc.equal(operations, _DELETE), False)
    has_row = envelope.type.get_field_index(_ROW) >= 0
    after = envelope.field(_ROW) if has_row else pa.nulls(len(rows), row_type)
    present = pc.and_(pc.is_in(operations, pa.array(_WITH_ROW)), after.is_valid())
    return UnwrappedRows(
        _add_fields(after, envelope, event_fields).filter(present),
        everything.filter(present),
        everything.filter(deletes),
        everything.filter(pc.invert(pc.or_(present, deletes))),
    )


def _add_fields(rows: pa.StructArray, envelope: pa.StructArray, paths: Sequence[str]) -> pa.StructArray:
    """Return ``rows``, some of which are null, with the fields of ``envelope`` at ``paths``."""
    columns = {f"{path.replace('.', '_')}{_OF_EVENT}": _find_field(envelope, path.split(".")) for path in paths}
    added = {name: column for name, column in columns.items() if column is not None and name not in _list_names(rows)}
    if not added:
        return rows
    fields = [*rows.type, *(pa.field(name, column.type) for name, column in added.items())]
    own = [rows.field(number) for number in range(rows.type.num_fields)]
    return pa.StructArray.from_arrays([*own, *added.values()], fields=fields, mask=rows.is_null())


def _list_names(rows: pa.StructArray) -> set[str]:
    return {field.name for field in rows.type}


def _find_field(rows: pa.StructArray, path: Sequence[str]) -> pa.Array | None:
    for name in path:
        if not pa.types.is_struct(rows.type) or rows.type.get_field_index(name) < 0:
            return None
        rows = pc.struct_field(rows, [rows.type.get_field_index(name)])
    return rows


def _is_wrapper(row_type: pa.StructType) -> bool:
    names = {field.name for field in row_type}
    return names == _WRAPPER and pa.types.is_struct(row_type.field(_PAYLOAD).type)
