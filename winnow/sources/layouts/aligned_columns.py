"""Reads several columns of the same records side by side, whatever the lengths of the arrays they come in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.files.record_batch import HEADER_BYTES, MAXIMUM_BATCH_ROWS, ROW_BYTES, Integers


class UnequalLengthsError(Exception):
    """The columns do not have the same number of entries: ``counts`` by name."""

    def __init__(self, counts: dict[str, int]) -> None:
        super().__init__(counts)
        self.counts = counts


def align_columns(columns: Mapping[str, Iterator[Any]]) -> Iterator[dict[str, Any]]:
    """Yield slices of equal length of all ``columns`` (iterators of Arrow arrays).

    Raises:
        UnequalLengthsError: one of them ends before the others; found at its end, not before.
    """
    heads: dict[str, Any] = {}
    done = 0
    while True:
        for name, arrays in columns.items():
            while name not in heads or len(heads[name]) == 0:
                following = next(arrays, None)
                if following is None:
                    heads.pop(name, None)
                    break
                heads[name] = following
        if not heads:
            return
        if len(heads) < len(columns):
            rest = {name: len(heads.get(name, ())) + sum(map(len, arrays)) for name, arrays in columns.items()}
            raise UnequalLengthsError({name: done + count for name, count in rest.items()})
        length = min(map(len, heads.values()))
        yield {name: array.slice(0, length) for name, array in heads.items()}
        heads = {name: array.slice(length) for name, array in heads.items()}
        done += length


def slice_columns(columns: Mapping[str, Any], batch_bytes: int) -> Iterator[dict[str, Any]]:
    """Yield ``columns`` in slices of at most ``batch_bytes`` and the maximum of rows; a larger record is alone."""
    ends = np.cumsum(_measure_rows(list(columns.values())))
    start, before = 0, 0
    while start < len(ends):
        end = max(start + 1, int(np.searchsorted(ends, before + batch_bytes, side="right")))
        end = min(end, start + MAXIMUM_BATCH_ROWS)
        yield {name: array.slice(start, end - start) for name, array in columns.items()}
        start, before = end, int(ends[end - 1])


def _measure_rows(arrays: list[Any]) -> Integers:
    sizes: Integers = np.full(len(arrays[0]), ROW_BYTES, np.int64)
    for array in arrays:
        if not pa.types.is_list(array.type):
            sizes += _measure_bytes(array)
            continue
        flat = array.flatten()
        each = HEADER_BYTES + _measure_bytes(flat.field("key")) + _measure_bytes(flat.field("value"))
        ends = np.concatenate(([0], np.cumsum(each)))
        counts = np.concatenate(([0], np.cumsum(pc.fill_null(pc.list_value_length(array), 0).to_numpy())))
        sizes += np.diff(ends[counts])
    return sizes


def _measure_bytes(array: Any) -> Integers:
    return np.asarray(pc.fill_null(pc.binary_length(array), 0).to_numpy(), np.int64)
