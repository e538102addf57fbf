"""Which schemas the keys and values of a topic's log were written with: five bytes of each, counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.errors import ServiceError
from winnow.files import duckdb_connection
from winnow.files.duckdb_connection import quote_file_list
from winnow.files.page_checksums import check_local_pages
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.key_scan import build_chunks, explain_read_errors
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.schemas.documents import UnusableSchemaError
from winnow.schemas.formats import open_registry

if TYPE_CHECKING:
    import duckdb

    from winnow.planning.cleanable import PartitionLog
    from winnow.schemas.registry import SchemaRegistry

MAXIMUM_LISTED_IDS = 200
"""Maximum ids listed of keys, and of values; what only looks like framed datums has ever new ones."""

_COLUMNS = ("key", "value")


@dataclass(frozen=True, slots=True)
class SchemaUse:
    """How many keys or values begin with the id of a schema.

    ``column``: ``key`` or ``value``. ``kind``: AVRO, PROTOBUF or JSON; ``unusable`` for a schema that cannot be read;
    empty if no registry was asked or it does not have the schema. ``subjects``: those of the registry that have it,
    with versions.
    """

    column: str
    schema_id: int
    records: int
    kind: str = ""
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """What was counted in a topic.

    ``unlisted``: by column, records with further ids; ``unframed``: records that begin with none, nulls left out.
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
    known, problem = _ask_registry(installation, list(report.uses))
    return replace(report, uses=tuple(known), problem=problem)


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
            framed = [(int.from_bytes(head[1:]), records) for head, records in rows if head is not None]
            unframed[column] = sum(records for head, records in rows if head is None)
            uses += [SchemaUse(column, schema_id, records) for schema_id, records in framed[:maximum_ids]]
            total = duckdb_connection.fetch_one_row(
                connection, f"SELECT coalesce(sum(records), 0)::BIGINT FROM heads WHERE name = '{column}'"
            )
            assert total is not None
            unlisted[column] = total[0] - unframed[column] - sum(records for _, records in framed[:maximum_ids])
    return SchemaReport(topic, tuple(uses), unlisted, unframed)


def _count_heads(connection: duckdb.DuckDBPyConnection, log: PartitionLog) -> None:
    """Count the first five bytes of keys and values by what they are; null for those that are no head of a datum."""
    start = log.state.log_start_offset
    for chunk in build_chunks([segment for segment in log.segments if segment.last_offset >= start]):
        files = quote_file_list(segment.path for segment in chunk)
        with explain_read_errors(log, chunk):
            check_local_pages([segment.path for segment in chunk], ("offset", *_COLUMNS))
            for column in _COLUMNS:
                connection.execute(
                    f"INSERT INTO heads SELECT '{column}', CASE WHEN octet_length({column}) >= 5 "
                    f"AND array_slice({column}, 1, 1) = '\\x00'::BLOB THEN array_slice({column}, 1, 5) END AS head, "
                    f'count(*) FROM read_parquet({files}) WHERE "offset" >= {start} AND {column} IS NOT NULL '
                    "GROUP BY head"
                )


def _ask_registry(installation: Installation, uses: list[SchemaUse]) -> tuple[list[SchemaUse], str]:
    """Return ``uses`` with what the registry knows, and why it does not say."""
    if installation.settings.schema_registry.url is None:
        return uses, "No schema registry is set (schema_registry.url)."
    registry = open_registry(installation.settings.schema_registry)
    answers: dict[int, tuple[str, tuple[str, ...]]] = {}
    try:
        for use in uses:
            if use.schema_id not in answers:
                answers[use.schema_id] = _describe_schema(registry, use.schema_id)
    except ServiceError as error:
        return uses, str(error)
    finally:
        registry.close()
    return [SchemaUse(use.column, use.schema_id, use.records, *answers[use.schema_id]) for use in uses], ""


def _describe_schema(registry: SchemaRegistry, schema_id: int) -> tuple[str, tuple[str, ...]]:
    try:
        document = registry.find_document(schema_id)
    except UnusableSchemaError:
        return "unusable", ()
    return ("", ()) if document is None else (document.kind, tuple(registry.list_subjects(schema_id)))
