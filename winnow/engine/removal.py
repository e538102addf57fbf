"""Picking winners where most keys have one record: what goes is found and named, what stays is not.

Reads every key once, with eight bytes of memory a record, and once more the segments that hold contested keys. For logs
whose clean section is large and for logs whose keys are (nearly) unique: there a table of all keys costs the most.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from winnow.engine.contested import KeyHashes, create_hash_table, find_contested_keys
from winnow.engine.extended import SUPERSEDING_TABLE, retain_extended_tombstones
from winnow.engine.survivors import REMOVED_TABLE, count_per_segment
from winnow.files import duck
from winnow.files.duck import quote_file_list
from winnow.files.fingerprint import WINNERS_HASH, make_fingerprint_sql, subtract_fingerprint
from winnow.model import OffsetRange, PartitionPlan, Segment

if TYPE_CHECKING:
    import duckdb

MINIMUM_RECORDS = 1 << 20
"""Below it a table of all keys is small and comparing them costs next to nothing."""
MAXIMUM_CONTESTED_SHARE = 0.25
"""Of more contested keys, as a share of all records, a table of all keys costs less."""
SAMPLED_SHARE = 0.03
MAXIMUM_SAMPLED_SEGMENTS = 4
MAXIMUM_PASSES = 16
"""So often the keys may be read where their hashes do not fit; beyond that DuckDB's own spilling is used."""
SAMPLE_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class RemovalCounts:
    """What goes, as counts; ``survivors`` of each planned segment, ``fingerprint`` over (key, offset) of those.

    ``extended`` as in :class:`winnow.model.PartitionFacts`.
    """

    records: int
    keyless: int
    losers: int
    tombstones_expired: int
    survivors: tuple[int, ...]
    fingerprint: str
    extended: tuple[OffsetRange, ...] = ()


def is_applicable(connection: duckdb.DuckDBPyConnection, plan: PartitionPlan) -> bool:
    """Whether few keys are likely to be contested. Says the same of the same files, for every share of their keys."""
    total = sum(segment.records for segment in plan.segments)
    if total < MINIMUM_RECORDS:
        return False
    clean = sum(segment.records for segment in plan.segments if segment.last_offset < plan.first_dirty_offset)
    if 2 * clean >= total:
        return True
    hashes = _sample_hashes(connection, plan.segments, total)
    if not len(hashes):
        return True
    _, times = np.unique(hashes, return_counts=True)
    repeated = int(times[times > 1].sum()) / len(hashes)
    # A record with one other of its key meets that one in a sample as often as the sample is a share of the whole.
    return repeated <= MAXIMUM_CONTESTED_SHARE * len(hashes) / total


