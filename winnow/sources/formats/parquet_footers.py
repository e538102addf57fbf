"""Reads from the footer of a Parquet object which offsets its records have, without reading the records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import WinnowError
from winnow.sources.input_errors import open_to_read

_MAGIC = b"PAR1"
PARTITION = "partition"
OFFSET = "offset"


def read_footer_offsets(uri: str, partition: int | None, partitions: int) -> dict[int, tuple[int, int]] | None:
    """Return the lowest and the highest offset per partition; None if the footer does not tell them for certain.

    ``partition``: that of records that name none. ``partitions``: how many the topic has; with others, records have to
    be read to say which is wrong.
    """
    try:
        with open_to_read(uri) as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                return None
            metadata = pq.ParquetFile(stream).metadata
    except (WinnowError, OSError, pa.ArrowException):
        return None  # whoever reads the records says what is wrong
    places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    found: dict[int, tuple[int, int]] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        offsets = _read_bounds(group, places.get(OFFSET))
        own = (partition, partition) if PARTITION not in places else _read_bounds(group, places[PARTITION])
        if offsets is None or own is None or own[0] is None or own[0] != own[1] or not 0 <= own[0] < partitions:
            return None
        known = found.get(own[0], offsets)
        found[own[0]] = min(known[0], offsets[0]), max(known[1], offsets[1])
    return found


def _read_bounds(group: Any, place: int | None) -> tuple[int, int] | None:
    """Return the bounds of an integer column of a row group, if it has no nulls."""
    statistics = None if place is None else group.column(place).statistics
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return None
    low, high = statistics.min, statistics.max
    return (low, high) if isinstance(low, int) and isinstance(high, int) and low >= 0 else None
