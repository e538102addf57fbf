"""Which fields of an Avro record are a Kafka record's, by their usual names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from winnow.sources.layouts.objects import FieldForm

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
        types = {each["name"]: each["type"] for each in schema["fields"]}
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
