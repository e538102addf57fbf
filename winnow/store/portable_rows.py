"""Copies the rows of the metadata store as plain values, from one database into another of either kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Table, delete, func, insert, select
from sqlalchemy.orm import Session

from winnow.errors import FormatVersionError
from winnow.store.database import StorePart
from winnow.store.migrations import HEAD_REVISION
from winnow.store.topic_rows import list_tables

ROWS_AT_ONCE: Final = 1_000
"""Rows that are in memory at a time."""

LEFT_OUT: Final = frozenset({"winnow_lease", "winnow_alert_delivery", "winnow_installation"})
"""Tables of one installation at one moment: who works on what, messages still to be sent, and which one it is."""

ALWAYS_FILLED: Final = frozenset({"winnow_audit_chain"})
"""Tables that have a row in an empty store, too."""

Row = dict[str, Any]


class PortableRows(StorePart):
    """Rows of all tables but :data:`LEFT_OUT`, as values that JSON has."""

    @property
    def revision(self) -> str:
        """The schema's revision."""
        return HEAD_REVISION

    def read_tables(self) -> Iterator[tuple[str, Iterator[Row]]]:
        """Read every table with its rows by primary key, all as of one moment; tables that others refer to come first.

        The rows of a table are to be read before the next one is asked for.

        Raises:
            ServiceError: the database cannot be reached.
        """
        with self._database.reading() as session:
            for table in _list_tables():
                yield str(table.name), _read_rows(session, table)

    def find_filled_tables(self) -> list[str]:
        """List the tables that have rows which an empty store has not, by name."""
        with self._database.reading() as session:
            return sorted(
                table.name
                for table in _list_tables()
                if table.name not in ALWAYS_FILLED
                and session.scalar(select(func.count()).select_from(select(1).select_from(table).limit(1).subquery()))
            )

    def replace_all(self, rows: Iterable[tuple[str, Iterable[Row]]]) -> None:
        """Replace the rows of all tables by ``rows``, tables that others refer to first, in one transaction.

        Raises:
            FormatVersionError: a table or a column is not known; nothing was changed.
            ServiceError: the database cannot be reached; nothing was changed.
        """
        known = {table.name: table for table in _list_tables()}
        with self._database.writing() as session:
            for table in reversed(_list_tables()):
                session.execute(delete(table))
            for name, values in rows:
                if name not in known:
                    raise _make_version_error(f"a table {name}")
                for some in _split_rows(values):
                    _insert_rows(session, known[name], some)


def _list_tables() -> list[Table]:
    return [table for table in reversed(list_tables()) if table.name not in LEFT_OUT]


def _read_rows(session: Session, table: Table) -> Iterator[Row]:
    statement = select(table).order_by(*table.primary_key).execution_options(yield_per=ROWS_AT_ONCE)
    for row in session.execute(statement):
        yield dict(row._mapping)


def _split_rows(rows: Iterable[Row]) -> Iterator[Sequence[Row]]:
    some: list[Row] = []
    for row in rows:
        some.append(row)
        if len(some) == ROWS_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _insert_rows(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    unknown = sorted({name for row in rows for name in row} - set(table.columns.keys()))
    if unknown:
        raise _make_version_error(f"a column {unknown[0]} of {table.name}")
    session.execute(insert(table), [dict(row) for row in rows])


def _make_version_error(what: str) -> FormatVersionError:
    return FormatVersionError(
        f"The rows of the metadata store are from a newer Winnow: this one does not know {what}.",
        left="Nothing was changed.",
        next="Use that Winnow, or a newer one.",
    )
