"""Which offsets of a topic partition survive: one scan over key and offset, exact key bytes, spilling when it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.errors import UsageError
from winnow.files import duck
from winnow.files.duck import file_list, literal
from winnow.files.fingerprint import WINNERS_HASH
from winnow.model import OffsetRange, PartitionPlan, Segment, Strategy

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Counts:
    """What the winners' scan counted over the planned segments, and the survivors of each in the plan's order."""

    records_in: int
    records_keyless: int
    distinct_keys: int
    tombstones_expired: int
    survivors: tuple[int, ...]
    winners_fingerprint: str

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
    files = file_list(segment.path for segment in plan.segments)
    # Records below the log start cannot be read any more: they neither win nor count.
    readable = f'read_parquet({files}) WHERE "offset" >= {plan.log_start_offset}'
    connection.execute(
        f"""
        CREATE TEMP TABLE winners AS
        SELECT "offset", hash(key, "offset") AS fingerprint, records FROM (
            SELECT key, {greatest_offset(strategy, header)} AS "offset", count(*) AS records
            FROM {readable} AND key IS NOT NULL GROUP BY key
        )
        """
    )
    (records_in,) = _row(connection, f'SELECT count("offset") FROM {readable}')
    distinct_keys, records_keyed = _row(connection, "SELECT count(*), coalesce(sum(records), 0)::BIGINT FROM winners")
    _create_expired(connection, plan.segments, plan.expired)
    connection.execute(
        'CREATE TEMP TABLE survivors AS SELECT "offset", fingerprint FROM winners ANTI JOIN expired USING ("offset")'
    )
    connection.execute("DROP TABLE winners")
    (kept,) = _row(connection, "SELECT count(*) FROM survivors")
    (fingerprint,) = _row(connection, _FINGERPRINT)
    return Counts(
        records_in=records_in,
        records_keyless=records_in - records_keyed,
        distinct_keys=distinct_keys,
        tombstones_expired=distinct_keys - kept,
        survivors=_survivors_per_segment(connection, plan.segments),
        winners_fingerprint=str(fingerprint),
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
        version = f"coalesce({_header_long(header)}, {_BELOW_EVERY_LONG})"
    else:
        raise UsageError("compaction.strategy.header must be specified.")
    return f'(max({version} * {_OFFSETS} + "offset") & {_OFFSETS - 1})::BIGINT'


_OFFSETS = 1 << 63
_BELOW_EVERY_LONG = -(1 << 63) - 1


def _header_long(header: str) -> str:
    """The header's version: its last occurrence, exactly 8 bytes, big-endian and signed; NULL for anything else."""
    value = f"list_filter(headers, lambda h: h.key = {literal(header)})[-1].value"
    unsigned = f"('0x' || hex({value}))::UBIGINT::HUGEINT"
    return (
        f"CASE WHEN octet_length({value}) = 8 THEN "
        f"CASE WHEN {unsigned} >= {_OFFSETS} THEN {unsigned} - {1 << 64} ELSE {unsigned} END END"
    )


# The winners' table has hashed (key, offset) already, so that keys need not be kept.
_FINGERPRINT = """
    SELECT count(*)::VARCHAR || ':' || coalesce(sum(fingerprint::HUGEINT), 0)::VARCHAR || ':' ||
           coalesce(bit_xor(fingerprint), 0)::VARCHAR FROM survivors
"""
assert WINNERS_HASH == 'hash(key, "offset")'


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
    inside = " OR ".join(f'("offset" >= {r.start} AND "offset" < {r.end})' for r in expired)
    connection.execute(
        f"""
        CREATE TEMP TABLE expired AS SELECT "offset"
        FROM read_parquet({file_list(segment.path for segment in holding)})
        WHERE value IS NULL AND ({inside})
        """
    )


def _survivors_per_segment(connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment]) -> tuple[int, ...]:
    # Segments are disjoint and in offset order, so the last one that begins at or below an offset holds it.
    connection.execute('CREATE TEMP TABLE bounds (number INTEGER, "offset" BIGINT)')
    if segments:
        values = ", ".join(f"({number}, {segment.first_offset})" for number, segment in enumerate(segments))
        connection.execute(f"INSERT INTO bounds VALUES {values}")
    rows = connection.execute(
        """
        SELECT bounds.number, count(*) FROM survivors ASOF JOIN bounds ON survivors."offset" >= bounds."offset"
        GROUP BY bounds.number
        """
    ).fetchall()
    counted = dict(rows)
    return tuple(counted.get(number, 0) for number in range(len(segments)))


def _row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    row = duck.one_row(connection, query)
    assert row is not None
    return tuple(row)
