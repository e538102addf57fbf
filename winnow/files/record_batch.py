"""The schema of incoming record batches, and the bounds of their fields.

A batch has at most :data:`MAXIMUM_BATCH_ROWS` records and the requested bytes, so memory stays bounded and the 32-bit
offsets of plain binary columns cannot overflow. A larger record is a batch by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.files.partitioner import assign_partitions

HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

RECORD_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("timestampType", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
"""``row``: line or row in its file, from 1. ``partition``: null only for a keyless record that names none. ``offset``:
null when absent. ``timestamp``: milliseconds since the epoch, null for none. Headers: null and an empty list differ."""

MAXIMUM_OFFSET = 2**63 - 1
MAXIMUM_TIMESTAMP_MS = (2**63 - 1) // 1000
"""Segments hold timestamps as 64-bit microseconds."""
NO_TIMESTAMP_MS = -1
"""Kafka's ``RecordBatch.NO_TIMESTAMP``."""
TIMESTAMP_TYPES = (-1, 1)
"""Lowest and highest of Kafka's ``TimestampType``: -1 none, 0 create time, 1 log append time."""

MAXIMUM_BATCH_ROWS = 1 << 16
DEFAULT_BATCH_BYTES = 16 << 20
MAXIMUM_BATCH_BYTES = 1 << 30
"""Above this the 32-bit offsets of a binary column could overflow. No broker takes a record near it."""
ROW_BYTES = 48
"""Arrow's bytes for a record without its key, value and headers: fixed columns, offsets, validity."""
HEADER_BYTES = 10
"""Arrow's bytes for a header without its key and value."""

Integers = npt.NDArray[np.int64]


def make_headers(counts: Integers, keys: Any, values: Any) -> Any:
    """Build the ``headers`` column: ``counts`` headers per record, -1 for null, from flat ``keys`` and ``values``."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(np.maximum(counts, 0), out=offsets[1:])
    flat = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    missing = counts < 0
    mask = pa.array(missing) if missing.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=HEADERS, mask=mask)


def make_batch(columns: Mapping[str, Any], partitions: int) -> pa.RecordBatch:
    """Build a batch of :data:`RECORD_SCHEMA` from checked columns; a record without a partition gets its key's.

    ``partitions``: the topic's number of partitions, at least 1.
    """
    partition = assign_partitions(columns["key"], columns["partition"], partitions)
    complete = {**columns, "partition": partition}
    return pa.RecordBatch.from_arrays([complete[name] for name in RECORD_SCHEMA.names], schema=RECORD_SCHEMA)
