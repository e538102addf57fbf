"""Typed columns of records' values: by path in a JSON document, or by an Avro schema.

A value that is no such document, or that does not fit the type of a column, gives null there and is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from winnow.errors import UsageError

RECORD_COLUMNS = ("partition", "offset", "timestamp", "key", "value")
"""The names that no typed column may have."""

_COLUMN = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*):(?P<type>[a-z]+)(?:=(?P<path>.+))?")
_PATH = re.compile(r"\$?(?:\.?[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])(?:\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])*")
_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]")
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_LONGS = range(-(2**63), 2**63)
_CONFLUENT_BYTES = 5
"""The magic byte 0 and the id of the schema, before the value itself."""


class ColumnType(StrEnum):
    """The types of columns, by the names that Spark and Iceberg have for them; ``json`` is the text of a part."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    JSON = "json"

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type."""
        return _ARROW_TYPES[self]


_ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.LONG: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.JSON: pa.string(),
}


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """One column: its name, its type, and its place in the document as field names and positions from 0."""

    name: str
    type: ColumnType
    path: tuple[str | int, ...]

    @property
    def json_path(self) -> str:
        """The place as a JSON path."""
        return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)


def parse_columns(texts: Iterable[str]) -> tuple[ValueColumn, ...]:
    """Parse columns written as ``NAME:TYPE`` or ``NAME:TYPE=PATH``; without a path it is the field of that name.

    Raises:
        UsageError: one is not of that form, or two have one name.
    """
    found: list[ValueColumn] = []
    for text in texts:
        match = _COLUMN.fullmatch(text.strip())
        if match is None or match["type"] not in set(ColumnType):
            raise UsageError(
                f"{text!r} is not a column.",
                next=(
                    f"Write NAME:TYPE=PATH, such as city:string=$.address.city; the types are {', '.join(ColumnType)}."
                ),
            )
        path = match["path"] or match["name"]
        if _PATH.fullmatch(path) is None:
            raise UsageError(f"{path!r} is not a path of field names and positions, such as $.items[0].price.")
        if match["name"].lower() in RECORD_COLUMNS:
            raise UsageError(f"A column cannot be called {match['name']}: the record has one of that name.")
        if match["name"].lower() in {each.name.lower() for each in found}:
            raise UsageError(f"Two columns are called {match['name']}.")
        steps = tuple(int(number) if number else name for name, number in _STEP.findall(path.removeprefix("$")))
        found.append(ValueColumn(match["name"], ColumnType(match["type"]), steps))
    return tuple(found)


class ValueReader(Protocol):
    """Reads values into typed columns."""

    @property
    def fields(self) -> Sequence[pa.Field]:
        """The columns."""

    @property
    def misfits(self) -> Mapping[str, int]:
        """How many values did not fit so far, by column."""

    def read(self, values: pa.Array) -> list[pa.Array]:
        """Read a column of bytes without nulls into one array per field."""


class JsonValues:
    """Reads JSON documents."""

    def __init__(self, columns: Sequence[ValueColumn]) -> None:
        self._columns = columns
        self.fields: Sequence[pa.Field] = [pa.field(each.name, each.type.arrow) for each in columns]
        self.misfits: dict[str, int] = {}

    def read(self, values: pa.Array) -> list[pa.Array]:
        """Read a column of bytes without nulls into one array per field."""
        documents = [_decode_json(value) for value in values.to_numpy(zero_copy_only=False).tolist()]
        return [pa.array([self._convert(each, at) for each in documents], at.type.arrow) for at in self._columns]

    def _convert(self, document: Any, column: ValueColumn) -> Any:
        if document is not _NO_DOCUMENT:
            part = _find_part(document, column.path)
            found = None if part is None else _convert_part(part, column.type)
            if part is None or found is not None:
                return found
        self.misfits[column.name] = self.misfits.get(column.name, 0) + 1
        return None


_NO_DOCUMENT = object()


def _decode_json(value: bytes) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _NO_DOCUMENT


def _find_part(document: Any, path: Sequence[str | int]) -> Any:
    part = document
    for step in path:
        if isinstance(step, int):
            part = part[step] if isinstance(part, list) and step < len(part) else None
        else:
            part = part.get(step) if isinstance(part, dict) else None
    return part


def _convert_part(part: Any, kind: ColumnType) -> Any:
    """Convert a part of a JSON document that is not null; None: it does not fit."""
    match kind, part:
        case ColumnType.JSON, _:
            return json.dumps(part, ensure_ascii=False, separators=(",", ":"))
        case ColumnType.STRING, str():
            return part
        case ColumnType.STRING, _:
            return json.dumps(part, ensure_ascii=False, separators=(",", ":"))
        case ColumnType.BOOLEAN, bool():
            return part
        case (ColumnType.BOOLEAN, _) | (_, bool()):
            return None
        case ColumnType.LONG, int():
            return part if part in _LONGS else None
        case ColumnType.LONG, str() if _WHOLE.fullmatch(part):
            return int(part) if int(part) in _LONGS else None
        case ColumnType.DOUBLE, int() | float() | str():
            return _read_double(part)
        case ColumnType.TIMESTAMP, str():
            return _read_time(part)
    return None


def _read_double(part: float | str) -> float | None:
    try:
        return float(part)
    except (ValueError, OverflowError):
        return None


def _read_time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


class AvroValues:
    """Reads values in Avro's binary encoding; the columns are the fields of the schema's record.

    Fields that are records, arrays, maps or unions of several types become their JSON text.
    """

    def __init__(self, schema_file: Path, *, confluent: bool) -> None:
        """Load the schema that the values were written with.

        ``confluent``: before each value stand a zero byte and the id of its schema, as Confluent's serializers write.

        Raises:
            UsageError: the file is missing, no Avro schema, or not that of a record.
        """
        import fastavro
        from fastavro.schema import SchemaParseException

        try:
            document = json.loads(schema_file.read_bytes())
            self._schema: Any = fastavro.parse_schema(document)
        except (OSError, ValueError, SchemaParseException) as problem:
            raise UsageError(
                f"{schema_file} is not an Avro schema that can be read ({type(problem).__name__})."
            ) from None
        if not isinstance(document, dict) or document.get("type") != "record":
            raise UsageError(f"{schema_file} is not the schema of a record, so it has no columns.")
        self._skip = _CONFLUENT_BYTES if confluent else 0
        self.fields: Sequence[pa.Field] = [
            pa.field(each["name"], _choose_avro_type(each["type"])) for each in document["fields"]
        ]
        clash = [each.name for each in self.fields if each.name.lower() in RECORD_COLUMNS]
        if clash:
            # The record's own columns come first; a field of that name gets the prefix of what it is part of.
            self.fields = [
                pa.field(f"value_{each.name}", each.type) if each.name in clash else each for each in self.fields
            ]
        self._names = [each["name"] for each in document["fields"]]
        self.misfits: dict[str, int] = {}

    def read(self, values: pa.Array) -> list[pa.Array]:
        """Read a column of bytes without nulls into one array per field."""
        documents = [self._decode(value) for value in values.to_numpy(zero_copy_only=False).tolist()]
        found = []
        for name, at in zip(self._names, self.fields, strict=True):
            parts = [None if each is None else each.get(name) for each in documents]
            if pa.types.is_string(at.type):
                parts = [part if part is None or isinstance(part, str) else _write_json(part) for part in parts]
            found.append(pa.array(parts, at.type))
        return found

    def _decode(self, value: bytes) -> dict[str, Any] | None:
        import fastavro

        stream = BytesIO(value[self._skip :])
        try:
            if self._skip and (len(value) < self._skip or value[0] != 0):
                raise ValueError
            found = fastavro.schemaless_reader(stream, self._schema, None)
            if stream.read(1):
                raise ValueError
        except Exception:  # of many kinds, for bytes that are not of this schema
            for each in self.fields:
                self.misfits[each.name] = self.misfits.get(each.name, 0) + 1
            return None
        return found if isinstance(found, dict) else None


_AVRO_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
}
_LOGICAL_TYPES: dict[str, pa.DataType] = {
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}


def _choose_avro_type(kind: Any) -> pa.DataType:
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        return _choose_avro_type(others[0]) if len(others) == 1 else pa.string()
    if isinstance(kind, dict):
        if "logicalType" in kind:
            return _LOGICAL_TYPES.get(kind["logicalType"], pa.string())
        return _choose_avro_type(kind["type"]) if isinstance(kind["type"], str) else pa.string()
    return _AVRO_TYPES.get(kind, pa.string())


def _write_json(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"), default=str)
