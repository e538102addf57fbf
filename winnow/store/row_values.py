"""Values from rows: a value's fields are its table's columns (:class:`winnow.store.tables.Base`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_type_hints

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from winnow.store.rows import Listed, Window

T = TypeVar("T")


@cache
def _describe_fields(kind: Any) -> Mapping[str, type[Enum] | None]:
    hints = get_type_hints(kind)
    members = {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, Enum)}
    return {field.name: members.get(field.name) for field in fields(kind)}


def list_fields(kind: Any) -> tuple[str, ...]:
    """List the names of the fields of ``kind``, a dataclass, in their order."""
    return tuple(_describe_fields(kind))


def read_value(kind: type[T], row: object, **others: object) -> T:
    """Make a value of ``kind``, a dataclass, from a row that has a column for each of its fields but ``others``.

    ``row``: an object of a mapped class, a row of a query, or a mapping of its columns. Text becomes the member of the
    field's enumeration.
    """
    described: Any = kind
    values = dict(others)
    for name, enumeration in _describe_fields(described).items():
        if name not in others:
            value = row[name] if isinstance(row, Mapping) else getattr(row, name)
            values[name] = value if enumeration is None else enumeration(value)
    return kind(**values)


def match_given(*given: tuple[Any, object]) -> list[ColumnElement[bool]]:
    """Make the conditions that columns have the values that are given with them; None: any value."""
    return [column == value for column, value in given if value is not None]


def list_window(session: Session, ordered: Select[Any], window: Window, make: Callable[[Any], T]) -> Listed[T]:
    """List one page of the rows that ``ordered`` selects, and how many there are."""
    total = session.scalar(select(func.count()).select_from(ordered.order_by(None).subquery())) or 0
    page = session.scalars(ordered.offset(window.offset).limit(window.size))
    return Listed(total, tuple(make(row) for row in page))
