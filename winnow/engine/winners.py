"""Picks the winning record of each key in a partition, by the topic's compaction strategy (KIP-280)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.engine import duplicate_keys as contested_keys
from winnow.engine.survivors import (
    SUPERSEDING_TABLE,
    compute_maximum_join_rows,
    count_per_segment,
    join_nearest_ranges,
    retain_extended_tombstones,
)
from winnow.errors import UsageError
from winnow.files import duckdb_connection
from winnow.files.duckdb_connection import quote_file_list, quote_literal
from winnow.files.fingerprint import EMPTY_FINGERPRINT, WINNERS_HASH, combine_fingerprints, make_fingerprint_sql
from winnow.values.model import OffsetRange, PartitionPlan, Segment
from winnow.values.results import NO_FIGURES, RunFigures, sum_figures
from winnow.values.strategies import Strategy

if TYPE_CHECKING:
    import duckdb

_LONG_BYTES = 8

_OFFSET_FACTOR = 1 << 63

_MISSING_VERSION = -(1 << 63) - 1

ORDERING_COLUMNS: dict[Strategy, tuple[str, ...]] = {
    Strategy.OFFSET: (),
    Strategy.TIMESTAMP: ('"timestamp"',),
    Strategy.HEADER: ("headers",),
}
"""Columns that :func:`build_greatest_offset_sql` reads beside key and offset."""


def build_greatest_offset_sql(strategy: Strategy, header: str | None) -> str:
    """Build the SQL aggregate for the offset of a key's greatest record in the total order of ``strategy``.

    offset: (offset). timestamp: (timestamp or -1, offset). header: (present, value, offset). The last two are packed
    into one 128-bit number, the version above the 63 bits of the offset, which compares as fast as a plain maximum.

    Raises:
        UsageError: strategy header without the header's name.
    """
    if strategy is Strategy.OFFSET:
        return 'max("offset")'
    if strategy is Strategy.TIMESTAMP:
        version = 'coalesce(epoch_ms("timestamp"), -1)::HUGEINT'
    elif header:
        version = f"coalesce({build_version_value_sql(header)}, {_MISSING_VERSION})"
    else:
        raise UsageError("compaction.strategy.header must be specified.")
    return f'(max({version} * {_OFFSET_FACTOR} + "offset") & {_OFFSET_FACTOR - 1})::BIGINT'


def build_version_header_sql(header: str) -> str:
    """Build SQL for the last occurrence of the header, a struct; NULL without one."""
    return f"list_filter(headers, lambda h: h.key = {quote_literal(header)})[-1]"


def build_version_value_sql(header: str) -> str:
    """Build SQL for the version: exactly 8 bytes, big-endian and signed; NULL for anything else."""
    value = f"{build_version_header_sql(header)}.value"
    # DuckDB converts 64 bits in big-endian order to a signed number.
    return f"CASE WHEN octet_length({value}) = {_LONG_BYTES} THEN {value}::BIT::BIGINT::HUGEINT END"


@dataclass(frozen=True, slots=True)
class WinnerCounts:
    """Counts of the winners' scan over the planned segments, and the survivors of each in the plan's order.

    Byte figures are 0: nothing is copied yet. ``malformed_offsets`` has the lowest
    :data:`MAXIMUM_MALFORMED_OFFSETS`; ``extended`` is as in :class:`winnow.values.results.PartitionFacts`.
    """

    figures: RunFigures
    survivors: tuple[int, ...]
    winners_fingerprint: str
    extended: tuple[OffsetRange, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyShare:
    """The keys whose hash falls into share ``number`` (from 0) of ``of``; keyless records belong to share 0."""

    number: int
    of: int


def merge_counts(counts: Sequence[WinnerCounts]) -> WinnerCounts:
    """Merge the counts of all shares of a partition's keys."""
    figures = sum_figures(each.figures for each in counts)
    return WinnerCounts(
        figures=replace(figures, malformed_offsets=figures.malformed_offsets[:MAXIMUM_MALFORMED_OFFSETS]),
        survivors=tuple(sum(of_segment) for of_segment in zip(*(each.survivors for each in counts), strict=True)),
        winners_fingerprint=combine_fingerprints(each.winners_fingerprint for each in counts),
        extended=join_nearest_ranges(found for each in counts for found in each.extended),
    )


