"""Names of a typed table's columns: the fields of values and keys, beside each other and beside the table's own.

Which datum a column comes from is noted in its metadata, so that :mod:`winnow.schemas.row_types` keeps the two apart:
where both have a field of one name, the second gets ``__key`` or ``__value``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from winnow.schemas.row_types import build_rows
from winnow.values.typed_columns import SIDE, Side

_RESERVED: Final = frozenset(
    [
        *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"),
        *("_change_type", "_change_ordinal", "_commit_snapshot_id", "partition"),
    ]
)
"""Iceberg's metadata columns, and the name of the table's partition field, in any case."""


def name_columns(row_type: pa.StructType, side: Side) -> pa.StructType:
    """Return ``row_type`` with its fields named as columns of a table, and with the datum that they come from.

    A datum that is no record of fields (the name ``""``) is the column ``value`` or ``key``. Names that begin with two
    underscores are the table's own: such a field loses its underscores and gets ``__field``, as in ``op__field`` for
    ``__op``. So does one named as a metadata column of Iceberg, and ``partition``, as in ``file__field``.
    """
    return pa.struct([_name_column(field, side) for field in row_type])


def name_rows(rows: pa.StructArray, side: Side) -> pa.StructArray:
    """Return ``rows``, none of them null, with the type that :func:`name_columns` gives."""
    columns = [rows.field(number) for number in range(rows.type.num_fields)]
    return build_rows(columns, list(name_columns(rows.type, side)), rows)


def _name_column(field: pa.Field, side: Side) -> pa.Field:
    name = field.name or side.value
    if name.startswith("__") or name.casefold() in _RESERVED:
        name = f"{name.lstrip('_')}__field".removeprefix("__")
    metadata = {key: text for key, text in (field.metadata or {}).items() if key != SIDE}
    if side is Side.KEY:
        metadata[SIDE] = side.encode()
    return pa.field(name, field.type, metadata=metadata or None)
