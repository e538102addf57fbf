"""Finds the keys of one partition whose latest value differs between two extents of its log.

A key whose records are all in both extents has the same winner in both, so only keys with a record in one of the two
are candidates. Of everything else nothing but key and ordering columns is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from winnow.engine.strategy_diff import RecordOrder
from winnow.engine.task_resources import TaskBudget
from winnow.engine.winners import build_greatest_offset_sql, build_scan_sql
from winnow.files import duckdb_connection, storage
from winnow.files.page_checksums import check_pages
from winnow.files.segments import HEADERS_TYPE
from winnow.values.model import Segment

if TYPE_CHECKING:
    import duckdb

CHANGE_SCHEMA = pa.schema(
    [
        pa.field("change", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("previous_offset", pa.int64()),
    ]
)
"""``change``: inserted, updated or deleted. A deleted key has no value, offset and timestamp."""

HEADERED_SCHEMA = CHANGE_SCHEMA.append(pa.field("headers", HEADERS_TYPE))
"""With the headers of the record that has the value; of a deleted key, of the one that had it."""

BATCH_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The records of ``segments`` in [``start_offset``, ``end_offset``)."""

    segments: tuple[Segment, ...]
    start_offset: int
    end_offset: int

    @property
    def condition(self) -> str:
        """The SQL condition that a record of the segments is in the extent."""
        return f'"offset" >= {self.start_offset} AND "offset" < {self.end_offset}'

    def list_readable(self) -> list[Segment]:
        """List the segments that may hold records of the extent."""
        return [s for s in self.segments if s.last_offset >= self.start_offset and s.first_offset < self.end_offset]


