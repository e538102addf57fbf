"""Reads plain Avro container files whose records carry a Kafka record's fields, or are values alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.errors import BadInputError
from winnow.files.record_batch import (
    HEADER_BYTES,
    MAXIMUM_BATCH_ROWS,
    MAXIMUM_OFFSET,
    MAXIMUM_TIMESTAMP_MS,
    NO_TIMESTAMP_MS,
    RECORD_SCHEMA,
    ROW_BYTES,
    TIMESTAMP_TYPES,
)
from winnow.sources.input_errors import FinerTimestampError, RecordFault, make_file_error, make_record_error
from winnow.sources.layouts.avro_fields import AvroFields, find_fields
from winnow.sources.layouts.avro_file import open_avro
from winnow.sources.layouts.decoded_entries import UNRENDERABLE, list_headers
from winnow.sources.layouts.decoded_times import FinerThanMillisecondError, convert_to_ms
from winnow.sources.layouts.entries import Header, make_header_column
from winnow.sources.layouts.json_text import render_value
from winnow.sources.layouts.objects import ArchiveObject, ReadOptions, RecordChunk, StoredObject

LAYOUT = "avro"

MAXIMUM_PARTITION = 2**31 - 1

_TIMESTAMP_TYPE_NAMES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}

_ADVICE = "write the fields of a Kafka record, or leave the object out with --exclude"


def read_avro_fields(obj: StoredObject) -> AvroFields:
    """Return which fields the records of ``obj`` have, from its schema alone.

    Raises:
        BadInputError: it is missing, damaged or not Avro.
        ServiceError: its object store cannot be reached.
    """
    with open_avro(obj) as file:
        return find_fields(file.schema)


def read_avro(obj: ArchiveObject, options: ReadOptions | None = None) -> Iterator[RecordChunk]:
    """Yield the records of one file.

    Where records have no partition, it is that of the object's name; where they have no offsets, the first has the
    offset of the object's name and each further one the next.

    Raises:
        BadInputError: the file is damaged or cut off, or a record's fields are not a Kafka record's.
        ServiceError: its object store cannot be reached.
    """
    options = options or ReadOptions()
    with open_avro(obj.parts["value"]) as file:
        fields = find_fields(file.schema)
        converter = _Converter(obj, fields.names, options)
        done = 0
        for group in _group_records(obj, fields.names, file.read_records(), options.batch_bytes):
            yield converter.convert(group, done)
            done += len(group.records)


@dataclass(slots=True)
class _Group:
    """Neighbouring records, with the columns whose size is known only once they are rendered."""

    records: list[Any] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[list[Header]] = field(default_factory=list)


def _group_records(
    obj: ArchiveObject, names: Mapping[str, str], records: Iterable[Any], batch_bytes: int
) -> Iterator[_Group]:
    """Yield records in groups of at most ``batch_bytes`` and the maximum of rows; a larger record is alone."""
    key_name, value_name, headers_name = (names.get(name) for name in ("key", "value", "headers"))
    group, size_bytes = _Group(), 0
    for number, record in enumerate(records, 1):
        try:
            key = None if key_name is None else render_value(record[key_name])
            value = render_value(record if value_name is None else record[value_name])
            headers = [] if headers_name is None else list_headers(record[headers_name])
        except UNRENDERABLE:
            fault = RecordFault("its key, value or headers are not what a Kafka record has", _ADVICE, obj.partition)
            raise make_record_error(obj.uri, "row", number, fault) from None
        size = ROW_BYTES + len(key or b"") + len(value or b"")
        if headers:
            size += sum(HEADER_BYTES + len(name) + len(content or b"") for name, content in headers)
        if group.records and (size_bytes + size > batch_bytes or len(group.records) >= MAXIMUM_BATCH_ROWS):
            yield group
            group, size_bytes = _Group(), 0
        group.records.append(record)
        group.keys.append(key)
        group.values.append(value)
        group.headers.append(headers)
        size_bytes += size
    if group.records:
        yield group


class _Converter:
    """Turns groups of records into chunks."""

    def __init__(self, obj: ArchiveObject, names: Mapping[str, str], options: ReadOptions) -> None:
        self._obj = obj
        self._names = names
        self._options = options

    def convert(self, group: _Group, done: int) -> RecordChunk:
        """Return ``group`` as a chunk; ``done`` records of the object came before it."""
        rows = len(group.records)
        columns = {
            "row": np.arange(done + 1, done + rows + 1),
            "partition": self._read_integers(group, done, "partition", 0, MAXIMUM_PARTITION, self._obj.partition),
            "offset": self._read_offsets(group, done),
            "timestamp": self._read_timestamps(group, done),
            "timestampType": self._read_integers(group, done, "timestampType", *TIMESTAMP_TYPES, 0),
            "key": group.keys,
            "value": group.values,
        }
        arrays = {name: pa.array(column, RECORD_SCHEMA.field(name).type) for name, column in columns.items()}
        arrays["timestampType"] = arrays["timestampType"].fill_null(0)
        arrays["headers"] = make_header_column(group.headers)
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in RECORD_SCHEMA.names], schema=RECORD_SCHEMA)
        return RecordChunk(batch, self._read_topics(group, done))

    def _read_offsets(self, group: _Group, done: int) -> Any:
        if "offset" in self._names or self._obj.first_offset is None:
            return self._read_integers(group, done, "offset", 0, MAXIMUM_OFFSET, None)
        first = self._obj.first_offset + done
        if first + len(group.records) - 1 > MAXIMUM_OFFSET:
            raise make_file_error(self._obj.uri, "its name has an offset too large for its records", _ADVICE)
        return np.arange(first, first + len(group.records))

    def _read_integers(
        self, group: _Group, done: int, name: str, minimum: int, maximum: int, otherwise: int | None
    ) -> list[int | None]:
        if name not in self._names:
            return [otherwise] * len(group.records)
        called = self._names[name]
        found: list[Any] = [record[called] for record in group.records]
        if name == "timestampType":
            found = [_TIMESTAMP_TYPE_NAMES.get(each, each) for each in found]
        for index, each in enumerate(found):
            if each is not None and (type(each) is not int or not minimum <= each <= maximum):
                raise self._make_error(name, done + index, f"is no integer from {minimum} to {maximum}")
        return [otherwise if each is None else each for each in found] if otherwise is not None else found

    def _read_timestamps(self, group: _Group, done: int) -> list[int | None]:
        if "timestamp" not in self._names:
            return [None] * len(group.records)
        called, floors = self._names["timestamp"], self._options.floors_timestamps
        found: list[int | None] = []
        for index, record in enumerate(group.records):
            try:
                moment = convert_to_ms(record[called], floors=floors)
            except FinerThanMillisecondError:
                wrong, advice = "has fractions of a millisecond", "round it down with --timestamps floor"
                refused = self._make_error("timestamp", done + index, wrong, advice)
                raise FinerTimestampError(*refused.explanation) from None
            except (ValueError, TypeError, OverflowError):
                raise self._make_error("timestamp", done + index, "is not a timestamp") from None
            if moment is not None and not NO_TIMESTAMP_MS <= moment <= MAXIMUM_TIMESTAMP_MS:
                raise self._make_error("timestamp", done + index, "is outside of what Kafka can hold")
            found.append(None if moment == NO_TIMESTAMP_MS else moment)
        return found

    def _read_topics(self, group: _Group, done: int) -> Any:
        if "topic" not in self._names:
            return None
        topics = [record[self._names["topic"]] for record in group.records]
        for index, topic in enumerate(topics):
            if topic is not None and not isinstance(topic, str):
                raise self._make_error("topic", done + index, "is not text")
        return pa.array(topics, pa.string())

    def _make_error(self, name: str, index: int, wrong: str, advice: str = _ADVICE) -> BadInputError:
        fault = RecordFault(f"its {name} {wrong}", advice, self._obj.partition)
        return make_record_error(self._obj.uri, "row", index + 1, fault)
