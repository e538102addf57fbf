"""Reads archives of Confluent's S3 sink: values, keys and headers lie beside each other and are joined by line number.

No format has offsets or timestamps. The first record of an object has the offset in its name, each further one the
next: these offsets are derived, and lower than the true ones behind a gap (transaction markers, records that the sink
skipped, tombstones among the values, records that a partitioner put elsewhere).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.files.record_batch import HEADERS as HEADERS_TYPE
from winnow.files.record_batch import MAXIMUM_OFFSET, RECORD_SCHEMA
from winnow.sources.input_errors import make_file_error
from winnow.sources.layouts.aligned_columns import UnequalLengthsError, align_columns, slice_columns
from winnow.sources.layouts.confluent_names import HEADERS, KEY, VALUE, parse_last_offset, parse_name
from winnow.sources.layouts.objects import ArchiveObject, ReadOptions, RecordChunk, StoredObject
from winnow.sources.layouts.part_reader import LINE_END, PartReader


def read_confluent(
    obj: ArchiveObject, options: ReadOptions | None = None, *, separator: bytes = LINE_END
) -> Iterator[RecordChunk]:
    """Yield the records of one archive object; one without values holds tombstones.

    Headers are empty where there is no object of headers, keys null where there is none of keys.

    Args:
        obj: as :func:`winnow.sources.layouts.confluent_objects.pair_objects` makes them.
        options: the size of batches.
        separator: what ends each value or key in ``bin`` (``format.bytearray.separator``).

    Raises:
        BadInputError: an object is damaged or cut off, or values, keys and headers do not line up.
        ServiceError: an object store cannot be reached.
    """
    options = options or ReadOptions()
    readers = {role: _make_reader(obj.parts[role], options, separator) for role in obj.parts}
    columns: dict[str, Any] = {role: reader.read() for role, reader in readers.items()}
    done = 0
    try:
        for aligned in align_columns(columns):
            for part in slice_columns(aligned, options.batch_bytes):
                records = _make_batch(obj, part, done)
                structured = frozenset(role for role, reader in readers.items() if reader.is_structured)
                yield RecordChunk(records, structured=structured)
                done += records.num_rows
    except UnequalLengthsError as found:
        raise _make_unequal_error(obj, found.counts) from None
    finally:
        for column in columns.values():
            column.close()


def _make_reader(part: StoredObject, options: ReadOptions, separator: bytes) -> PartReader:
    name = parse_name(part.uri)
    if name is None:
        raise make_file_error(
            part.uri, "it is not named as Confluent's S3 sink names objects", "choose another --layout"
        )
    return PartReader(part, name, options.batch_bytes, separator)


def _make_batch(obj: ArchiveObject, columns: Mapping[str, Any], done: int) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    last = parse_last_offset(obj.uri)
    if last is not None and obj.first_offset is not None and obj.first_offset + done + rows - 1 > last:
        raise make_file_error(
            obj.uri,
            f"it holds more records than its name has offsets, from {obj.first_offset} to {last}",
            "is it another program's? Leave it out with --exclude",
        )
    if obj.first_offset is not None and obj.first_offset + done + rows - 1 > MAXIMUM_OFFSET:
        raise make_file_error(
            obj.uri, "its name has an offset too large for its records", "leave it out with --exclude"
        )
    first = pa.nulls(rows, pa.int64()) if obj.first_offset is None else _count_from(obj.first_offset + done, rows)
    arrays = {
        "row": _count_from(done + 1, rows),
        "partition": pa.array(np.full(rows, obj.partition, np.int32))
        if obj.partition is not None
        else pa.nulls(rows, pa.int32()),
        "offset": first,
        "timestamp": pa.nulls(rows, pa.int64()),
        "timestampType": pa.array(np.zeros(rows, np.int32)),
        "key": columns.get(KEY, pa.nulls(rows, pa.binary())),
        "value": columns.get(VALUE, pa.nulls(rows, pa.binary())),
        "headers": columns.get(HEADERS, pa.array([[]] * rows, HEADERS_TYPE)),
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in RECORD_SCHEMA.names], schema=RECORD_SCHEMA)


def _count_from(first: int, rows: int) -> Any:
    return pa.array(np.arange(first, first + rows, dtype=np.int64))


def _make_unequal_error(obj: ArchiveObject, counts: dict[str, int]) -> Exception:
    shown = ", ".join(f"{obj.parts[role].uri} has {counts[role]}" for role in counts)
    wrong = f"values, keys and headers do not line up, so no key can be told to belong to a value: {shown}"
    return make_file_error(
        obj.uri,
        wrong,
        "this sink writes such objects if it skips errors (errors.tolerance=all), or if bytes hold line ends; "
        "leave all of them out with --exclude",
    )
