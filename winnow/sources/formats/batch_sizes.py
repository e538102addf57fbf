"""Cuts rows into batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from winnow.files.record_batch import MAXIMUM_BATCH_ROWS, ROW_BYTES


def slice_by_size(sizes: npt.NDArray[np.int64], batch_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges whose records, of ``sizes`` bytes, fit into a batch; a larger record is alone."""
    ends = np.cumsum(sizes + ROW_BYTES)
    start, before = 0, 0
    while start < len(ends):
        end = max(start + 1, int(np.searchsorted(ends, before + batch_bytes, side="right")))
        end = min(end, start + MAXIMUM_BATCH_ROWS)
        yield start, end
        start, before = end, int(ends[end - 1])
