"""Opens the metadata store's database: its URL, short transactions, readable errors."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from winnow.config.masking import MASK, is_secret_name, mask
from winnow.errors import ConfigurationError, RunAgainError, ServiceError, WinnowError

_RIGHT_FORM = "Write sqlite:////folder/store.db or postgresql+psycopg://user:password@host/database (WINNOW_STORE_URL)."

_SERVED = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg"}


def parse_address(text: str) -> URL:
    """Parse the URL of a SQLite file or of a PostgreSQL database, and choose its driver.

    Raises:
        ConfigurationError: the URL is another one. The message never repeats the URL.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "The URL of the metadata store cannot be read.",
            next=_RIGHT_FORM,
        ) from None
    backend, _, driver = url.drivername.partition("+")
    served = _SERVED.get(backend)
    if served is None or (driver and url.drivername != served):
        raise ConfigurationError(
            f"The metadata store has no driver for {url.drivername}; it knows SQLite and PostgreSQL.",
            next=_RIGHT_FORM,
        )
    if backend == "sqlite":
        # In memory is refused: leases and checkpoints must be there for the next process.
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise ConfigurationError(
                "The metadata store must be a file that other processes can open.",
                next=_RIGHT_FORM,
            )
    elif "@" in f"{url.host}{url.database}":
        # The URL was split inside the password, and a driver would print the rest of it as the host's name.
        raise ConfigurationError(
            "The URL of the metadata store holds an @ in its host or database name, so the password most likely holds "
            "one: write it as %40.",
            next=_RIGHT_FORM,
        )
    return url.set(drivername=served)


def mask_address(url: URL) -> str:
    """Format ``url`` for people: no password, no options."""
    return url.set(query={}).render_as_string(hide_password=True)


def remove_secrets(text: str, url: URL) -> str:
    """Remove the password of ``url``, and everything that resembles a secret, from ``text``."""
    options = {name: str(value) for name, value in url.query.items() if is_secret_name(name)}
    for secret in sorted([*options.values(), str(url.password or "")], key=len, reverse=True):
        if secret:
            text = text.replace(secret, MASK)
    return mask("", text)


BUSY_TIMEOUT_S: Final = 30
"""How long a SQLite transaction waits for another one."""

CONNECT_TIMEOUT_S: Final = 10
"""How long PostgreSQL may take to accept a connection, unless the URL says otherwise."""

_BEGIN: Final = "winnow_begin"
"""Execution option of a SQLite connection: how its transactions begin."""


class Database:
    """One database, opened lazily. Safe to share between threads, and to carry into a forked process."""

    def __init__(self, url: str, *, prepare: Callable[[Database], None] | None = None) -> None:
        """Create it. ``prepare`` runs before the first transaction, and again before the next one if it raises."""
        self.url: Final = parse_address(url)
        self._prepare = prepare or (lambda _: None)
        self._preparing = threading.RLock()
        self._is_preparing = False
        self._is_prepared = prepare is None
        self.is_sqlite: Final = self.url.get_backend_name() == "sqlite"
        self._kept: list[_SqliteConnection] | None = None
        self.engine: Final = (
            _open_sqlite(self._connect_to_sqlite, self.url) if self.is_sqlite else _open_postgresql(self.url)
        )
        self._process = os.getpid()
        self._forked = threading.Lock()
        # A transaction that reads first and writes later fails at once if another wrote in between.
        self._writer: Final = self.engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
        # A reader's statements see one state: a checkpoint and its history belong together.
        self._reader: Final = (
            self.engine
            if self.is_sqlite
            else self.engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        )

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a read transaction, a snapshot of the database.

        Raises:
            ServiceError: the database cannot be reached or does not answer.
        """
        self._begin()
        with self._translate_errors(), self._check_unchanged(), Session(self._reader) as session, session.begin():
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open a write transaction: commits at the end of the block, rolls back if it raises.

        Raises:
            ServiceError: the database cannot be reached, does not answer, or another transaction kept it too long.
        """
        self._begin()
        with self._translate_errors(), Session(self._writer) as session, session.begin():
            yield session

    def use_write_ahead_log(self) -> None:
        """Let readers and one writer of a SQLite file work at the same time, from now on and for every process."""
        with self._translate_errors(), self.engine.execution_options(**{_BEGIN: ""}).connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")

    @contextmanager
    def keep_open(self) -> Iterator[None]:
        """Keep a SQLite file's connections for the next transaction during the block, in which the process never forks.

        A connection costs more than a short transaction. And whichever closes a SQLite file last moves the write-ahead
        log into the file and deletes it: four more syncs for each transaction.
        """
        if not self.is_sqlite or self._kept is not None:
            yield
            return
        self._kept = []
        try:
            yield
        finally:
            kept, self._kept = self._kept, None
            for connection in kept:
                connection.close()

    def _connect_to_sqlite(self) -> sqlite3.Connection:
        if self._kept:
            with suppress(IndexError):  # another thread took the last one
                return self._kept.pop()
        connection = _connect(self.url)
        connection.database = self
        return connection

    def keep_connection(self, connection: _SqliteConnection) -> bool:
        """Keep ``connection`` instead of closing it, if that is wanted now; return whether it is kept."""
        if self._kept is None or connection.in_transaction or self._process != os.getpid():
            return False
        self._kept.append(connection)
        return True

    def close(self) -> None:
        """Close idle connections."""
        self.engine.dispose()

    def _begin(self) -> None:
        self._leave_inherited_connections()
        with self._preparing:
            # A process that waited finds the work done; and ``prepare`` begins its own transactions.
            if not (self._is_prepared or self._is_preparing):
                self._is_preparing = True
                try:
                    self._prepare(self)
                    self._is_prepared = True
                finally:
                    self._is_preparing = False

    @contextmanager
    def _check_unchanged(self) -> Iterator[None]:
        """Check that a SQLite file read without write access to its folder was not changed meanwhile."""
        if not self.is_sqlite or not _is_read_only(self.url):
            yield
            return
        path = Path(str(self.url.database))
        before = path.stat()
        yield
        after = path.stat()
        if (before.st_mtime_ns, before.st_size, before.st_ino) != (after.st_mtime_ns, after.st_size, after.st_ino):
            raise RunAgainError(
                f"The metadata store {mask_address(self.url)} changed while it was read.",
                next="Run it again.",
            )

    def _leave_inherited_connections(self) -> None:
        # After a fork parent and child would share one socket, and the pool pings an idle connection before any of its
        # events could detect that.
        if self._process == os.getpid():
            return
        with self._forked:
            if self._process != os.getpid():
                self.engine.dispose(close=False)
                self._process = os.getpid()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as problem:
            # Without the cause: the driver's message would stay in the traceback.
            raise self._make_error(problem) from None

    def _make_error(self, problem: SQLAlchemyError) -> WinnowError:
        cause = problem.orig if isinstance(problem, DBAPIError) else problem
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        detail = remove_secrets(lines[0], self.url)
        where = f"The metadata store {mask_address(self.url)}"
        unreachable = isinstance(problem, OperationalError | InterfaceError | PoolTimeoutError)
        if unreachable or (isinstance(problem, DBAPIError) and problem.connection_invalidated):
            return ServiceError(
                f"{where} cannot be reached or does not answer: {detail}",
                left="Whether the last change arrived is not certain, and repeating it does no harm.",
                next="Wait for the database, then run it again.",
            )
        return WinnowError(
            f"{where} refused a statement ({type(cause).__name__}): {detail}",
            left="The transaction was rolled back.",
            next="Check that the database is Winnow's and that its user may create and change tables there.",
        )


