"""Checks arriving records below the log end: equal to the log's, compacted away since, or an error.

The rules of the interface: equal in every field → skipped; missing below the first dirty offset, and the digest of the
file's slice was ingested before → compacted away, skipped; anything else → error for the whole call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from winnow.errors import BadInputError
from winnow.files import duckdb_connection
from winnow.files.checked_reading import check_before_duckdb, find_damaged_segment
from winnow.files.quarantine_files import QUARANTINE_SCHEMA
from winnow.files.segments import ARROW_SCHEMA
from winnow.log.head import Head
from winnow.log.quarantine import Quarantine
from winnow.log.reference_chains import list_seen_digests
from winnow.model import PartitionState, Segment
from winnow.pipeline.ingest.new_beginning import describe_new_beginning, find_newest_timestamp
from winnow.pipeline.ingest.spool import Spool, format_file_numbers
from winnow.planning import cleanable

if TYPE_CHECKING:
    import duckdb

_NOTHING_LANDED = "Nothing of this call landed."
_COMPARED_FIELDS = ("timestamp", "timestampType", "key", "value", "headers")
_EXISTING_COLUMNS = '"offset", epoch_ms("timestamp") AS "timestamp", "timestampType", key, value, headers'


def check_overlap(
    spool: Spool,
    head: Head,
    partition: int,
    segments: Sequence[Segment],
    quarantine: Quarantine,
    taken: Sequence[int],
    *,
    trust_compacted: bool,
) -> None:
    """Compare every arriving record of ``partition`` below the log end with log and quarantine.

    Raises:
        BadInputError: one is neither there nor explained; with file, row, partition and offset.
        DamagedSegmentError: a segment of the log is not what was written.
    """
    import duckdb

    state = head.state.partitions[partition]
    below = _build_arriving_condition(spool, partition, state.log_end_offset, taken)
    if below is None:
        return
    first, last = below
    reached = [s for s in segments if s.first_offset <= last and first <= s.last_offset]
    check_before_duckdb(spool.topic, reached, ARROW_SCHEMA.names, after=_NOTHING_LANDED)
    connection = spool.connect([segment.path for segment in reached])
    try:
        _create_quarantined(connection, quarantine, head, partition, below)
        _create_existing(connection, reached)
        _create_compared(connection, partition, state.log_end_offset, taken)
        newest_ms = find_newest_timestamp(segments)
        _refuse_different(spool, connection, partition, newest_ms)
        _refuse_absent(spool, connection, head, partition, trust_compacted, newest_ms)
    except duckdb.Error as problem:
        find_damaged_segment(spool.topic, reached, problem, after=_NOTHING_LANDED)
        raise
    finally:
        connection.close()


def _build_arriving_condition(
    spool: Spool, partition: int, log_end_offset: int, taken: Sequence[int]
) -> tuple[int, int] | None:
    row = duckdb_connection.fetch_one_row(
        spool.connection,
        f"""
        SELECT min("offset"), max("offset") FROM spool
        WHERE partition = {partition} AND "offset" < {log_end_offset} AND file IN {format_file_numbers(taken)}
        """,
    )
    return None if row is None or row[0] is None else (row[0], row[1])


def _create_quarantined(
    connection: duckdb.DuckDBPyConnection, quarantine: Quarantine, head: Head, partition: int, offsets: tuple[int, int]
) -> None:
    """Create the table ``quarantined``: the partition's visible rows within ``offsets``; it can spill."""
    connection.register("rows", QUARANTINE_SCHEMA.empty_table())
    connection.execute(f"CREATE TEMP TABLE quarantined AS SELECT {_EXISTING_COLUMNS} FROM rows")
    connection.unregister("rows")
    for batch in quarantine.read(head.state.quarantine_ingests, partition=partition, offsets=offsets):
        connection.register("rows", batch)
        connection.execute(f"INSERT INTO quarantined SELECT {_EXISTING_COLUMNS} FROM rows")
        connection.unregister("rows")


def _create_existing(connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment]) -> None:
    files = duckdb_connection.quote_file_list(segment.path for segment in segments)
    log = f"SELECT {_EXISTING_COLUMNS} FROM read_parquet({files}) UNION ALL " if segments else ""
    connection.execute(f"CREATE VIEW existing AS {log} SELECT * FROM quarantined")


