"""Three tables of a shop, random transactions on them, and their rows as Debezium's events name them.

Rows are inserted, updated and deleted; primary keys change, change places with one another and come back after a
delete; transactions are rolled back.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import psycopg
from psycopg import sql

from winnow.values.model import Record

Key = tuple[object, ...]
Row = dict[str, Any]
Connection = psycopg.Connection[tuple[object, ...]]

MARKER: Final = "marker"
"""The table of one row that is written last: when its event has arrived, all events before it have."""


@dataclass(frozen=True)
class Table:
    """A table: its name, the columns of its primary key, and what creates it."""

    name: str
    key: tuple[str, ...]
    columns: str


TABLES: Final = (
    Table(
        "customers",
        ("id",),
        "id int PRIMARY KEY, name text NOT NULL, balance numeric(12, 2), active boolean, profile jsonb, photo bytea",
    ),
    Table(
        "order_lines",
        ("order_id", "line"),
        "order_id bigint, line int, product text, amount int NOT NULL, PRIMARY KEY (order_id, line)",
    ),
    Table("countries", ("code",), "code text PRIMARY KEY, title text"),
)
TABLE_NAMES: Final = tuple(table.name for table in TABLES)

_CODES: Final = ("", " ", "ä", "日本", '"', "\\", "null", "\t", "DE", "de", "Ω" * 40, "😀")
_FREE: Final[Mapping[str, object]] = {"id": -1, "order_id": -1, "line": -1, "code": "changing places"}
"""Where a row waits while two change places."""


def create_tables(connection: Connection) -> None:
    """Create all tables, the marker's too."""
    for table in TABLES:
        connection.execute(f"CREATE TABLE {table.name} ({table.columns})")
    connection.execute(f"CREATE TABLE {MARKER} (id int PRIMARY KEY, round int NOT NULL)")
    connection.execute(f"INSERT INTO {MARKER} VALUES (1, 0)")
    connection.commit()


class Changes:
    """Random transactions. It remembers nothing of the tables, so it goes on when the database has lost some."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def run_transaction(self, connection: Connection) -> None:
        """Change one to five rows and commit, or roll back, once in ten times."""
        for _ in range(self._random.randint(1, 5)):
            self._change(connection, self._random.choice(TABLES))
        if self._random.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()

    def _change(self, connection: Connection, table: Table) -> None:
        keys: list[Key] = connection.execute(_select(table)).fetchall()
        chance = self._random.random()
        if not keys or chance < 0.4:
            self._write(connection, table, self._choose_key(table))
            return
        key = self._random.choice(keys)
        if chance < 0.6:
            self._write(connection, table, key)
        elif chance < 0.8:
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(table.name), _match(table)), key
            )
        else:
            self._change_key(connection, table, key, keys)

    def _write(self, connection: Connection, table: Table, key: Key) -> None:
        """Insert the row of ``key``, or update all its other columns."""
        row = dict(zip(table.key, key, strict=True)) | self._make_columns(table)
        others = [name for name in row if name not in table.key]
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}").format(
            sql.Identifier(table.name),
            sql.SQL(", ").join(map(sql.Identifier, row)),
            sql.SQL(", ").join(sql.Placeholder() for _ in row),
            sql.SQL(", ").join(map(sql.Identifier, table.key)),
            sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others),
        )
        connection.execute(statement, list(row.values()))

    def _change_key(self, connection: Connection, table: Table, key: Key, keys: Sequence[Key]) -> None:
        """Give the row of ``key`` a key that is free, or let it change places with the row that has it."""
        new = self._choose_key(table)
        if new == key:
            return
        waiting = tuple(_FREE[name] for name in table.key)
        moves = [(key, waiting), (new, key), (waiting, new)] if new in keys else [(key, new)]
        assign = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in table.key)
        for old, target in moves:
            statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(sql.Identifier(table.name), assign, _match(table))
            connection.execute(statement, [*target, *old])

    def _choose_key(self, table: Table) -> Key:
        if table.name == "customers":
            return (self._random.randint(1, 60),)
        if table.name == "order_lines":
            return self._random.randint(1, 2) << 40, self._random.randint(1, 20)
        return (self._random.choice(_CODES),)

    def _make_columns(self, table: Table) -> Row:
        text, number = self._random.choice(("", "plain", "übergröße", "a\nb", "😀")), self._random.randint(-999, 999)
        if table.name == "order_lines":
            return {"product": self._random.choice((None, text)), "amount": number}
        if table.name == "countries":
            return {"title": self._random.choice((None, text, f"{text} {number}"))}
        return {
            "name": text,
            "balance": self._random.choice((None, Decimal(number) / 100)),
            "active": self._random.choice((None, True, False)),
            "profile": self._random.choice((None, json.dumps({"number": number, "text": text}))),
            "photo": self._random.choice((None, b"", bytes([0, 255, abs(number) % 256]))),
        }


def write_marker(connection: Connection, number: int) -> None:
    """Write the marker of round ``number``."""
    connection.execute(f"UPDATE {MARKER} SET round = %s", [number])
    connection.commit()


def load_rows(connection: Connection, table: Table) -> dict[Key, Row]:
    """The rows of a table by primary key."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table.name}")
        names = [column.name for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    connection.rollback()
    return {tuple(row[name] for name in table.key): row for row in rows}


def read_events(table: Table, records: Sequence[Record]) -> dict[Key, Row | None]:
    """A compacted log as a table: the row of each key, None where its record is a tombstone.

    Raises:
        AssertionError: a key has two records.
    """
    found: dict[Key, Row | None] = {}
    for each in records:
        named = json.loads(each.key or b"")
        key = tuple(named[name] for name in table.key)
        assert key not in found, f"{table.name} has two records of {key}"
        found[key] = None if each.value is None else _read_row(json.loads(each.value), key)
    return found


def _read_row(event: Mapping[str, Any], key: Key) -> Row | None:
    """The row after an event; decimals and JSON are text in it, bytes base64."""
    if event["op"] == "d":
        return {"deleted": key}  # a tombstone has to follow
    row = dict(event["after"])
    if row.get("balance") is not None:
        row["balance"] = Decimal(row["balance"])
    if row.get("profile") is not None:
        row["profile"] = json.loads(row["profile"])
    if row.get("photo") is not None:
        row["photo"] = base64.b64decode(row["photo"])
    return row


def _select(table: Table) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, table.key))
    return sql.SQL("SELECT {} FROM {} ORDER BY {}").format(names, sql.Identifier(table.name), names)


def _match(table: Table) -> sql.Composed:
    return sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in table.key)