def _is_read_only(url: URL) -> bool:
    """Check whether a SQLite file exists and this process may not write to it, or not beside it."""
    path = Path(str(url.database))
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


class _SqliteConnection(sqlite3.Connection):
    """A connection that its database may keep instead of closing it."""

    database: Database | None = None

    def close(self) -> None:
        """Close it, unless it is kept."""
        if self.database is None or not self.database.keep_connection(self):
            super().close()


def _connect(url: URL) -> _SqliteConnection:
    path = Path(str(url.database))
    if not _is_read_only(url):
        return sqlite3.connect(str(path), timeout=BUSY_TIMEOUT_S, check_same_thread=False, factory=_SqliteConnection)
    uri = f"file:{quote(str(path.absolute()))}"
    connection = sqlite3.connect(
        f"{uri}?mode=ro", timeout=BUSY_TIMEOUT_S, check_same_thread=False, uri=True, factory=_SqliteConnection
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as problem:
        connection.close()
        # The write-ahead log needs a file beside the database even to read. If it is empty, the database is complete.
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size > 0:
            raise sqlite3.OperationalError(
                "its newest changes are in a write-ahead log that only a user with the right to write there can read"
            ) from problem
        connection = sqlite3.connect(
            f"{uri}?immutable=1", timeout=BUSY_TIMEOUT_S, check_same_thread=False, uri=True, factory=_SqliteConnection
        )
    return connection


def _open_sqlite(connect: Callable[[], sqlite3.Connection], url: URL) -> Engine:
    # An idle connection is dangerous with SQLite if the process forks, and opening one is cheap.
    engine = create_engine(
        url,
        poolclass=NullPool,
        hide_parameters=True,
        creator=connect,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        # The driver begins transactions by itself: too late, and never around DDL.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        # The default of most builds, but not of all: each commit is on disk when it returns.
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if how := connection.get_execution_options().get(_BEGIN, "BEGIN"):
            connection.exec_driver_sql(how)

    return engine


def _open_postgresql(url: URL) -> Engine:
    arguments: dict[str, Any] = {"prepare_threshold": None}  # poolers may lose prepared statements
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = CONNECT_TIMEOUT_S
    return create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=arguments)


class StorePart:
    """One subject of the store: methods that open their own short transaction on a shared database."""

    def __init__(self, database: Database) -> None:
        self._database = database


def lock_topic_rows(session: Session, topic: str) -> None:
    """Lock the rows of ``topic`` until this transaction ends, against other writers.

    Rows are deleted and inserted again, which two transactions at once would do twice. SQLite has one writer anyway.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"winnow projection {topic}", 0))))
