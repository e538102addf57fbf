"""Opens what decodes a topic's keys and values and makes rows of them, as its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
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
from winnow.pipeline.topics.topic_view import TopicView
from winnow.schemas.record_decoder import RecordDecoder
from winnow.schemas.row_decoders import make_record_decoder
from winnow.schemas.row_maker import RowMaker
from winnow.schemas.row_task import encode_schema, encode_type
from winnow.values.erasures import compute_key_id
from winnow.values.kept_schemas import KeptSchemas
from winnow.values.row_shape import RowShape, TypedRows, split_schema_place
from winnow.values.typed_columns import Side, SystemColumn

MINIMUM_SECRET_BYTES: Final = 16
_RAW: Final = (SystemColumn.RAW, SystemColumn.RAW_KEY, SystemColumn.HEADERS)
"""The columns that show what rules hide."""


class TableRows:
    """What makes the rows of one table, and the table's schema, which follows its columns.

    ``texts``: of schemas in files. ``kept``: those that are kept with the topic. ``secret``: for masked fields.
    """

    def __init__(
        self,
        decoder: RecordDecoder,
        present: TypedSchema,
        shape: RowShape,
        texts: Mapping[Side, str],
        kept: tuple[KeptSchemas, ...],
        secret: bytes | None,
    ) -> None:
        self.table_schema = present
        self.secret = secret
        self._shape = shape
        self._known = present.columns
        self._texts = texts
        self._kept = kept
        self.maker = RowMaker(decoder, present.columns, self._evolve)

    def _evolve(self, columns: pa.StructType) -> pa.Schema:
        self.table_schema = self.table_schema.evolve(columns, omit=_RAW if self._shape.fields.hides else ())
        return self.table_schema.build_arrow_schema()

    def describe(self) -> TypedRows:
        """Describe for tasks how rows are made, with the columns that there are now."""
        return TypedRows(
            self._shape,
            self._texts.get(Side.KEY),
            self._texts.get(Side.VALUE),
            known=encode_type(self._known),
            columns=encode_type(self.maker.columns),
            fields=encode_type(self.maker.fields),
            schema=encode_schema(self.maker.get_schema()),
            error_column_id=self.table_schema.error_column_id,
            kept=self._kept,
        )


def make_table_rows(
    installation: Installation, view: TopicView, present: LatestHead | None, *, goes_on: bool
) -> TableRows | None:
    """Make what makes the rows of the table ``present``, None: of a new one; None: rows are the records.

    ``goes_on``: the table's columns are of the topic's present shape.

    Raises:
        ConfigurationError, ServiceError: as :func:`open_record_decoder`.
    """
    shape = view.config.row_shape
    if not shape.is_typed:
        return None
    last_column_id = LOG_SCHEMA.highest_field_id if present is None else present.table.metadata.last_column_id
    schema = TypedSchema(present.table.schema() if present is not None and goes_on else LOG_SCHEMA, last_column_id)
    topic = view.log.topic
    texts = _read_schemas(topic, shape)
    kept = tuple(read_kept_schemas(view.head.state))
    secret = load_mask_secret(installation, topic, shape)
    decoder = make_record_decoder(
        shape,
        schema.columns,
        texts=texts,
        kept=kept,
        registry=installation.settings.schema_registry,
        secret=secret,
    )
    return TableRows(decoder, schema, shape, texts, kept, secret)


def open_record_decoder(
    installation: Installation, topic: str, shape: RowShape, columns: pa.StructType
) -> RecordDecoder:
    """Open what decodes the records of ``topic``, whose table has ``columns`` already.

    Raises:
        ConfigurationError: a schema is needed, and there is neither a registry nor a file that can be read as one; or
            there is no secret for masked fields.
        DamagedMetadataError: what is kept of schemas is not what was committed.
        ServiceError: the store of the file does not answer.
    """
    return make_record_decoder(
        shape,
        columns,
        texts=_read_schemas(topic, shape),
        kept=read_kept_schemas(installation.log.open(topic).newest_head().state),
        registry=installation.settings.schema_registry,
        secret=load_mask_secret(installation, topic, shape),
    )


def compute_shape(installation: Installation, topic: str, shape: RowShape) -> str:
    """Compute what tells how the rows of ``topic`` are made, also by which schemas in files and by which secret.

    Raises:
        ConfigurationError, ServiceError: a schema cannot be read, or there is no secret.
    """
    if not shape.is_typed:
        return ""
    secret = load_mask_secret(installation, topic, shape)
    texts = _read_schemas(topic, shape)
    return shape.compute_digest(
        *(texts.get(side, "") for side in (Side.KEY, Side.VALUE)), "" if secret is None else compute_key_id(secret)
    )


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


def _read_schemas(topic: str, shape: RowShape) -> dict[Side, str]:
    """Read the schemas that are in files."""
    places = ((Side.KEY, KEY_SCHEMA, shape.key_schema), (Side.VALUE, VALUE_SCHEMA, shape.value_schema))
    return {side: _read_schema(topic, name, split_schema_place(place)[0]) for side, name, place in places if place}


def _read_schema(topic: str, name: str, place: str) -> str:
    try:
        return storage.read_bytes(place).decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(
            f"The schema of topic {topic} at {place} cannot be read ({type(problem).__name__}).",
            left="The table of its latest state is as before.",
            next=f"Put the file there, or name another one: winnow topics alter {topic} --config {name}=PLACE",
        ) from problem
