"""Compares records that were read back with those of the log: key, value, headers and timestamp, column by column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from winnow.files.record_batch import HEADERS
from winnow.kafka.record_columns import read_times_ms

_PLAIN = ("key", "value", "timestamp")


def find_difference(expected: pa.RecordBatch, found: pa.RecordBatch) -> tuple[str, int] | None:
    """Find the first column in which two batches of as many records differ, and the first row that does; None: none.

    What Kafka or its clients cannot tell apart is the same: no headers and an empty list of them, no timestamp and one
    of 1970's first millisecond or before.
    """
    for name in _PLAIN:
        ours, theirs = _normalize(name, expected.column(name)), _normalize(name, found.column(name))
        if not ours.equals(theirs):
            return name, _find_row(ours.to_pylist(), theirs.to_pylist())
    headers, others = _cast_headers(expected), _cast_headers(found)
    # Rows are not brought into one form for this: Arrow's if_else over lists costs more than all of reading back.
    if _count_headers(headers).equals(_count_headers(others)) and headers.flatten().equals(others.flatten()):
        return None
    return "headers", _find_row(
        [each or None for each in headers.to_pylist()], [each or None for each in others.to_pylist()]
    )


def _normalize(name: str, column: pa.Array) -> Any:
    """Return a column as Kafka has it: times in milliseconds, and none that its clients cannot write."""
    if name != "timestamp":
        return column
    times = read_times_ms(column)
    return pc.if_else(pc.greater(times, 0), times, pa.scalar(None, pa.int64()))


def _cast_headers(batch: pa.RecordBatch) -> pa.Array:
    return batch.column("headers").cast(HEADERS)


def _count_headers(headers: pa.Array) -> pa.Array:
    return pc.list_value_length(headers).fill_null(0)


def _find_row(ours: list[Any], theirs: list[Any]) -> int:
    return next(index for index, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other)
