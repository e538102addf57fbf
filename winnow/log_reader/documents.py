"""JSON documents of answers: fields by name, 64-bit numbers as text, because JavaScript rounds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

Document = dict[str, Any]


def describe(value: Any) -> Document:
    """Make the document of a dataclass."""
    return {each.name: _convert(each.name, getattr(value, each.name)) for each in fields(value)}


def _convert(name: str, value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, int) and not isinstance(value, bool) and _is_offset(name):
        return str(value)
    if isinstance(value, tuple | list):
        return [_convert(name, each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _convert(str(key), each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return describe(value)
    return value


def _is_offset(name: str) -> bool:
    # A version is 64 bits wide as well.
    return name in {"offset", "snapshot_id", "version"} or name.endswith("_offset")
