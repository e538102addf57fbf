"""Counts keys among survivors and inputs, and checks the tombstones whose life was extended.

Keys are first identified by a 64-bit hash, whose only error is to take two keys for one. Any finding is counted again
by the key bytes before it is believed, so a collision can neither hide nor invent a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.files.segments import ARROW_SCHEMA, Offsets, read_offsets
from winnow.quality.record_versions import KEY_AND_OFFSET
from winnow.values.model import OffsetRange, Segment

if TYPE_CHECKING:
    import duckdb

COLUMNS = ("key", "offset", "value")

Superseding = Callable[[int, int], Offsets]
"""Returns, for two offsets, the survivors from the first to before the second whose key had other records."""


def count_wrong_extensions(
    segments: Iterable[Segment],
    reported: Sequence[OffsetRange],
    covered_end: int,
    superseding: Superseding,
    batches: Callable[[Segment], Iterator[pa.RecordBatch]],
) -> int:
    """Count extended tombstones outside the ``reported`` ranges, and range ends that are no such tombstone.

    Between its ends a range may hold other tombstones. ``segments``: the log after the run; ``batches`` reads the
    :data:`COLUMNS` of one. At most one segment's survivors are held at a time.
    """
    missing = 0
    ends = np.array(sorted({offset for each in reported for offset in (each.start, each.end - 1)}), np.int64)
    found = np.zeros(len(ends), np.bool_)
    for segment in segments if covered_end else ():
        if not segment.tombstones or segment.first_offset >= covered_end:
            continue
        winners = np.sort(superseding(segment.first_offset, min(segment.last_offset + 1, covered_end)))
        if not len(winners):
            continue
        for batch in batches(segment):
            tombstones = batch.column("value").is_null().to_numpy(zero_copy_only=False)
            extended = np.intersect1d(read_offsets(batch)[tombstones], winners)
            missing += int((~_is_inside(extended, reported)).sum())
            found |= np.isin(ends, extended)
    return missing + int((~found).sum())


def _is_inside(offsets: Offsets, ranges: Sequence[OffsetRange]) -> npt.NDArray[np.bool_]:
    inside = np.zeros(len(offsets), np.bool_)
    for each in ranges:
        inside |= (offsets >= each.start) & (offsets < each.end)
    return inside


HASHED = "hash(key)"

EXACT = "key"

_FIELDS = [pa.field(name, ARROW_SCHEMA.field(name).type) for name in KEY_AND_OFFSET]

MAY_GO = "may_go"
"""Column of inputs: whether the record is a tombstone of an expired range."""

_IS_EXPIRABLE = pa.field(MAY_GO, pa.bool_())

_VERSION = [pa.field("present", pa.bool_()), pa.field("version", pa.int64())]


@dataclass(frozen=True, slots=True)
class CensusResult:
    """Keys of one partition inside the compacted range. Records without key are left out.

    ``duplicate_keys``: surviving records beyond the first of their key. ``stale_winners``: survivors whose key has a
    greater record among the inputs: at a higher offset or, where versions decide, of a higher version.
    ``keys_expired``: keys without a survivor whose greatest record is a removable tombstone. ``wrong_extensions``: the
    count of :func:`count_wrong_extensions`.
    """

    keys_in: int
    keys_kept: int
    duplicate_keys: int
    stale_winners: int
    keys_expired: int = 0
    wrong_extensions: int = 0

    def is_clean(self, keys_gone: int) -> bool:
        """Check whether the only finding is ``keys_gone`` keys that ended with an expired tombstone."""
        gone = self.keys_in - self.keys_kept
        wrong = self.duplicate_keys + self.stale_winners + self.wrong_extensions
        return wrong == 0 and gone == self.keys_expired == keys_gone


class KeyCensus:
    """Counts keys by grouping: first :meth:`add_survivors`, then :meth:`count_keys` with the rewritten inputs.

    ``identity`` is :data:`HASHED` or :data:`EXACT`. Batches have the columns ``key`` and ``offset``; with
    ``by_version`` also ``present`` and ``version``, which decide before the offset. With ``expiring`` those of the
    inputs have ``may_go``, which marks tombstones of an expired range; ``superseding_stay``: one that superseded a
    record must not be removed. Use as a context manager: leaving it drops its tables.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        inside: OffsetRange,
        identity: str,
        *,
        by_version: bool = False,
        expiring: bool = False,
        superseding_stay: bool = False,
    ) -> None:
        self._connection = connection
        self._schema = pa.schema([*_FIELDS, *_VERSION] if by_version else _FIELDS)
        place = (
            'struct_pack(present := present, version := version, "offset" := "offset")' if by_version else '"offset"'
        )
        self._expiring = expiring
        self._going = "may_go AND records = 1" if superseding_stay else "may_go"
        self._offset = 'survivors.place."offset"' if by_version else "survivors.place"
        self._choose_files = f"SELECT {identity} AS identity, {place} AS place"
        self._from_feed = f'FROM feed WHERE key IS NOT NULL AND "offset" >= {inside.start} AND "offset" < {inside.end}'
        kind = "UBIGINT" if identity == HASHED else "BLOB"
        places = 'STRUCT(present BOOLEAN, version BIGINT, "offset" BIGINT)' if by_version else "BIGINT"
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE survivors (identity {kind}, place {places}, by_reference BOOLEAN)"
        )

    def __enter__(self) -> KeyCensus:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for table in ("survivors", "greatest"):
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")

    def add_survivors(self, batch: pa.RecordBatch, *, by_reference: bool) -> None:
        """Add records that stay in the log: rewritten ones, or those of segments kept by reference."""
        self._connection.register("feed", batch.select(self._schema.names))
        try:
            self._connection.execute(f"INSERT INTO survivors {self._choose_files}, {by_reference} {self._from_feed}")
        finally:
            self._connection.unregister("feed")

    def count_keys(self, rewritten: Iterable[pa.RecordBatch]) -> CensusResult:
        """Return the census, given the records of the rewritten inputs."""
        schema, tombstone, whether = self._schema, "false", "false"
        if self._expiring:
            schema, tombstone, whether = schema.append(_IS_EXPIRABLE), "may_go", "arg_max(may_go, place)"
        with offer_batches(self._connection, schema, (batch.select(schema.names) for batch in rewritten)):
            self._connection.execute(
                f"""
                CREATE OR REPLACE TEMP TABLE greatest AS
                SELECT identity, max(place) AS place, count(*) AS records, {whether} AS may_go FROM (
                    {self._choose_files}, {tombstone} AS may_go {self._from_feed}
                    UNION ALL SELECT identity, place, false FROM survivors WHERE by_reference
                ) GROUP BY identity
                """
            )
        records, keys_kept = self._fetch_row("SELECT count(*), count(DISTINCT identity) FROM survivors")
        (keys_in,) = self._fetch_row("SELECT count(*) FROM greatest")
        (stale,) = self._fetch_row(
            "SELECT count(*) FROM survivors JOIN greatest USING (identity) WHERE survivors.place < greatest.place"
        )
        (expired,) = self._fetch_row(
            f"SELECT count(*) FROM greatest ANTI JOIN survivors USING (identity) WHERE {self._going}"
        )
        return CensusResult(keys_in, keys_kept, records - keys_kept, stale, expired)

    def find_superseding(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Return offsets in [``start``, ``end``) of survivors whose key had more records; after :meth:`count_keys`."""
        found = self._connection.execute(
            f"SELECT {self._offset} AS found FROM survivors JOIN greatest USING (identity) "
            f"WHERE records > 1 AND {self._offset} >= {start} AND {self._offset} < {end}"
        ).fetchnumpy()["found"]
        return np.asarray(found, dtype=np.int64)

    def _fetch_row(self, query: str) -> tuple[int, ...]:
        (row,) = self._connection.execute(query).fetchall()
        return tuple(int(value) for value in row)


@contextmanager
def offer_batches(
    connection: duckdb.DuckDBPyConnection, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[None]:
    """Offer ``batches`` once as the view ``feed``, for one statement; their exception is raised unchanged at the end.

    ``batches`` must not use ``connection``.
    """
    problems: list[Exception] = []

    def guarded() -> Iterator[pa.RecordBatch]:
        # DuckDB would turn it into text of another exception type.
        try:
            yield from batches
        except Exception as problem:
            problems.append(problem)

    connection.register("feed", pa.RecordBatchReader.from_batches(schema, guarded()))
    try:
        yield
    finally:
        connection.unregister("feed")
    if problems:
        raise problems[0]
