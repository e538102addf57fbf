"""Plain Avro container files whose records carry a Kafka record's fields, by usual names, or are values alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.files.record_batch import (
    HEADER_BYTES,
    MAXIMUM_BATCH_ROWS,
    MAXIMUM_OFFSET,
    MAXIMUM_TIMESTAMP_MS,
    NO_TIMESTAMP_MS,
    ROW_BYTES,
    TIMESTAMP_TYPES,
)
from winnow.sources.envelope import make_chunk, tell_by_name
from winnow.sources.formats.avro import MAGIC, open_avro, read_avro_schema
from winnow.sources.formats.column_values import UNRENDERABLE, Header, list_headers, make_header_column
from winnow.sources.formats.compression import read_start
from winnow.sources.formats.json_text import render_value
from winnow.sources.formats.timestamps import FinerThanMillisecondError, convert_to_ms
from winnow.sources.input_errors import FinerTimestampError, Place, RecordFault, make_file_error, make_record_error
from winnow.sources.layout import Arrangement, Description, Finding, FindingKind, Layout, find_largest, sort_objects
from winnow.sources.layouts.aiven_names import parse_name
from winnow.sources.objects import ArchiveObject, FieldForm, Offsets, ReadOptions, RecordChunk, StoredObject

_USUAL_NAMES = {
    "key": "key",
    "value": "value",
    "headers": "headers",
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampms": "timestamp",
    "timestamptype": "timestampType",
}

_PREFIX = re.compile(r"(?:kafka|message|record)?(?:metadata)?")
"""``kafka_offset``, ``_kafka_metadata_offset``, ``recordKey`` and the like."""


@dataclass(frozen=True, slots=True)
class AvroFields:
    """The fields of a schema.

    ``names``: what the schema calls each field of Kafka's that it has; empty if the records are values alone.
    ``extra``: fields that are none of Kafka's, in order; they are left out. ``forms``: of key, value and headers.
    """

    names: Mapping[str, str]
    extra: tuple[str, ...] = ()
    forms: Mapping[str, FieldForm] = field(default_factory=dict)


def find_fields(schema: Any) -> AvroFields:
    """Tell whether records of ``schema`` carry a Kafka record's fields or are values alone.

    They carry them if there is a value, beside it an offset, or a key and nothing that is not Kafka's.
    """
    if isinstance(schema, dict) and schema.get("type") == "record":
        types = {field["name"]: field["type"] for field in schema["fields"]}
        names: dict[str, str] = {}
        for name in sorted(types, key=lambda name: (name not in _USUAL_NAMES.values(), name)):
            kafka_name = _USUAL_NAMES.get(_normalize(name))
            if kafka_name is not None:
                # One that is called so exactly comes first.
                names.setdefault(kafka_name, name)
        extra = tuple(name for name in types if name not in names.values())
        if "value" in names and ("offset" in names or ("key" in names and not extra)):
            forms = {each: _find_form(types[names[each]]) for each in ("key", "value") if each in names}
            return AvroFields(names, extra, forms | {"headers": FieldForm.BYTES})
    return AvroFields({}, (), {"value": _find_form(schema)})


def _normalize(name: str) -> str:
    letters = re.sub(r"[^a-z]", "", name.lower())
    return letters[_PREFIX.match(letters).end() :]  # type: ignore[union-attr]


def _find_form(schema: Any) -> FieldForm:
    """Return the form of a field: null is everything's, and a structure or number becomes JSON text."""
    kinds = {_name_kind(each) for each in (schema if isinstance(schema, list) else [schema])} - {"null"}
    if kinds and kinds <= {"string", "enum"}:
        return FieldForm.TEXT
    return FieldForm.BYTES if kinds <= {"bytes", "fixed", "string", "enum"} else FieldForm.JSON


def _name_kind(schema: Any) -> str:
    if isinstance(schema, dict):
        # A decimal is a number, a date no integer.
        return "logical" if "logicalType" in schema else _name_kind(schema["type"])
    return str(schema)


MAXIMUM_PARTITION = 2**31 - 1

_TIMESTAMP_TYPE_NAMES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}

_ADVICE = "write the fields of a Kafka record, or leave the object out with --exclude"


def read_avro_fields(obj: StoredObject) -> AvroFields:
    """Return which fields the records of ``obj`` have, from its schema alone.

    Raises:
        BadInputError: it is missing, damaged or not Avro.
        ServiceError: its object store cannot be reached.
    """
    return find_fields(read_avro_schema(obj))


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
        done = 0
        for group in _group_records(obj, fields.names, file.read_records(), options.batch_bytes):
            place = Place(obj.uri, "row", np.arange(done + 1, done + len(group.records) + 1))
            yield _Converter(obj, fields.names, options, place, group.records).convert(group)
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


