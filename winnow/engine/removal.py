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

from winnow.engine.contested import Hashes, find_contested, hash_table
from winnow.engine.extended import SUPERSEDING, keep_extended
from winnow.engine.survivors import REMOVED, count_per_segment
from winnow.files import duck
from winnow.files.duck import file_list
from winnow.files.fingerprint import WINNERS_HASH, fingerprint, without
from winnow.model import OffsetRange, PartitionPlan, Segment

if TYPE_CHECKING:
    import duckdb

LEAST_RECORDS = 1 << 20
"""Below it a table of all keys is small and comparing them costs next to nothing."""
MOST_CONTESTED = 0.25
"""Of more contested keys, as a share of all records, a table of all keys costs less."""
SAMPLED = 0.03
SAMPLES = 4
MOST_PASSES = 16
"""So often the keys may be read where their hashes do not fit; beyond that DuckDB's own spilling is used."""
BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class Removal:
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


def suits(connection: duckdb.DuckDBPyConnection, plan: PartitionPlan) -> bool:
    """Whether few keys are likely to be contested. Says the same of the same files, for every share of their keys."""
    total = sum(segment.records for segment in plan.segments)
    if total < LEAST_RECORDS:
        return False
    clean = sum(segment.records for segment in plan.segments if segment.last_offset < plan.first_dirty_offset)
    if 2 * clean >= total:
        return True
    hashes = _sample(connection, plan.segments, total)
    if not len(hashes):
        return True
    _, times = np.unique(hashes, return_counts=True)
    repeated = int(times[times > 1].sum()) / len(hashes)
    # A record with one other of its key meets that one in a sample as often as the sample is a share of the whole.
    return repeated <= MOST_CONTESTED * len(hashes) / total


