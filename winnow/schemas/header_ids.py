"""Schemas that records name in headers, as Confluent's serializers write them where the bytes are to stay bare.

The header ``__key_schema_id`` or ``__value_schema_id`` is a zero byte and the id in four bytes, or the byte 1 and the
schema's GUID in sixteen; with Protobuf the path to the message follows there. The first header of that name counts.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.schemas.columns import Positions
from winnow.schemas.documents import MAXIMUM_DEPTH, SchemaId
from winnow.values.typed_columns import Side

HEADER_NAMES: Final = {side: f"__{side.value}_schema_id" for side in Side}

GUID_BYTES: Final = 16
_ID_BYTES: Final = 4
_MAXIMUM_BYTES: Final = 1 + GUID_BYTES + 5 * (1 + MAXIMUM_DEPTH)
"""Of a header that can be right: with the longest path to a message."""


def find_header_ids(headers: pa.Array, side: Side) -> pa.Array | None:
    """Return what the records' headers say of the schemas of their keys or values; None: none of them has one.

    Binary, null where a record has no such header, or one without a value. What is longer than any that can be right
    is cut so that it stays too long.
    """
    pairs = headers.flatten()
    if not len(pairs):
        return None
    is_wanted = pc.equal(pc.struct_field(pairs, "key"), HEADER_NAMES[side]).fill_null(False)
    if not is_wanted.true_count:
        return None
    # Which are the first of their record: the others of that name mean nothing.
    records, firsts = np.unique(pc.list_parent_indices(headers).filter(is_wanted).to_numpy(), return_index=True)
    values = pc.struct_field(pairs, "value").filter(is_wanted).take(pa.array(firsts))
    places: Positions = np.full(len(headers), -1, np.int64)
    places[records] = np.arange(len(records))
    return pc.binary_slice(values, 0, _MAXIMUM_BYTES + 1).take(pa.array(places, mask=places < 0))


def read_header_id(header: bytes) -> tuple[SchemaId, int]:
    """Read the id or the GUID in a header: that, and where what follows it begins; ValueError if there is none."""
    size_bytes = {0: _ID_BYTES, 1: GUID_BYTES}.get(header[0]) if header else None
    if size_bytes is None or not size_bytes < len(header) <= _MAXIMUM_BYTES:
        raise ValueError("no id of a schema")
    named = header[1 : 1 + size_bytes]
    return UUID(bytes=named) if size_bytes == GUID_BYTES else int.from_bytes(named), 1 + size_bytes
