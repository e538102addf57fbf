"""Makes chunks of records from the columns that a layout has, and checks offsets, partitions and timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.files.record_batch import (
    MAXIMUM_OFFSET,
    MAXIMUM_TIMESTAMP_MS,
    NO_TIMESTAMP_MS,
    RECORD_SCHEMA,
    TIMESTAMP_TYPES,
)
from winnow.sources.formats.column_values import make_header_column
from winnow.sources.formats.rows import Rows
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.objects import ArchiveObject, RecordChunk

_PARTITION = (0, 2**31 - 1)
_OFFSET = (0, MAXIMUM_OFFSET)
_TIMESTAMP = (NO_TIMESTAMP_MS, MAXIMUM_TIMESTAMP_MS)


_TYPE_CHARACTERS = 80


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


def read_content(place: Place, rows: Rows, columns: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return key, value and headers as arguments of :func:`make_chunk`, each field that ``columns`` names one for.

    ``columns``: None where columns are called like the fields.

    Raises:
        BadInputError: a column is not as it has to be.
    """
    named = {name: name for name in rows.names} if columns is None else columns
    content: dict[str, Any] = {}
    structured = set()
    for name, make in (("key", rows.make_bytes), ("value", rows.make_bytes), ("headers", rows.make_headers)):
        if name in named:
            content[name], is_structured = make(place, named[name])
            structured |= {name} if is_structured else set()
    return {**content, "structured": structured}


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


def tell_by_name(archive: ArchiveObject, place: Place) -> dict[str, Any]:
    """Return the partition and the offsets that the name of ``archive`` tells of its records at ``place``."""
    first, count = int(place.rows[0]) - 1, len(place.rows)
    return {"partition": repeat_partition(archive, count), "offset": derive_offsets(archive, first, count)}


def repeat_partition(archive: ArchiveObject, count: int) -> Any:
    """Return the partition that the name tells, for each of ``count`` records; None if it tells none."""
    if archive.partition is None:
        return None
    return pa.array(np.full(count, archive.partition, np.int64))


def derive_offsets(archive: ArchiveObject, first: int, count: int) -> Any:
    """Return the offsets of ``count`` records after ``first`` others: the name tells that of the object's first one.

    None if the name tells none.
    """
    if archive.first_offset is None:
        return None
    start = archive.first_offset + first
    return pa.array(np.arange(start, start + count, dtype=np.int64))
