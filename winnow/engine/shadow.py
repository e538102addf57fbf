"""Choosing in shadow: which record of each key would survive under two total orders, side by side. Writes no segment.

One topic partition at a time, inside a Spark task or in process. The choice is the compaction's own
(:func:`winnow.engine.orders.greatest_offset`), made twice in one scan over key and ordering columns. What leaves the
task are counts and coordinates, never bytes of a key or a value.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from winnow.engine.orders import greatest_offset
from winnow.engine.rewrite import Budget
from winnow.engine.shadow_request import (
    Coordinates,
    DifferingKey,
    PartitionShadow,
    ShadowPartition,
    ShadowRequest,
    ShadowSide,
)
from winnow.engine.survivors import count_per_segment
from winnow.engine.throttle import Throttle
from winnow.engine.winners import offset_within
from winnow.files import duck
from winnow.files.duck import file_list, literal
from winnow.files.page_checksums import check_local_pages
from winnow.model import OffsetRange, Segment

if TYPE_CHECKING:
    import duckdb

VERSION_BYTES = 8
READ_COLUMNS = ("offset", "timestamp", "key", "headers")
"""What is read of every segment; ``value`` beside it, only to find tombstones, where a segment has some."""


def compare_partition(request: ShadowRequest, partition: ShadowPartition, *, budget: Budget) -> PartitionShadow:
    """Choose twice over one partition and count where the choices differ. Reads only.

    Raises:
        UsageError: an order by header without the header's name.
        DamagedSegmentError: a segment on a local disk is not what was written.
    """
    started = time.monotonic()
    with duck.connected(
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        uris=[segment.path for segment in partition.segments],
    ) as connection:
        # As a compaction counts its winners' scan: whole segments, once.
        Throttle(budget.bytes_per_second).take(partition.size_bytes)
        check_local_pages([segment.path for segment in partition.segments], READ_COLUMNS)
        _choose(connection, request, partition)
        (records,) = _row(connection, f'SELECT count("offset") FROM {_readable(partition, partition.segments)}')
        keys, differing, records_keyed, missing, malformed = _row(connection, _TOTALS)
        _find_tombstones(connection, partition)
        present = _side(connection, partition, "present", partition.expired_present, partition.covered_end_present)
        other = _side(connection, partition, "other", partition.expired_other, partition.covered_end_other)
        sample = _sample(connection, request, partition)
    return PartitionShadow(
        partition=partition.partition,
        records=records,
        records_keyless=records - records_keyed,
        keys=keys,
        keys_differing=differing,
        present=present,
        other=other,
        headers_missing=missing,
        headers_malformed=malformed,
        sample=sample,
        bytes_read=partition.size_bytes,
        seconds=time.monotonic() - started,
    )


def header_version(value: bytes | None) -> int | None:
    """The version in a header's last value: 8 bytes, big-endian, signed; None for anything else (KIP-280)."""
    if value is None or len(value) != VERSION_BYTES:
        return None
    return int.from_bytes(value, "big", signed=True)


def header_values(header: str) -> str:
    """SQL: the values of all occurrences of ``header`` in the column ``headers``, in order; NULL without headers."""
    return f"list_filter(headers, lambda h: h.key = {literal(header)})"


def _choose(connection: duckdb.DuckDBPyConnection, request: ShadowRequest, partition: ShadowPartition) -> None:
    """Table ``chosen``: for each key both winners, its records, and of those the ones without a version."""
    present = greatest_offset(request.present.strategy, request.present.header)
    other = greatest_offset(request.other.strategy, request.other.header)
    missing, malformed = "0", "0"
    if request.header is not None:
        values = f"coalesce({header_values(request.header)}, [])"
        wrong_size = f"octet_length({values}[-1].value) IS DISTINCT FROM {VERSION_BYTES}"
        missing = f"count(*) FILTER (len({values}) = 0)"
        malformed = f"count(*) FILTER (len({values}) > 0 AND {wrong_size})"
    connection.execute(
        f"""
        CREATE TEMP TABLE chosen AS SELECT present_offset, other_offset, records, missing, malformed FROM (
            SELECT key, {present} AS present_offset, {other} AS other_offset,
                   count(*) AS records, {missing} AS missing, {malformed} AS malformed
            FROM {_readable(partition, partition.segments)} AND key IS NOT NULL GROUP BY key
        )
        """
    )


