"""Checks that keyless records went to quarantine, and that every output offset was among the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.files.fingerprint import CONTENT_HASH
from winnow.files.quarantine_files import QUARANTINE_SCHEMA
from winnow.files.segments import Offsets, read_offsets
from winnow.quality import reading
from winnow.values.model import OffsetRange, Segment

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
    """Count keyless records of ``segments`` in the range without an equal row in ``files``, and rows without a record.

    Rows under another ingest id, or in an unreadable file, count as missing.

    Raises:
        ServiceError: the object store cannot be reached.
    """
    leaving = _read_keyless([segment.path for segment in segments if segment.keyless], inside, threads)
    connection.execute('CREATE OR REPLACE TEMP TABLE moved ("offset" BIGINT, content UBIGINT, side TINYINT)')
    try:
        for side, batches in ((1, leaving), (-1, _read_quarantined_rows(files, ingest_id, threads))):
            for batch in batches:
                connection.register("feed", batch)
                try:
                    connection.execute(f'INSERT INTO moved SELECT "offset", {CONTENT_HASH}, {side} FROM feed')
                finally:
                    connection.unregister("feed")
        ((found,),) = connection.execute(
            """
            SELECT coalesce(sum(abs(surplus)), 0)::BIGINT
            FROM (SELECT sum(side) AS surplus FROM moved GROUP BY "offset", content)
            """
        ).fetchall()
    finally:
        connection.execute("DROP TABLE IF EXISTS moved")
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
            continue  # counted as an unreadable input elsewhere, where every planned segment is read


def _read_quarantined_rows(files: Iterable[str], ingest_id: str, threads: int) -> Iterator[pa.RecordBatch]:
    for file in files:
        try:
            for batch in reading.read_batches(file, threads=threads, schema=QUARANTINE_SCHEMA):
                yield batch.filter(pc.equal(batch.column("ingest_id"), ingest_id))
        except BadInputError:
            continue  # its rows count as missing


class InputOffsets:
    """The offsets of the inputs of one rewrite group, read segment by segment on demand.

    Outputs come in offset order, so each input is read once; disorder costs another read, never a wrong answer.
    """

    def __init__(self, inputs: Sequence[Segment], *, threads: int) -> None:
        self._inputs = inputs
        self._threads = threads
        self._loaded: tuple[str, Offsets] | None = None
        self._unreadable: set[str] = set()

    @property
    def unreadable(self) -> frozenset[str]:
        """Inputs that could not be read. All offsets in their range count as known."""
        return frozenset(self._unreadable)

    def count_foreign(self, offsets: Offsets) -> int:
        """Count the ``offsets`` that the inputs do not have.

        Raises:
            ServiceError: the object store cannot be reached.
        """
        if len(offsets) == 0:
            return 0
        known: npt.NDArray[np.bool_] = np.zeros(len(offsets), dtype=np.bool_)
        lowest, highest = int(offsets.min()), int(offsets.max())
        for segment in self._inputs:
            if segment.last_offset < lowest or segment.first_offset > highest:
                continue
            known |= self._mark_known(segment, offsets)
        return int((~known).sum())

    def _mark_known(self, segment: Segment, offsets: Offsets) -> npt.NDArray[np.bool_]:
        held = self._read_offsets(segment)
        if segment.path in self._unreadable:
            inside: npt.NDArray[np.bool_] = (offsets >= segment.first_offset) & (offsets <= segment.last_offset)
            return inside
        if len(held) == 0:
            return np.zeros(len(offsets), dtype=np.bool_)
        places = np.minimum(np.searchsorted(held, offsets), len(held) - 1)
        found: npt.NDArray[np.bool_] = held[places] == offsets
        return found

    def _read_offsets(self, segment: Segment) -> Offsets:
        if self._loaded is not None and self._loaded[0] == segment.path:
            return self._loaded[1]
        self._loaded = None
        parts: list[Offsets] = [np.empty(0, dtype=np.int64)]
        try:
            parts.extend(read_offsets(b) for b in reading.read_batches(segment.path, ["offset"], threads=self._threads))
        except BadInputError:
            self._unreadable.add(segment.path)
        held = np.concatenate(parts)
        if (held[1:] < held[:-1]).any():
            held.sort()
        self._loaded = (segment.path, held)
        return held