def pick_winners(
    connection: duckdb.DuckDBPyConnection,
    plan: PartitionPlan,
    strategy: Strategy,
    header: str | None = None,
    *,
    share: KeyShare | None = None,
) -> WinnerCounts:
    """Fill the table of :mod:`winnow.engine.survivors` and count. ``share``: ignore all other records.

    Every planned segment is scanned, clean and cleanable alike, so exactly one record per key survives: the greatest in
    the total order of ``strategy`` over tail and head (KIP-280). Only key and ordering columns are read; ``value`` is
    read only to find tombstones, in segments that have some in an expired range, or some and a winner below the plan's
    ``covered_end`` that superseded a record.

    Raises:
        UsageError: strategy header without the header's name.
    """
    version = header if strategy is Strategy.HEADER else None
    greatest = build_greatest_offset_sql(strategy, header)
    # Records below the log start are unreadable: they neither win nor count.
    readable = f'"offset" >= {plan.log_start_offset}{build_share_condition(share)}'
    if not plan.segments:
        connection.execute('CREATE TEMP TABLE survivors ("offset" BIGINT)')
        return WinnerCounts(NO_FIGURES, (), EMPTY_FINGERPRINT)
    _create_expired_table(connection, plan.segments, plan.expired, readable)
    if not contested_keys.is_applicable(connection, plan):
        return _pick_through_key_table(connection, plan, readable, greatest, version)
    found = contested_keys.create_removed_table(
        connection, plan, readable=readable, greatest=greatest, ordering=ORDERING_COLUMNS[strategy]
    )
    if found is None:
        counts = _pick_through_key_table(connection, plan, readable, greatest, version)
        if share is not None:
            contested_keys.create_removed_from_survivors(connection, plan, readable)
        return counts
    keyed = found.records - found.keyless
    with_header, with_version = (
        (keyed, keyed) if version is None else _count_versions(connection, plan, readable, version)
    )
    return WinnerCounts(
        figures=RunFigures(
            records_in=found.records,
            records_kept=keyed - found.losers - found.tombstones_expired,
            records_superseded=found.losers,
            tombstones_expired=found.tombstones_expired,
            records_keyless=found.keyless,
            bytes_in=0,
            bytes_out=0,
            headers_missing=keyed - with_header,
            headers_malformed=with_header - with_version,
            malformed_offsets=_find_malformed_offsets(connection, plan, readable, version, with_header - with_version),
        ),
        survivors=found.survivors,
        winners_fingerprint=found.fingerprint,
        extended=found.extended,
    )


def _pick_through_key_table(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str, greatest: str, version: str | None
) -> WinnerCounts:
    """Fill the table ``survivors("offset")`` through a table of all keys, and count."""
    present, whole = ("count(*)", "count(*)") if version is None else build_version_counts_sql(version)
    _create_winners_table(
        connection,
        # Keyless records are their own group, without a winner.
        lambda part: (
            f"""
        SELECT CASE WHEN key IS NOT NULL THEN "offset" END AS "offset", {WINNERS_HASH} AS fingerprint,
               records, present, whole FROM (
            SELECT key, {greatest} AS "offset", count(*) AS records, {present} AS present, {whole} AS whole
            FROM {build_scan_sql(plan.segments)} WHERE {readable}{part} GROUP BY key
        )
        """
        ),
    )
    distinct_keys, keyed, keyless, with_header, with_version = _fetch_row(
        connection,
        """
        SELECT count("offset"), coalesce(sum(records) FILTER ("offset" IS NOT NULL), 0)::BIGINT,
               coalesce(sum(records) FILTER ("offset" IS NULL), 0)::BIGINT,
               coalesce(sum(present) FILTER ("offset" IS NOT NULL), 0)::BIGINT,
               coalesce(sum(whole) FILTER ("offset" IS NOT NULL), 0)::BIGINT FROM winners
        """,
    )
    extended: tuple[OffsetRange, ...] = ()
    if plan.covered_end:
        connection.execute(
            f'CREATE TEMP TABLE {SUPERSEDING_TABLE} AS SELECT "offset" FROM winners '
            f'WHERE records > 1 AND "offset" < {plan.covered_end}'
        )
        extended = retain_extended_tombstones(connection, plan, readable)
    # Sorted where copying reads them range by range.
    ordered = 'ORDER BY "offset"' if distinct_keys > compute_maximum_join_rows(connection) else ""
    connection.execute(
        f"""
        CREATE TEMP TABLE survivors AS SELECT "offset", fingerprint FROM winners ANTI JOIN expired USING ("offset")
        WHERE "offset" IS NOT NULL {ordered}
        """
    )
    connection.execute("DROP TABLE winners")
    row = duckdb_connection.fetch_one_row(
        connection, f"SELECT count(*), {make_fingerprint_sql('fingerprint')} FROM survivors"
    )
    assert row is not None
    kept = int(row[0])
    return WinnerCounts(
        figures=RunFigures(
            records_in=keyed + keyless,
            records_kept=kept,
            records_superseded=keyed - distinct_keys,
            tombstones_expired=distinct_keys - kept,
            records_keyless=keyless,
            bytes_in=0,
            bytes_out=0,
            headers_missing=keyed - with_header,
            headers_malformed=with_header - with_version,
            malformed_offsets=_find_malformed_offsets(connection, plan, readable, version, with_header - with_version),
        ),
        survivors=count_per_segment(connection, "survivors", plan.segments),
        winners_fingerprint=str(row[1]),
        extended=extended,
    )