def _sample(connection: duckdb.DuckDBPyConnection, segments: tuple[Segment, ...], total: int) -> Hashes:
    chosen = segments[:: max(1, len(segments) // SAMPLES)][:SAMPLES]
    wanted = max(LEAST_RECORDS // 8, int(total * SAMPLED)) // len(chosen)
    found: list[Hashes] = [np.empty(0, np.uint64)]
    for segment in chosen:
        span = segment.last_offset - segment.first_offset + 1
        width = span * min(wanted, segment.records) // max(1, segment.records)
        start = segment.first_offset + (span - width) // 2
        relation = connection.sql(
            f"SELECT hash(key) AS hash FROM read_parquet({file_list([segment.path])}) "
            f'WHERE "offset" >= {start} AND "offset" < {start + width} AND key IS NOT NULL'
        )
        found += [batch.column(0).to_numpy(zero_copy_only=True) for batch in relation.to_arrow_reader(BATCH_ROWS)]
    return np.concatenate(found)


def remove_losers(
    connection: duckdb.DuckDBPyConnection,
    plan: PartitionPlan,
    *,
    readable: str,
    greatest: str,
    ordering: tuple[str, ...],
) -> Removal | None:
    """Make the table ``removed("offset")``: losers, expired tombstones that won, keyless records.

    ``readable`` is the SQL condition for the records that count, ``greatest`` the aggregate that gives the winner's
    offset of a key from its records' ``ordering`` columns; the table ``expired("offset", fingerprint)`` must be there.
    None, and no table: it does not suit after all.
    """
    total = sum(segment.records for segment in plan.segments)
    with _room_for_hashes(connection, total) as hashes_at_once:
        if total > hashes_at_once * MOST_PASSES:
            return None
        contested = find_contested(
            connection,
            plan.segments,
            readable,
            hashes_at_once=hashes_at_once,
            most=int(total * MOST_CONTESTED),
        )
    if contested is None:
        return None
    _find_losers(
        connection, contested.segments, contested.hashes, readable, greatest, ordering, covered_end=plan.covered_end
    )
    extended = keep_extended(connection, plan, readable) if plan.covered_end else ()
    losers, losers_fingerprint = _count(connection, REMOVED)
    connection.execute(f'CREATE TEMP TABLE expiring AS SELECT * FROM expired ANTI JOIN {REMOVED} USING ("offset")')
    expiring, expiring_fingerprint = _count(connection, "expiring")
    connection.execute(f"INSERT INTO {REMOVED} FROM expiring")
    connection.execute("DROP TABLE expiring")
    holding = [segment for segment, keyless in zip(plan.segments, contested.keyless, strict=True) if keyless]
    if holding:
        connection.execute(
            f'INSERT INTO {REMOVED} SELECT "offset", NULL FROM read_parquet({_files(holding)}) '
            f"WHERE {readable} AND key IS NULL"
        )
    removed = count_per_segment(connection, REMOVED, plan.segments)
    return Removal(
        records=sum(contested.records),
        keyless=sum(contested.keyless),
        losers=losers,
        tombstones_expired=expiring,
        survivors=tuple(all_of - gone for all_of, gone in zip(contested.records, removed, strict=True)),
        fingerprint=without(without(contested.fingerprint, losers_fingerprint), expiring_fingerprint),
        extended=extended,
    )


def _find_losers(
    connection: duckdb.DuckDBPyConnection,
    segments: tuple[Segment, ...],
    hashes: Hashes,
    readable: str,
    greatest: str,
    ordering: tuple[str, ...],
    *,
    covered_end: int,
) -> None:
    """Table ``removed``, and with a ``covered_end`` the table that :func:`keep_extended` asks for."""
    if covered_end:
        connection.execute(f'CREATE TEMP TABLE {SUPERSEDING} ("offset" BIGINT)')
    if not segments:
        connection.execute(f'CREATE TEMP TABLE {REMOVED} ("offset" BIGINT, fingerprint UBIGINT)')
        return
    hash_table(connection, "contested_hashes", hashes)
    columns = ", ".join(["key", '"offset"', *ordering])
    connection.execute(
        f"""
        CREATE TEMP TABLE contested AS SELECT {columns} FROM read_parquet({_files(segments)})
        WHERE {readable} AND key IS NOT NULL AND hash(key) IN (SELECT hash FROM contested_hashes)
        """
    )
    connection.execute("DROP TABLE contested_hashes")
    connection.execute(
        f"""
        CREATE TEMP TABLE {REMOVED} AS SELECT "offset", {WINNERS_HASH} AS fingerprint FROM contested
        ANTI JOIN (SELECT {greatest} AS "offset" FROM contested GROUP BY key) AS winners USING ("offset")
        """
    )
    if covered_end:
        connection.execute(
            f'INSERT INTO {SUPERSEDING} SELECT {greatest} AS "offset" FROM contested GROUP BY key '
            f"HAVING count(*) > 1 AND {greatest} < {covered_end}"
        )
    connection.execute("DROP TABLE contested")


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[int, str]:
    row = duck.one_row(connection, f"SELECT count(*), {fingerprint('fingerprint')} FROM {table}")
    assert row is not None
    return int(row[0]), str(row[1])


def _files(segments: list[Segment] | tuple[Segment, ...]) -> str:
    return file_list(segment.path for segment in segments)


@contextmanager
def _room_for_hashes(connection: duckdb.DuckDBPyConnection, total: int) -> Iterator[int]:
    """How many hashes may be held at a time; DuckDB leaves them their room meanwhile."""
    limit = duck.memory_limit_bytes(connection)
    at_once = max(1, limit // 2 // 8)
    taken = min(total, at_once) * 8
    connection.execute(f"SET memory_limit = '{max(limit - taken, limit // 2)}B'")
    try:
        yield at_once
    finally:
        connection.execute(f"SET memory_limit = '{limit}B'")


def turn_round(connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str) -> None:
    """Make ``removed`` of ``survivors``: what :func:`suits` has said holds for all shares of a partition's keys."""
    connection.execute(
        f"""
        CREATE TEMP TABLE {REMOVED} AS SELECT "offset" FROM read_parquet({_files(plan.segments)}) AS log
        ANTI JOIN survivors USING ("offset") WHERE {readable}
        """
    )
    connection.execute("DROP TABLE survivors")
