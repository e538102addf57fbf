"""Makes chunks of records from the columns that a layout has, and checks offsets, partitions and timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.files.record_batch import (
    MAXIMUM_BATCH_ROWS,
    MAXIMUM_OFFSET,
    MAXIMUM_TIMESTAMP_MS,
    NO_TIMESTAMP_MS,
    RECORD_SCHEMA,
    ROW_BYTES,
    TIMESTAMP_TYPES,
    Integers,
    make_headers,
)
from winnow.sources.input_errors import RecordFault, make_file_error, make_record_error
from winnow.sources.layouts.objects import RecordChunk

_PARTITION = (0, 2**31 - 1)
_OFFSET = (0, MAXIMUM_OFFSET)
_TIMESTAMP = (NO_TIMESTAMP_MS, MAXIMUM_TIMESTAMP_MS)

DAMAGED_ADVICE = "is the object cut off or damaged? Copy it from its source again, or leave it out with --exclude"

_TYPE_CHARACTERS = 80

HeaderPairs = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where records come from: the object, its unit (``line``, ``row`` or ``record``), and the number of each."""

    uri: str
    unit: str
    rows: Integers

    def make_error(self, index: int, wrong: str, advice: str, **known: int | None) -> BadInputError:
        """Make the error about the record at ``index``; ``known``: its partition and offset."""
        return make_record_error(self.uri, self.unit, int(self.rows[index]), RecordFault(wrong, advice, **known))


def make_chunk(
    place: Place,
    *,
    key: Any = None,
    value: Any = None,
    partition: Any = None,
    offset: Any = None,
    timestamp: Any = None,
    timestamp_type: Any = None,
    headers: Any = None,
    topics: Any = None,
    structured: Iterable[str] = (),
) -> RecordChunk:
    """Make a chunk from Arrow columns; one that is None is null in all records, but headers an empty list.

    Key and value are binary, integers of any width; ``headers`` is as :func:`make_header_column` makes it.

    Raises:
        BadInputError: a partition, an offset, a timestamp or its type is out of range.
    """
    count = len(place.rows)
    checked = _Checked(place, count)
    partition = checked.read("partition", partition, _PARTITION)
    checked.partition = partition
    offset = checked.read("offset", offset, _OFFSET)
    checked.offset = offset
    timestamp = checked.read("timestamp", timestamp, _TIMESTAMP)
    columns = {
        "row": pa.array(place.rows, pa.int64()),
        "partition": partition.cast(pa.int32()),
        "offset": offset,
        "timestamp": pc.if_else(pc.equal(timestamp, NO_TIMESTAMP_MS), pa.scalar(None, pa.int64()), timestamp),
        "timestampType": checked.read("timestampType", timestamp_type, TIMESTAMP_TYPES).fill_null(0).cast(pa.int32()),
        "key": pa.nulls(count, pa.binary()) if key is None else key,
        "value": pa.nulls(count, pa.binary()) if value is None else value,
        "headers": make_header_column([None] * count) if headers is None else headers,
    }
    batch = pa.RecordBatch.from_arrays([columns[name] for name in RECORD_SCHEMA.names], schema=RECORD_SCHEMA)
    return RecordChunk(batch, topics, frozenset(structured))


class _Checked:
    """Reads integer columns; an error names the partition and offset that were read before."""

    def __init__(self, place: Place, count: int) -> None:
        self._place = place
        self._count = count
        self.partition: Any = None
        self.offset: Any = None

    def read(self, name: str, column: Any, bounds: tuple[int, int]) -> Any:
        if column is None:
            return pa.nulls(self._count, pa.int64())
        if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
            wrong = f"column {name} is of type {str(column.type)[:_TYPE_CHARACTERS]}"
            raise make_file_error(self._place.uri, wrong, "it must be an integer; or choose another --layout")
        # As signed numbers unsigned ones from 2^63 on are negative; all of them are out of range.
        wraps = pc.less(column.cast(pa.int64(), safe=False), 0) if pa.types.is_uint64(column.type) else None
        column = column.cast(pa.int64(), safe=False)
        bad = pc.or_(pc.less(column, bounds[0]), pc.greater(column, bounds[1])).fill_null(False)
        bad = bad if wraps is None else pc.or_(bad, wraps.fill_null(False))
        if pc.any(bad).as_py():
            index = pc.index(bad, True).as_py()
            raise self._place.make_error(
                index,
                f"{name} is out of range",
                f"it must be from {bounds[0]} to {bounds[1]}; {DAMAGED_ADVICE}",
                partition=None if self.partition is None else self.partition[index].as_py(),
                offset=None if self.offset is None else self.offset[index].as_py(),
            )
        return column


def make_header_column(lists: Sequence[HeaderPairs | None]) -> Any:
    """Build the headers of each record from its pairs; None is the empty list."""
    counts = np.fromiter((len(each) if each else 0 for each in lists), np.int64, len(lists))
    flat = [pair for each in lists if each for pair in each]
    keys = pa.array([key for key, _ in flat], pa.string())
    return make_headers(counts, keys, pa.array([value for _, value in flat], pa.binary()))


def make_text_column(texts: Sequence[str | None]) -> Any:
    """Build a binary column from text."""
    return pa.array(texts, pa.string()).cast(pa.binary())


def slice_by_size(sizes: npt.NDArray[np.int64], batch_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges whose records, of ``sizes`` bytes, fit into a batch; a larger record is alone."""
    ends = np.cumsum(sizes + ROW_BYTES)
    start, before = 0, 0
    while start < len(ends):
        end = max(start + 1, int(np.searchsorted(ends, before + batch_bytes, side="right")))
        end = min(end, start + MAXIMUM_BATCH_ROWS)
        yield start, end
        start, before = end, int(ends[end - 1])
