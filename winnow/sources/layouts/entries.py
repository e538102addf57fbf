"""What readers of entries share: an entry is one value, one key or the headers of one record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.files.record_batch import Integers, make_headers

Header = tuple[str, str | bytes | None]


class EntryError(Exception):
    """The entry at ``index`` (from 0) is not what it should be."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def make_header_column(lists: Sequence[Sequence[Header]]) -> Any:
    """Build the column of headers from keys and values in order; text becomes its UTF-8 bytes."""
    counts: Integers = np.fromiter(map(len, lists), np.int64, len(lists))
    keys = pa.array([key for each in lists for key, _ in each], pa.string())
    values = pa.array([value for each in lists for _, value in each], pa.binary())
    return make_headers(counts, keys, values)
