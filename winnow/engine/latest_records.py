"""Reads the latest state of a partition: the winning record of each key over clean section and head, no tombstones.

The winners are those of a compaction up to the log end in which every winning tombstone may go. Only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from winnow.engine.damage import CopyCountError
from winnow.engine.read_ranges import SegmentSurvivors, split_into_read_ranges
from winnow.engine.strategy_diff import DiffPartition, RecordOrder, build_equivalent_plan
from winnow.engine.survivors import build_survivors_sql
from winnow.engine.task_resources import TaskBudget, open_connection
from winnow.engine.winners import WinnerCounts, pick_winners
from winnow.files import storage
from winnow.files.page_checksums import check_pages
from winnow.files.segments import ARROW_SCHEMA, cast_to_segment_schema
from winnow.values.model import OffsetRange, PartitionPlan, Segment

if TYPE_CHECKING:
    import duckdb

MAXIMUM_BATCH_ROWS = 8_192

MAXIMUM_BATCH_BYTES = 4 << 20
"""Maximum bytes in the file of the records in a batch; decoded they take a few times as many."""


def build_latest_plan(
    partition: int, start_offset: int, first_dirty_offset: int, end_offset: int, segments: Sequence[Segment]
) -> PartitionPlan:
    """Build the plan of a compaction of the records in [``start_offset``, ``end_offset``), in which no tombstone stays.

    ``first_dirty_offset`` decides nothing: where most is clean, winners are found in another way, which is faster.
    """
    whole = OffsetRange(start_offset, end_offset)
    readable = tuple(segment for segment in segments if segment.last_offset >= start_offset)
    compared = DiffPartition(partition, start_offset, end_offset, readable, expired_present=(whole,))
    return replace(build_equivalent_plan(compared), first_dirty_offset=first_dirty_offset)


def read_latest_records(plan: PartitionPlan, order: RecordOrder, budget: TaskBudget) -> Iterator[pa.RecordBatch]:
    """Yield the latest records of a plan of :func:`build_latest_plan` in offset order, in segments' schema.

    Raises:
        DamagedSegmentError: a segment on a local disk is not what was written.
        CopyCountError: other records were found than survive.
        duckdb.Error, OSError: a segment cannot be read (:func:`winnow.engine.damage.explain_failure` says why).
    """
    if not plan.segments:
        return
    check_local_pages(plan.segments)
    with open_connection(budget, plan.segments) as connection:
        counts = pick_winners(connection, plan, order.strategy, order.header)
        yield from read_survivors(connection, list_surviving(plan, counts), plan.log_start_offset)


def check_local_pages(segments: Iterable[Segment]) -> None:
    """Check the pages of segments on a local disk; on an object store they are checked while they are read.

    Raises:
        DamagedSegmentError: one is not what was written.
    """
    for segment in segments:
        if storage.is_local(segment.path):
            check_pages(segment.path)


def list_surviving(plan: PartitionPlan, counts: WinnerCounts) -> list[SegmentSurvivors]:
    """List the segments of ``plan`` in which records survive."""
    counted = zip(plan.segments, counts.survivors, strict=True)
    return [SegmentSurvivors(segment, records) for segment, records in counted if records]


def read_survivors(
    connection: duckdb.DuckDBPyConnection, members: Sequence[SegmentSurvivors], start_offset: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``members`` that ``connection`` names as survivors, from ``start_offset`` on, in order.

    Raises:
        CopyCountError: other records were found than survive.
        duckdb.Error, OSError: a segment cannot be read.
    """
    columns = ", ".join(f'"{name}"' for name in ARROW_SCHEMA.names)
    # As in a compaction: the files stream past the survivors, and one thread keeps their order.
    connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
    connection.execute("SET threads = 1")
    wanted, found = sum(member.records for member in members), 0
    for offsets in list(split_into_read_ranges(connection, members, start_offset)):
        survivors = build_survivors_sql(connection, offsets.uris, offsets.first_offset, offsets.last_offset)
        relation = connection.sql(f"SELECT {columns} {survivors}")
        for batch in relation.to_arrow_reader(_compute_batch_rows(members)):
            found += batch.num_rows
            if batch.num_rows:
                yield cast_to_segment_schema(batch)
    if found != wanted:
        raise CopyCountError(
            f"{wanted:,} keys have a value, but {found:,} records were read. Do not use what was written; keep the "
            "log's files for analysis"
        )


def _compute_batch_rows(members: Sequence[SegmentSurvivors]) -> int:
    largest_bytes = max((_mean_bytes(member.segment) for member in members), default=1)
    return max(1, min(MAXIMUM_BATCH_ROWS, MAXIMUM_BATCH_BYTES // largest_bytes))


def _mean_bytes(segment: Segment) -> int:
    return max(1, segment.size_bytes // max(1, segment.records))
