"""JSON with a schema: row types of JSON Schema's documents, and datums checked against them.

Checked are types, nothing else that a schema may demand; null is null everywhere. An object with named properties is a
struct, and what a datum has beside them has no column. Objects that name none are maps, if their values have one type;
what else is open, or may be of several types, is JSON text, with numbers digit by digit. Timestamps are cut to
microseconds.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from winnow.schemas.columns import Column, Field, Keyed, Record, Repeated, Scalar, collect_each, make_row
from winnow.schemas.documents import (
    MAXIMUM_COLUMNS,
    MAXIMUM_DEPTH,
    SchemaDocument,
    UnusableSchemaError,
    require_readable_size,
    walk_references,
)
from winnow.schemas.reader import DatumError, DatumReader
from winnow.schemas.scalars import make_json_text, make_uuid

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def make_json_schema_reader(document: SchemaDocument) -> DatumReader:
    """Make the reader of a schema.

    Raises:
        UnusableSchemaError: it is no JSON, or too large.
    """
    require_readable_size(document)
    documents = {reference.name: _read_json(reference.document.text) for reference in walk_references(document)}
    documents[""] = _read_json(document.text)
    try:
        column = _Types(documents).make_column(documents[""], "", 0)
    except RecursionError:
        raise UnusableSchemaError(f"is nested deeper than {MAXIMUM_DEPTH} levels") from None
    return DatumReader(make_row(column), _make_parser(column))


def _read_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise UnusableSchemaError("is not JSON") from None


class _Types:
    """``documents``: by the names that references have; the schema itself by ``""``."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self._documents = documents
        self._open: list[tuple[str, str]] = []
        self._columns = 0

    def make_column(self, schema: Any, base: str, depth: int) -> Column:
        """Make the column of ``schema``, which stands in the document ``base``."""
        self._columns += 1
        if self._columns > MAXIMUM_COLUMNS:
            raise UnusableSchemaError(f"has more than {MAXIMUM_COLUMNS:,} columns")
        if depth > MAXIMUM_DEPTH:
            raise UnusableSchemaError(f"is nested deeper than {MAXIMUM_DEPTH} levels")
        if not isinstance(schema, dict):
            return _OPEN
        if isinstance(schema.get("$ref"), str):
            return self._follow(schema["$ref"], base, depth)
        alternative = _find_alternative(schema)
        if alternative is not None:
            self._columns -= 1
            return self.make_column(alternative, base, depth + 1)
        kind = _find_type(schema)
        if kind == "object":
            return self._make_object(schema, base, depth)
        if kind == "array" and isinstance(schema.get("items"), dict):
            return Repeated(self.make_column(schema["items"], base, depth + 1))
        if kind == "string":
            return _FORMATS.get(str(schema.get("format")), _SINGLE["string"])
        return _SINGLE.get(kind, _OPEN)

    def _make_object(self, schema: dict[str, Any], base: str, depth: int) -> Column:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            return Record(
                tuple(Field(name, self.make_column(kind, base, depth + 1)) for name, kind in properties.items())
            )
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and values and "patternProperties" not in schema:
            return Keyed(self.make_column(values, base, depth + 1))
        return _OPEN

    def _follow(self, reference: str, base: str, depth: int) -> Column:
        """Make the column of what ``reference`` leads to; one that leads nowhere, or to where it is in, is open."""
        name, _, pointer = reference.partition("#")
        place = (name or base, pointer)
        if place in self._open or place[0] not in self._documents:
            return _OPEN
        target = self._documents[place[0]]
        for step in pointer.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or key not in target:
                return _OPEN
            target = target[key]
        self._open.append(place)
        self._columns -= 1
        column = self.make_column(target, place[0], depth + 1)
        self._open.pop()
        return column


def _find_alternative(schema: dict[str, Any]) -> Any:
    """Return what stands for ``schema``: the only part of ``allOf``, or the only alternative to null."""
    for word in ("oneOf", "anyOf", "allOf"):
        parts = schema.get(word)
        if isinstance(parts, list) and "properties" not in schema:
            others = [part for part in parts if part != {"type": "null"}]
            return others[0] if len(others) == 1 and (word != "allOf" or len(parts) == 1) else {}
    return None


def _find_type(schema: dict[str, Any]) -> str:
    """Return the only type beside null; empty if there are several or none."""
    kinds = schema.get("type")
    others = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if others == [None] or not others:
        values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema.get("const")]
        is_text = any(values) and all(isinstance(value, str | None) for value in values)
        return "string" if is_text else "object" if "properties" in schema else ""
    return others[0] if len(others) == 1 and isinstance(others[0], str) else ""


def _require(is_right: bool, value: Any) -> Any:
    return value if is_right else None


def _read_integer(value: Any) -> int | None:
    if isinstance(value, Decimal):
        # The exponent of a hostile number could make it a million digits long.
        return int(value) if abs(value) < 2**64 and value == value.to_integral_value() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = float(value)
    return number if abs(number) < float("inf") else None


def _read_moment(value: Any) -> dt.datetime | None:
    return dt.datetime.fromisoformat(value.upper()) if isinstance(value, str) and _MOMENT.fullmatch(value) else None


def _read_day(value: Any) -> dt.date | None:
    return dt.date.fromisoformat(value) if isinstance(value, str) and _DAY.fullmatch(value) else None


def _make_single(kind: pa.DataType, convert: Callable[[Any], Any]) -> Scalar:
    return Scalar(kind, collect_each(kind, convert))


_OPEN = make_json_text(lambda value: value)
_SINGLE = {
    "string": _make_single(pa.string(), lambda value: _require(isinstance(value, str), value)),
    "integer": _make_single(pa.int64(), _read_integer),
    "number": _make_single(pa.float64(), _read_float),
    "boolean": _make_single(pa.bool_(), lambda value: _require(isinstance(value, bool), value)),
}
_FORMATS = {
    "date-time": _make_single(pa.timestamp("us", "UTC"), _read_moment),
    "date": _make_single(pa.date32(), _read_day),
    "uuid": make_uuid(),
}


def _make_parser(column: Column) -> Callable[[bytes], dict[str, Any]]:
    is_record = isinstance(column, Record)

    def parse(datum: bytes) -> dict[str, Any]:
        try:
            value = _DECODER.decode(datum)
        except RecursionError:
            raise DatumError("The datum is nested too deeply.") from None
        except (msgspec.DecodeError, ArithmeticError, ValueError):
            raise DatumError("The datum is not JSON.") from None
        _require_shape(column, value, "")
        return (value or {}) if is_record else {"": value}

    return parse


_DECODER = msgspec.json.Decoder(float_hook=Decimal)


def _require_shape(column: Column, value: Any, path: str) -> None:
    """Require that structs, maps and lists are objects and arrays; single values are their columns' matter."""
    if value is None or isinstance(column, Scalar):
        return
    is_right: bool = isinstance(value, list if isinstance(column, Repeated) else dict)
    if not is_right:
        raise DatumError(f"The value of {f'the field {path}' if path else 'the datum'} does not fit its type.")
    if isinstance(column, Record):
        for field in column.fields:
            if not isinstance(field.column, Scalar):
                _require_shape(field.column, value.get(field.name), f"{path}.{field.name}" if path else field.name)
    elif isinstance(column, Keyed):
        for item in value.values():
            _require_shape(column.value, item, path)
    else:
        for item in value:
            _require_shape(column.item, item, path)