def read_key_changes(
    partition: int,
    before: LogExtent,
    after: LogExtent,
    order: RecordOrder,
    budget: TaskBudget,
    *,
    compares_records: bool = False,
    with_headers: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the changed keys in batches of :data:`CHANGE_SCHEMA`, by the offset of the newer of their two winners.

    ``compares_records``: one offset may have two records, because an ingest was undone between the extents; so winners
    with the same offset are compared too. ``with_headers``: in batches of :data:`HEADERED_SCHEMA`.

    Raises:
        DamagedSegmentError: a segment on a local disk is not what was written.
        duckdb.Error, OSError: a segment cannot be read.
    """
    segments = list(dict.fromkeys([*before.list_readable(), *after.list_readable()]))
    if not segments:
        return
    for segment in segments:
        # On an object store pages are checked while they are read (winnow.files.checked_filesystem).
        if storage.is_local(segment.path):
            check_pages(segment.path)
    with duckdb_connection.open_connection(
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        uris=[segment.path for segment in segments],
    ) as connection:
        create_candidates(connection, before, after)
        for name, extent in (("alive_before", before), ("alive_after", after)):
            create_alive(connection, name, extent, order, compares_records=compares_records)
        _create_changes(connection)
        yield from _read_changes(connection, partition, before if with_headers else None, after)


def create_candidates(connection: duckdb.DuckDBPyConnection, before: LogExtent, after: LogExtent) -> None:
    """Create ``candidates(key)``: the keys of records that are in exactly one of both extents."""
    old, new = {s.path for s in before.list_readable()}, {s.path for s in after.list_readable()}
    selects = [
        _select_keys([s for s in extent.list_readable() if s.path not in other], extent.condition)
        for extent, other in ((before, new), (after, old))
    ]
    both = [segment for segment in before.list_readable() if segment.path in new]
    selects.append(_select_keys(both, f"({before.condition}) <> ({after.condition})"))
    union = " UNION ".join(each for each in selects if each) or "SELECT NULL::BLOB AS key WHERE false"
    connection.execute(f"CREATE TEMP TABLE candidates AS {union}")


def _select_keys(segments: Sequence[Segment], condition: str) -> str:
    if not segments:
        return ""
    return f"SELECT DISTINCT key FROM {build_scan_sql(segments)} WHERE key IS NOT NULL AND {condition}"


def create_alive(
    connection: duckdb.DuckDBPyConnection, name: str, extent: LogExtent, order: RecordOrder, *, compares_records: bool
) -> None:
    """Create the table ``name(key, offset, digest)``: the candidates' winners in ``extent`` that are no tombstones."""
    segments = extent.list_readable()
    if not segments:
        connection.execute(f'CREATE TEMP TABLE {name} (key BLOB, "offset" BIGINT, digest UBIGINT)')
        return
    greatest = build_greatest_offset_sql(order.strategy, order.header)
    connection.execute(
        f"""
        CREATE TEMP TABLE {name}_winners AS SELECT key, {greatest} AS "offset"
        FROM {build_scan_sql(segments)} AS log SEMI JOIN candidates USING (key) WHERE {extent.condition} GROUP BY key
        """
    )
    if compares_records:
        connection.execute(
            f"""
            CREATE TEMP TABLE {name} AS SELECT won.key, won."offset", hash(value, "timestamp", headers) AS digest
            FROM {name}_winners AS won JOIN {build_scan_sql(segments)} AS log ON won."offset" = log."offset"
            WHERE log.value IS NOT NULL
            """
        )
        return
    holding = [segment for segment in segments if segment.tombstones]
    gone = (
        f'ANTI JOIN (SELECT "offset" FROM {build_scan_sql(holding)} WHERE value IS NULL) AS gone USING ("offset")'
        if holding
        else ""
    )
    connection.execute(
        f'CREATE TEMP TABLE {name} AS SELECT key, "offset", 0::UBIGINT AS digest FROM {name}_winners {gone}'
    )


def _create_changes(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        """
        CREATE TEMP TABLE changes AS
        SELECT coalesce(new.key, old.key) AS key, new."offset" AS "offset", old."offset" AS previous_offset,
               CASE WHEN old."offset" IS NULL THEN 'inserted' WHEN new."offset" IS NULL THEN 'deleted'
                    ELSE 'updated' END AS change
        FROM alive_before AS old FULL JOIN alive_after AS new ON old.key = new.key
        WHERE old."offset" IS DISTINCT FROM new."offset" OR old.digest IS DISTINCT FROM new.digest
        """
    )


def _read_changes(
    connection: duckdb.DuckDBPyConnection, partition: int, before: LogExtent | None, after: LogExtent
) -> Iterator[pa.RecordBatch]:
    """Yield the changes; ``before``: with headers, those of deleted keys from there."""
    headers, former = "", ""
    if before is not None:
        headers = ", CASE WHEN change = 'deleted' THEN old.headers ELSE log.headers END AS headers"
        former = (
            f"LEFT JOIN {_build_source_sql(connection, before, 'previous_offset')} AS old "
            "ON change = 'deleted' AND changes.previous_offset = old.\"offset\""
        )
    relation = connection.sql(
        f"""
        SELECT change, {partition}::INTEGER AS partition, changes.key, log.value, changes."offset", log."timestamp",
               previous_offset{headers}
        FROM changes
        LEFT JOIN {_build_source_sql(connection, after, "offset")} AS log ON changes."offset" = log."offset" {former}
        ORDER BY coalesce(changes."offset", previous_offset), previous_offset
        """
    )
    schema = CHANGE_SCHEMA if before is None else HEADERED_SCHEMA
    for batch in relation.to_arrow_reader(BATCH_ROWS):
        if batch.num_rows:
            columns = [column.cast(known.type) for column, known in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _build_source_sql(connection: duckdb.DuckDBPyConnection, extent: LogExtent, column: str) -> str:
    """Build the source of the records of ``extent`` whose offsets ``column`` of ``changes`` has."""
    row = duckdb_connection.fetch_one_row(connection, f'SELECT min("{column}"), max("{column}") FROM changes')
    assert row is not None
    lowest, highest = row
    holding = [
        segment
        for segment in extent.list_readable()
        if lowest is not None and segment.last_offset >= lowest and segment.first_offset <= highest
    ]
    if holding:
        return build_scan_sql(holding)
    return (
        '(SELECT NULL::BIGINT AS "offset", NULL::BLOB AS value, NULL::TIMESTAMPTZ AS "timestamp", '
        "NULL::STRUCT(key VARCHAR, value BLOB)[] AS headers WHERE false)"
    )
