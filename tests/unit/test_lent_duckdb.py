"""A DuckDB that is lent again is as a new one."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.support.lent_duckdb import Lender
from winnow.files.duckdb_connection import read_memory_limit_bytes

MEMORY_LIMIT_BYTES = 64 << 20


@pytest.fixture
def lender() -> Lender:
    return Lender()


def test_the_next_borrower_finds_no_table_no_view_and_its_own_settings(lender: Lender, tmp_path: Path) -> None:
    first = lender.connect(memory_limit_bytes=MEMORY_LIMIT_BYTES, threads=2, spill_folder=str(tmp_path / "a"))
    first.execute("CREATE TEMP TABLE t AS SELECT 1")
    first.execute("CREATE TABLE u AS SELECT 1")
    first.execute("CREATE VIEW v AS SELECT 1")
    first.execute("SET disabled_optimizers = 'build_side_probe_side'")
    first.close()
    next_one = lender.connect(memory_limit_bytes=2 * MEMORY_LIMIT_BYTES, spill_folder=str(tmp_path / "b"))
    found = next_one.execute(
        "SELECT current_setting('threads'), current_setting('disabled_optimizers'), current_setting('temp_directory')"
    ).fetchone()
    assert found[:2] == (1, "")
    assert Path(found[2]).parent == tmp_path / "b"
    assert read_memory_limit_bytes(next_one) == pytest.approx(2 * MEMORY_LIMIT_BYTES, rel=0.01)
    for name in "tuv":
        with pytest.raises(duckdb.CatalogException):
            next_one.execute(f"FROM {name}")
    next_one.close()


def test_two_borrowers_share_nothing_and_a_closed_connection_stays_closed(lender: Lender, tmp_path: Path) -> None:
    one, other = (lender.connect(memory_limit_bytes=MEMORY_LIMIT_BYTES, spill_folder=str(tmp_path)) for _ in range(2))
    one.execute("CREATE VIEW v AS SELECT 1")
    other.execute("CREATE VIEW v AS SELECT 2")
    assert (one.execute("FROM v").fetchall(), other.execute("FROM v").fetchall()) == ([(1,)], [(2,)])
    one.close()
    one.close()
    again = lender.connect(memory_limit_bytes=MEMORY_LIMIT_BYTES, spill_folder=str(tmp_path))
    with pytest.raises(duckdb.ConnectionException):
        one.execute("SELECT 1")
    assert again.execute("SELECT 1").fetchall() == other.execute("SELECT 1").fetchall()
    again.close()
    other.close()


def test_what_a_borrower_spilled_is_gone_when_it_has_closed(lender: Lender, tmp_path: Path) -> None:
    connection = lender.connect(memory_limit_bytes=MEMORY_LIMIT_BYTES, spill_folder=str(tmp_path))
    connection.execute("CREATE TEMP TABLE t AS SELECT hash(range) AS h, range FROM range(12_000_000)")
    assert list(tmp_path.iterdir()) != []
    connection.close()
    assert list(tmp_path.iterdir()) == []
