"""One DuckDB for the small units of a task: each finds it clean, and none finds what a failed one left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from winnow.engine.task_resources import MAXIMUM_SHARED_CONNECTION_BYTES, ConnectionPool, TaskBudget
from winnow.values.model import Segment

SMALL = (Segment("file:///log/0.parquet", 0, 0, 9, 10, 1_000, None, None, 0),)
LARGE = (Segment("file:///log/1.parquet", 0, 0, 9, 10, MAXIMUM_SHARED_CONNECTION_BYTES + 1, None, None, 0),)
CREATE = 'CREATE TEMP TABLE survivors AS SELECT 1 AS "offset"'


def setting(connection: duckdb.DuckDBPyConnection, name: str) -> object:
    row = connection.execute(f"SELECT current_setting('{name}')").fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[ConnectionPool]:
    with ConnectionPool(TaskBudget(1 << 28, 2, str(tmp_path / "spill"))) as opened:
        yield opened


def test_small_units_share_a_database_and_see_none_of_each_others_tables(connections: ConnectionPool) -> None:
    """Also settings that a unit changed for itself are as before for the next."""
    databases = []
    for _ in range(3):
        with connections.open(SMALL) as connection:
            connection.execute(CREATE)
            assert (setting(connection, "threads"), setting(connection, "disabled_optimizers")) == (2, "")
            connection.execute("SET threads = 1")
            connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
            databases.append(setting(connection, "temp_directory"))
    assert len(set(databases)) == 1


def test_large_unit_has_a_database_of_its_own(connections: ConnectionPool) -> None:
    """What it spilled is gone when it ends, and its memory, too."""
    with connections.open(SMALL) as connection:
        shared = setting(connection, "temp_directory")
    with connections.open(LARGE) as connection:
        assert setting(connection, "temp_directory") != shared
        assert setting(connection, "threads") == 2
    with connections.open(SMALL) as connection:
        assert setting(connection, "temp_directory") == shared


def test_failed_unit_takes_its_database_with_it(connections: ConnectionPool) -> None:
    """An engine that ran out of memory is not trusted with the next partition."""
    with connections.open(SMALL) as connection:
        before = setting(connection, "temp_directory")
    with pytest.raises(duckdb.Error), connections.open(SMALL) as connection:
        connection.execute("SELECT * FROM nowhere")
    with connections.open(SMALL) as connection:
        assert setting(connection, "temp_directory") != before
        connection.execute(CREATE)


def test_connections_of_a_task_end_with_it(tmp_path: Path) -> None:
    with ConnectionPool(TaskBudget(1 << 28, 1, str(tmp_path / "spill"))) as opened, opened.open(SMALL) as connection:
        connection.execute(CREATE)
    with pytest.raises(duckdb.ConnectionException):
        connection.execute("SELECT 1")
    (private,) = (tmp_path / "spill").iterdir()
    assert list(private.iterdir()) == []
