"""Compares the winners of two compaction strategies over one partition: request, comparison and result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.engine.survivors import count_per_segment
from winnow.engine.task_resources import TaskBudget, Throttle
from winnow.engine.winners import (
    build_greatest_offset_sql,
    build_offset_condition,
    build_version_counts_sql,
    build_version_value_sql,
)
from winnow.files import duckdb_connection
from winnow.files.duckdb_connection import quote_file_list
from winnow.files.page_checksums import check_local_pages
from winnow.values.model import OffsetRange, PartitionPlan, Reason, Segment
from winnow.values.strategies import Strategy

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class RecordOrder:
    """A total order over the records of a key (KIP-280). ``header`` is the version's header, for that strategy only."""

    strategy: Strategy
    header: str | None = None

    @property
    def words(self) -> str:
        """The order as text for people."""
        return self.strategy.describe_order(self.header)


@dataclass(frozen=True, slots=True)
class DiffPartition:
    """The compared records of one partition: those in [``start_offset``, ``end_offset``) of ``segments``.

    ``expired_present`` and ``expired_other``: ranges whose winning tombstones may be removed under each order. Those
    below ``covered_end_present`` or ``covered_end_other`` stay if they superseded a record.
    """

    partition: int
    start_offset: int
    end_offset: int
    segments: tuple[Segment, ...]
    expired_present: tuple[OffsetRange, ...] = ()
    expired_other: tuple[OffsetRange, ...] = ()
    covered_end_present: int = 0
    covered_end_other: int = 0

    @property
    def size_bytes(self) -> int:
        """Total bytes of the segments."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """One comparison of one topic. ``sample``: maximum differing keys that are reported with coordinates."""

    plan_id: str
    topic: str
    as_of_ms: int
    present: RecordOrder
    other: RecordOrder
    sample: int
    partitions: tuple[DiffPartition, ...]
    format_version: int = 1

    @property
    def header(self) -> str | None:
        """The header whose anomalies are counted and whose versions are reported; None if neither order uses one.

        The other order's header comes before the present one's.
        """
        return self.other.header or self.present.header


@dataclass(frozen=True, slots=True)
class RecordCoordinates:
    """A record without its bytes. ``version``: under an order by header, None where it counts as missing."""

    offset: int
    timestamp_ms: int | None
    version: int | None
    tombstone: bool


@dataclass(frozen=True, slots=True)
class DifferingWinners:
    """The two winners of one key."""

    present: RecordCoordinates
    other: RecordCoordinates


@dataclass(frozen=True, slots=True)
class DiffSide:
    """The result of one order: records, expired tombstones among its winners, bytes by each segment's share.

    ``differing_tombstones``: the tombstones among the winners that differ from the other side's.
    """

    records_kept: int
    tombstones_expired: int
    estimated_bytes: int
    differing_tombstones: int


@dataclass(frozen=True, slots=True)
class PartitionDiff:
    """Counts of one partition. ``sample``: the differing keys with the lowest present winners."""

    partition: int
    records: int
    records_keyless: int
    keys: int
    keys_differing: int
    present: DiffSide
    other: DiffSide
    headers_missing: int
    headers_malformed: int
    sample: tuple[DifferingWinners, ...]
    bytes_read: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DiffResult:
    """All partitions of one comparison, in order."""

    plan_id: str
    topic: str
    partitions: tuple[PartitionDiff, ...]
    format_version: int = 1


def build_equivalent_plan(partition: DiffPartition) -> PartitionPlan:
    """Return the plan of a compaction of the same records."""
    return PartitionPlan(
        partition=partition.partition,
        reason=Reason.DIRTY_RATIO,
        log_start_offset=partition.start_offset,
        first_dirty_offset=partition.start_offset,
        next_first_dirty_offset=partition.end_offset,
        log_end_offset=partition.end_offset,
        segments=partition.segments,
        expired=partition.expired_present,
        covered_end=partition.covered_end_present,
    )


READ_COLUMNS = ("offset", "timestamp", "key", "headers")
"""Columns read of every segment; ``value`` also, only to find tombstones, where a segment has some."""


def compare_partition(request: DiffRequest, partition: DiffPartition, *, budget: TaskBudget) -> PartitionDiff:
    """Pick winners by both orders over one partition and count where they differ. Only reads.

    Raises:
        UsageError: an order by header without the header's name.
        DamagedSegmentError: a segment on a local disk is not what was written.
    """
    started = time.monotonic()
    with duckdb_connection.open_connection(
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        uris=[segment.path for segment in partition.segments],
    ) as connection:
        # As in a compaction, the scan for winners counts whole segments once.
        Throttle(budget.bytes_per_second).take(partition.size_bytes)
        check_local_pages([segment.path for segment in partition.segments], READ_COLUMNS)
        _create_chosen_table(connection, request, partition)
        (records,) = _fetch_row(
            connection, f'SELECT count("offset") FROM {_build_readable_condition(partition, partition.segments)}'
        )
        keys, differing, records_keyed, missing, malformed = _fetch_row(connection, _TOTALS_SQL)
        _create_tombstones_table(connection, partition)
        present = _count_side(
            connection, partition, "present", partition.expired_present, partition.covered_end_present
        )
        other = _count_side(connection, partition, "other", partition.expired_other, partition.covered_end_other)
        sample = _sample_differing_keys(connection, request, partition)
    return PartitionDiff(
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


def _create_chosen_table(connection: duckdb.DuckDBPyConnection, request: DiffRequest, partition: DiffPartition) -> None:
    """Create the table ``chosen``: for each key both winners, its records, and those without a version."""
    present = build_greatest_offset_sql(request.present.strategy, request.present.header)
    other = build_greatest_offset_sql(request.other.strategy, request.other.header)
    missing, malformed = "0", "0"
    if request.header is not None:
        present_headers, readable_versions = build_version_counts_sql(request.header)
        missing, malformed = f"count(*) - {present_headers}", f"{present_headers} - {readable_versions}"
    connection.execute(
        f"""
        CREATE TEMP TABLE chosen AS SELECT present_offset, other_offset, records, missing, malformed FROM (
            SELECT key, {present} AS present_offset, {other} AS other_offset,
                   count(*) AS records, {missing} AS missing, {malformed} AS malformed
            FROM {_build_readable_condition(partition, partition.segments)} AND key IS NOT NULL GROUP BY key
        )
        """
    )


def _build_readable_condition(partition: DiffPartition, segments: Sequence[Segment]) -> str:
    files = quote_file_list(segment.path for segment in segments)
    # Records below the log start are unreadable: they neither win nor count.
    return f'read_parquet({files}) WHERE "offset" >= {partition.start_offset} AND "offset" < {partition.end_offset}'


_TOTALS_SQL = """
    SELECT count(*), count(*) FILTER (present_offset <> other_offset), coalesce(sum(records), 0)::BIGINT,
           coalesce(sum(missing), 0)::BIGINT, coalesce(sum(malformed), 0)::BIGINT FROM chosen
