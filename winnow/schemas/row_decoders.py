"""Decoders of a topic's keys and values, by the shape of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import pyarrow as pa

from winnow.config.setting_fields import SchemaRegistrySettings
from winnow.schemas.decoder import Decoder
from winnow.schemas.documents import SchemaSource
from winnow.schemas.formats import make_decoder, open_registry
from winnow.schemas.json_values import JsonDecoder
from winnow.schemas.kept_documents import unpack_documents
from winnow.schemas.record_decoder import RecordDecoder
from winnow.schemas.row_types import find_side
from winnow.schemas.schema_cache import KeptDocuments, SchemaCache
from winnow.values.formats import Format
from winnow.values.kept_schemas import KeptSchemas
from winnow.values.row_shape import Envelope, RowShape, split_schema_place
from winnow.values.typed_columns import Side


def make_record_decoder(
    shape: RowShape,
    known: pa.StructType,
    *,
    fields: pa.StructType | None = None,
    texts: Mapping[Side, str],
    kept: Iterable[KeptSchemas],
    registry: SchemaRegistrySettings,
    secret: bytes | None,
) -> RecordDecoder:
    """Make what decodes the records of a topic whose table has the columns ``known``.

    ``fields``: all fields of the topic that are known; None: those columns. ``texts``: of schemas in files; other
    datums bear ids: of schemas that are ``kept`` with the topic, or that the ``registry`` has. ``secret``: for masked
    fields.

    Raises:
        ConfigurationError: as :func:`winnow.schemas.formats.make_decoder`.
    """
    sources = _Sources(kept, registry)
    key, value = (_make_decoder(shape, side, known, texts.get(side), sources) for side in (Side.KEY, Side.VALUE))
    return RecordDecoder(
        key,
        value,
        known=known if fields is None else fields,
        rules=shape.fields,
        secret=secret,
        envelope=shape.envelope,
        event_fields=shape.envelope_fields,
    )


class _Sources:
    """What knows schemas by their ids, opened when it is first needed."""

    def __init__(self, kept: Iterable[KeptSchemas], registry: SchemaRegistrySettings) -> None:
        self._kept = kept
        self._registry = registry

    @cached_property
    def schemas(self) -> SchemaSource | None:
        """Those that are kept, then the registry; None: there is neither."""
        sources: list[SchemaSource] = []
        kept = unpack_documents(self._kept)
        if kept:
            sources.append(KeptDocuments("what is kept of them", kept))
        if self._registry.url is not None:
            sources.append(open_registry(self._registry))
        return SchemaCache(sources) if sources else None


def _make_decoder(
    shape: RowShape, side: Side, columns: pa.StructType, schema_text: str | None, sources: _Sources
) -> Decoder:
    kind = shape.key_format if side is Side.KEY else shape.value_format
    if kind is Format.JSON:
        known = pa.struct([field for field in columns if find_side(field) is side])
        return JsonDecoder(known if shape.envelope is Envelope.NONE else _wrap_columns(known))
    if schema_text is not None:
        place = shape.key_schema if side is Side.KEY else shape.value_schema
        return make_decoder(kind, schema_text=schema_text, message=split_schema_place(place)[1])
    return make_decoder(kind, source=sources.schemas)


def _wrap_columns(columns: pa.StructType) -> pa.StructType:
    """Return where the fields of rows with ``columns`` are found in change events and their keys."""
    row = [pa.field(name, columns) for name in ("after", "before")]
    payload = pa.struct([*columns, *row])
    return pa.struct([*columns, *row, pa.field("payload", payload)])