def _create_compared(
    connection: duckdb.DuckDBPyConnection, partition: int, log_end_offset: int, taken: Sequence[int]
) -> None:
    equal = " AND ".join(f'arriving."{name}" IS NOT DISTINCT FROM existing."{name}"' for name in _COMPARED_FIELDS)
    connection.execute(
        f"""
        CREATE TEMP TABLE compared AS
        SELECT arriving.file, arriving.row, arriving."sequence", arriving."offset", arriving."timestamp" AS arrived_ms,
               existing."offset" IS NOT NULL AS present, ({equal}) AS equal
        FROM (SELECT * FROM spool
              WHERE partition = {partition} AND "offset" < {log_end_offset}
                AND file IN {format_file_numbers(taken)}) AS arriving
        LEFT JOIN existing USING ("offset")
        """
    )


def _refuse_different(
    spool: Spool, connection: duckdb.DuckDBPyConnection, partition: int, newest_ms: int | None
) -> None:
    different = 'SELECT file, row, "offset" FROM compared WHERE present AND NOT equal'
    later = None
    if newest_ms is not None:
        query = f'{different} AND arrived_ms > {newest_ms} ORDER BY "sequence" LIMIT 1'
        later = duckdb_connection.fetch_one_row(connection, query)
    if later is not None:
        raise _build_new_beginning_error(spool, later, partition)
    row = duckdb_connection.fetch_one_row(connection, f'{different} ORDER BY "sequence" LIMIT 1')
    if row is not None:
        raise BadInputError(
            f"{spool.files[row[0]].path}, row {row[1]} (partition {partition}, offset {row[2]}): topic {spool.topic} "
            "holds another record at this offset. Is the file of another topic or cluster? Nothing of this call landed."
        )


def _refuse_absent(
    spool: Spool,
    connection: duckdb.DuckDBPyConnection,
    head: Head,
    partition: int,
    trust_compacted: bool,
    newest_ms: int | None,
) -> None:
    state = head.state.partitions[partition]
    absent = 'SELECT file, row, "offset" FROM compared WHERE NOT present'
    row = duckdb_connection.fetch_one_row(
        connection, f'{absent} AND "offset" >= {_find_cleaned_offset(state)} ORDER BY "sequence" LIMIT 1'
    )
    if row is not None:
        if _are_all_later(connection, newest_ms):
            raise _build_new_beginning_error(spool, row, partition)
        raise BadInputError(_build_missing_offset_error(spool, row, partition, state))
    if trust_compacted:
        return
    files = connection.execute("SELECT DISTINCT file FROM compared WHERE NOT present").fetchall()
    if not files:
        return
    seen = list_seen_digests(head.state, partition)
    for (number,) in sorted(files):
        if spool.files[number].slices.get(partition) not in seen:
            row = duckdb_connection.fetch_one_row(
                connection, f'{absent} AND file = {number} ORDER BY "sequence" LIMIT 1'
            )
            assert row is not None
            if _are_all_later(connection, newest_ms):
                raise _build_new_beginning_error(spool, row, partition)
            raise BadInputError(
                f"{_build_missing_offset_error(spool, row, partition, state)} If these records were compacted away in "
                "the source, add --trust-compacted."
            )


def _are_all_later(connection: duckdb.DuckDBPyConnection, newest_ms: int | None) -> bool:
    """Check whether all arriving records that the log does not have are later than it, and there are several.

    A single one may be a tombstone that was the newest record and has expired.
    """
    if newest_ms is None:
        return False
    row = duckdb_connection.fetch_one_row(
        connection,
        f"SELECT count(*), count(*) FILTER (arrived_ms > {newest_ms}) FROM compared WHERE NOT present",
    )
    return row is not None and row[0] == row[1] > 1


def _build_new_beginning_error(spool: Spool, row: tuple[int, int, int], partition: int) -> BadInputError:
    return BadInputError(
        f"{spool.files[row[0]].path}, row {row[1]} (partition {partition}, offset {row[2]}): "
        f"{describe_new_beginning(spool.topic, partition, row[2])}"
    )


def _find_cleaned_offset(state: PartitionState) -> int:
    """Return the offset below which records may have been compacted away.

    A run over part of a log under another strategy lowers the checkpoint; removed records stay removed.
    """
    ends = [entry.end_offset for entry in state.history if entry.cleaning_time_ms is not None]
    return max([cleanable.find_first_dirty_offset(state), *ends[-1:]])


def _build_missing_offset_error(spool: Spool, row: tuple[int, int, int], partition: int, state: PartitionState) -> str:
    return (
        f"{spool.files[row[0]].path}, row {row[1]} (partition {partition}, offset {row[2]}): the log of {spool.topic}-"
        f"{partition} has gone on to offset {state.log_end_offset} without this record. Were files ingested in the "
        "wrong order, or one left out? Nothing of this call landed."
    )
