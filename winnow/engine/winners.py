"""Which offsets of a topic partition survive: one scan over key and offset, exact key bytes, spilling when it must."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.engine import removal
from winnow.engine.extended import SUPERSEDING, fewest_ranges, keep_extended
from winnow.engine.orders import ORDERING_COLUMNS, greatest_offset, version_header, version_value
from winnow.engine.survivors import count_per_segment, rows_at_once
from winnow.files import duck
from winnow.files.duck import file_list
from winnow.files.fingerprint import EMPTY, WINNERS_HASH, combined, fingerprint
from winnow.model import OffsetRange, PartitionPlan, Segment, Strategy

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Counts:
    """What the winners' scan counted over the planned segments, and the survivors of each in the plan's order.

    ``headers_missing``, ``headers_malformed`` and ``malformed_offsets`` (the lowest :data:`MALFORMED_SHOWN`) are of
    keyed records under strategy header, as in :class:`winnow.model.PartitionFacts`; ``extended`` as there.
    """

    records_in: int
    records_keyless: int
    distinct_keys: int
    tombstones_expired: int
    survivors: tuple[int, ...]
    winners_fingerprint: str
    headers_missing: int = 0
    headers_malformed: int = 0
    malformed_offsets: tuple[int, ...] = ()
    extended: tuple[OffsetRange, ...] = ()

    @property
    def records_kept(self) -> int:
        """Records that survive."""
        return self.distinct_keys - self.tombstones_expired


@dataclass(frozen=True, slots=True)
class KeyShare:
    """The keys whose hash falls into share ``number`` (from 0) of ``of``; keyless records belong to share 0."""

    number: int
    of: int


def merged(counts: Sequence[Counts]) -> Counts:
    """What was counted in all shares of a partition's keys, as of one."""
    return Counts(
        records_in=sum(each.records_in for each in counts),
        records_keyless=sum(each.records_keyless for each in counts),
        distinct_keys=sum(each.distinct_keys for each in counts),
        tombstones_expired=sum(each.tombstones_expired for each in counts),
        survivors=tuple(sum(of_segment) for of_segment in zip(*(each.survivors for each in counts), strict=True)),
        winners_fingerprint=combined(each.winners_fingerprint for each in counts),
        headers_missing=sum(each.headers_missing for each in counts),
        headers_malformed=sum(each.headers_malformed for each in counts),
        malformed_offsets=tuple(sorted(offset for each in counts for offset in each.malformed_offsets))[
            :MALFORMED_SHOWN
        ],
        extended=fewest_ranges(found for each in counts for found in each.extended),
    )


def pick_winners(
    connection: duckdb.DuckDBPyConnection,
    plan: PartitionPlan,
    strategy: Strategy,
    header: str | None = None,
    *,
    share: KeyShare | None = None,
) -> Counts:
    """Fill the table of :mod:`winnow.engine.survivors` and count. ``share``: as if no other records were there.

    Every planned segment is scanned, clean and cleanable alike, so exactly one record per key survives: the greatest in
    the total order of ``strategy`` over tail and head (KIP-280). Only key and ordering columns are read; ``value`` is
    read just to find tombstones, in segments that hold some in an expired range, or that hold some and a winner below
    the plan's ``covered_end`` that superseded a record.

    Raises:
        UsageError: strategy header without the header's name.
    """
    version = header if strategy is Strategy.HEADER else None
    greatest = greatest_offset(strategy, header)
    # Records below the log start cannot be read any more: they neither win nor count.
    readable = f'"offset" >= {plan.log_start_offset}{of_share(share)}'
    if not plan.segments:
        connection.execute('CREATE TEMP TABLE survivors ("offset" BIGINT)')
        return Counts(0, 0, 0, 0, (), EMPTY)
    _create_expired(connection, plan.segments, plan.expired, readable)
    if not removal.suits(connection, plan):
        return _pick(connection, plan, readable, greatest, version)
    found = removal.remove_losers(
        connection, plan, readable=readable, greatest=greatest, ordering=ORDERING_COLUMNS[strategy]
    )
    if found is None:
        counts = _pick(connection, plan, readable, greatest, version)
        if share is not None:
            removal.turn_round(connection, plan, readable)
        return counts
    keyed = found.records - found.keyless
    with_header, with_version = (
        (keyed, keyed) if version is None else _count_versions(connection, plan, readable, version)
    )
    return Counts(
        records_in=found.records,
        records_keyless=found.keyless,
        distinct_keys=keyed - found.losers,
        tombstones_expired=found.tombstones_expired,
        survivors=found.survivors,
        winners_fingerprint=found.fingerprint,
        headers_missing=keyed - with_header,
        headers_malformed=with_header - with_version,
        malformed_offsets=_malformed(connection, plan, readable, version, with_header - with_version),
        extended=found.extended,
    )