def _sample_hashes(connection: duckdb.DuckDBPyConnection, segments: tuple[Segment, ...], total: int) -> KeyHashes:
    chosen = segments[:: max(1, len(segments) // MAXIMUM_SAMPLED_SEGMENTS)][:MAXIMUM_SAMPLED_SEGMENTS]
    wanted = max(MINIMUM_RECORDS // 8, int(total * SAMPLED_SHARE)) // len(chosen)
    found: list[KeyHashes] = [np.empty(0, np.uint64)]
    for segment in chosen:
        span = segment.last_offset - segment.first_offset + 1
        width = span * min(wanted, segment.records) // max(1, segment.records)
        start = segment.first_offset + (span - width) // 2
        relation = connection.sql(
            f"SELECT hash(key) AS hash FROM read_parquet({quote_file_list([segment.path])}) "
            f'WHERE "offset" >= {start} AND "offset" < {start + width} AND key IS NOT NULL'
        )
        found += [
            batch.column(0).to_numpy(zero_copy_only=True) for batch in relation.to_arrow_reader(SAMPLE_BATCH_ROWS)
        ]
    return np.concatenate(found)


def create_removed_table(
    connection: duckdb.DuckDBPyConnection,
    plan: PartitionPlan,
    *,
    readable: str,
    greatest: str,
    ordering: tuple[str, ...],
) -> RemovalCounts | None:
    """Make the table ``removed("offset")``: losers, expired tombstones that won, keyless records.

    ``readable`` is the SQL condition for the records that count, ``greatest`` the aggregate that gives the winner's
    offset of a key from its records' ``ordering`` columns; the table ``expired("offset", fingerprint)`` must be there.
    None, and no table: it does not suit after all.
    """
    total = sum(segment.records for segment in plan.segments)
    with _compute_maximum_hashes(connection, total) as hashes_at_once:
        if total > hashes_at_once * MAXIMUM_PASSES:
            return None
        contested = find_contested_keys(
            connection,
            plan.segments,
            readable,
            hashes_at_once=hashes_at_once,
            most=int(total * MAXIMUM_CONTESTED_SHARE),
        )
    if contested is None:
        return None
    _create_removed_from_contested(
        connection, contested.segments, contested.hashes, readable, greatest, ordering, covered_end=plan.covered_end
    )
    extended = retain_extended_tombstones(connection, plan, readable) if plan.covered_end else ()
    losers, losers_fingerprint = _count_rows(connection, REMOVED_TABLE)
    connection.execute(
        f'CREATE TEMP TABLE expiring AS SELECT * FROM expired ANTI JOIN {REMOVED_TABLE} USING ("offset")'
    )
    expiring, expiring_fingerprint = _count_rows(connection, "expiring")
    connection.execute(f"INSERT INTO {REMOVED_TABLE} FROM expiring")
    connection.execute("DROP TABLE expiring")
    holding = [segment for segment, keyless in zip(plan.segments, contested.keyless, strict=True) if keyless]
    if holding:
        connection.execute(
            f'INSERT INTO {REMOVED_TABLE} SELECT "offset", NULL FROM read_parquet({_build_file_list(holding)}) '
            f"WHERE {readable} AND key IS NULL"
        )
    removed = count_per_segment(connection, REMOVED_TABLE, plan.segments)
    return RemovalCounts(
        records=sum(contested.records),
        keyless=sum(contested.keyless),
        losers=losers,
        tombstones_expired=expiring,
        survivors=tuple(all_of - gone for all_of, gone in zip(contested.records, removed, strict=True)),
        fingerprint=subtract_fingerprint(
            subtract_fingerprint(contested.fingerprint, losers_fingerprint), expiring_fingerprint
        ),
        extended=extended,
    )


def _create_removed_from_contested(
    connection: duckdb.DuckDBPyConnection,
    segments: tuple[Segment, ...],
    hashes: KeyHashes,
    readable: str,
    greatest: str,
    ordering: tuple[str, ...],
    *,
    covered_end: int,
) -> None:
    """Table ``removed``, and with a ``covered_end`` the table that :func:`keep_extended` asks for."""
    if covered_end:
        connection.execute(f'CREATE TEMP TABLE {SUPERSEDING_TABLE} ("offset" BIGINT)')
    if not segments:
        connection.execute(f'CREATE TEMP TABLE {REMOVED_TABLE} ("offset" BIGINT, fingerprint UBIGINT)')
        return
    create_hash_table(connection, "contested_hashes", hashes)
    columns = ", ".join(["key", '"offset"', *ordering])
    connection.execute(
        f"""
        CREATE TEMP TABLE contested AS SELECT {columns} FROM read_parquet({_build_file_list(segments)})
        WHERE {readable} AND key IS NOT NULL AND hash(key) IN (SELECT hash FROM contested_hashes)
        """
    )
    connection.execute("DROP TABLE contested_hashes")
    connection.execute(
        f"""
        CREATE TEMP TABLE {REMOVED_TABLE} AS SELECT "offset", {WINNERS_HASH} AS fingerprint FROM contested
        ANTI JOIN (SELECT {greatest} AS "offset" FROM contested GROUP BY key) AS winners USING ("offset")
        """
    )
    if covered_end:
        connection.execute(
            f'INSERT INTO {SUPERSEDING_TABLE} SELECT {greatest} AS "offset" FROM contested GROUP BY key '
            f"HAVING count(*) > 1 AND {greatest} < {covered_end}"
        )
    connection.execute("DROP TABLE contested")


def _count_rows(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[int, str]:
    row = duck.fetch_one_row(
        connection, f"SELECT count(*), {make_fingerprint_sql('make_fingerprint_sql')} FROM {table}"
    )
    assert row is not None
    return int(row[0]), str(row[1])


def _build_file_list(segments: list[Segment] | tuple[Segment, ...]) -> str:
    return quote_file_list(segment.path for segment in segments)


@contextmanager
def _compute_maximum_hashes(connection: duckdb.DuckDBPyConnection, total: int) -> Iterator[int]:
    """How many hashes may be held at a time; DuckDB leaves them their room meanwhile."""
    limit = duck.read_memory_limit_bytes(connection)
    at_once = max(1, limit // 2 // 8)
    taken = min(total, at_once) * 8
    connection.execute(f"SET memory_limit = '{max(limit - taken, limit // 2)}B'")
    try:
        yield at_once
    finally:
        connection.execute(f"SET memory_limit = '{limit}B'")


def create_removed_from_survivors(connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str) -> None:
    """Make ``removed`` of ``survivors``: what :func:`suits` has said holds for all shares of a partition's keys."""
    connection.execute(
        f"""
        CREATE TEMP TABLE {REMOVED_TABLE} AS SELECT "offset" FROM read_parquet({_build_file_list(plan.segments)}) AS log
        ANTI JOIN survivors USING ("offset") WHERE {readable}
        """
    )
    connection.execute("DROP TABLE survivors")