def _create_winners_table(connection: duckdb.DuckDBPyConnection, select: Callable[[str], str]) -> None:
    """Create the table ``winners`` from ``select``, in as many parts of the keys as memory requires."""
    import duckdb

    for parts in KEY_TABLE_PARTS:
        try:
            connection.execute(f"CREATE TEMP TABLE winners AS {select(_build_part_condition(0, parts))}")
            for number in range(1, parts):
                connection.execute(f"INSERT INTO winners {select(_build_part_condition(number, parts))}")
            return
        except duckdb.OutOfMemoryException:
            connection.execute("DROP TABLE IF EXISTS winners")
            if parts == KEY_TABLE_PARTS[-1]:
                raise


def _build_part_condition(number: int, parts: int) -> str:
    return f" AND hash(hash(key), 0) % {parts} = {number}" if parts > 1 else ""


KEY_TABLE_PARTS = (1, 4, 16, 64)
"""Numbers of parts to try. DuckDB spills a table of all keys, but fails if memory is too small for their number."""


def build_version_counts_sql(header: str) -> tuple[str, str]:
    """SQL aggregates: the records that have the version header, and those that have a version in it."""
    return f"count({build_version_header_sql(header)})", f"count({build_version_value_sql(header)})"


def _count_versions(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str, header: str
) -> tuple[int, int]:
    present, whole = build_version_counts_sql(header)
    query = f"SELECT {present}, {whole} FROM {build_scan_sql(plan.segments)} WHERE {readable} AND key IS NOT NULL"
    found, good = _fetch_row(connection, query)
    return found, good


def build_share_condition(share: KeyShare | None) -> str:
    """Build the SQL condition, after others, that a record belongs to ``share``."""
    if share is None or share.of == 1:
        return ""
    # Hashed twice: with plain remainders a share's keys would crowd into one part of DuckDB's own hash table.
    keys = f"key IS NOT NULL AND hash(hash(key)) % {share.of} = {share.number}"
    return f" AND ({keys})" if share.number else f" AND (key IS NULL OR ({keys}))"


def _find_malformed_offsets(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str, header: str | None, count: int
) -> tuple[int, ...]:
    """Return the lowest offsets with a malformed version header, at most :data:`MAXIMUM_MALFORMED_OFFSETS`.

    A separate scan, only where there are some, which ends with the segment that has the last of them.
    """
    found: list[int] = []
    for segment in plan.segments if header is not None and count else ():
        rows = connection.execute(
            f"""
            SELECT "offset" FROM {build_scan_sql([segment])}
            WHERE {readable} AND key IS NOT NULL
              AND {build_version_header_sql(header or "")} IS NOT NULL
              AND {build_version_value_sql(header or "")} IS NULL
            ORDER BY "offset" LIMIT {MAXIMUM_MALFORMED_OFFSETS - len(found)}
            """
        ).fetchall()
        found.extend(offset for (offset,) in rows)
        if len(found) >= MAXIMUM_MALFORMED_OFFSETS:
            break
    return tuple(found)


MAXIMUM_MALFORMED_OFFSETS = 20
"""Maximum offsets of malformed version headers that are named."""


def _create_expired_table(
    connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment], expired: Sequence[OffsetRange], readable: str
) -> None:
    """Create ``expired("offset", fingerprint)``: the tombstones past their delete horizon, winners or not."""
    connection.execute('CREATE TEMP TABLE expired ("offset" BIGINT, fingerprint UBIGINT)')
    holding = [
        segment
        for segment in segments
        if segment.tombstones and any(r.start <= segment.last_offset and segment.first_offset < r.end for r in expired)
    ]
    if holding:
        inside = build_offset_condition(expired)
        connection.execute(
            f"""
            INSERT INTO expired SELECT "offset", {WINNERS_HASH} FROM {build_scan_sql(holding)}
            WHERE value IS NULL AND ({inside}) AND {readable} AND key IS NOT NULL
            """
        )


def build_offset_condition(ranges: Iterable[OffsetRange]) -> str:
    """Build the SQL condition that an offset is in one of ``ranges``."""
    return " OR ".join(f'("offset" >= {r.start} AND "offset" < {r.end})' for r in ranges) or "false"


def build_scan_sql(segments: Iterable[Segment]) -> str:
    """Build the SQL relation of all records of ``segments``."""
    return f"read_parquet({quote_file_list(segment.path for segment in segments)})"


def _fetch_row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    row = duckdb_connection.fetch_one_row(connection, query)
    assert row is not None
    return tuple(row)
