"""Tombstones that superseded a record in this run, although an earlier run covered them: they wait for late ones anew.

What such a tombstone superseded may have outranked records that are still to arrive, and the tombstone is all that is
left of it (:mod:`winnow.semantics`). So it stays, also where its wait was over, and the cleaning history is told where
it lies: in at most :data:`MOST_RANGES` ranges, since the history travels with every commit. Where there are more such
tombstones, those between them stay longer, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from winnow.engine.survivors import WRITE_BATCH_ROWS, count_per_segment
from winnow.files.duck import quote_file_list
from winnow.model import OffsetRange, PartitionPlan

if TYPE_CHECKING:
    import duckdb

MAXIMUM_EXTENDED_RANGES = 128
SUPERSEDING_TABLE = "superseding"

Offsets = npt.NDArray[np.int64]


def retain_extended_tombstones(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str
) -> tuple[OffsetRange, ...]:
    """Take the tombstones that superseded a record out of the table ``expired``; the ranges that hold them.

    The table ``superseding("offset")`` must hold the winners below the plan's ``covered_end`` that superseded a record,
    and is dropped; ``readable`` is the SQL condition for the records that count. Values are read only in segments with
    null values and such winners.
    """
    counted = count_per_segment(connection, SUPERSEDING_TABLE, plan.segments)
    holding = [s for s, winners in zip(plan.segments, counted, strict=True) if winners and s.tombstones]
    found: tuple[OffsetRange, ...] = ()
    if holding:
        connection.execute(
            f"""
            CREATE TEMP TABLE extended AS
            SELECT "offset" FROM read_parquet({quote_file_list(segment.path for segment in holding)}) AS log
            SEMI JOIN {SUPERSEDING_TABLE} USING ("offset") WHERE value IS NULL AND {readable}
            """
        )
        connection.execute('DELETE FROM expired WHERE "offset" IN (SELECT "offset" FROM extended)')
        for batch in connection.sql('SELECT "offset" FROM extended ORDER BY "offset"').to_arrow_reader(
            WRITE_BATCH_ROWS
        ):
            found = join_nearest_ranges([*found, *_build_ranges(batch.column(0).to_numpy(zero_copy_only=True))])
        connection.execute("DROP TABLE extended")
    connection.execute(f"DROP TABLE {SUPERSEDING_TABLE}")
    return found


def join_nearest_ranges(ranges: Iterable[OffsetRange], most: int = MAXIMUM_EXTENDED_RANGES) -> tuple[OffsetRange, ...]:
    """At most ``most`` ranges that hold all of ``ranges``, in order; neighbours with the smallest gaps are joined."""
    joined: list[OffsetRange] = []
    for each in sorted(ranges, key=lambda each: each.start):
        if joined and each.start <= joined[-1].end:
            joined[-1] = OffsetRange(joined[-1].start, max(joined[-1].end, each.end))
        else:
            joined.append(each)
    gaps = sorted(((after.start - before.end, at) for at, (before, after) in enumerate(pairwise(joined))), reverse=True)
    cuts = sorted(at for _, at in gaps[: most - 1])
    first = 0
    found = []
    for cut in [*cuts, len(joined) - 1] if joined else []:
        found.append(OffsetRange(joined[first].start, joined[cut].end))
        first = cut + 1
    return tuple(found)


def _build_ranges(offsets: Offsets) -> list[OffsetRange]:
    """``offsets``, in rising order, as ranges, cut at the largest gaps only."""
    gaps = np.diff(offsets)
    cuts = np.flatnonzero(gaps > 1)
    if len(cuts) >= MAXIMUM_EXTENDED_RANGES:
        cuts = np.sort(cuts[np.argsort(gaps[cuts], kind="stable")[-(MAXIMUM_EXTENDED_RANGES - 1) :]])
    starts = np.append(offsets[:1], offsets[cuts + 1])
    ends = np.append(offsets[cuts], offsets[-1:]) + 1
    return [OffsetRange(int(start), int(end)) for start, end in zip(starts, ends, strict=True)]
