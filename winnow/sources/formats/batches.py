"""Cuts rows into batches of bounded size, and numbers them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.files.record_batch import HEADER_BYTES, MAXIMUM_BATCH_ROWS, ROW_BYTES, Integers
from winnow.sources.input_errors import Place

Batch = TypeVar("Batch", bound=Sized)

_NODE_BYTES = 16


def number_batches(uri: str, unit: str, batches: Iterable[Batch]) -> Iterator[tuple[Place, Batch]]:
    """Yield the batches of an object that have rows, with the number of each row from 1; ``unit``: as of a place."""
    done = 0
    for batch in batches:
        if len(batch):
            yield Place(uri, unit, np.arange(done + 1, done + 1 + len(batch))), batch
            done += len(batch)


def slice_by_size(sizes: Integers, batch_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges whose records, of ``sizes`` bytes, fit into a batch; a larger record is alone."""
    ends = np.cumsum(sizes + ROW_BYTES)
    start, before = 0, 0
    while start < len(ends):
        end = max(start + 1, int(np.searchsorted(ends, before + batch_bytes, side="right")))
        end = min(end, start + MAXIMUM_BATCH_ROWS)
        yield start, end
        start, before = end, int(ends[end - 1])


def measure_bytes(column: Any) -> Integers:
    """Return the bytes of each value of a byte or string column, perhaps of a dictionary; 0 for null.

    Raises:
        ArrowInvalid: a place outside the dictionary: Arrow does not check before it reads there.
    """
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_dictionary(column.type):
        lengths = np.append(measure_bytes(column.dictionary), 0)
        places = column.indices.drop_null().to_numpy()
        if len(places) and not 0 <= places.min() <= places.max() < len(column.dictionary):
            raise pa.ArrowInvalid("a place outside the dictionary")
        return np.asarray(lengths[pc.fill_null(column.indices, len(column.dictionary)).to_numpy()], np.int64)
    return np.asarray(pc.fill_null(pc.binary_length(column), 0).to_numpy(), np.int64)


def measure_headers(column: Any) -> Integers:
    """Return the bytes of the headers of each record, lists of key and value."""
    flat = column.flatten()
    each = HEADER_BYTES + measure_bytes(flat.field("key")) + measure_bytes(flat.field("value"))
    ends = np.concatenate(([0], np.cumsum(each)))
    counts = np.concatenate(([0], np.cumsum(pc.fill_null(pc.list_value_length(column), 0).to_numpy())))
    return np.diff(ends[counts])


def group_values(values: Iterable[Any], batch_bytes: int) -> Iterator[list[Any]]:
    """Yield decoded values in groups whose records fit into a batch, roughly; a larger one is alone."""
    group: list[Any] = []
    group_bytes = 0
    for value in values:
        size_bytes = ROW_BYTES + measure_value(value)
        if group and (group_bytes + size_bytes > batch_bytes or len(group) >= MAXIMUM_BATCH_ROWS):
            yield group
            group, group_bytes = [], 0
        group.append(value)
        group_bytes += size_bytes
    if group:
        yield group


def measure_value(value: Any) -> int:
    """Return roughly the bytes that a decoded value has as JSON text."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(name)) + 4 + measure_value(member) for name, member in value.items())
    if isinstance(value, list):
        return sum(1 + measure_value(member) for member in value)
    return _NODE_BYTES
