"""Takes the columns of a record batch apart for the client library, which wants records one by one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Header = tuple[str, str | bytes | None]


def read_times_ms(column: pa.Array) -> pa.Array:
    """Return a column of timestamps as milliseconds."""
    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())


def list_bytes(column: pa.Array) -> list[bytes | None]:
    """List a binary column's values, without one of PyArrow's scalars per value."""
    found: list[bytes | None] = column.to_numpy(zero_copy_only=False).tolist()
    return found


def list_headers(column: pa.Array) -> Iterable[list[Header] | None]:
    """List the headers of each record; None where it has none."""
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    if not counts.any():
        return repeat(None, len(column))
    flat = column.flatten()
    names: list[str] = flat.field("key").to_numpy(zero_copy_only=False).tolist()
    pairs: list[Header] = list(zip(names, list_bytes(flat.field("value")), strict=True))
    ends = np.cumsum(counts).tolist()
    starts = [0, *ends[:-1]]
    return [pairs[start:end] or None for start, end in zip(starts, ends, strict=True)]
