"""What a datum of Avro means as a row, in plain Python: a decoder of its own, byte by byte.

Names of types are as they are spelled: a reference names its definition, which comes before it in the schema.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import struct
import uuid
from decimal import Context, Decimal
from typing import Any

from oracle.row_values import DatumRefused, JsonText, read_moment, read_time_of_day

_MAXIMUM_PRECISION = 38
_EXACT = Context(prec=2_000)
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}


def decode_avro(schema: Any, datum: bytes) -> Any:
    """Return what ``datum`` holds: dictionaries, lists, and values as their columns give them.

    Raises:
        DatumRefused: it is damaged, has bytes left over, or holds what no column can.
    """
    decoder = _Decoder(datum)
    value = decoder.read(schema, is_text=False)
    if decoder.position != len(datum):
        raise DatumRefused
    return value


class _Decoder:
    def __init__(self, datum: bytes) -> None:
        self._datum = datum
        self._names: dict[str, Any] = {}
        self._open: list[str] = []
        self.position = 0

    def _take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self._datum):
            raise DatumRefused
        self.position += size
        return self._datum[self.position - size : self.position]

    def _read_number(self) -> int:
        number = 0
        for index in range(10):
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << (7 * index)
            if not byte & 0x80:
                if number >= 2**64:
                    raise DatumRefused
                return (number >> 1) ^ -(number & 1)
        raise DatumRefused

    def read(self, schema: Any, *, is_text: bool) -> Any:
        """Read one value; ``is_text``: as JSON has it, since it stands inside of JSON text."""
        if isinstance(schema, str):
            schema = self._names.get(schema, {"type": schema})
        if isinstance(schema, list):
            return self._read_union(schema, is_text=is_text)
        if "name" in schema:
            self._names[schema["name"]] = schema
        kind = schema["type"]
        if kind == "record":
            return self._read_record(schema, is_text=is_text)
        if kind == "array":
            return self._read_blocks(lambda: self.read(schema["items"], is_text=is_text))
        if kind == "map":
            return dict(self._read_blocks(lambda: (self._read_text(), self.read(schema["values"], is_text=is_text))))
        value = self._read_single(schema)
        return _express(value) if is_text else value

    def _read_union(self, branches: list[Any], *, is_text: bool) -> Any:
        self._register(branches)
        index = self._read_number()
        if not 0 <= index < len(branches):
            raise DatumRefused
        others = [branch for branch in branches if branch != "null"]
        if branches[index] == "null":
            return None
        if is_text or len(others) == 1:
            return self.read(branches[index], is_text=is_text)
        kinds = {
            _name_kind(self._names.get(branch, branch) if isinstance(branch, str) else branch) for branch in others
        }
        if kinds <= {"int", "long"} or kinds <= {"string", "enum"}:
            return self.read(branches[index], is_text=False)
        if kinds <= {"int", "float", "double"}:
            return float(self.read(branches[index], is_text=False))
        return JsonText(self.read(branches[index], is_text=True))

    def _read_record(self, schema: Any, *, is_text: bool) -> Any:
        begins_text = not is_text and (not schema["fields"] or schema["name"] in self._open)
        self._open.append(schema["name"])
        row = {field["name"]: self.read(field["type"], is_text=is_text or begins_text) for field in schema["fields"]}
        self._open.pop()
        return JsonText(row) if begins_text else row

    def _register(self, schema: Any) -> None:
        """Note the names in branches that are not read."""
        if isinstance(schema, list):
            for branch in schema:
                self._register(branch)
        elif isinstance(schema, dict):
            if "name" in schema:
                self._names[schema["name"]] = schema
            for field in schema.get("fields", ()):
                self._register(field["type"])
            for name in ("items", "values"):
                self._register(schema.get(name))

    def _read_blocks(self, read_item: Any) -> list[Any]:
        items = []
        while count := self._read_number():
            if count < 0:
                count = -count
                self._read_number()
            for _ in range(count):
                items.append(read_item())  # noqa: PERF401 - each reads on
        return items

    def _read_text(self) -> str:
        try:
            return self._take(self._read_number()).decode()
        except UnicodeDecodeError:
            raise DatumRefused from None

    def _read_single(self, schema: Any) -> Any:
        kind = schema["type"]
        if kind == "null":
            return None
        if kind == "boolean":
            return self._take(1) != b"\0"
        if kind == "enum":
            index = self._read_number()
            if not 0 <= index < len(schema["symbols"]):
                raise DatumRefused
            return schema["symbols"][index]
        if kind == "float":
            return struct.unpack("<f", self._take(4))[0]
        if kind == "double":
            return struct.unpack("<d", self._take(8))[0]
        if kind == "string":
            return _read_text_value(schema, self._read_text())
        if kind in {"bytes", "fixed"}:
            return _read_bytes_value(schema, self._take(self._read_number() if kind == "bytes" else schema["size"]))
        number = self._read_number()
        if kind == "int" and not -(2**31) <= number < 2**31:
            raise DatumRefused
        return _read_number_value(schema.get("logicalType", ""), number)


def _name_kind(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    return "" if isinstance(branch, list) or "logicalType" in branch else branch["type"]


def _read_text_value(schema: Any, text: str) -> Any:
    if schema.get("logicalType") != "uuid":
        return text
    if [len(part) for part in text.split("-")] != [8, 4, 4, 4, 12] or set(text.lower()) - set("0123456789abcdef-"):
        raise DatumRefused
    return uuid.UUID(text)


def _read_bytes_value(schema: Any, data: bytes) -> Any:
    logical = schema.get("logicalType")
    if logical == "decimal":
        number, precision = int.from_bytes(data, "big", signed=True), schema["precision"]
        if abs(number) >= 10**precision:
            raise DatumRefused
        value = _EXACT.scaleb(Decimal(number), -schema.get("scale", 0))
        return value if precision <= _MAXIMUM_PRECISION else f"{value:f}"
    return uuid.UUID(bytes=data) if logical == "uuid" and len(data) == len(uuid.NAMESPACE_DNS.bytes) else data


def _read_number_value(logical: str, number: int) -> Any:
    name, _, unit = logical.rpartition("-")
    if logical == "date":
        return read_moment(number * 86_400, 1).date()
    if name == "time":
        return read_time_of_day(number, _PER_SECOND[unit])
    if name in {"timestamp", "local-timestamp"}:
        is_utc = name == "timestamp"
        if unit == "nanos":
            seconds, part = divmod(number, 10**9)
            return f"{read_moment(seconds, 1).isoformat()}.{part:09d}{'Z' if is_utc else ''}"
        return read_moment(number, _PER_SECOND[unit]).replace(tzinfo=dt.UTC if is_utc else None)
    return number


def _express(value: Any) -> Any:
    """Return a single value as JSON has it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return f"{value:f}"
        case uuid.UUID():
            return str(value)
        case dt.datetime():
            return ("moment", value.isoformat())
        case dt.date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    return value
