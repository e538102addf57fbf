"""Inserts and updates many rows in few statements, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
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
    if not rows:
        return
    table = _get_table(model)
    keys = [column.name for column in table.primary_key]
    unique = {tuple(row[key] for key in keys): dict(row) for row in rows}
    dialect, columns = _get_dialect(session), tuple(rows[0])
    make = _make_upsert if when is None else _make_upsert.__wrapped__
    _run(session, make(dialect, table, columns, when), table, list(unique.values()))


@lru_cache(maxsize=64)
def _make_upsert(dialect: str, table: Table, columns: tuple[str, ...], when: Condition | None) -> Insert:
    """Make the statement of :func:`upsert`; making it takes longer than running it on one row."""
    keys = [column.name for column in table.primary_key]
    statement = _insert(dialect, table)
    return statement.on_conflict_do_update(
        index_elements=keys,
        set_={name: statement.excluded[name] for name in columns if name not in keys},
        where=None if when is None else when(statement.excluded),
    )


def insert(session: Session, model: type[Base], rows: Sequence[Row]) -> None:
    """Insert ``rows``, none of which may exist."""
    table = _get_table(model)
    _run(session, _insert(_get_dialect(session), table), table, [dict(row) for row in rows])


def insert_missing(session: Session, model: type[Base], rows: Sequence[Row]) -> int:
    """Insert ``rows`` and skip existing ones. Returns how many were new."""
    table = _get_table(model)
    statement = _insert(_get_dialect(session), table).on_conflict_do_nothing()
    return _run(session, statement, table, [dict(row) for row in rows])


def build_insert_missing(dialect: str, model: type[Base]) -> Insert:
    """Build the statement that inserts a row and skips an existing one, for a caller that keeps it."""
    return _insert(dialect, _get_table(model)).on_conflict_do_nothing()


def build_insert(dialect: str, model: type[Base]) -> Insert:
    """Build the statement that inserts a row, for a caller that says what happens to an existing one."""
    return _insert(dialect, _get_table(model))


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


def _get_dialect(session: Session) -> str:
    return session.get_bind().dialect.name


def _insert(dialect: str, table: Table) -> Insert:
    # The dialect of the engine is loaded already; importing the other one would cost a tenth of a second.
    if dialect == "postgresql":
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
