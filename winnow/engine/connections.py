"""DuckDB for the units of one task: started once for all small ones, since its start costs more than such a unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Self
from urllib.parse import urlparse

from winnow.files import duck, storage
from winnow.model import Segment

if TYPE_CHECKING:
    import duckdb

    from winnow.engine.rewrite import TaskBudget

MAXIMUM_SHARED_CONNECTION_BYTES = 64 << 20
"""Units of more bytes have a DuckDB of their own: its start is not felt there, and what they spilled goes with it."""


class ConnectionPool:
    """Gives a connection to each unit of a task. Use as a context manager, in one thread; units follow one another."""

    def __init__(self, budget: TaskBudget) -> None:
        self._budget = budget
        self._shared: duckdb.DuckDBPyConnection | None = None
        self._opened = ExitStack()
        self._stores: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @contextmanager
    def open(self, segments: Sequence[Segment]) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection without tables and with the task's settings, to work on ``segments``; closed afterwards.

        A unit that fails leaves nothing to the next: that one begins with a new DuckDB.
        """
        if sum(segment.size_bytes for segment in segments) > MAXIMUM_SHARED_CONNECTION_BYTES:
            with open_connection(self._budget, segments) as connection:
                yield connection
            return
        # Which object stores it reaches is settled when a DuckDB is started.
        stores = {urlparse(segment.path).scheme for segment in segments if not storage.is_local(segment.path)}
        if not stores <= self._stores:
            self._stop()
        if self._shared is None:
            self._shared = self._opened.enter_context(open_connection(self._budget, segments))
            self._stores = stores
        connection = self._shared.cursor()
        try:
            # Settings belong to all connections of a DuckDB, temporary tables to each.
            connection.execute(f"SET threads = {self._budget.threads}")
            connection.execute("RESET disabled_optimizers")
            yield connection
        except BaseException:
            connection.close()
            self._stop()
            raise
        connection.close()

    def _stop(self) -> None:
        self._shared = None
        self._opened.close()


def open_connection(
    budget: TaskBudget, segments: Sequence[Segment]
) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """A connection to a DuckDB of its own, to work on ``segments``; closed afterwards."""
    return duck.open_connection(
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        uris=[segment.path for segment in segments],
    )
