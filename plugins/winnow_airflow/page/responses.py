"""Makes the JSON documents of the page's API from the values of the metadata store.

A document has its value's fields, by name: a field that is added to a value appears on the page unless it is left out.
Times are ms since the epoch, sizes are bytes. Offsets and snapshot ids become text, because JavaScript numbers cannot
hold 64-bit integers exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from winnow.store.rows import Listed, Window

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Document = dict[str, Any]
Row = TypeVar("Row")


def describe(value: DataclassInstance, *, without: tuple[str, ...] = ()) -> Document:
    """Make the document of ``value``, without the fields named in ``without``."""
    names = (each.name for each in fields(value) if each.name not in without)
    return {name: _convert(name, getattr(value, name)) for name in names}


def describe_page(name: str, listed: Listed[Row], window: Window, describe_row: Callable[[Row], Document]) -> Document:
    """Make the document of one page of a list, with its rows under ``name``."""
    rows = [describe_row(each) for each in listed.rows]
    return {"total": listed.total, "page": window.number, "size": window.size, name: rows}


def _convert(name: str, value: Any) -> Any:
    if isinstance(value, int) and (name.endswith("_offset") or name == "snapshot_id"):
        return str(value)
    if isinstance(value, tuple):
        return [_convert(name, each) for each in value]
    if isinstance(value, Mapping):
        return {key: _convert(name, each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return describe(value)
    return value
