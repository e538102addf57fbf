"""The surviving or removed offsets of a partition as a DuckDB table, and as files between tasks.

The table is ``survivors("offset")`` or, where few records are removed, ``removed("offset")`` with all others: exactly
one of the two exists. It may be larger than memory; DuckDB spills it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import WinnowError
from winnow.files import duckdb_connection, storage
from winnow.files.duckdb_connection import quote_file_list
from winnow.values.model import OffsetRange, PartitionPlan, Segment

if TYPE_CHECKING:
    import duckdb

SURVIVORS_TABLE = "survivors"

REMOVED_TABLE = "removed"

WRITE_BATCH_ROWS = 131_072

_TABLE_METADATA_KEY = b"winnow.form"

_SCHEMA = pa.schema([pa.field("offset", pa.int64(), nullable=False)])


def find_offset_table(connection: duckdb.DuckDBPyConnection) -> str:
    """Return which of the two tables ``connection`` has: :data:`SURVIVORS_TABLE` or :data:`REMOVED_TABLE`.

    Raises:
        WinnowError: there is not exactly one of them.
    """
    found = connection.execute(
        f"SELECT table_name FROM duckdb_tables() WHERE temporary AND table_name IN ('{SURVIVORS_TABLE}', "
        f"'{REMOVED_TABLE}')"
    ).fetchall()
    if len(found) != 1:
        raise WinnowError(
            f"{len(found)} tables say which records survive, not one.",
            left="Nothing was written.",
        )
    return str(found[0][0])


def build_survivors_sql(
    connection: duckdb.DuckDBPyConnection, uris: Sequence[str], first_offset: int, last_offset: int
) -> str:
    """Build SQL, from FROM on, for the surviving records of files ``log`` within the offsets, both included."""
    table = find_offset_table(connection)
    within = f"BETWEEN {first_offset} AND {last_offset}"
    join = "SEMI" if table == SURVIVORS_TABLE else "ANTI"
    return (
        f'FROM (FROM read_parquet({quote_file_list(uris)}) WHERE "offset" {within}) AS log '
        f'{join} JOIN (SELECT "offset" FROM {table} WHERE "offset" {within}) AS named ON log."offset" = named."offset"'
    )


def count_per_segment(
    connection: duckdb.DuckDBPyConnection, table: str, segments: Sequence[Segment]
) -> tuple[int, ...]:
    """Count the offsets of ``table("offset")`` in each of ``segments``."""
    if not segments:
        return ()
    # Segments are disjoint and in offset order, so the last one that begins at or below an offset holds it.
    starts = np.array([segment.first_offset for segment in segments[1:]], np.int64)
    counted = np.zeros(len(segments), np.int64)
    for batch in connection.sql(f'SELECT "offset" FROM {table}').to_arrow_reader(WRITE_BATCH_ROWS):
        offsets = batch.column(0).to_numpy(zero_copy_only=True)
        counted += np.bincount(np.searchsorted(starts, offsets, side="right"), minlength=len(segments))
    return tuple(counted.tolist())


def write_survivors(connection: duckdb.DuckDBPyConnection, uri: str, *, below: str | None = None) -> None:
    """Write the table of ``connection`` to one Parquet file at ``uri``, with ascending offsets; ``below``: its root."""
    table = find_offset_table(connection)
    schema = _SCHEMA.with_metadata({_TABLE_METADATA_KEY: table.encode()})
    offsets = connection.sql(f'SELECT "offset" FROM {table} ORDER BY "offset"')
    with (
        storage.translate_store_errors(uri),
        storage.create_file(uri, below=below) as stream,
        pq.ParquetWriter(
            stream, schema, compression="zstd", use_dictionary=False, column_encoding={"offset": "DELTA_BINARY_PACKED"}
        ) as writer,
    ):
        for batch in offsets.to_arrow_reader(WRITE_BATCH_ROWS):
            writer.write_batch(batch.cast(_SCHEMA).replace_schema_metadata(schema.metadata))


def load_survivors(
    connection: duckdb.DuckDBPyConnection, uris: Sequence[str], *, first_offset: int, last_offset: int
) -> None:
    """Create the table from the files of all shares of a partition's keys, for the offsets between both, included.

    Raises:
        WinnowError: the shares do not have the same kind of table.
    """
    tables = {_read_table_name(uri) for uri in uris}
    if len(tables) != 1:
        raise WinnowError(
            "The shares of a partition's keys name survivors in different forms.",
            left="Nothing was written.",
        )
    (table,) = tables
    for each in (SURVIVORS_TABLE, REMOVED_TABLE):
        connection.execute(f"DROP TABLE IF EXISTS {each}")
    connection.execute(
        f"""
        CREATE TEMP TABLE {table} AS SELECT "offset" FROM read_parquet({quote_file_list(uris)})
        WHERE "offset" BETWEEN {first_offset} AND {last_offset} ORDER BY "offset"
        """
    )


def _read_table_name(uri: str) -> str:
    filesystem, path = storage.open_filesystem(uri)
    with storage.translate_store_errors(uri), filesystem.open_input_file(path) as stream:
        metadata: dict[bytes, bytes] = pq.read_schema(stream).metadata or {}
    return metadata.get(_TABLE_METADATA_KEY, b"").decode()


def compute_maximum_join_rows(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the number of offsets that a join can hold in memory: one that spills loses the records' order."""
    return max(1 << 16, min(1 << 20, duckdb_connection.read_memory_limit_bytes(connection) // 256))


MAXIMUM_EXTENDED_RANGES = 128

SUPERSEDING_TABLE = "superseding"

Offsets = npt.NDArray[np.int64]


def retain_extended_tombstones(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, readable: str
) -> tuple[OffsetRange, ...]:
    """Remove tombstones that superseded a record from the table ``expired``; return ranges that hold them.

    The table ``superseding("offset")`` must have the winners below the plan's ``covered_end`` that superseded a record,
    and is dropped; ``readable`` is the SQL condition for records that count. Values are read only in segments with null
    values and such winners.
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


def join_nearest_ranges(
    ranges: Iterable[OffsetRange], maximum_ranges: int = MAXIMUM_EXTENDED_RANGES
) -> tuple[OffsetRange, ...]:
    """Join the nearest of ``ranges`` until at most ``maximum_ranges`` are left; return them in order."""
    joined: list[OffsetRange] = []
    for each in sorted(ranges, key=lambda each: each.start):
        if joined and each.start <= joined[-1].end:
            joined[-1] = OffsetRange(joined[-1].start, max(joined[-1].end, each.end))
        else:
            joined.append(each)
    gaps = sorted(((after.start - before.end, at) for at, (before, after) in enumerate(pairwise(joined))), reverse=True)
    cuts = sorted(at for _, at in gaps[: maximum_ranges - 1])
    first = 0
    found = []
    for cut in [*cuts, len(joined) - 1] if joined else []:
        found.append(OffsetRange(joined[first].start, joined[cut].end))
        first = cut + 1
    return tuple(found)


def _build_ranges(offsets: Offsets) -> list[OffsetRange]:
    """Convert ascending ``offsets`` to ranges, cut at the largest gaps only."""
    gaps = np.diff(offsets)
    cuts = np.flatnonzero(gaps > 1)
    if len(cuts) >= MAXIMUM_EXTENDED_RANGES:
        cuts = np.sort(cuts[np.argsort(gaps[cuts], kind="stable")[-(MAXIMUM_EXTENDED_RANGES - 1) :]])
    starts = np.append(offsets[:1], offsets[cuts + 1])
    ends = np.append(offsets[cuts], offsets[-1:]) + 1
    return [OffsetRange(int(start), int(end)) for start, end in zip(starts, ends, strict=True)]
