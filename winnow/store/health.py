"""What the metadata store says of itself without being changed: schema, whether it can be written to, its clock."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.orm import Session

from winnow.clock import Clock
from winnow.store import tables
from winnow.store.address import mask_address
from winnow.store.database import Database
from winnow.store.migration import read_revision
from winnow.store.migrations import HEAD_REVISION


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """``address`` without secrets. ``revision`` None: empty; ``is_there`` False: a SQLite file that is not made yet.

    ``ahead_ms``: how far its clock is ahead of this machine's; None where there is none to ask.
    """

    address: str
    is_there: bool
    revision: str | None
    newest: str
    ahead_ms: int | None


def examine_store(url: str, now_ms: Clock) -> StoreHealth:
    """Look at the store at ``url``. What is written is rolled back, so nothing of it changes.

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
    # No topic can have such a name. Where Winnow's tables are, its user need not be allowed to make others.
    name = f"winnow_doctor_{uuid.uuid4().hex}"
    with database.writing() as session:
        if with_tables:
            session.add(tables.LeaseTable(topic=f"/{name}", holder=None, token=0, expires_ms=0))
            session.flush()
        else:
            session.execute(text(f"CREATE TABLE {name} (written INTEGER)"))
        session.rollback()
