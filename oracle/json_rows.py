"""What a datum of JSON means as a row by its JSON Schema, in plain Python.

Understood are the schemas that random tests make: one type each or with null, objects with properties or maps, lists
with items, formats of text, and open ones.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from decimal import Decimal
from typing import Any

from oracle.row_values import DatumRefused, JsonText


def decode_json(schema: Any, datum: bytes) -> Any:
    """Return what ``datum`` holds: dictionaries, lists, and values as their columns give them.

    Raises:
        DatumRefused: it is not JSON, or does not fit its schema.
    """
    try:
        value = json.loads(datum.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise DatumRefused from None
    return read_json_value(schema, value)


def read_json_value(schema: Any, value: Any) -> Any:
    """Return ``value`` as the column of ``schema`` has it; raises as :func:`decode_json`."""
    if value is None:
        return None
    kinds = schema.get("type") if isinstance(schema, dict) else None
    kind = kinds[0] if isinstance(kinds, list) else kinds
    match kind:
        case "object" if "properties" in schema:
            return {
                name: read_json_value(inner, _require(value, dict).get(name))
                for name, inner in schema["properties"].items()
            }
        case "object" if "additionalProperties" in schema:
            return {
                key: read_json_value(schema["additionalProperties"], item)
                for key, item in _require(value, dict).items()
            }
        case "array" if "items" in schema:
            return [read_json_value(schema["items"], item) for item in _require(value, list)]
        case "boolean":
            return _require(value, bool)
        case "integer":
            return _read_integer(value)
        case "number":
            if isinstance(value, bool) or not isinstance(value, int | float) or math.isinf(float(value)):
                raise DatumRefused
            return float(value)
        case "string":
            return _read_text(schema.get("format"), _require(value, str))
    return JsonText(value)


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _require(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise DatumRefused
    return value


def _read_integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(Decimal(value))
    if not -(2**63) <= _require(value, int) < 2**63:
        raise DatumRefused
    return int(value)


def _read_text(form: str | None, text: str) -> Any:
    try:
        if form == "uuid":
            if [len(part) for part in text.split("-")] != [8, 4, 4, 4, 12]:
                raise DatumRefused
            return uuid.UUID(text)
        if form == "date":
            return dt.datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=dt.UTC).date()
        if form == "date-time":
            return dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise DatumRefused from None
    return text
