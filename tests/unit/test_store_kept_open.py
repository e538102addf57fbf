"""A store that is kept open for many short transactions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from winnow.store import Store

NOW_MS = 1_800_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


@pytest.fixture
def opened(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that connections are opened to from now on."""
    files: list[str] = []
    connect = sqlite3.connect

    def record(path: str, *arguments: Any, **named: Any) -> sqlite3.Connection:
        files.append(path)
        made: sqlite3.Connection = connect(path, *arguments, **named)
        return made

    monkeypatch.setattr(sqlite3, "connect", record)
    return files


def write(store: Store, *topics: str) -> None:
    for topic in topics:
        store.leases.acquire(topic, "holder", NOW_MS, 60_000)


def test_transactions_share_a_connection_and_the_log_stays_until_the_end(
    store: Store, opened: list[str], tmp_path: Path
) -> None:
    """Whichever connection closes the file last copies the log into it and deletes it, with syncs."""
    log = tmp_path / "store.db-wal"
    with store.keep_open():
        write(store, "a", "b", "c")
        assert store.leases.find("b") is not None
        assert log.is_file()
    assert len(opened) == 1
    assert not log.exists()
    write(store, "d", "e")
    assert len(opened) == 3


def test_what_is_committed_is_seen_by_others_at_once_and_their_writes_here(store: Store, tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as other, store.keep_open():
        write(store, "mine")
        assert other.leases.find("mine") is not None
        write(other, "theirs")
        assert store.leases.find("theirs") is not None


def test_threads_have_connections_of_their_own(store: Store, opened: list[str]) -> None:
    with store.keep_open():
        threads = [
            threading.Thread(target=write, args=(store, *(f"{name}{number}" for number in range(20)))) for name in "abc"
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        found = store.leases.find_many([f"{name}{number}" for name in "abc" for number in range(20)])
    assert len(found) == 60
    assert len(opened) <= 4


def test_a_failed_transaction_leaves_nothing_to_the_next_one(store: Store) -> None:

    def fail() -> None:
        with store._database.writing() as session:
            session.connection().exec_driver_sql("CREATE TABLE left_over (x)")
            raise RuntimeError

    with store.keep_open():
        with pytest.raises(RuntimeError):
            fail()
        with store._database.reading() as session:
            names = session.connection().exec_driver_sql("SELECT name FROM sqlite_schema").scalars().all()
        assert "left_over" not in names
        write(store, "after")
