"""Schemas that records name in headers, as serializers write them where the bytes are to stay bare.

Confluent's: ``__key_schema_id`` or ``__value_schema_id`` is a zero byte and the id in four bytes, or the byte 1 and the
schema's GUID in sixteen; with Protobuf the path to the message follows there. The first header of that name counts.
Apicurio's: ``apicurio.value.contentId`` is the id in eight bytes, of which its API for Confluent's clients has four;
the last one counts. What else its serializers may write there cannot be read.
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
CONTENT_NAMES: Final = {side: f"apicurio.{side.value}.contentId" for side in Side}
GLOBAL_NAMES: Final = {side: f"apicurio.{side.value}.globalId" for side in Side}
"""Of ids that the API for Confluent's clients does not have, or has for other schemas."""
ENCODING_NAMES: Final = {side: f"apicurio.{side.value}.encoding" for side in Side}
UNREADABLE: Final = b"\2"
"""Stands for headers of Apicurio's serializers that name no schema by which the datum can be read."""

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
    keys = pc.struct_field(pairs, "key")
    names = (HEADER_NAMES[side], CONTENT_NAMES[side], GLOBAL_NAMES[side])
    if not pc.is_in(keys, pa.array(names)).true_count:
        return None
    named, content, other = (
        _choose_values(headers, pairs, keys, name, is_last=name is not HEADER_NAMES[side]) for name in names
    )
    if content.null_count < len(content) or other.null_count < len(other):
        encoding = _choose_values(headers, pairs, keys, ENCODING_NAMES[side], is_last=True)
        named = pc.coalesce(named, _convert_content_ids(content, other, encoding))
    return named


def _choose_values(headers: pa.Array, pairs: pa.Array, keys: pa.Array, name: str, *, is_last: bool) -> pa.Array:
    """Return the value of each record's first or last header of a name, null where there is none."""
    is_wanted = pc.equal(keys, name).fill_null(False)
    records = pc.list_parent_indices(headers).filter(is_wanted).to_numpy()
    values = pc.binary_slice(pc.struct_field(pairs, "value").filter(is_wanted), 0, _MAXIMUM_BYTES + 1)
    places: Positions = np.full(len(headers), -1, np.int64)
    numbers = np.arange(len(records))
    # Of equal places the last assignment counts.
    places[records if is_last else records[::-1]] = numbers if is_last else numbers[::-1]
    return values.take(pa.array(places, mask=places < 0))


def _convert_content_ids(content: pa.Array, other: pa.Array, encoding: pa.Array) -> pa.Array:
    """Return Apicurio's ids as Confluent's headers have them, :data:`UNREADABLE` where no datum can be read by one."""
    is_readable = pc.and_(
        pc.equal(pc.binary_length(content), 2 * _ID_BYTES),
        pc.equal(pc.binary_slice(content, 0, _ID_BYTES), bytes(_ID_BYTES)),
    )
    is_binary = pc.equal(encoding, b"BINARY").fill_null(True)
    short = pc.binary_join_element_wise(
        pa.scalar(b"\0", pa.binary()), pc.binary_slice(content, _ID_BYTES, 2 * _ID_BYTES), pa.scalar(b"", pa.binary())
    )
    ids = pc.if_else(pc.and_(is_readable, is_binary).fill_null(False), short, pa.scalar(UNREADABLE, pa.binary()))
    is_named = pc.or_(content.is_valid(), other.is_valid())
    return pc.if_else(is_named, ids, pa.scalar(None, pa.binary()))


def read_header_id(header: bytes) -> tuple[SchemaId, int]:
    """Read the id or the GUID in a header: that, and where what follows it begins; ValueError if there is none."""
    size_bytes = {0: _ID_BYTES, 1: GUID_BYTES}.get(header[0]) if header else None
    if size_bytes is None or not size_bytes < len(header) <= _MAXIMUM_BYTES:
        raise ValueError("no id of a schema")
    named = header[1 : 1 + size_bytes]
    return UUID(bytes=named) if size_bytes == GUID_BYTES else int.from_bytes(named), 1 + size_bytes