@dataclass(frozen=True, slots=True)
class _Converter:
    """Turns neighbouring records into a chunk."""

    obj: ArchiveObject
    names: Mapping[str, str]
    options: ReadOptions
    place: Place
    records: Sequence[Any]

    def convert(self, group: _Group) -> RecordChunk:
        """Return ``group``, in which the records are, as a chunk."""
        partition = self._read_integers("partition", 0, MAXIMUM_PARTITION, self.obj.partition)
        offset = self._read_offsets()
        timestamp = self._read_timestamps()
        timestamp_type = self._read_integers("timestampType", *TIMESTAMP_TYPES, 0)
        return make_chunk(
            self.place,
            key=pa.array(group.keys, pa.binary()),
            value=pa.array(group.values, pa.binary()),
            headers=make_header_column(group.headers),
            partition=partition,
            offset=offset,
            timestamp=timestamp,
            timestamp_type=timestamp_type,
            topics=self._read_topics(),
        )

    def _read_offsets(self) -> Any:
        if "offset" in self.names or self.obj.first_offset is None:
            return self._read_integers("offset", 0, MAXIMUM_OFFSET, None)
        if self.obj.first_offset + int(self.place.rows[-1]) - 1 > MAXIMUM_OFFSET:
            raise make_file_error(self.obj.uri, "its name has an offset too large for its records", _ADVICE)
        return tell_by_name(self.obj, self.place)["offset"]

    def _read_integers(self, name: str, minimum: int, maximum: int, otherwise: int | None) -> Any:
        values: list[Any] = [None] * len(self.records)
        if name in self.names:
            values = [record[self.names[name]] for record in self.records]
        if name == "timestampType":
            values = [_TIMESTAMP_TYPE_NAMES.get(value, value) for value in values]
        for index, value in enumerate(values):
            if value is not None and (type(value) is not int or not minimum <= value <= maximum):
                raise self._make_error(name, index, f"is no integer from {minimum} to {maximum}")
        column = pa.array(values, pa.int64())
        return column if otherwise is None else column.fill_null(otherwise)

    def _read_timestamps(self) -> Any:
        if "timestamp" not in self.names:
            return None
        called, floors = self.names["timestamp"], self.options.floors_timestamps
        moments: list[int | None] = []
        for index, record in enumerate(self.records):
            try:
                moment = convert_to_ms(record[called], floors=floors)
            except FinerThanMillisecondError:
                wrong, advice = "has fractions of a millisecond", "round it down with --timestamps floor"
                refused = self._make_error("timestamp", index, wrong, advice)
                raise FinerTimestampError(*refused.explanation) from None
            except (ValueError, TypeError, OverflowError):
                raise self._make_error("timestamp", index, "is not a timestamp") from None
            if moment is not None and not NO_TIMESTAMP_MS <= moment <= MAXIMUM_TIMESTAMP_MS:
                raise self._make_error("timestamp", index, "is outside of what Kafka can hold")
            moments.append(moment)
        return pa.array(moments, pa.int64())

    def _read_topics(self) -> Any:
        if "topic" not in self.names:
            return None
        topics = [record[self.names["topic"]] for record in self.records]
        for index, topic in enumerate(topics):
            if topic is not None and not isinstance(topic, str):
                raise self._make_error("topic", index, "is not text")
        return pa.array(topics, pa.string())

    def _make_error(self, name: str, index: int, wrong: str, advice: str = _ADVICE) -> BadInputError:
        return self.place.make_error(index, f"its {name} {wrong}", advice, partition=self.obj.partition)


NAME = "avro"


def recognise_avro(obj: StoredObject) -> bool:
    """Check whether ``obj`` is an Avro container file whose records tell their offset, and their partition too.

    A name may tell the partition if it has the first record's offset beside it; else it is another program's.
    """
    if read_start(obj, len(MAGIC)) != MAGIC:
        return False
    fields = read_avro_fields(obj).names
    name = parse_name(obj.uri)
    if "offset" not in fields or "partition" in fields or name is None:
        return "offset" in fields
    archive = ArchiveObject(NAME, obj.uri, {"value": obj})
    chunk = next(iter(read_avro(archive, ReadOptions(batch_bytes=1 << 16, floors_timestamps=True))), None)
    return chunk is not None and pc.min(chunk.records.column("offset")).as_py() == name.first_offset


def arrange_avro(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; a name like ``topic-partition-offset`` tells these."""
    fields = read_avro_fields(find_largest(stored))
    objects = []
    for obj in stored:
        name = parse_name(obj.uri)
        topic, partition, first = (name.topic, name.partition, name.first_offset) if name else (None, None, None)
        derived = Offsets.NONE if first is None else Offsets.DERIVED
        offsets = Offsets.EXACT if "offset" in fields.names else derived
        objects.append(
            ArchiveObject(NAME, obj.uri, {"value": obj}, topic, partition, first, fields.forms, offsets=offsets)
        )
    findings = [] if "key" in fields.names else [Finding(FindingKind.NO_KEYS, "Records have no field for the key.")]
    return Arrangement(sort_objects(objects), findings=tuple(findings))


AVRO = Layout(
    NAME,
    Description(
        title="Avro files with a record's fields",
        recognised_by="Avro container files whose records have a field `value`, and `key`, `offset`, `partition`, "
        "`timestamp`, `headers` under these or like names (`kafka_offset`, `_kafka_metadata_offset`). Without an "
        "offset, `--layout avro` says that names tell it, or that records get the next one.",
        loses=("whatever field is missing",),
        settings=(),
    ),
    recognise_avro,
    arrange_avro,
    read_avro,
)
