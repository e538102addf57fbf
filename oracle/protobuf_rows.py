"""What a datum of Protobuf means as a row, in plain Python: a decoder of its own, byte by byte.

A message is described by its fields: name → number, kind, label and, of messages, fields. Labels: ``plain`` (its
default if left out), ``optional`` (null if left out; so is a member of a ``oneof`` that is not chosen), ``repeated``.
Kinds are Protobuf's own names, ``message``, ``timestamp``, ``wrapper`` (of an int64), ``enum`` (0 is A, 1 is B) and
``map`` (of text to the fields' only one).
"""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from oracle.row_values import DatumRefused, read_moment

_FIXED = {"double": "<d", "float": "<f", "fixed32": "<I", "sfixed32": "<i", "fixed64": "<Q", "sfixed64": "<q"}
_EXTREMES = {"int32": 32, "int64": 64, "enum": 32}
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


@dataclass(frozen=True)
class MessageField:
    """A field of a message; ``fields`` are those of a message in it."""

    name: str
    number: int
    kind: str
    label: str = "plain"
    fields: tuple[MessageField, ...] = field(default=())
    group: str = ""
    """The ``oneof`` that it is a member of."""


def decode_protobuf(fields: tuple[MessageField, ...], datum: bytes) -> dict[str, Any]:
    """Return what ``datum`` holds: dictionaries, lists, and values as their columns give them.

    Raises:
        DatumRefused: it is damaged.
    """
    raw = _split(datum)
    last_of_group: dict[str, str] = {}
    by_number = {member.number: member for member in fields}
    for number, _, _ in raw:
        if number in by_number and by_number[number].group:
            last_of_group[by_number[number].group] = by_number[number].name
    row = {}
    for member in fields:
        values = [(wire, value) for number, wire, value in raw if number == member.number]
        if member.group and last_of_group.get(member.group) != member.name:
            values = []
        row[member.name] = _read_field(member, values)
    return row


def _read_field(member: MessageField, values: list[tuple[int, Any]]) -> Any:
    if member.kind == "map":
        entry = (
            MessageField("key", 1, "string"),
            MessageField("value", 2, member.fields[0].kind, fields=member.fields[0].fields),
        )
        rows = [decode_protobuf(entry, value) for _, value in values]
        return dict(sorted((row["key"], row["value"]) for row in rows))
    if member.label == "repeated":
        return [read for wire, value in values for read in _read_items(member, wire, value)]
    if member.kind == "message":
        joined = b"".join(value for _, value in values)
        return decode_protobuf(member.fields, joined) if values else None
    if not values:
        return None if member.label == "optional" or member.kind in {"timestamp", "wrapper"} else _DEFAULTS[member.kind]
    if member.kind in {"timestamp", "wrapper"}:
        return _read_value(member, b"".join(value for _, value in values))
    return _read_value(member, values[-1][1])


def _read_items(member: MessageField, wire: int, value: Any) -> list[Any]:
    if wire != _LENGTH or member.kind in {"string", "bytes", "message", "timestamp", "wrapper"}:
        return [_read_value(member, value)]
    if member.kind in _FIXED:
        size = struct.calcsize(_FIXED[member.kind])
        return [_read_value(member, value[start : start + size]) for start in range(0, len(value), size)]
    items = []
    position = 0
    while position < len(value):
        number, position = _read_varint(value, position)
        items.append(_read_value(member, number))
    return items


def _read_value(member: MessageField, value: Any) -> Any:
    kind = member.kind
    if kind == "message":
        return decode_protobuf(member.fields, value)
    if kind == "timestamp":
        parts = decode_protobuf((MessageField("seconds", 1, "int64"), MessageField("nanos", 2, "int32")), value)
        if not 0 <= parts["nanos"] < 10**9:
            raise DatumRefused
        return read_moment(parts["seconds"] * 10**6 + parts["nanos"] // 1_000, 10**6).replace(tzinfo=dt.UTC)
    if kind == "wrapper":
        return decode_protobuf((MessageField("value", 1, "int64"),), value)["value"]
    if kind == "string":
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise DatumRefused from None
    if kind in _FIXED:
        number = struct.unpack(_FIXED[kind], value)[0]
        return Decimal(number) if kind == "fixed64" else number
    if kind in _EXTREMES:
        number = _wrap(value, _EXTREMES[kind])
        return {0: "A", 1: "B"}.get(number, str(number)) if kind == "enum" else number
    return _READ.get(kind, bytes)(value)


def _wrap(number: int, bits: int) -> int:
    number %= 2**bits
    return number - 2**bits if number >= 2 ** (bits - 1) else number


def _read_zigzag(number: int, bits: int) -> int:
    number %= 2**bits
    return (number >> 1) ^ -(number & 1)


_READ: dict[str, Any] = {
    "uint32": lambda number: number % 2**32,
    "uint64": Decimal,
    "sint32": lambda number: _read_zigzag(number, 32),
    "sint64": lambda number: _read_zigzag(number, 64),
    "bool": bool,
}
_DEFAULTS: dict[str, Any] = (
    dict.fromkeys(("int32", "int64", "uint32", "sint32", "sint64", "fixed32", "sfixed32", "sfixed64"), 0)
    | dict.fromkeys(("uint64", "fixed64"), Decimal(0))
    | {"bool": False, "string": "", "bytes": b"", "double": 0.0, "float": 0.0, "enum": "A"}
)


def _split(datum: bytes) -> list[tuple[int, int, Any]]:
    """Return number, wire type and raw value of each field."""
    entries = []
    position = 0
    while position < len(datum):
        tag, position = _read_varint(datum, position)
        wire = tag & 7
        if wire == _VARINT:
            value: Any
            value, position = _read_varint(datum, position)
        elif wire in {_EIGHT_BYTES, _FOUR_BYTES}:
            size = 8 if wire == _EIGHT_BYTES else 4
            value, position = datum[position : position + size], position + size
        elif wire == _LENGTH:
            size, position = _read_varint(datum, position)
            value, position = datum[position : position + size], position + size
        else:
            raise DatumRefused
        if position > len(datum):
            raise DatumRefused
        entries.append((tag >> 3, wire, value))
    return entries


def _read_varint(datum: bytes, position: int) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(datum[position : position + 10]):
        number |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return number % 2**64, position + index + 1
    raise DatumRefused