"""


def _create_tombstones_table(connection: duckdb.DuckDBPyConnection, partition: DiffPartition) -> None:
    """Create the table ``tombstones("offset")``. ``value`` is read only in segments with null values."""
    holding = [segment for segment in partition.segments if segment.tombstones]
    connection.execute('CREATE TEMP TABLE tombstones ("offset" BIGINT)')
    if holding:
        connection.execute(
            f'INSERT INTO tombstones SELECT "offset" FROM {_build_readable_condition(partition, holding)} '
            "AND key IS NOT NULL AND value IS NULL"
        )


def _count_side(
    connection: duckdb.DuckDBPyConnection,
    partition: DiffPartition,
    side: str,
    expired: Sequence[OffsetRange],
    covered_end: int,
) -> DiffSide:
    inside = build_offset_condition(expired)
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE kept AS
        SELECT {side}_offset AS "offset" FROM chosen
        ANTI JOIN (SELECT "offset" FROM tombstones WHERE {inside}) AS gone
        ON {side}_offset = gone."offset" AND (records = 1 OR gone."offset" >= {covered_end})
        """
    )
    (keys,) = _fetch_row(connection, "SELECT count(*) FROM chosen")
    (kept,) = _fetch_row(connection, "SELECT count(*) FROM kept")
    (differing_tombstones,) = _fetch_row(
        connection,
        f"""
        SELECT count(*) FROM chosen SEMI JOIN tombstones ON {side}_offset = tombstones."offset"
        WHERE present_offset <> other_offset
        """,
    )
    return DiffSide(kept, keys - kept, _estimate_bytes(connection, partition.segments), differing_tombstones)


def _estimate_bytes(connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment]) -> int:
    counted = zip(segments, count_per_segment(connection, "kept", segments), strict=True)
    return sum(segment.size_bytes * kept // max(1, segment.records) for segment, kept in counted)


def _sample_differing_keys(
    connection: duckdb.DuckDBPyConnection, request: DiffRequest, partition: DiffPartition
) -> tuple[DifferingWinners, ...]:
    pairs = connection.execute(
        "SELECT present_offset, other_offset FROM chosen WHERE present_offset <> other_offset "
        f"ORDER BY present_offset LIMIT {request.sample}"
    ).fetchall()
    found = find_coordinates(
        connection, partition.segments, {offset for pair in pairs for offset in pair}, request.header
    )
    return tuple(DifferingWinners(found[present], found[other]) for present, other in pairs)


def find_coordinates(
    connection: duckdb.DuckDBPyConnection, segments: Iterable[Segment], offsets: set[int], header: str | None
) -> Mapping[int, RecordCoordinates]:
    """Return the coordinates of a few records by offset; missing ones are left out."""
    holding = [s for s in segments if any(s.first_offset <= offset <= s.last_offset for offset in offsets)]
    if not holding:
        return {}
    version = build_version_value_sql(header) if header is not None else "NULL"
    wanted = ", ".join(str(offset) for offset in sorted(offsets))
    rows = connection.execute(
        f"""
        SELECT "offset", epoch_ms("timestamp"), {version}, key IS NOT NULL AND value IS NULL
        FROM read_parquet({quote_file_list(segment.path for segment in holding)}) WHERE "offset" IN ({wanted})
        """
    ).fetchall()
    return {
        offset: RecordCoordinates(offset, timestamp_ms, version, tombstone)
        for offset, timestamp_ms, version, tombstone in rows
    }


def _fetch_row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    row = duckdb_connection.fetch_one_row(connection, query)
    assert row is not None
    return tuple(row)
