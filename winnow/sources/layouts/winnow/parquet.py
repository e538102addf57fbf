"""Reads Parquet files with the columns of Spark's Kafka source in bounded batches, each column checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from winnow.files.record_batch import (
    MAXIMUM_BATCH_BYTES,
    MAXIMUM_BATCH_ROWS,
    MAXIMUM_OFFSET,
    MAXIMUM_TIMESTAMP_MS,
    NO_TIMESTAMP_MS,
    ROW_BYTES,
    TIMESTAMP_TYPES,
    Integers,
    make_batch,
    make_headers,
)
from winnow.sources.formats.batches import measure_bytes, measure_headers, slice_by_size
from winnow.sources.formats.parquet import NOT_PARQUET, ParquetReader, translate_parquet_errors
from winnow.sources.input_errors import RecordFault, make_file_error, make_record_error, open_to_read
from winnow.sources.layouts.winnow.line_faults import MAXIMUM_PARTITIONS
from winnow.sources.topic_filter import TopicFilter

COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers", "topic")

REQUIRED = ("key", "value")

_ACCEPTED = {
    "key": "binary or string",
    "value": "binary or string",
    "partition": "an integer",
    "offset": "an integer",
    "timestamp": "a timestamp or an integer of milliseconds",
    "timestampType": "an integer",
    "headers": "list<struct<key: string, value: binary>>",
    "topic": "a string",
}

_TYPE_CHARACTERS = 120


def check_schema(schema: pa.Schema) -> tuple[str, str] | None:
    """Return the fault of a file's columns and what to do about it; None if there is none."""
    for name in COLUMNS:
        count = len(schema.get_all_field_indices(name))
        if count > 1:
            return f"column {name} is there {count} times", "write it once"
        if count == 0 and name in REQUIRED:
            why = "keep null values: they are tombstones" if name == "value" else "records need keys"
            return f"column {name} is missing", f"write the columns of Spark's Kafka source; {why}"
        if count and not _is_accepted(name, schema.field(name).type):
            shown = str(schema.field(name).type)
            shown = shown if len(shown) <= _TYPE_CHARACTERS else shown[:_TYPE_CHARACTERS] + "..."
            return f"column {name} is of type {shown}", f"it must be {_ACCEPTED[name]}"
    return None


def _is_accepted(name: str, kind: Any) -> bool:
    if types.is_null(kind):
        return True
    checks: dict[str, Callable[[Any], Any]] = {
        "key": _is_bytes,
        "value": _is_bytes,
        "timestamp": lambda kind: types.is_timestamp(kind) or types.is_integer(kind),
        "headers": _is_headers,
        "topic": _is_bytes,
    }
    return bool(checks.get(name, types.is_integer)(kind))


def _is_text(kind: Any) -> bool:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(binary or types.is_fixed_size_binary(kind) or _is_text(kind) or types.is_null(kind))


def _is_headers(kind: Any) -> bool:
    if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    named = kind.value_type.num_fields == len(fields) and set(fields) == {"key", "value"}
    return named and _is_text(fields["key"]) and _is_bytes(fields["value"])


_MS_PER_SECOND = 1000

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}

_BEYOND_S = MAXIMUM_TIMESTAMP_MS // _MS_PER_SECOND + 1

Mask = npt.NDArray[np.bool_]


class RowFaultError(Exception):
    """The record at ``index`` (from 0) of a slice is invalid."""

    def __init__(self, index: int, fault: RecordFault) -> None:
        super().__init__(index, fault)
        self.index = index
        self.fault = fault


class _Faults:
    """The earliest fault found in a slice."""

    def __init__(self) -> None:
        self.index: int | None = None
        self.wrong = ("", "")

    def note(self, bad: Mask, wrong: str, advice: str) -> None:
        """Record a fault of the records marked in ``bad``."""
        if bad.any():
            index = int(np.argmax(bad))
            if self.index is None or index < self.index:
                self.index, self.wrong = index, (wrong, advice)


