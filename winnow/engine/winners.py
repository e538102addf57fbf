"""Which offsets of a topic partition survive: one scan over key and offset, exact key bytes, spilling when it must."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.errors import UsageError
from winnow.files import duck
from winnow.files.duck import file_list, literal
from winnow.files.fingerprint import WINNERS_HASH, fingerprint
from winnow.model import OffsetRange, PartitionPlan, Segment, Strategy

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Counts:
    """What the winners' scan counted over the planned segments, and the survivors of each in the plan's order.

    ``headers_missing``, ``headers_malformed`` and ``malformed_offsets`` (the lowest :data:`MALFORMED_SHOWN`) are of
    keyed records under strategy header, as in :class:`winnow.model.PartitionFacts`.
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

    @property
    def records_kept(self) -> int:
        """Records that survive."""
        return self.distinct_keys - self.tombstones_expired


def pick_winners(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, strategy: Strategy, header: str | None = None
) -> Counts:
    """Fill the temporary table ``survivors("offset")`` and count.

    Every planned segment is scanned, clean and cleanable alike, so exactly one record per key survives: the greatest in
    the total order of ``strategy`` over tail and head (KIP-280). Only key and ordering columns are read; ``value`` is
    read just to find tombstones, in segments that hold some in an expired range.

    Raises:
        UsageError: strategy header without the header's name.
    """
    if not plan.segments:
        connection.execute('CREATE TEMP TABLE survivors ("offset" BIGINT, fingerprint UBIGINT)')
        return Counts(0, 0, 0, 0, (), _text(connection, _FINGERPRINT))
    files = file_list(segment.path for segment in plan.segments)
    # Records below the log start cannot be read any more: they neither win nor count.
    readable = f'read_parquet({files}) WHERE "offset" >= {plan.log_start_offset}'
    version = header if strategy is Strategy.HEADER else None
    present, whole = ("count(*)", "count(*)") if version is None else _versions_counted(version)
    connection.execute(
        f"""
        CREATE TEMP TABLE winners AS
        SELECT "offset", {WINNERS_HASH} AS fingerprint, records, present, whole FROM (
            SELECT key, {greatest_offset(strategy, header)} AS "offset", count(*) AS records,
                   {present} AS present, {whole} AS whole
            FROM {readable} AND key IS NOT NULL GROUP BY key
        )
        """
    )
    (records_in,) = _row(connection, f'SELECT count("offset") FROM {readable}')
    distinct_keys, records_keyed, with_header, with_version = _row(
        connection,
        "SELECT count(*), coalesce(sum(records), 0)::BIGINT, coalesce(sum(present), 0)::BIGINT, "
        "coalesce(sum(whole), 0)::BIGINT FROM winners",
    )
    _create_expired(connection, plan.segments, plan.expired)
    connection.execute(
        'CREATE TEMP TABLE survivors AS SELECT "offset", fingerprint FROM winners ANTI JOIN expired USING ("offset")'
    )
    connection.execute("DROP TABLE winners")
    (kept,) = _row(connection, "SELECT count(*) FROM survivors")
    return Counts(
        records_in=records_in,
        records_keyless=records_in - records_keyed,
        distinct_keys=distinct_keys,
        tombstones_expired=distinct_keys - kept,
        survivors=count_per_segment(connection, "survivors", plan.segments),
        winners_fingerprint=_text(connection, _FINGERPRINT),
        headers_missing=records_keyed - with_header,
        headers_malformed=with_header - with_version,
        malformed_offsets=_malformed(connection, plan, version) if version and with_header > with_version else (),
    )


