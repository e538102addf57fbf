"""Whether every keyless record that leaves the log rests in the files for the quarantine, and nothing else does.

Both sides are read with Arrow and compared by offset and a hash over every field; the engine copies with DuckDB and
hashes nothing. Memory is bounded: batches, and a table of two numbers a record that spills.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.files.fingerprint import CONTENT_HASH
from winnow.files.quarantine import QUARANTINE_SCHEMA
from winnow.files.segment_figures import read_offsets
from winnow.model import OffsetRange, Segment
from winnow.quality import reading

if TYPE_CHECKING:
    import duckdb


def count_keyless_not_quarantined(
    connection: duckdb.DuckDBPyConnection,
    segments: Iterable[Segment],
    inside: OffsetRange,
    files: Iterable[str],
    ingest_id: str,
    *,
    threads: int,
) -> int:
    """Keyless records of ``segments`` inside the range without an equal row in ``files``, and rows that are none.

    Rows under another ingest id count as missing: nobody would ever see them. So do rows of a file that cannot be read.

    Raises:
        ServiceError: the object store cannot be reached.
    """
    leaving = _read_keyless([segment.path for segment in segments if segment.keyless], inside, threads)
    connection.execute('CREATE OR REPLACE TEMP TABLE aside ("offset" BIGINT, content UBIGINT, side TINYINT)')
    try:
        for side, batches in ((1, leaving), (-1, _read_quarantined_rows(files, ingest_id, threads))):
            for batch in batches:
                connection.register("feed", batch)
                try:
                    connection.execute(f'INSERT INTO aside SELECT "offset", {CONTENT_HASH}, {side} FROM feed')
                finally:
                    connection.unregister("feed")
        ((found,),) = connection.execute(
            """
            SELECT coalesce(sum(abs(surplus)), 0)::BIGINT
            FROM (SELECT sum(side) AS surplus FROM aside GROUP BY "offset", content)
            """
        ).fetchall()
    finally:
        connection.execute("DROP TABLE IF EXISTS aside")
    return int(found)


def _read_keyless(paths: Iterable[str], inside: OffsetRange, threads: int) -> Iterator[pa.RecordBatch]:
    for path in paths:
        try:
            for batch in reading.read_batches(path, threads=threads):
                offsets = read_offsets(batch)
                wanted = (offsets >= inside.start) & (offsets < inside.end)
                wanted &= batch.column("key").is_null().to_numpy(zero_copy_only=False)
                if np.any(wanted):
                    yield batch.filter(pa.array(wanted))
        except BadInputError:
            continue  # counted as an unreadable input where every planned segment is read


def _read_quarantined_rows(files: Iterable[str], ingest_id: str, threads: int) -> Iterator[pa.RecordBatch]:
    for file in files:
        try:
            for batch in reading.read_batches(file, threads=threads, schema=QUARANTINE_SCHEMA):
                yield batch.filter(pc.equal(batch.column("ingest_id"), ingest_id))
        except BadInputError:
            continue  # its rows are missing, and that is what is counted
