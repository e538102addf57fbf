"""Inserts and updates many rows in few statements, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import ColumnElement, CursorResult, Table, UpdateBase
from sqlalchemy.orm import Session
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from winnow.store.tables import Base

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert

T = TypeVar("T")
Row = Mapping[str, object]
Condition = Callable[[ReadOnlyColumnCollection[str, Any]], ColumnElement[bool]]
"""Decides from the row to be inserted whether it replaces the existing one."""

MAXIMUM_IN_LIST = 500
"""Maximum values of one IN list: far below either database's limit, and a plan worth caching."""


def upsert(session: Session, model: type[Base], rows: Sequence[Row], *, when: Condition | None = None) -> None:
    """Insert ``rows``; where the primary key exists, replace the other columns (if ``when`` holds).

    Of several rows with one key the last counts. Thousands of rows become a handful of statements.
    """
    table = _get_table(model)
    keys = [column.name for column in table.primary_key]
    unique = {tuple(row[key] for key in keys): dict(row) for row in rows}
    if not unique:
        return
    statement = _insert(session, table)
    replaced = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    statement = statement.on_conflict_do_update(
        index_elements=keys, set_=replaced, where=None if when is None else when(statement.excluded)
    )
    _run(session, statement, table, list(unique.values()))


def insert(session: Session, model: type[Base], rows: Sequence[Row]) -> None:
    """Insert ``rows``, none of which may exist."""
    table = _get_table(model)
    _run(session, _insert(session, table), table, [dict(row) for row in rows])


def insert_missing(session: Session, model: type[Base], rows: Sequence[Row]) -> int:
    """Insert ``rows`` and skip existing ones. Returns how many were new."""
    table = _get_table(model)
    return _run(session, _insert(session, table).on_conflict_do_nothing(), table, [dict(row) for row in rows])


def execute_change(session: Session, statement: UpdateBase) -> int:
    """Run an UPDATE or DELETE; return how many rows it changed."""
    return cast("CursorResult[Any]", session.execute(statement)).rowcount


def split_chunks(values: Sequence[T], size: int = MAXIMUM_IN_LIST) -> Iterator[list[T]]:
    """Split ``values`` into lists of at most ``size``."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _get_table(model: type[Base]) -> Table:
    return cast(Table, model.__table__)


def _insert(session: Session, table: Table) -> Insert:
    # The dialect of the engine is loaded already; importing the other one would cost a tenth of a second.
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    # The two are separate classes with the same ON CONFLICT methods.
    return cast("Insert", sqlite.insert(table))


def _run(session: Session, statement: Insert, table: Table, rows: list[dict[str, object]]) -> int:
    if not rows:
        return 0
    # With RETURNING, SQLAlchemy combines rows into statements with many VALUES on every driver.
    key = next(iter(table.primary_key))
    return len(session.execute(statement.returning(key), rows).all())
