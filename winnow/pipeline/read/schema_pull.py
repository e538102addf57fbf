"""Keeps the schemas that a topic's records name beside its log, so that an archive can do without its registry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from winnow.errors import CommitUnknownError, ValidationFailedError, WinnowError
from winnow.log.document_copies import delete_documents
from winnow.log.head import Change, Head
from winnow.log.kept_schemas import read_kept_schemas, write_kept_schemas
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.schema_ids import count_schema_ids
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.schemas.documents import SchemaDocument, SchemaId, UnusableSchemaError, order_schema_ids
from winnow.schemas.formats import KINDS, open_registry
from winnow.schemas.kept_documents import pack_documents, unpack_documents
from winnow.values.kept_schemas import KeptSchemas, KeptText
from winnow.values.row_shape import RowShape

MAXIMUM_IDS: Final = 2_000
"""Maximum ids of keys, and of values, that are asked for."""
MAXIMUM_KEPT_BYTES: Final = 64 << 20
"""Maximum size of what one call keeps."""


@dataclass(frozen=True, slots=True)
class SchemaPull:
    """What a pull kept.

    ``schemas``: how many ids and GUIDs are kept now; ``pulled``: those that were not before, GUIDs as text.
    ``unknown``: ids that the registry does not know; ``unusable``: ids whose schemas cannot be kept. ``unlisted``:
    records with further ids, which were not asked for. ``guids``: how many GUIDs it does not know, or whose schemas
    cannot be kept; sixteen bytes may be anything, so they are not repeated. ``snapshot_id`` None: nothing was new.
    """

    topic: str
    schemas: int
    pulled: tuple[int | str, ...]
    unknown: tuple[int, ...]
    unusable: tuple[int, ...]
    unlisted: int
    guids: int
    snapshot_id: int | None

    @property
    def is_whole(self) -> bool:
        """Whether every schema that records name is kept."""
        return not (self.unknown or self.unusable or self.unlisted or self.guids)


def pull_schemas(installation: Installation, topic: str) -> SchemaPull:
    """Keep the schemas of all ids and GUIDs that live keys and values of ``topic`` have. Repeating changes nothing.

    Where the topic says which of both have a format with ids, the others' bytes are not taken for ids.

    Raises:
        ConfigurationError: there is no registry.
        ValidationFailedError: the schemas are too large to be kept.
        ServiceError: registry, catalog or object store does not answer.
        DamagedSegmentError, UnknownTopicError, ForeignTableError: as of the count of ids.
        Also the errors of :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    log = installation.log.open(topic)
    columns = _list_columns(load_topic_view(installation, topic).config.row_shape)
    report = count_schema_ids(installation, topic, MAXIMUM_IDS)
    uses = {use.schema_id for use in report.uses if use.column in columns}
    named = sorted((UUID(name) if isinstance(name, str) else name for name in uses), key=order_schema_ids)
    kept = _list_kept_ids(log.head())
    documents, unknown, unusable = _ask(installation, [schema_id for schema_id in named if schema_id not in kept])
    snapshot_id, present = _commit(installation, log, documents) if documents else (None, kept)
    return SchemaPull(
        topic,
        len(present),
        tuple(_format_id(schema_id) for schema_id in documents if schema_id not in kept),
        tuple(schema_id for schema_id in unknown if isinstance(schema_id, int)),
        tuple(schema_id for schema_id in unusable if isinstance(schema_id, int)),
        sum(records for column, records in report.unlisted.items() if column in columns),
        sum(isinstance(schema_id, UUID) for schema_id in (*unknown, *unusable)),
        snapshot_id,
    )


def _format_id(schema_id: SchemaId) -> int | str:
    return schema_id if isinstance(schema_id, int) else str(schema_id)


def _list_columns(shape: RowShape) -> frozenset[str]:
    formats = {"key": (shape.key_format, shape.key_schema), "value": (shape.value_format, shape.value_schema)}
    return frozenset(name for name, (kind, place) in formats.items() if kind in KINDS and not place) or frozenset(
        formats
    )


def _list_kept_ids(head: Head) -> set[SchemaId]:
    return set(unpack_documents(read_kept_schemas(head.state)))


def _ask(
    installation: Installation, schema_ids: list[SchemaId]
) -> tuple[dict[SchemaId, SchemaDocument], list[SchemaId], list[SchemaId]]:
    """Ask the registry for documents; also return the ids that it does not know, and those that cannot be read."""
    documents: dict[SchemaId, SchemaDocument] = {}
    unknown: list[SchemaId] = []
    unusable: list[SchemaId] = []
    if not schema_ids:
        return documents, unknown, unusable
    registry = open_registry(installation.settings.schema_registry)
    try:
        for schema_id in schema_ids:
            try:
                document = registry.find_document(schema_id)
            except UnusableSchemaError:
                unusable.append(schema_id)
                continue
            if document is None:
                unknown.append(schema_id)
            else:
                documents[schema_id] = document
    finally:
        registry.close()
    return documents, unknown, unusable


def _commit(
    installation: Installation, log: TopicLog, documents: dict[SchemaId, SchemaDocument]
) -> tuple[int | None, set[SchemaId]]:
    """Write what is not kept yet and name it in one commit; return the snapshot, and the ids that are kept then."""
    at_ms, source = installation.now_ms(), installation.settings.schema_registry.url or ""
    drafts: list[str] = []

    def build(head: Head) -> Change:
        delete_documents(head.documents, drafts)
        drafts.clear()
        new = {each: document for each, document in documents.items() if each not in _list_kept_ids(head)}
        if not new:
            raise _KeptMeanwhileError
        schemas, guids, texts = pack_documents(new)
        _require_small(log.topic, texts)
        reference = write_kept_schemas(
            head.documents, KeptSchemas(log.topic, head.table_uuid, at_ms, source, schemas, texts, guids)
        )
        drafts.extend(head.documents.list_places(reference.path))
        installation.guard.require_own()
        return Change(
            state=replace(head.state, schemas=(*head.state.schemas, reference)),
            summary={"winnow.operation": "pull-schemas"},
        )

    try:
        committed = log.commit(build)
    except _KeptMeanwhileError:
        return None, _list_kept_ids(log.head())
    except CommitUnknownError:
        raise  # the topic may name the document
    except WinnowError:
        delete_documents(log.head().documents, drafts)
        raise
    return committed.snapshot_id, _list_kept_ids(committed.head)


class _KeptMeanwhileError(Exception):
    """Another call kept the same schemas."""


def _require_small(topic: str, texts: tuple[KeptText, ...]) -> None:
    size_bytes = sum(len(text.text.encode()) for text in texts)
    if size_bytes > MAXIMUM_KEPT_BYTES:
        raise ValidationFailedError(
            f"The schemas of topic {topic} take {size_bytes:,} bytes, more than the {MAXIMUM_KEPT_BYTES:,} that are "
            "kept at once.",
            left="Nothing was changed.",
            next=f"See which schemas records name: winnow schemas list {topic}",
        )
