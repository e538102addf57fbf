"""Limits on the bytes that a compaction may read and write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winnow.values.model import PartitionPlan, Plan, Segment

_DECIDING = {"offset": ("key", "offset"), "timestamp": ("key", "offset", "timestamp")}
_TRAILER_BYTES = 8
"""Bytes after a Parquet footer: its length and the magic bytes."""


def compute_allowed_bytes(plan: Plan) -> dict[str, int]:
    """Compute ``allowed_read_bytes`` and ``allowed_written_bytes`` of a plan.

    Read: footers, key and ordering columns of all planned segments, and segments that lose records as a whole. Written:
    the sizes of the segments that lose records.
    """
    columns = _DECIDING.get(plan.strategy.value, ("key", "offset", "headers"))
    scanned = sum(_sum_column_bytes(segment, columns) for part in plan.partitions for segment in part.segments)
    losing = sum(segment.size_bytes for part in plan.partitions for segment in _list_losing_segments(part))
    return {"allowed_read_bytes": scanned + losing, "allowed_written_bytes": losing, "losing_bytes": losing}


def _sum_column_bytes(segment: Segment, columns: Sequence[str]) -> int:
    import pyarrow.parquet as pq

    from winnow.files.duckdb_connection import format_file_name

    metadata = pq.read_metadata(format_file_name(segment.path))
    chunks = sum(
        metadata.row_group(group).column(number).total_compressed_size
        for group in range(metadata.num_row_groups)
        for number in range(metadata.num_columns)
        if metadata.row_group(group).column(number).path_in_schema.split(".")[0] in columns
    )
    return int(chunks + metadata.serialized_size + _TRAILER_BYTES)


def _list_losing_segments(partition: PartitionPlan) -> list[Segment]:
    """Return the segments with a record whose key has a later one (strategy offset)."""
    import duckdb

    from winnow.files.duckdb_connection import quote_file_list

    files = quote_file_list(segment.path for segment in partition.segments)
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"""
            SELECT "offset" FROM read_parquet({files})
            WHERE "offset" NOT IN (SELECT max("offset") FROM read_parquet({files}) GROUP BY key)
            """
        ).fetchall()
    lost = [offset for (offset,) in rows]
    return [
        segment
        for segment in partition.segments
        if any(segment.first_offset <= offset <= segment.last_offset for offset in lost)
    ]
