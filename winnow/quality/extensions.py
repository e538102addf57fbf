"""Whether the tombstones that superseded a record in a run, and only those, wait for late records anew.

An earlier run covered them; what they superseded may have outranked records that are still to arrive. The rewrite says
in which offset ranges they lie. Where it left one out, that tombstone could go too early and an older record come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.files.segment_figures import Offsets, read_offsets
from winnow.model import OffsetRange, Segment

COLUMNS = ("key", "offset", "value")

Superseding = Callable[[int, int], Offsets]
"""Of two offsets: the survivors from the first up to the second (exclusive) whose key had other records, too."""


def count_wrong_extensions(
    segments: Iterable[Segment],
    said: Sequence[OffsetRange],
    covered_end: int,
    superseding: Superseding,
    batches: Callable[[Segment], Iterator[pa.RecordBatch]],
) -> int:
    """Tombstones that are not in the ranges that were ``said``, and ends of these ranges that are no such tombstone.

    Between its ends a range may hold other tombstones. ``segments``: what is in the log after the run; ``batches``
    reads the :data:`COLUMNS` of one. At most one segment's survivors are held at a time.
    """
    missing = 0
    ends = np.array(sorted({offset for each in said for offset in (each.start, each.end - 1)}), np.int64)
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
            missing += int((~_is_inside(extended, said)).sum())
            found |= np.isin(ends, extended)
    return missing + int((~found).sum())


def _is_inside(offsets: Offsets, ranges: Sequence[OffsetRange]) -> npt.NDArray[np.bool_]:
    inside = np.zeros(len(offsets), np.bool_)
    for each in ranges:
        inside |= (offsets >= each.start) & (offsets < each.end)
    return inside
