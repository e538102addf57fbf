"""Counts the records of a segment file, to compare with its manifest entry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.model import Segment

Offsets = npt.NDArray[np.int64]


@dataclass(slots=True)
class FileFigures:
    """The figures of one file, counted batch by batch."""

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    lowest_offset: int | None = None
    highest_offset: int | None = None
    tombstones: int = 0
    keyless: int = 0
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    wrong_partition: int = 0
    order_violations: int = 0

    def add(self, batch: pa.RecordBatch, partition: int) -> Offsets:
        """Count one batch and return its offsets.

        Raises:
            BadInputError: a record without offset.
        """
        offsets = read_offsets(batch)
        if len(offsets) == 0:
            return offsets
        first, last = int(offsets[0]), int(offsets[-1])
        self.order_violations += int((offsets[1:] <= offsets[:-1]).sum())
        if self.last_offset is not None and first <= self.last_offset:
            self.order_violations += 1
        self.first_offset = first if self.first_offset is None else self.first_offset
        self.last_offset = last
        self.lowest_offset = _find_minimum(self.lowest_offset, int(offsets.min()))
        self.highest_offset = _find_maximum(self.highest_offset, int(offsets.max()))
        self.records += len(offsets)
        self.tombstones += batch.column("value").null_count
        self.keyless += batch.column("key").null_count
        same = pc.equal(batch.column("partition"), partition).fill_null(False)
        self.wrong_partition += len(offsets) - int(same.true_count)
        bounds = pc.min_max(batch.column("timestamp").cast(pa.int64()))
        if bounds["min"].is_valid:
            self.min_timestamp_ms = _find_minimum(self.min_timestamp_ms, bounds["min"].as_py() // 1000)
            self.max_timestamp_ms = _find_maximum(self.max_timestamp_ms, bounds["max"].as_py() // 1000)
        return offsets

    def agrees_with(self, segment: Segment) -> bool:
        """Check whether the manifest entry has these figures."""
        return (
            self.records == segment.records
            and self.lowest_offset == segment.first_offset
            and self.highest_offset == segment.last_offset
            and self.tombstones == segment.tombstones
            and self.keyless == segment.keyless
            and self.min_timestamp_ms == segment.min_timestamp_ms
            and self.max_timestamp_ms == segment.max_timestamp_ms
        )


def read_offsets(batch: pa.RecordBatch) -> Offsets:
    """Return the offsets of a batch.

    Raises:
        BadInputError: a record without offset.
    """
    column = batch.column("offset")
    if column.null_count:
        raise BadInputError("The segment file has a record without offset.")
    values: Offsets = column.to_numpy(zero_copy_only=False)
    return values


def _find_minimum(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def _find_maximum(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)