def convert_to_record_schema(
    batch: pa.RecordBatch, *, rows: Integers, topic: str, partitions: int | None
) -> pa.RecordBatch:
    """Convert ``batch``, of checked types, to the record schema; ``rows`` are its row numbers in the file.

    ``partitions``: as in :func:`winnow.sources.layouts.winnow.files.read_file`.

    Raises:
        RowFaultError: the earliest record that is not as documented.
    """
    faults = _Faults()
    partition = _read_integers(
        batch,
        "partition",
        (0, (partitions or MAXIMUM_PARTITIONS) - 1),
        faults,
        f"topic {topic} has {partitions or MAXIMUM_PARTITIONS}, numbered from 0",
    )
    offset = _read_integers(batch, "offset", (0, MAXIMUM_OFFSET), faults, "write offsets from 0 to 2^63 - 1, or null")
    timestamp = _read_timestamps(batch, faults)
    advice = "write 0 (create time), 1 (log append time) or -1 (none)"
    kind = _read_integers(batch, "timestampType", TIMESTAMP_TYPES, faults, advice)
    headers = _read_headers(batch, faults)
    if faults.index is not None:
        known_partition, known_offset = partition[faults.index].as_py(), offset[faults.index].as_py()
        fault = RecordFault(*faults.wrong, partition=known_partition, offset=known_offset)
        raise RowFaultError(faults.index, fault)
    columns = {
        "row": pa.array(rows, pa.int64()),
        "partition": partition.cast(pa.int32()),
        "offset": offset,
        "timestamp": timestamp,
        "timestampType": kind.fill_null(0).cast(pa.int32()),
        "key": _decode_dictionary(batch.column("key"), pa.binary()),
        "value": _decode_dictionary(batch.column("value"), pa.binary()),
        "headers": headers,
    }
    return make_batch(columns, partitions or 1)


def _get_column(batch: pa.RecordBatch, name: str) -> Any:
    """Return the column, or nulls where the file has none."""
    return batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows)


def _list_valid(column: Any) -> Mask:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _decode_dictionary(column: Any, kind: Any) -> Any:
    """Return ``column`` as ``kind`` without dictionary; strings become their UTF-8 bytes."""
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type.equals(kind) else column.cast(kind, safe=False)


def _read_integers(batch: pa.RecordBatch, name: str, bounds: tuple[int, int], faults: _Faults, advice: str) -> Any:
    """Return the column as int64; values outside ``bounds`` are recorded as faults and become null."""
    column = _get_column(batch, name)
    if types.is_null(column.type):
        return column.cast(pa.int64())
    low, high = bounds
    values, valid = _read_numbers(column), _list_valid(column)
    if types.is_uint64(column.type):
        # As signed numbers those from 2^63 on are negative; all bounds are below.
        above = valid & (values < 0)
        below = np.zeros_like(above)
    else:
        above, below = valid & (values > high), valid & (values < low)
    above |= valid & (values > high)
    faults.note(below, f"{name} is below what it can be", advice)
    faults.note(above, f"{name} is above what it can be", advice)
    return pa.array(values, pa.int64(), mask=~valid | below | above)


