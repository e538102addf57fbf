"""What one task may use: its budget, its DuckDB connections and the limit on its read and write rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import urlparse

from winnow.files import duckdb_connection, storage
from winnow.values.model import Segment

if TYPE_CHECKING:
    import duckdb


MAXIMUM_BURST_SECONDS = 1.0
"""Maximum unused rate that a computing task saves up: no long burst follows a pause."""


class Throttle:
    """A token bucket: after each :meth:`take` no more was taken since the start than the rate allows.

    Args:
        bytes_per_second: the rate, above 0; None: no limit.
        now: a monotonic clock in seconds.
        sleep: waits a number of seconds.
    """

    def __init__(
        self,
        bytes_per_second: float | None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._now = now
        self._sleep = sleep
        self._paid_until = now()

    def take(self, size_bytes: float) -> None:
        """Wait until ``size_bytes`` more are allowed."""
        if self._bytes_per_second is None:
            return
        # The earliest time at which everything taken so far is allowed.
        earned_at = max(self._paid_until, self._now() - MAXIMUM_BURST_SECONDS) + size_bytes / self._bytes_per_second
        self._paid_until = earned_at
        wait_seconds = earned_at - self._now()
        if wait_seconds > 0:
            self._sleep(wait_seconds)


class ThrottleMeter:
    """Takes a known number of bytes little by little, in proportion to the records read."""

    def __init__(self, throttle: Throttle, size_bytes: int, records: int) -> None:
        self._throttle = throttle
        self._size_bytes = size_bytes
        self._records = records
        self._passed = 0

    def throttle(self, records: int) -> None:
        """Take the bytes of ``records`` more records; in total not more than were announced."""
        self._passed += records
        self._throttle.take(self._size_bytes * records / self._records)

    def finish(self, size_bytes: int) -> None:
        """Take the rest of the actual ``size_bytes``. Bytes taken in excess are not given back."""
        taken = self._size_bytes * self._passed / self._records if self._records else 0.0
        self._throttle.take(max(0.0, size_bytes - taken))


@dataclass(frozen=True, slots=True)
class TaskBudget:
    """The resources that one task may use. ``bytes_per_second``: reads and writes together; None: no limit.

    ``spill_folder``: None: Spark's local folders, or the system's temporary folder.
    """

    memory_limit_bytes: int
    threads: int
    spill_folder: str | None
    bytes_per_second: float | None = None


MAXIMUM_SHARED_CONNECTION_BYTES = 64 << 20
"""Larger units get their own DuckDB: its start hardly counts there, and what they spilled is removed with it."""


class ConnectionPool:
    """Gives a connection to each unit of a task. Use as a context manager, in one thread; units run in sequence."""

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
        """Provide a connection without tables and with the task's settings for ``segments``; closed afterwards.

        A unit that fails leaves nothing to the next one, which gets a new DuckDB.
        """
        if sum(segment.size_bytes for segment in segments) > MAXIMUM_SHARED_CONNECTION_BYTES:
            with open_connection(self._budget, segments) as connection:
                yield connection
            return
        # Object stores are registered when a DuckDB is started.
        stores = {urlparse(segment.path).scheme for segment in segments if not storage.is_local(segment.path)}
        if not stores <= self._stores:
            self._stop()
        if self._shared is None:
            self._shared = self._opened.enter_context(open_connection(self._budget, segments))
            self._stores = stores
        connection = self._shared.cursor()
        try:
            # Settings are shared by all connections of a DuckDB; temporary tables are not.
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
    """Provide a connection to a new DuckDB for ``segments``; closed afterwards."""
    return duckdb_connection.open_connection(
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        uris=[segment.path for segment in segments],
    )
