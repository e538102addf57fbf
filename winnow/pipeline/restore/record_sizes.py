"""Measures a log's records before the first one is written: what the target has to take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.files.segments import read_offsets
from winnow.kafka.transactional_writer import QUEUE_KILOBYTES
from winnow.pipeline.restore.source_log import SourceLog
from winnow.values.model import OffsetRange

BATCH_OVERHEAD_BYTES: Final = 128
"""Maximum bytes of a batch of one record besides its key, value and headers; in Kafka 61 and at most 36."""
HEADER_OVERHEAD_BYTES: Final = 10
"""Maximum bytes of a header besides its name and value: two lengths."""
MAXIMUM_RECORD_BYTES: Final = QUEUE_KILOBYTES << 10
"""Maximum size of a record that can be restored: what the client library holds in memory."""


@dataclass(frozen=True, slots=True)
class LargestRecord:
    """The largest record of a log. ``size_bytes``: of a batch with it alone, uncompressed; offset: of the log."""

    partition: int
    offset: int
    size_bytes: int


def find_largest_record(
    source: SourceLog, ranges: Mapping[int, OffsetRange], on_progress: Callable[[int], None]
) -> LargestRecord | None:
    """Find the largest record of ``ranges`` by reading them; None: there is no record.

    Raises:
        BadInputError: it is larger than :data:`MAXIMUM_RECORD_BYTES`.
        DamagedSegmentError: a segment of the log cannot be read.
    """
    largest: LargestRecord | None = None
    for number, wanted in sorted(ranges.items()):
        for batch in source.read(number, wanted, on_progress):
            sizes = compute_record_sizes(batch)
            row = int(np.argmax(sizes))
            if largest is None or sizes[row] > largest.size_bytes:
                largest = LargestRecord(number, int(read_offsets(batch)[row]), int(sizes[row]))
    if largest is not None and largest.size_bytes > MAXIMUM_RECORD_BYTES:
        raise BadInputError(
            f"{source.topic}-{largest.partition} has a record of {largest.size_bytes:,} bytes at offset "
            f"{largest.offset}. The client library takes records of at most {MAXIMUM_RECORD_BYTES:,} bytes.",
            left="Nothing was written.",
            next="End before it with --until-offset.",
        )
    return largest


def compute_record_sizes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Compute how many bytes a batch of Kafka's has at most with each record alone, uncompressed."""
    sizes = np.full(batch.num_rows, BATCH_OVERHEAD_BYTES, np.int64)
    for name in ("key", "value"):
        sizes += _measure(batch.column(name))
    headers = batch.column("headers")
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    if counts.any():
        flat = headers.flatten()
        each = _measure(flat.field("key")) + _measure(flat.field("value")) + HEADER_OVERHEAD_BYTES
        ends = np.cumsum(counts)
        sums = np.concatenate(([0], np.cumsum(each)))
        sizes += sums[ends] - sums[ends - counts]
    return sizes


def _measure(column: pa.Array) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = (
        pc.binary_length(column.cast(pa.large_binary())).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return lengths
