"""Migrates a database to the newest schema, and reports the health of the store."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, func, inspect, select, text
from sqlalchemy.orm import Session

from winnow.clock import Clock
from winnow.errors import FormatVersionError, ServiceError, WinnowError
from winnow.files import private_files
from winnow.files.disk_sync import sync_folder
from winnow.files.file_lock import lock_file
from winnow.store.database import Database, mask_address
from winnow.store.migrations import FIRST_REVISION, HEAD_REVISION, VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS: Final = Path(__file__).parent / "migrations"

_ADVISORY_LOCK: Final = 0x77696E6E6F77
"""The key of the PostgreSQL advisory lock for schema changes: "winnow" in ASCII."""

# Alembic keeps the running migration in module globals.
_one_at_a_time = threading.Lock()


def migrate(database: Database) -> None:
    """Create or upgrade the tables, and the folder of a SQLite file. Does nothing if the schema is the newest.

    Raises:
        ServiceError: the database cannot be reached, or its folder cannot be made.
        FormatVersionError: a newer Winnow has migrated the database, or one from before the first release made it.
    """
    with _lock_migration(database):
        if database.is_sqlite:
            database.use_write_ahead_log()
        with database.reading() as session:
            revision = read_revision(session.connection())
        if revision == HEAD_REVISION:
            return
        with _one_at_a_time, database.writing() as session:
            connection = session.connection()
            if not database.is_sqlite:
                connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            _upgrade(database, connection)
        if database.is_sqlite:
            sync_folder(Path(str(database.url.database)).parent)


def prepare_to_read(database: Database) -> None:
    """Make sure that the tables have the newest schema; write only if they do not.

    Raises:
        ServiceError: the database cannot be reached, or its tables would have to be changed and this user may not.
        FormatVersionError: a newer Winnow has migrated the database, or one from before the first release made it.
    """
    revision = None
    if not database.is_sqlite or Path(str(database.url.database)).exists():
        with database.reading() as session:
            revision = read_revision(session.connection())
    if revision == HEAD_REVISION:
        return
    try:
        migrate(database)
    except FormatVersionError:
        raise
    except WinnowError as problem:
        there = "no tables of Winnow's" if revision is None else f"tables of another Winnow (revision {revision})"
        raise ServiceError(
            f"The metadata store {mask_address(database.url)} has {there}; this one needs revision {HEAD_REVISION}, "
            "and they could not be made.",
            left="Nothing was changed.",
            next=f"Let a user who may write there run any command, such as: winnow assess. The cause: {problem}",
        ) from problem


def make_alembic_config(connection: Connection) -> Config:
    """Make Alembic's configuration to run the packaged migrations over ``connection``, inside its transaction."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    return config


def _upgrade(database: Database, connection: Connection) -> None:
    # Importing it takes a third of a second, and a database is migrated once.
    from alembic import command
    from alembic.script import ScriptDirectory

    config = make_alembic_config(connection)
    revision = read_revision(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        who = "a newer Winnow" if revision > HEAD_REVISION else "a Winnow from before the first release"
        raise FormatVersionError(
            f"The metadata store {mask_address(database.url)} was made by {who} (revision {revision}; this one knows "
            f"{FIRST_REVISION} to {HEAD_REVISION}).",
            left="Nothing was changed.",
            next=(
                "Use that Winnow, or point WINNOW_STORE_URL at an empty database and rebuild the store: winnow store "
                "rebuild"
            ),
        )
    command.upgrade(config, "head")


def read_revision(connection: Connection) -> str | None:
    """Read the schema's revision; None if there is none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return None if revision is None else str(revision)


@contextmanager
def _lock_migration(database: Database) -> Iterator[None]:
    """Hold a lock file beside a SQLite database: switching to the write-ahead log cannot wait for other openers."""
    if not database.is_sqlite:
        yield
        return
    path = Path(str(database.url.database))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        private_files.create_private(path)
        lock = path.with_name(f"{path.name}.lock").open("a")
    except OSError as problem:
        raise ServiceError(
            f"The metadata store {path} cannot be opened: {problem.strerror}.",
            left="Nothing was changed.",
            next="Make its folder writable or point WINNOW_STORE_URL elsewhere, then run it again.",
        ) from problem
    with lock:
        try:
            lock_file(lock)
        except TimeoutError as problem:
            raise ServiceError(
                f"The metadata store {path} cannot be opened: {problem}.",
                left="Nothing was changed.",
                next="End that process if it was stopped, then run it again.",
            ) from problem
        yield


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """Health of the store. ``address`` has no secrets. ``revision`` None: empty; ``is_there`` False: no SQLite file.

    ``newest``, ``oldest``: the schemas that this Winnow knows. ``ahead_ms``: how far its clock is ahead of this
    machine's; None for a database without a clock of its own.
    """

    address: str
    is_there: bool
    revision: str | None
    newest: str
    ahead_ms: int | None
    oldest: str = FIRST_REVISION


def examine_store(url: str, now_ms: Clock) -> StoreHealth:
    """Examine the store at ``url``. Writes are rolled back, so nothing changes.

    Raises:
        ConfigurationError: the URL is neither SQLite's nor PostgreSQL's.
        ServiceError: the database cannot be reached.
        WinnowError: its user may not write.
    """
    database = Database(url)
    try:
        address = mask_address(database.url)
        if database.is_sqlite and not Path(str(database.url.database)).exists():
            return StoreHealth(address, False, None, HEAD_REVISION, None)
        with database.reading() as session:
            revision = read_revision(session.connection())
            before_ms = now_ms()
            there_ms = _read_clock_ms(session, database.is_sqlite)
            here_ms = (before_ms + now_ms()) // 2
        _try_write(database, with_tables=revision is not None)
        return StoreHealth(address, True, revision, HEAD_REVISION, there_ms - here_ms)
    finally:
        database.close()


def _read_clock_ms(session: Session, is_sqlite: bool) -> int:
    statement = (
        "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
        if is_sqlite
        else "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
    )
    return int(session.execute(text(statement)).scalar_one())


def _try_write(database: Database, *, with_tables: bool) -> None:
    # No topic can have such a name. A user of an existing store need not have the right to create tables.
    name = f"winnow_doctor_{uuid.uuid4().hex}"
    with database.writing() as session:
        if with_tables:
            from winnow.store import tables

            session.add(tables.LeaseTable(topic=f"/{name}", holder=None, token=0, expires_ms=0))
            session.flush()
        else:
            session.execute(text(f"CREATE TABLE {name} (written INTEGER)"))
        session.rollback()
