"""One DuckDB after the other is lent to what opens one: its start takes longer than most of what tests ask it.

A borrower gets a connection of its own, without tables, and the settings that it asks for; two at a time never share a
DuckDB. One that has spilled, or cannot be cleared, is not lent again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from winnow.files import duckdb_connection, storage

if TYPE_CHECKING:
    import duckdb

MAXIMUM_IDLE: Final = 4
_connect: Final = duckdb_connection.connect
"""The genuine one."""
_LEFT_BEHIND: Final = (
    "SELECT 'VIEW ' || view_name FROM duckdb_views() WHERE NOT internal "
    "UNION ALL SELECT 'TABLE ' || table_name FROM duckdb_tables()"
)


@dataclass
class LentConnection:
    """A connection whose end gives its DuckDB back."""

    _genuine: duckdb.DuckDBPyConnection
    _give_back: Callable[[], None]
    _is_closed: bool = field(default=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, with its tables."""
        self._genuine.close()
        if not self._is_closed:
            self._is_closed = True
            self._give_back()


class Lender:
    """The idle DuckDBs of this process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._idle: list[duckdb.DuckDBPyConnection] = []

    def connect(self, *, memory_limit_bytes: int, threads: int = 1, spill_folder: str, uris: Iterable[str] = ()) -> Any:
        """Connect as :func:`winnow.files.duckdb_connection.connect` does."""
        uris = list(uris)
        if not all(map(storage.is_local, uris)):  # a DuckDB keeps the object stores that are registered with it
            return _connect(
                memory_limit_bytes=memory_limit_bytes, threads=threads, spill_folder=spill_folder, uris=uris
            )
        if self._process != os.getpid():
            self._process, self._idle = os.getpid(), []
        Path(spill_folder).mkdir(parents=True, exist_ok=True)
        spill = Path(spill_folder, f"winnow-spill-{uuid.uuid4().hex}")
        database = self._take(max(memory_limit_bytes, duckdb_connection.MINIMUM_MEMORY_BYTES), threads, spill)
        return LentConnection(database.cursor(), lambda: self._take_back(database, spill))

    def close(self) -> None:
        """End the idle ones."""
        while self._idle:
            self._idle.pop().close()

    def _take(self, memory_limit_bytes: int, threads: int, spill: Path) -> duckdb.DuckDBPyConnection:
        try:
            database = self._idle.pop()  # another thread may have taken the last one
        except IndexError:
            database = _connect(memory_limit_bytes=memory_limit_bytes, threads=threads, spill_folder=str(spill.parent))
        database.execute(f"SET memory_limit = '{memory_limit_bytes}B'")
        database.execute(f"SET threads = {threads}")
        database.execute(f"SET temp_directory = {duckdb_connection.quote_literal(str(spill))}")
        database.execute("RESET disabled_optimizers")
        return database

    def _take_back(self, database: duckdb.DuckDBPyConnection, spill: Path) -> None:
        import duckdb

        try:
            for (left,) in database.execute(_LEFT_BEHIND).fetchall():
                database.execute(f"DROP {left}")
        except duckdb.Error:
            database.close()
            return
        if spill.exists() or len(self._idle) >= MAXIMUM_IDLE or self._process != os.getpid():
            database.close()
        else:
            self._idle.append(database)


@contextmanager
def lend_duckdb() -> Iterator[None]:
    """Lend within the block."""
    lender = Lender()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb_connection, "connect", lender.connect)
        yield
    lender.close()
