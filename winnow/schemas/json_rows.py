"""Rows as JSON: what people and programs read of a decoded key or value.

Numbers have all of their digits, bytes are base64, dates and timestamps are ISO 8601. Fields that are null are left
out, as are those that the datum does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from winnow.schemas.row_types import slice_elements
from winnow.schemas.scalars import write_float

MaskBytes = Callable[[bytes], bytes]
"""Replaces what must not be seen in a text or in bytes."""

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_DATUM: Final = ""
"""The name of what is no record of fields."""


def write_json_rows(rows: pa.StructArray, names: Sequence[str], mask: MaskBytes | None = None) -> list[bytes]:
    """Write each of ``rows``, none of them null, as a JSON document.

    Args:
        rows: the rows.
        names: the names of their fields; where a row has no other than ``""``, that is the document.
        mask: applied to each text and to all bytes in them.
    """
    columns = [_list_values(column, mask) for column in rows.flatten()]
    documents = [
        {name: column[row] for name, column in zip(names, columns, strict=True) if column[row] is not None}
        for row in range(len(rows))
    ]
    if _DATUM not in names:
        return list(map(_ENCODER.encode, documents))
    is_alone = len(names) == 1
    return [
        _ENCODER.encode(document.get(_DATUM) if is_alone or document.keys() == {_DATUM} else document)
        for document in documents
    ]


def _list_values(array: pa.Array, mask: MaskBytes | None) -> list[Any]:
    """List what JSON has for each value."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [(field.name, _list_values(part, mask)) for field, part in zip(kind, array.flatten(), strict=True)]
        return [
            {name: column[row] for name, column in columns if column[row] is not None} if is_present else None
            for row, is_present in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_list(kind):
        return slice_elements(array, _list_values(array.values, mask))
    if pa.types.is_map(kind):
        pairs = zip(array.keys.to_pylist(), _list_values(array.items, mask), strict=True)
        return [None if part is None else dict(part) for part in slice_elements(array, list(pairs))]
    values: list[Any] = array.to_pylist()
    if pa.types.is_floating(kind):
        return [None if value is None else write_float(value) for value in values]
    if mask is None:
        return values
    if pa.types.is_string(kind):
        return [None if value is None else mask(value.encode()).decode(errors="replace") for value in values]
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return [None if value is None else mask(value) for value in values]
    return values
