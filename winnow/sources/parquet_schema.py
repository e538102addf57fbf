"""Which columns and types a Parquet file of records may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import types

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
    """What is wrong with the columns of a file and what to do; None when nothing is."""
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
