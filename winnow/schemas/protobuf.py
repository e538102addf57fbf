"""Protobuf: row types of its messages, and their datums read by Google's runtime.

A field without presence that a datum leaves out is its default, one with presence is null, and so is each member of a
``oneof`` that is not chosen. An enum is the name of its value, or the digits of one that has none. What no column can
hold is JSON text as Protobuf writes it: messages without fields, recursive ones where they begin again, maps whose keys
are not text, ``Struct``, ``Any`` and the like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from winnow.schemas.columns import TEXT, Column, Field, Keyed, Record, Repeated, make_plain, make_row
from winnow.schemas.documents import MAXIMUM_COLUMNS, MAXIMUM_DEPTH, SchemaDocument, UnusableSchemaError
from winnow.schemas.framing import MessagePath
from winnow.schemas.protobuf_files import find_message
from winnow.schemas.reader import DatumError, DatumReader
from winnow.schemas.scalars import make_int32, make_json_text, make_timestamp

Convert = Callable[[Any], Any]
"""Makes a value for its column of what the runtime gives."""

_INT32 = make_int32()
_INT64 = make_plain(pa.int64())
_UINT64 = make_plain(pa.decimal128(20, 0))
_DOUBLE = make_plain(pa.float64())
_FLOAT = make_plain(pa.float32())
_BOOL = make_plain(pa.bool_())
_BYTES = make_plain(pa.binary())
_JSON = make_json_text(lambda value: value)

_SINGLE: dict[int, Column] = {
    FieldDescriptor.TYPE_DOUBLE: _DOUBLE,
    FieldDescriptor.TYPE_FLOAT: _FLOAT,
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _INT64,
    FieldDescriptor.TYPE_FIXED32: _INT64,
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
    FieldDescriptor.TYPE_BOOL: _BOOL,
    FieldDescriptor.TYPE_STRING: TEXT,
    FieldDescriptor.TYPE_BYTES: _BYTES,
}
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_AS_TEXT = frozenset(
    f"google.protobuf.{name}" for name in ("Any", "Duration", "FieldMask", "ListValue", "Struct", "Value")
)
_TIMESTAMP = "google.protobuf.Timestamp"
_NANOSECONDS = 10**9


def make_protobuf_reader(document: SchemaDocument, path: MessagePath) -> DatumReader:
    """Make the reader of the message at ``path``; raises as :func:`~winnow.schemas.protobuf_files.find_message`."""
    descriptor = find_message(document, path)
    column, convert = _Types().make_message(descriptor, 0)
    message_class = message_factory.GetMessageClass(descriptor)
    is_record = isinstance(column, Record)

    def parse(datum: bytes) -> dict[str, Any]:
        try:
            value = convert(message_class.FromString(datum))
        except DatumError:
            raise
        except Exception:  # the runtime raises DecodeError, and what its implementation comes across
            raise DatumError("The datum is damaged, or was not written with its schema.") from None
        return value if is_record else {"": value}

    return DatumReader(make_row(column), parse)


class _Types:
    def __init__(self) -> None:
        self._open: list[str] = []
        self._columns = 0

    def make_message(self, descriptor: Descriptor, depth: int) -> tuple[Column, Convert]:
        """Make the column of a message, and what makes its values."""
        name = descriptor.full_name
        if name == _TIMESTAMP:
            return make_timestamp(1_000_000, "UTC"), _count_microseconds
        if name in _WRAPPERS:
            column, convert = self._make_single(descriptor.fields_by_name["value"], depth)
            return column, lambda message: convert(message.value)
        if name in _AS_TEXT or name in self._open or not descriptor.fields:
            return _JSON, _write_message
        if depth > MAXIMUM_DEPTH:
            raise UnusableSchemaError(f"is nested deeper than {MAXIMUM_DEPTH} levels")
        self._open.append(name)
        fields = []
        getters = []
        for descriptor_of_field in descriptor.fields:
            column, get = self._make_field(descriptor_of_field, depth)
            fields.append(Field(descriptor_of_field.name, column))
            getters.append((descriptor_of_field.name, get))
        self._open.pop()
        return Record(tuple(fields)), lambda message: {name: get(message) for name, get in getters}

    def _make_field(self, field: FieldDescriptor, depth: int) -> tuple[Column, Convert]:
        """Make the column of a field, and what gets its value of a message."""
        self._columns += 1
        if self._columns > MAXIMUM_COLUMNS:
            raise UnusableSchemaError(f"has more than {MAXIMUM_COLUMNS:,} columns")
        name = field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._make_map(field, depth)
        column, convert = self._make_single(field, depth)
        if field.is_repeated:
            return Repeated(column), lambda message: list(map(convert, getattr(message, name)))
        if field.has_presence:
            return column, lambda message: convert(getattr(message, name)) if message.HasField(name) else None
        return column, lambda message: convert(getattr(message, name))

    def _make_map(self, field: FieldDescriptor, depth: int) -> tuple[Column, Convert]:
        name = field.name
        key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        if key.type != FieldDescriptor.TYPE_STRING:
            return _JSON, lambda message: _write_message(message).get(name, {})
        column, convert = self._make_single(value, depth)
        # The runtime's maps have no order; that of a row is always the same.
        return Keyed(column), lambda message: {
            key: convert(item) for key, item in sorted(getattr(message, name).items(), key=lambda entry: entry[0])
        }

    def _make_single(self, field: FieldDescriptor, depth: int) -> tuple[Column, Convert]:
        if field.message_type is not None:
            return self.make_message(field.message_type, depth + 1)
        if field.enum_type is not None:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return TEXT, lambda number: names.get(number) or str(number)
        return _SINGLE[field.type], lambda value: value


def _count_microseconds(timestamp: Any) -> int:
    if not 0 <= timestamp.nanos < _NANOSECONDS:
        raise DatumError("The datum has a timestamp that is none.")
    return int(timestamp.seconds * 1_000_000 + timestamp.nanos // 1_000)


def _write_message(message: Any) -> Any:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)
