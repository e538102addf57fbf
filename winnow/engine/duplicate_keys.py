"""Finds the keys with more than one record, and picks winners among those alone.

Equal keys have equal hashes. So a record whose key hash occurs once in the partition is the only one of its key and
wins under every strategy; nothing is assumed about a clean section. The hashes are sorted (8 bytes per record), one
range of them at a time if memory requires it. The others are contested and are compared by the key bytes; a hash
collision makes both keys contested and does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.engine.survivors import REMOVED_TABLE, SUPERSEDING_TABLE, count_per_segment, retain_extended_tombstones
from winnow.files import duckdb_connection
from winnow.files.duckdb_connection import quote_file_list
from winnow.files.fingerprint import WINNERS_HASH, RunningFingerprint, make_fingerprint_sql, subtract_fingerprint
from winnow.values.model import OffsetRange, PartitionPlan, Segment

if TYPE_CHECKING:
    import duckdb

SCAN_BATCH_ROWS = 131_072

_MAXIMUM_MERGED_HASHES = 1 << 19

KeyHashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ContestedKeys:
    """``hashes``: distinct hashes of keys that several records may have. ``segments``: those that hold such records.

    ``records`` and ``keyless`` count the scanned records of each planned segment, keyless ones included in both;
    ``fingerprint`` is over (key, offset) of all keyed records.
    """

    hashes: KeyHashes
    segments: tuple[Segment, ...]
    records: tuple[int, ...]
    keyless: tuple[int, ...]
    fingerprint: str


def find_contested_keys(
    connection: duckdb.DuckDBPyConnection,
    segments: tuple[Segment, ...],
    readable: str,
    *,
    hashes_at_once: int,
    maximum_contested: int,
) -> ContestedKeys | None:
    """Sort the key hashes of all records that meet the SQL condition ``readable``.

    Holds about ``hashes_at_once`` or fewer at a time. None: more than ``maximum_contested`` are contested, so comparing
    all keys costs less.
    """
    expected = sum(segment.records for segment in segments)
    passes = max(1, -(-expected // hashes_at_once))
    running = RunningFingerprint()
    records, keyless = [0] * len(segments), [0] * len(segments)
    found: list[KeyHashes] = []
    held: set[int] = set()
    for number in range(passes):
        sorted_hashes = _SortedRuns(expected // passes + expected // 64 + 1024)
        for at, segment in enumerate(segments):
            columns = f"hash(key) AS hash, {WINNERS_HASH} AS fingerprint, key IS NULL AS keyless"
            for hashes, fingerprints, nulls in _scan_key_hashes(connection, segment, columns, readable):
                if number == 0:
                    records[at] += len(hashes) + nulls
                    keyless[at] += nulls
                    running.add(fingerprints)
                sorted_hashes.add(hashes if passes == 1 else hashes[hashes % np.uint64(passes) == number])
            sorted_hashes.end_run()
        repeated = sorted_hashes.find_repeated()
        if len(repeated) + sum(map(len, found)) > maximum_contested:
            return None
        held |= sorted_hashes.find_runs_with(repeated)
        found.append(repeated)
    return ContestedKeys(
        np.concatenate(found),
        tuple(segment for at, segment in enumerate(segments) if at in held),
        tuple(records),
        tuple(keyless),
        str(running),
    )


def _scan_key_hashes(
    connection: duckdb.DuckDBPyConnection, segment: Segment, columns: str, readable: str
) -> Iterator[tuple[KeyHashes, KeyHashes, int]]:
    """Yield hashes and fingerprints of keyed records, and the number of keyless ones, batch by batch."""
    relation = connection.sql(f"SELECT {columns} FROM read_parquet({quote_file_list([segment.path])}) WHERE {readable}")
    for batch in relation.to_arrow_reader(SCAN_BATCH_ROWS):
        hashes = batch.column(0).to_numpy(zero_copy_only=True)
        fingerprints = batch.column(1).to_numpy(zero_copy_only=True)
        nulls = batch.column(2).true_count
        if nulls:
            keyed = ~batch.column(2).to_numpy(zero_copy_only=False)
            hashes, fingerprints = hashes[keyed], fingerprints[keyed]
        yield hashes, fingerprints, nulls


class _SortedRuns:
    """Hashes in one array, as sorted runs."""

    def __init__(self, expected: int) -> None:
        self._hashes: KeyHashes = np.empty(expected, np.uint64)
        self._filled = 0
        self._ends = [0]

    def add(self, hashes: KeyHashes) -> None:
        """Add to the open run."""
        end = self._filled + len(hashes)
        if end > len(self._hashes):
            self._hashes = np.concatenate([self._hashes[: self._filled], np.empty(end - self._filled, np.uint64)])
        self._hashes[self._filled : end] = hashes
        self._filled = end

    def end_run(self) -> None:
        """Sort and close the open run."""
        self._hashes[self._ends[-1] : self._filled].sort()
        self._ends.append(self._filled)

    def _runs(self) -> list[KeyHashes]:
        return [self._hashes[start:end] for start, end in zip(self._ends, self._ends[1:], strict=False)]

    def find_repeated(self) -> KeyHashes:
        """Return the hashes that occur more than once, without duplicates, in ascending order."""
        runs = self._runs()
        found: list[KeyHashes] = [np.empty(0, np.uint64)]
        slices = max(1, self._filled // _MAXIMUM_MERGED_HASHES)
        edges = [np.uint64((number << 64) // slices) for number in range(1, slices)]
        cuts = [[0, *np.searchsorted(run, np.array(edges, np.uint64)).tolist(), len(run)] for run in runs]
        for number in range(slices):
            # The runs are sorted, which a stable sort exploits.
            merged = np.concatenate([run[cut[number] : cut[number + 1]] for run, cut in zip(runs, cuts, strict=True)])
            merged.sort(kind="stable")
            twice = merged[1:][merged[1:] == merged[:-1]]
            found.append(np.unique(twice))
        return np.concatenate(found)

    def find_runs_with(self, hashes: KeyHashes) -> set[int]:
        """Return the numbers of the runs that have one of ``hashes``."""
        return {number for number, run in enumerate(self._runs()) if _has_common_hash(run, hashes)}


def _has_common_hash(run: KeyHashes, hashes: KeyHashes) -> bool:
    if not len(run) or not len(hashes):
        return False
    at = np.searchsorted(run, hashes)
    return bool((run[np.minimum(at, len(run) - 1)] == hashes).any())


def create_hash_table(
    connection: duckdb.DuckDBPyConnection, name: str, hashes: Iterable[np.uint64] | KeyHashes
) -> None:
    """Create the temporary table ``name(hash)``."""
    connection.register(f"{name}_given", pa.table({"hash": np.asarray(hashes, np.uint64)}))
    try:
        connection.execute(f"CREATE TEMP TABLE {name} AS SELECT hash FROM {name}_given")
    finally:
        connection.unregister(f"{name}_given")


MINIMUM_RECORDS = 1 << 20
"""With fewer records a table of all keys is small and comparing them is cheap."""

MAXIMUM_CONTESTED_SHARE = 0.25
"""If more of all records are contested, a table of all keys costs less."""

SAMPLED_SHARE = 0.03

MAXIMUM_SAMPLED_SEGMENTS = 4

MAXIMUM_PASSES = 16
"""Maximum number of times the keys are read where their hashes do not fit; beyond it DuckDB spills."""

SAMPLE_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class RemovalCounts:
    """Counts of removed records; ``survivors`` of each planned segment, ``fingerprint`` over their (key, offset).

    ``extended``: as in :class:`winnow.values.results.PartitionFacts`.
    """

    records: int
    keyless: int
    losers: int
    tombstones_expired: int
    survivors: tuple[int, ...]
    fingerprint: str
    extended: tuple[OffsetRange, ...] = ()


def is_applicable(connection: duckdb.DuckDBPyConnection, plan: PartitionPlan) -> bool:
    """Check whether few keys are likely to be contested. The result is the same for every share of the keys."""
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
    # Of two records with one key, a sample holds the second as often as the sample's share of all records.
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
    """Create the table ``removed("offset")``: losers, winning tombstones that expired, keyless records.

    ``readable`` is the SQL condition for records that count, ``greatest`` the aggregate that gives a key's winning
    offset from its records' ``ordering`` columns; the table ``expired("offset", fingerprint)`` must exist. Returns
    None, and creates no table, if too many keys are contested after all.
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
            maximum_contested=int(total * MAXIMUM_CONTESTED_SHARE),
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
    """Create ``removed``, and with a ``covered_end`` the table that :func:`retain_extended_tombstones` needs."""
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
    row = duckdb_connection.fetch_one_row(
        connection, f"SELECT count(*), {make_fingerprint_sql('fingerprint')} FROM {table}"
    )
    assert row is not None
    return int(row[0]), str(row[1])


def _build_file_list(segments: list[Segment] | tuple[Segment, ...]) -> str:
    return quote_file_list(segment.path for segment in segments)


@contextmanager
def _compute_maximum_hashes(connection: duckdb.DuckDBPyConnection, total: int) -> Iterator[int]:
    """Provide the number of hashes to hold at a time; meanwhile DuckDB's memory limit is lowered by their size."""
    limit = duckdb_connection.read_memory_limit_bytes(connection)
    at_once = max(1, limit // 2 // 8)
    reserved = min(total, at_once) * 8
    connection.execute(f"SET memory_limit = '{max(limit - reserved, limit // 2)}B'")
    try:
        yield at_once
    finally:
        connection.execute(f"SET memory_limit = '{limit}B'")


def create_removed_from_survivors(connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str) -> None:
    """Create ``removed`` from ``survivors``: all shares of a partition's keys use the same table."""
    connection.execute(
        f"""
        CREATE TEMP TABLE {REMOVED_TABLE} AS SELECT "offset" FROM read_parquet({_build_file_list(plan.segments)}) AS log
        ANTI JOIN survivors USING ("offset") WHERE {readable}
        """
    )
    connection.execute("DROP TABLE survivors")