def _pick(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str, greatest: str, version: str | None
) -> Counts:
    """Fill the table ``survivors("offset")`` through a table of all keys, and count."""
    present, whole = ("count(*)", "count(*)") if version is None else _versions_counted(version)
    _table_of_winners(
        connection,
        # Keyless records are a group of their own, without a winner.
        lambda part: (
            f"""
        SELECT CASE WHEN key IS NOT NULL THEN "offset" END AS "offset", {WINNERS_HASH} AS fingerprint,
               records, present, whole FROM (
            SELECT key, {greatest} AS "offset", count(*) AS records, {present} AS present, {whole} AS whole
            FROM {_files(plan.segments)} WHERE {readable}{part} GROUP BY key
        )
        """
        ),
    )
    distinct_keys, keyed, keyless, with_header, with_version = _row(
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
            f'CREATE TEMP TABLE {SUPERSEDING} AS SELECT "offset" FROM winners '
            f'WHERE records > 1 AND "offset" < {plan.covered_end}'
        )
        extended = keep_extended(connection, plan, readable)
    # In order where there are so many that copying takes them bit by bit.
    ordered = 'ORDER BY "offset"' if distinct_keys > rows_at_once(connection) else ""
    connection.execute(
        f"""
        CREATE TEMP TABLE survivors AS SELECT "offset", fingerprint FROM winners ANTI JOIN expired USING ("offset")
        WHERE "offset" IS NOT NULL {ordered}
        """
    )
    connection.execute("DROP TABLE winners")
    row = duck.one_row(connection, f"SELECT count(*), {fingerprint('fingerprint')} FROM survivors")
    assert row is not None
    return Counts(
        records_in=keyed + keyless,
        records_keyless=keyless,
        distinct_keys=distinct_keys,
        tombstones_expired=distinct_keys - int(row[0]),
        survivors=count_per_segment(connection, "survivors", plan.segments),
        winners_fingerprint=str(row[1]),
        headers_missing=keyed - with_header,
        headers_malformed=with_header - with_version,
        malformed_offsets=_malformed(connection, plan, readable, version, with_header - with_version),
        extended=extended,
    )


def _table_of_winners(connection: duckdb.DuckDBPyConnection, select: Callable[[str], str]) -> None:
    """Make the table ``winners`` of what ``select`` gives, in as many parts of the keys as memory asks for."""
    import duckdb

    for parts in PARTS:
        try:
            connection.execute(f"CREATE TEMP TABLE winners AS {select(_part(0, parts))}")
            for number in range(1, parts):
                connection.execute(f"INSERT INTO winners {select(_part(number, parts))}")
            return
        except duckdb.OutOfMemoryException:
            connection.execute("DROP TABLE IF EXISTS winners")
            if parts == PARTS[-1]:
                raise


def _part(number: int, parts: int) -> str:
    return f" AND hash(hash(key), 0) % {parts} = {number}" if parts > 1 else ""


PARTS = (1, 4, 16, 64)
"""DuckDB spills a table of all keys, but below some memory for its number of keys it gives up: fewer keys at a time."""


def _versions_counted(header: str) -> tuple[str, str]:
    """SQL aggregates: the records that have the version header, and those that have a version in it."""
    return f"count({version_header(header)})", f"count({version_value(header)})"


def _count_versions(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str, header: str
) -> tuple[int, int]:
    present, whole = _versions_counted(header)
    query = f"SELECT {present}, {whole} FROM {_files(plan.segments)} WHERE {readable} AND key IS NOT NULL"
    found, good = _row(connection, query)
    return found, good


def of_share(share: KeyShare | None) -> str:
    """The SQL condition, after others, that a record is of ``share``."""
    if share is None or share.of == 1:
        return ""
    # Hashed twice: with plain remainders the keys of one share would crowd into a part of DuckDB's own hash table.
    keys = f"key IS NOT NULL AND hash(hash(key)) % {share.of} = {share.number}"
    return f" AND ({keys})" if share.number else f" AND (key IS NULL OR ({keys}))"


def _malformed(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str, header: str | None, count: int
) -> tuple[int, ...]:
    """The lowest offsets with a malformed version header, at most :data:`MALFORMED_SHOWN`.

    A scan of its own, which ends with the segment that holds the last of them; where nothing is wrong there is none.
    """
    found: list[int] = []
    for segment in plan.segments if header is not None and count else ():
        rows = connection.execute(
            f"""
            SELECT "offset" FROM {_files([segment])}
            WHERE {readable} AND key IS NOT NULL
              AND {version_header(header or "")} IS NOT NULL AND {version_value(header or "")} IS NULL
            ORDER BY "offset" LIMIT {MALFORMED_SHOWN - len(found)}
            """
        ).fetchall()
        found.extend(offset for (offset,) in rows)
        if len(found) >= MALFORMED_SHOWN:
            break
    return tuple(found)


MALFORMED_SHOWN = 20
"""How many offsets of malformed version headers are named."""


def _create_expired(
    connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment], expired: Sequence[OffsetRange], readable: str
) -> None:
    """Table ``expired("offset", fingerprint)``: the tombstones whose delete horizon has passed, winners or not."""
    connection.execute('CREATE TEMP TABLE expired ("offset" BIGINT, fingerprint UBIGINT)')
    holding = [
        segment
        for segment in segments
        if segment.tombstones and any(r.start <= segment.last_offset and segment.first_offset < r.end for r in expired)
    ]
    if holding:
        inside = offset_within(expired)
        connection.execute(
            f"""
            INSERT INTO expired SELECT "offset", {WINNERS_HASH} FROM {_files(holding)}
            WHERE value IS NULL AND ({inside}) AND {readable} AND key IS NOT NULL
            """
        )


def offset_within(ranges: Iterable[OffsetRange]) -> str:
    """The SQL condition that an offset lies in one of ``ranges``."""
    return " OR ".join(f'("offset" >= {r.start} AND "offset" < {r.end})' for r in ranges) or "false"


def _files(segments: Iterable[Segment]) -> str:
    return f"read_parquet({file_list(segment.path for segment in segments)})"


def _row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    row = duck.one_row(connection, query)
    assert row is not None
    return tuple(row)
