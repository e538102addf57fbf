"""Decoders of a topic's keys and values, by the shape of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from winnow.schemas.decoder import Decoder
from winnow.schemas.documents import SchemaSource
from winnow.schemas.formats import make_decoder
from winnow.schemas.json_values import JsonDecoder
from winnow.schemas.record_decoder import RecordDecoder
from winnow.schemas.row_types import find_side
from winnow.values.formats import Format
from winnow.values.row_shape import Envelope, RowShape
from winnow.values.typed_columns import Side


def make_record_decoder(
    shape: RowShape,
    known: pa.StructType,
    *,
    fields: pa.StructType | None = None,
    texts: Mapping[Side, str],
    open_source: Callable[[], SchemaSource | None],
    secret: bytes | None,
) -> RecordDecoder:
    """Make what decodes the records of a topic whose table has the columns ``known``.

    ``fields``: all fields of the topic that are known; None: those columns. ``texts``: of schemas in files; other
    datums bear ids. ``open_source``: opens what knows schemas by id, if that is needed. ``secret``: for masked fields.

    Raises:
        ConfigurationError: as :func:`winnow.schemas.formats.make_decoder`.
    """
    key, value = (_make_decoder(shape, side, known, texts.get(side), open_source) for side in (Side.KEY, Side.VALUE))
    return RecordDecoder(
        key,
        value,
        known=known if fields is None else fields,
        rules=shape.fields,
        secret=secret,
        envelope=shape.envelope,
    )


def _make_decoder(
    shape: RowShape,
    side: Side,
    columns: pa.StructType,
    schema_text: str | None,
    open_source: Callable[[], SchemaSource | None],
) -> Decoder:
    kind = shape.key_format if side is Side.KEY else shape.value_format
    if kind is Format.JSON:
        known = pa.struct([field for field in columns if find_side(field) is side])
        return JsonDecoder(known if shape.envelope is Envelope.NONE else _wrap_columns(known))
    if schema_text is not None:
        return make_decoder(kind, schema_text=schema_text)
    return make_decoder(kind, source=open_source())


def _wrap_columns(columns: pa.StructType) -> pa.StructType:
    """Return where the fields of rows with ``columns`` are found in change events and their keys."""
    row = [pa.field(name, columns) for name in ("after", "before")]
    payload = pa.struct([*columns, *row])
    return pa.struct([*columns, *row, pa.field("payload", payload)])