def _read_numbers(column: Any) -> npt.NDArray[np.int64]:
    """Return an integer or timestamp column as signed numbers, 0 for null."""
    plain = column.cast(pa.int64(), safe=False)
    return np.asarray(plain.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _read_timestamps(batch: pa.RecordBatch, faults: _Faults) -> Any:
    """Return the timestamps in milliseconds; naive ones are UTC, and Kafka's -1 becomes null."""
    column = _get_column(batch, "timestamp")
    bounds = (NO_TIMESTAMP_MS, MAXIMUM_TIMESTAMP_MS)
    if types.is_timestamp(column.type):
        values, valid = _read_numbers(column), _list_valid(column)
        per_second = _PER_SECOND[column.type.unit]
        if per_second > _MS_PER_SECOND:
            whole, part = np.divmod(values, per_second // _MS_PER_SECOND)
            faults.note(
                valid & (part != 0),
                "timestamp is not a whole number of milliseconds",
                "Kafka's timestamps are; round it before",
            )
            values = whole
        elif per_second < _MS_PER_SECOND:
            # Clipped before the multiplication, so that it stays out of bounds instead of wrapping into them.
            values = np.clip(values, -_BEYOND_S, _BEYOND_S) * _MS_PER_SECOND
        column = pa.array(values, pa.int64(), mask=~valid)
    advice = f"write milliseconds since the epoch up to {MAXIMUM_TIMESTAMP_MS}, or null or -1 for none"
    checked = _read_integers(pa.RecordBatch.from_arrays([column], ["timestamp"]), "timestamp", bounds, faults, advice)
    return pc.if_else(pc.equal(checked, NO_TIMESTAMP_MS), pa.scalar(None, pa.int64()), checked)


def _read_headers(batch: pa.RecordBatch, faults: _Faults) -> Any:
    column = _get_column(batch, "headers")
    count = batch.num_rows
    if types.is_null(column.type):
        return make_headers(np.full(count, -1, np.int64), pa.array([], pa.string()), pa.array([], pa.binary()))
    counts = np.asarray(pc.fill_null(pc.list_value_length(column), -1).to_numpy(), np.int64)
    flat = column.flatten()
    keys = _decode_dictionary(flat.field("key"), pa.string())
    values = _decode_dictionary(flat.field("value"), pa.binary())
    owners = np.repeat(np.arange(count), np.maximum(counts, 0))
    missing = ~_list_valid(flat)
    _note_header_owners(faults, count, owners[missing], "a header is null", "leave it out, or write its key and value")
    nameless = ~missing & ~_list_valid(keys)
    _note_header_owners(
        faults, count, owners[nameless], "a header has no key", "a header's key is a string, never null"
    )
    garbled = _find_invalid_utf8(keys)
    _note_header_owners(faults, count, owners[garbled], "a header's key is not valid UTF-8", "write it as UTF-8")
    if garbled.any():
        # The keys are not used: the fault is raised first.
        keys = pa.nulls(len(keys), pa.string())
    return make_headers(counts, keys, values)


def _note_header_owners(faults: _Faults, count: int, owners: npt.NDArray[np.int64], wrong: str, advice: str) -> None:
    bad = np.zeros(count, np.bool_)
    bad[owners] = True
    faults.note(bad, wrong, advice)


def _find_invalid_utf8(keys: Any) -> Mask:
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([not _is_decodable(key) for key in keys.cast(pa.binary()).to_pylist()], np.bool_)
    return np.zeros(len(keys), np.bool_)


def _is_decodable(key: bytes | None) -> bool:
    try:
        (key or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


_ADVICE = "copy the file from its source again"


def read_parquet(
    path: str, *, records_of: TopicFilter, partitions: int | None, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``path`` in batches; columns that are not Kafka's are ignored.

    Corruption is detected by the file's structure and, if the writer stored them, by its page checksums.

    Raises:
        BadInputError: a record is not as documented or of another topic, a column is missing or of another type, or
            the file is damaged.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(path) as stream:
        file = _open(path, stream)
        problem = check_schema(file.schema)
        if problem is not None:
            raise make_file_error(path, *problem)
        first = 1
        for batch in file.read(batch_bytes):
            with translate_parquet_errors(path, _ADVICE):
                sizes = _measure_rows(batch)
            if not batch.num_rows:
                continue
            names = batch.column("topic") if "topic" in batch.schema.names else None
            selected = records_of.select_rows(names, path, first, partial(_read_coordinates, batch))
            rows: Integers = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            if selected is not None:
                batch, sizes, rows = batch.filter(pa.array(selected)), sizes[selected], rows[selected]  # noqa: PLW2901
            start = 0
            try:
                for start, end in slice_by_size(sizes, batch_bytes):
                    if sizes[start] + ROW_BYTES > MAXIMUM_BATCH_BYTES:
                        fault = RecordFault("the record is larger than 1 GiB", "no broker accepts it; leave it out")
                        raise RowFaultError(0, fault)
                    part = batch.slice(start, end - start)
                    yield convert_to_record_schema(
                        part, rows=rows[start:end], topic=records_of.topic, partitions=partitions
                    )
            except RowFaultError as found:
                raise make_record_error(path, "row", int(rows[start + found.index]), found.fault) from None


def _read_coordinates(batch: pa.RecordBatch, at: int) -> tuple[int | None, int | None]:
    """Return partition and offset of the record at index ``at``, None where it names none."""
    named = [batch.column(name)[at].as_py() if name in batch.schema.names else None for name in ("partition", "offset")]
    return named[0], named[1]


def list_extra_columns(path: str) -> list[str]:
    """Return the columns of ``path`` that records do not use, in the order of the file.

    Raises:
        BadInputError: this is not Parquet.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(path) as stream:
        return [name for name in _open(path, stream).schema.names if name not in COLUMNS]


def _open(path: str, stream: BinaryIO) -> ParquetReader:
    return ParquetReader(
        path,
        stream,
        COLUMNS,
        is_compact=_is_byte_column,
        most_rows=MAXIMUM_BATCH_ROWS,
        advice=_ADVICE,
        shorter=NOT_PARQUET,
    )


def _is_byte_column(leaf: str) -> bool:
    return leaf in ("key", "value", "topic") or leaf.startswith("headers.")


def _measure_rows(batch: pa.RecordBatch) -> Integers:
    """Return the size in bytes of each record in a batch of the record schema."""
    if "topic" in batch.schema.names:
        measure_bytes(batch.column("topic"))  # takes no space there, but may point outside its dictionary
    sizes = measure_bytes(batch.column("key")) + measure_bytes(batch.column("value"))
    if "headers" not in batch.schema.names or pa.types.is_null(batch.column("headers").type):
        return sizes
    return sizes + measure_headers(batch.column("headers"))