def _readable(partition: ShadowPartition, segments: Sequence[Segment]) -> str:
    files = file_list(segment.path for segment in segments)
    # Records below the log start cannot be read any more: they neither win nor count.
    return f'read_parquet({files}) WHERE "offset" >= {partition.start_offset} AND "offset" < {partition.end_offset}'


_TOTALS = """
    SELECT count(*), count(*) FILTER (present_offset <> other_offset), coalesce(sum(records), 0)::BIGINT,
           coalesce(sum(missing), 0)::BIGINT, coalesce(sum(malformed), 0)::BIGINT FROM chosen
"""


def _find_tombstones(connection: duckdb.DuckDBPyConnection, partition: ShadowPartition) -> None:
    """Table ``tombstones("offset")``. ``value`` is read in segments that hold null values only."""
    holding = [segment for segment in partition.segments if segment.tombstones]
    connection.execute('CREATE TEMP TABLE tombstones ("offset" BIGINT)')
    if holding:
        connection.execute(
            f'INSERT INTO tombstones SELECT "offset" FROM {_readable(partition, holding)} '
            "AND key IS NOT NULL AND value IS NULL"
        )


def _side(
    connection: duckdb.DuckDBPyConnection,
    partition: ShadowPartition,
    side: str,
    expired: Sequence[OffsetRange],
    covered_end: int,
) -> ShadowSide:
    inside = offset_within(expired)
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE kept AS
        SELECT {side}_offset AS "offset" FROM chosen
        ANTI JOIN (SELECT "offset" FROM tombstones WHERE {inside}) AS gone
        ON {side}_offset = gone."offset" AND (records = 1 OR gone."offset" >= {covered_end})
        """
    )
    (keys,) = _row(connection, "SELECT count(*) FROM chosen")
    (kept,) = _row(connection, "SELECT count(*) FROM kept")
    (differing_tombstones,) = _row(
        connection,
        f"""
        SELECT count(*) FROM chosen SEMI JOIN tombstones ON {side}_offset = tombstones."offset"
        WHERE present_offset <> other_offset
        """,
    )
    return ShadowSide(kept, keys - kept, _estimated_bytes(connection, partition.segments), differing_tombstones)


def _estimated_bytes(connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment]) -> int:
    counted = zip(segments, count_per_segment(connection, "kept", segments), strict=True)
    return sum(segment.size_bytes * kept // max(1, segment.records) for segment, kept in counted)


def _sample(
    connection: duckdb.DuckDBPyConnection, request: ShadowRequest, partition: ShadowPartition
) -> tuple[DifferingKey, ...]:
    pairs = connection.execute(
        "SELECT present_offset, other_offset FROM chosen WHERE present_offset <> other_offset "
        f"ORDER BY present_offset LIMIT {request.sample}"
    ).fetchall()
    found = locate(connection, partition.segments, {offset for pair in pairs for offset in pair}, request.header)
    return tuple(DifferingKey(found[mine], found[theirs]) for mine, theirs in pairs)


def locate(
    connection: duckdb.DuckDBPyConnection, segments: Iterable[Segment], offsets: set[int], header: str | None
) -> Mapping[int, Coordinates]:
    """The coordinates of a few records by offset; those that are not there are left out."""
    holding = [s for s in segments if any(s.first_offset <= offset <= s.last_offset for offset in offsets)]
    if not holding:
        return {}
    value = f"{header_values(header)}[-1].value" if header is not None else "NULL"
    wanted = ", ".join(str(offset) for offset in sorted(offsets))
    rows = connection.execute(
        f"""
        SELECT "offset", epoch_ms("timestamp"), {value}, key IS NOT NULL AND value IS NULL
        FROM read_parquet({file_list(segment.path for segment in holding)}) WHERE "offset" IN ({wanted})
        """
    ).fetchall()
    return {
        offset: Coordinates(offset, timestamp_ms, header_version(version), tombstone)
        for offset, timestamp_ms, version, tombstone in rows
    }


def _row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    row = duck.one_row(connection, query)
    assert row is not None
    return tuple(row)
