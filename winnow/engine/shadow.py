"""Choosing in shadow: which record of each key would survive under two total orders, side by side. Writes no segment.

One topic partition at a time, inside a Spark task or in process. The choice is the compaction's own
(:func:`winnow.engine.winners.greatest_offset`), made twice in one scan over key and ordering columns. What leaves the
task are counts and coordinates, never bytes of a key or a value.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow import documents
from winnow.engine.rewrite import Budget
from winnow.engine.winners import greatest_offset
from winnow.errors import WinnowError
from winnow.files import duck, storage
from winnow.files.duck import file_list, literal
from winnow.model import OffsetRange, PartitionPlan, Reason, Segment, Strategy

if TYPE_CHECKING:
    import duckdb

VERSION_BYTES = 8


@dataclass(frozen=True, slots=True)
class Order:
    """A total order over the records of a key (KIP-280). ``header`` names the version's header, None elsewhere."""

    strategy: Strategy
    header: str | None = None

    @property
    def words(self) -> str:
        """The order for people."""
        return {
            Strategy.OFFSET: "highest offset",
            Strategy.TIMESTAMP: "highest timestamp, then highest offset",
            Strategy.HEADER: f"highest version in header {self.header!r}, a missing one below all, then highest offset",
        }[self.strategy]


@dataclass(frozen=True, slots=True)
class ShadowPartition:
    """What is compared of one partition: the records in [``start_offset``, ``end_offset``) of ``segments``.

    ``expired_present`` and ``expired_other``: where tombstones that won could go under either order.
    """

    partition: int
    start_offset: int
    end_offset: int
    segments: tuple[Segment, ...]
    expired_present: tuple[OffsetRange, ...] = ()
    expired_other: tuple[OffsetRange, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class ShadowRequest:
    """One comparison of one topic. ``sample``: at most so many differing keys are told with coordinates."""

    comparison_id: str
    topic: str
    as_of_ms: int
    present: Order
    other: Order
    sample: int
    partitions: tuple[ShadowPartition, ...]
    format_version: int = 1

    @property
    def header(self) -> str | None:
        """The header whose anomalies are counted and whose versions are told: the other order's before the present's.

        None when neither looks at one.
        """
        return self.other.header or self.present.header


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A record without its bytes. ``version``: under an order by header, None where it counts as missing."""

    offset: int
    timestamp_ms: int | None
    version: int | None
    tombstone: bool


@dataclass(frozen=True, slots=True)
class DifferingKey:
    """The two winners of one key."""

    present: Coordinates
    other: Coordinates


@dataclass(frozen=True, slots=True)
class ShadowSide:
    """What one order would leave: records, expired tombstones among its winners, bytes by each segment's share.

    ``differing_tombstones``: of the winners that differ from the other side's, those that are tombstones.
    """

    records_kept: int
    tombstones_expired: int
    estimated_bytes: int
    differing_tombstones: int


@dataclass(frozen=True, slots=True)
class PartitionShadow:
    """What was counted for one partition. ``sample``: the differing keys whose present winner comes first."""

    partition: int
    records: int
    records_keyless: int
    keys: int
    keys_differing: int
    present: ShadowSide
    other: ShadowSide
    headers_missing: int
    headers_malformed: int
    sample: tuple[DifferingKey, ...]
    bytes_read: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """All partitions of one comparison, in order."""

    comparison_id: str
    topic: str
    partitions: tuple[PartitionShadow, ...]
    format_version: int = 1


def request_uri(staging: str, topic: str, comparison_id: str) -> str:
    """Where the request of a comparison rests."""
    return storage.join(staging, "compare", topic, f"{comparison_id}.json")


def result_uri(request_document_uri: str) -> str:
    """Where the result rests: beside its request."""
    return f"{request_document_uri.removesuffix('.json')}.result.json"


def read_request(uri: str) -> ShadowRequest:
    """The request at ``uri``.

    Raises:
        WinnowError: there is none, or it is damaged.
        FormatVersionError: a newer Winnow wrote it.
    """
    try:
        return documents.load_json(ShadowRequest, storage.read_bytes(uri))
    except FileNotFoundError as problem:
        raise WinnowError(f"There is no comparison at {uri}. Nothing was changed; compare again.") from problem


def as_plan(partition: ShadowPartition) -> PartitionPlan:
    """What a compaction of the same records would be planned as."""
    return PartitionPlan(
        partition=partition.partition,
        reason=Reason.DIRTY_RATIO,
        log_start_offset=partition.start_offset,
        first_dirty_offset=partition.start_offset,
        next_first_dirty_offset=partition.end_offset,
        log_end_offset=partition.end_offset,
        segments=partition.segments,
        expired=partition.expired_present,
    )


def compare_partition(request: ShadowRequest, partition: ShadowPartition, *, budget: Budget) -> PartitionShadow:
    """Choose twice over one partition and count where the choices differ. Reads only.

    Raises:
        UsageError: an order by header without the header's name.
    """
    started = time.monotonic()
    connection = duck.connect(
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        uris=[segment.path for segment in partition.segments],
    )
    try:
        _choose(connection, request, partition)
        (records,) = _row(connection, f'SELECT count("offset") FROM {_readable(partition, partition.segments)}')
        keys, differing, records_keyed, missing, malformed = _row(connection, _TOTALS)
        _find_tombstones(connection, partition)
        present = _side(connection, partition, "present", partition.expired_present)
        other = _side(connection, partition, "other", partition.expired_other)
        sample = _sample(connection, request, partition)
    finally:
        connection.close()
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
    connection: duckdb.DuckDBPyConnection, partition: ShadowPartition, side: str, expired: Sequence[OffsetRange]
) -> ShadowSide:
    inside = " OR ".join(f'("offset" >= {r.start} AND "offset" < {r.end})' for r in expired) or "false"
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE kept AS
        SELECT {side}_offset AS "offset" FROM chosen
        ANTI JOIN (SELECT "offset" FROM tombstones WHERE {inside}) AS gone ON {side}_offset = gone."offset"
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
    # Segments are disjoint and in offset order, so the last one that begins at or below an offset holds it.
    connection.execute('CREATE OR REPLACE TEMP TABLE bounds (number INTEGER, "offset" BIGINT)')
    if segments:
        values = ", ".join(f"({number}, {segment.first_offset})" for number, segment in enumerate(segments))
        connection.execute(f"INSERT INTO bounds VALUES {values}")
    counted = connection.execute(
        """
        SELECT bounds.number, count(*) FROM kept ASOF JOIN bounds ON kept."offset" >= bounds."offset"
        GROUP BY bounds.number
        """
    ).fetchall()
    return sum(segments[number].size_bytes * kept // max(1, segments[number].records) for number, kept in counted)


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
