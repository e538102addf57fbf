"""Which schemas the keys and values of a topic's log were written with: five bytes of each, or a header, counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from winnow.errors import ServiceError
from winnow.files import duckdb_connection
from winnow.files.duckdb_connection import quote_file_list
from winnow.files.page_checksums import check_local_pages
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.key_scan import build_chunks, explain_read_errors
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.schemas.documents import UnusableSchemaError
from winnow.schemas.formats import open_registry
from winnow.schemas.header_ids import CONTENT_NAMES, GLOBAL_NAMES, HEADER_NAMES, read_header_id
from winnow.values.typed_columns import Side

if TYPE_CHECKING:
    import duckdb

    from winnow.planning.cleanable import PartitionLog
    from winnow.schemas.registry import SchemaRegistry

MAXIMUM_LISTED_IDS = 200
"""Maximum ids listed of keys, and of values; what only looks like framed datums has ever new ones."""

_COLUMNS = ("key", "value")
_HEAD = (
    "CASE WHEN octet_length(named) >= 5 AND array_slice(named, 1, 1) = '\\x00'::BLOB THEN array_slice(named, 1, 5) "
    "WHEN octet_length(named) >= 17 AND array_slice(named, 1, 1) = '\\x01'::BLOB THEN array_slice(named, 1, 17) END"
)
"""SQL for the id or the GUID in ``named``; null: it has none."""


@dataclass(frozen=True, slots=True)
class SchemaUse:
    """How many keys or values begin with the id of a schema, or have one that a header of their records names.

    ``column``: ``key`` or ``value``. ``schema_id``: the GUID, a text, where that is what names it. ``kind``: AVRO,
    PROTOBUF or JSON; ``unusable`` for a schema that cannot be read; empty if no registry was asked or it does not have
    the schema. ``subjects``: those of the registry that have it, with versions; none of a GUID.
    """

    column: str
    schema_id: int | str
    records: int
    kind: str = ""
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """What was counted in a topic.

    ``unlisted``: by column, records with further ids, or GUIDs that are not known; ``unframed``: records that begin
    with none, or have a damaged header, nulls left out.
    ``problem``: why nothing is known of the schemas behind the ids; empty if it is.
    """

    topic: str
    uses: tuple[SchemaUse, ...]
    unlisted: Mapping[str, int]
    unframed: Mapping[str, int]
    problem: str = ""


def report_schema_ids(installation: Installation, topic: str) -> SchemaReport:
    """Count the ids of schemas in the live segments of ``topic``, and ask the registry, if one is set, what they are.

    A registry that fails is a part of the report.

    Raises:
        DamagedSegmentError: a segment is missing or cannot be read.
        ServiceError: catalog or object store does not answer.
        UnknownTopicError, ForeignTableError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    report = count_schema_ids(installation, topic, MAXIMUM_LISTED_IDS)
    uses, problem = _ask_registry(installation, list(report.uses))
    # Sixteen bytes may be anything, so what nobody knows as a GUID is not shown.
    shown = [use for use in uses if isinstance(use.schema_id, int) or use.kind]
    unlisted = dict(report.unlisted)
    for use in uses:
        if use not in shown:
            unlisted[use.column] += use.records
    return replace(report, uses=tuple(shown), unlisted=unlisted, problem=problem)


