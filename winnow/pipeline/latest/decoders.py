"""Opens what decodes a topic's keys and values and makes rows of them, as its configuration says."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from winnow.config.definitions import KEY_SCHEMA, VALUE_SCHEMA
from winnow.errors import ConfigurationError
from winnow.files import storage
from winnow.log.kept_schemas import read_kept_schemas
from winnow.log.latest_tables import LatestHead
from winnow.log.table import LOG_SCHEMA
from winnow.log.typed_schema import TypedSchema
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.row_maker import RowMaker
from winnow.pipeline.topics.topic_view import TopicView
from winnow.schemas.decoder import Decoder
from winnow.schemas.documents import SchemaSource
from winnow.schemas.formats import make_decoder, open_registry
from winnow.schemas.json_values import JsonDecoder
from winnow.schemas.kept_documents import unpack_documents
from winnow.schemas.row_types import find_side
from winnow.schemas.schema_cache import KeptDocuments, SchemaCache
from winnow.values.erasures import compute_key_id
from winnow.values.formats import Format
from winnow.values.row_shape import Envelope, RowShape
from winnow.values.typed_columns import Side

MINIMUM_SECRET_BYTES: Final = 16


def open_decoder(
    installation: Installation, topic: str, shape: RowShape, side: Side, columns: pa.StructType
) -> Decoder:
    """Open the decoder of the keys or the values of ``topic``, whose table has ``columns`` already.

    Raises:
        ConfigurationError: a schema is needed, and there is neither a registry nor a file that can be read as one.
        ServiceError: the store of the file does not answer.
    """
    kind, place, name = {
        Side.KEY: (shape.key_format, shape.key_schema, KEY_SCHEMA),
        Side.VALUE: (shape.value_format, shape.value_schema, VALUE_SCHEMA),
    }[side]
    if kind is Format.JSON:
        known = pa.struct([field for field in columns if find_side(field) is side])
        return JsonDecoder(known if shape.envelope is Envelope.NONE else _wrap_columns(known))
    if place:
        file, message = _split_place(place)
        return make_decoder(kind, schema_text=_read_schema(topic, name, file), message=message)
    return make_decoder(kind, source=_open_source(installation, topic))


def _wrap_columns(columns: pa.StructType) -> pa.StructType:
    """Return where the fields of rows with ``columns`` are found in change events and their keys."""
    row = [pa.field(name, columns) for name in ("after", "before")]
    payload = pa.struct([*columns, *row])
    return pa.struct([*columns, *row, pa.field("payload", payload)])


def make_row_maker(
    installation: Installation, view: TopicView, present: LatestHead | None, *, goes_on: bool
) -> RowMaker | None:
    """Make what makes the rows of the table ``present``, None: of a new one; None: rows are the records.

    ``goes_on``: the table's columns are of the topic's present shape.

    Raises:
        ConfigurationError, ServiceError: as :func:`open_decoder`.
    """
    shape = view.config.row_shape
    if not shape.is_typed:
        return None
    last_column_id = LOG_SCHEMA.highest_field_id if present is None else present.table.metadata.last_column_id
    schema = TypedSchema(present.table.schema() if present is not None and goes_on else LOG_SCHEMA, last_column_id)
    key, value = (
        open_decoder(installation, view.log.topic, shape, side, schema.columns) for side in (Side.KEY, Side.VALUE)
    )
    return RowMaker(
        key,
        value,
        present=schema,
        rules=shape.fields,
        secret=load_mask_secret(installation, view.log.topic, shape),
        envelope=shape.envelope,
    )


def compute_shape(installation: Installation, topic: str, shape: RowShape) -> str:
    """Compute what tells how the rows of ``topic`` are made, also by which schemas in files and by which secret.

    Raises:
        ConfigurationError, ServiceError: a schema cannot be read, or there is no secret.
    """
    if not shape.is_typed:
        return ""
    secret = load_mask_secret(installation, topic, shape)
    places = ((KEY_SCHEMA, shape.key_schema), (VALUE_SCHEMA, shape.value_schema))
    texts = [_read_schema(topic, name, _split_place(place)[0]) if place else "" for name, place in places]
    return shape.compute_digest(*texts, "" if secret is None else compute_key_id(secret))


def load_mask_secret(installation: Installation, topic: str, shape: RowShape) -> bytes | None:
    """Load the secret of masked fields; None: no field needs it.

    Raises:
        ConfigurationError: there is none, or it is too short.
    """
    if not shape.is_typed or not shape.fields.needs_secret:
        return None
    secret = installation.settings.latest.secret
    given = b"" if secret is None else secret.get_secret_value().encode()
    if len(given) < MINIMUM_SECRET_BYTES:
        raise ConfigurationError(
            f"Fields of topic {topic} are shown as keyed digests, and the secret for them is "
            f"{'shorter than 16 bytes' if given else 'not set'}.",
            left="The table of its latest state is as before.",
            next="Set WINNOW_LATEST__SECRET, the same wherever tables are updated.",
        )
    return given


def open_schemas(installation: Installation) -> SchemaSource | None:
    """Open what knows the schemas whose ids records bear; None: the settings name no registry.

    Raises:
        ConfigurationError: a file of certificates cannot be read, or the extra ``schemas`` is missing.
    """
    settings = installation.settings.schema_registry
    return None if settings.url is None else SchemaCache([open_registry(settings)])


def _open_source(installation: Installation, topic: str) -> SchemaSource | None:
    """Open what knows the schemas of ``topic``: those that are kept with it, then the registry.

    Raises:
        DamagedMetadataError: what is kept is not what was committed.
        Also as :func:`open_schemas`.
    """
    registry = open_schemas(installation)
    kept = unpack_documents(read_kept_schemas(installation.log.open(topic).newest_head().state))
    if not kept:
        return registry
    documents = KeptDocuments("what is kept of them", kept)
    return SchemaCache([documents] if registry is None else [documents, registry])


def _split_place(place: str) -> tuple[str, str]:
    """Return the place of a schema's file, and which message of it datums are: what follows ``.proto#``, or nothing."""
    file, mark, message = place.rpartition(".proto#")
    return (f"{file}.proto", message) if mark else (place, "")


def _read_schema(topic: str, name: str, place: str) -> str:
    try:
        return storage.read_bytes(place).decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(
            f"The schema of topic {topic} at {place} cannot be read ({type(problem).__name__}).",
            left="The table of its latest state is as before.",
            next=f"Put the file there, or name another one: winnow topics alter {topic} --config {name}=PLACE",
        ) from problem