def greatest_offset(strategy: Strategy, header: str | None) -> str:
    """The SQL aggregate that gives, per key, the offset of the greatest record in the total order of ``strategy``.

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
        version = f"coalesce({_long(header)}, {_BELOW_EVERY_LONG})"
    else:
        raise UsageError("compaction.strategy.header must be specified.")
    return f'(max({version} * {_OFFSETS} + "offset") & {_OFFSETS - 1})::BIGINT'


def _versions_counted(header: str) -> tuple[str, str]:
    """SQL aggregates: the records that have the version header, and those that have a version in it."""
    return f"count({_last(header)})", f"count({_long(header)})"


def _last(header: str) -> str:
    """The last occurrence of the header, a struct; NULL when there is none."""
    return f"list_filter(headers, lambda h: h.key = {literal(header)})[-1]"


def _long(header: str) -> str:
    """The version: exactly 8 bytes, big-endian and signed; NULL for anything else."""
    value = f"{_last(header)}.value"
    # Of 64 bits in big-endian order DuckDB makes the signed number that they are.
    return f"CASE WHEN octet_length({value}) = {_LONG_BYTES} THEN {value}::BIT::BIGINT::HUGEINT END"


def _malformed(connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, header: str) -> tuple[int, ...]:
    """The lowest offsets with a malformed version header, at most :data:`MALFORMED_SHOWN`.

    A scan of its own, which ends with the segment that holds the last of them; where nothing is wrong there is none.
    """
    found: list[int] = []
    for segment in plan.segments:
        rows = connection.execute(
            f"""
            SELECT "offset" FROM read_parquet({file_list([segment.path])})
            WHERE "offset" >= {plan.log_start_offset} AND key IS NOT NULL
              AND {_last(header)} IS NOT NULL AND {_long(header)} IS NULL
            ORDER BY "offset" LIMIT {MALFORMED_SHOWN - len(found)}
            """
        ).fetchall()
        found.extend(offset for (offset,) in rows)
        if len(found) >= MALFORMED_SHOWN:
            break
    return tuple(found)


MALFORMED_SHOWN = 20
"""How many offsets of malformed version headers are named."""
_LONG_BYTES = 8
_OFFSETS = 1 << 63
_BELOW_EVERY_LONG = -(1 << 63) - 1
# The winners' table has hashed already, so that keys need not be kept.
_FINGERPRINT = f"SELECT {fingerprint('fingerprint')} FROM survivors"


def _create_expired(
    connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment], expired: Sequence[OffsetRange]
) -> None:
    """Table ``expired("offset")``: the tombstones whose delete horizon has passed, winners or not."""
    holding = [
        segment
        for segment in segments
        if segment.tombstones and any(r.start <= segment.last_offset and segment.first_offset < r.end for r in expired)
    ]
    if not holding:
        connection.execute('CREATE TEMP TABLE expired ("offset" BIGINT)')
        return
    inside = offset_within(expired)
    connection.execute(
        f"""
        CREATE TEMP TABLE expired AS SELECT "offset"
        FROM read_parquet({file_list(segment.path for segment in holding)})
        WHERE value IS NULL AND ({inside})
        """
    )


def offset_within(ranges: Iterable[OffsetRange]) -> str:
    """The SQL condition that an offset lies in one of ``ranges``."""
    return " OR ".join(f'("offset" >= {r.start} AND "offset" < {r.end})' for r in ranges) or "false"


def count_per_segment(
    connection: duckdb.DuckDBPyConnection, table: str, segments: Sequence[Segment]
) -> tuple[int, ...]:
    """How many offsets of ``table("offset")`` lie in each of ``segments``."""
    # Segments are disjoint and in offset order, so the last one that begins at or below an offset holds it.
    connection.execute('CREATE OR REPLACE TEMP TABLE bounds (number INTEGER, "offset" BIGINT)')
    if segments:
        values = ", ".join(f"({number}, {segment.first_offset})" for number, segment in enumerate(segments))
        connection.execute(f"INSERT INTO bounds VALUES {values}")
    rows = connection.execute(
        f"""
        SELECT bounds.number, count(*) FROM {table} ASOF JOIN bounds ON {table}."offset" >= bounds."offset"
        GROUP BY bounds.number
        """
    ).fetchall()
    counted = dict(rows)
    return tuple(counted.get(number, 0) for number in range(len(segments)))


def _row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    row = duck.one_row(connection, query)
    assert row is not None
    return tuple(row)


def _text(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    row = duck.one_row(connection, query)
    assert row is not None
    return str(row[0])