def count_schema_ids(installation: Installation, topic: str, maximum_ids: int) -> SchemaReport:
    """Count the ids of schemas in the live segments of ``topic``, ``maximum_ids`` of keys, and of values; no registry.

    Raises:
        DamagedSegmentError, ServiceError, UnknownTopicError, ForeignTableError: as :func:`report_schema_ids`.
    """
    view = load_topic_view(installation, topic)
    uses: list[SchemaUse] = []
    unlisted: dict[str, int] = {}
    unframed: dict[str, int] = {}
    budget = installation.budget
    with duckdb_connection.open_connection(
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        uris=[segment.path for log in view.partitions for segment in log.segments],
    ) as connection:
        connection.execute("CREATE TEMP TABLE heads (name VARCHAR, head BLOB, records BIGINT)")
        for log in view.partitions:
            _count_heads(connection, log)
        for column in _COLUMNS:
            rows = connection.execute(
                "SELECT head, sum(records)::BIGINT AS records FROM heads WHERE name = ? GROUP BY head "
                "ORDER BY head IS NULL DESC, records DESC, head",
                [column],
            ).fetchmany(maximum_ids + 1)
            framed = [(_name_schema(head), records) for head, records in rows if head is not None]
            unframed[column] = sum(records for head, records in rows if head is None)
            uses += [SchemaUse(column, schema_id, records) for schema_id, records in framed[:maximum_ids]]
            total = duckdb_connection.fetch_one_row(
                connection, f"SELECT coalesce(sum(records), 0)::BIGINT FROM heads WHERE name = '{column}'"
            )
            assert total is not None
            unlisted[column] = total[0] - unframed[column] - sum(records for _, records in framed[:maximum_ids])
    return SchemaReport(topic, tuple(uses), unlisted, unframed)


def _count_heads(connection: duckdb.DuckDBPyConnection, log: PartitionLog) -> None:
    """Count the ids and GUIDs of keys and values as headers hold them; null for those that have none."""
    start = log.state.log_start_offset
    for chunk in build_chunks([segment for segment in log.segments if segment.last_offset >= start]):
        files = quote_file_list(segment.path for segment in chunk)
        with explain_read_errors(log, chunk):
            check_local_pages([segment.path for segment in chunk], ("offset", *_COLUMNS, "headers"))
            for side in Side:
                connection.execute(
                    f"INSERT INTO heads SELECT '{side}', {_HEAD} AS head, count(*) "
                    f"FROM (SELECT {_build_named_sql(side)} AS named FROM read_parquet({files}) "
                    f'WHERE "offset" >= {start} AND {side} IS NOT NULL) GROUP BY head'
                )


def _build_named_sql(side: Side) -> str:
    """Build SQL for what names the schema of a datum: a header of it that has a value, else its own head."""
    named, content, other = (
        f"list_filter(headers, lambda pair: pair.key = '{names[side]}')[{place}].value"
        for names, place in ((HEADER_NAMES, 1), (CONTENT_NAMES, -1), (GLOBAL_NAMES, -1))
    )
    short = (
        f"CASE WHEN octet_length({content}) = 8 AND array_slice({content}, 1, 4) = '\\x00\\x00\\x00\\x00'::BLOB "
        f"THEN '\\x00'::BLOB || array_slice({content}, 5, 8) "
        f"WHEN {content} IS NOT NULL OR {other} IS NOT NULL THEN ''::BLOB END"
    )
    return f"coalesce({named}, {short}, array_slice({side}, 1, 17))"


def _name_schema(head: bytes) -> int | str:
    schema_id, _ = read_header_id(head)
    return schema_id if isinstance(schema_id, int) else str(schema_id)


def _ask_registry(installation: Installation, uses: list[SchemaUse]) -> tuple[list[SchemaUse], str]:
    """Return ``uses`` with what the registry knows, and why it does not say."""
    if installation.settings.schema_registry.url is None:
        return uses, "No schema registry is set (schema_registry.url)."
    registry = open_registry(installation.settings.schema_registry)
    answers: dict[int | str, tuple[str, tuple[str, ...]]] = {}
    try:
        for use in uses:
            if use.schema_id not in answers:
                answers[use.schema_id] = _describe_schema(registry, use.schema_id)
    except ServiceError as error:
        return uses, str(error)
    finally:
        registry.close()
    return [SchemaUse(use.column, use.schema_id, use.records, *answers[use.schema_id]) for use in uses], ""


def _describe_schema(registry: SchemaRegistry, schema_id: int | str) -> tuple[str, tuple[str, ...]]:
    try:
        document = registry.find_document(schema_id if isinstance(schema_id, int) else UUID(schema_id))
    except UnusableSchemaError:
        return "unusable", ()
    if document is None:
        return "", ()
    return document.kind, tuple(registry.list_subjects(schema_id)) if isinstance(schema_id, int) else ()
