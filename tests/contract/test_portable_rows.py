"""Rows of a metadata store on either database become those of a store on either."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import store_fixtures
from tests.support.store_fixtures import NOW_MS, assessment, cleaned_state, marked_state, open_run, receipt, verdict
from winnow.errors import FormatVersionError
from winnow.store import Store
from winnow.store.portable_rows import Row
from winnow.store.rows import AuditEntry

postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store


def fill(store: Store) -> None:
    """Put rows into tables that refer to one another, with numbers and fractions that are easily lost."""
    open_run(store)
    store.verdicts.record(verdict())
    store.assessments.record(NOW_MS, NOW_MS, [assessment(), assessment(partition=1)])
    store.projection.replace("orders", {0: cleaned_state(), 1: marked_state()}, [receipt()], [], NOW_MS)
    store.leases.acquire("orders", "holder", NOW_MS, 1_000)
    for number in range(3):
        store.audit.record(AuditEntry(NOW_MS + number, "zo\u00eb", "pause", "orders", reason="\u2028 'quoted'"))


def read_rows(store: Store) -> dict[str, list[Row]]:
    """All rows, as they travel."""
    return {table: json.loads(json.dumps(list(rows))) for table, rows in store.portable_rows.read_tables()}


@pytest.mark.parametrize("reverse", [False, True], ids=["from-sqlite", "to-sqlite"])
def test_rows_are_the_same_in_another_database(
    new_store_url: Callable[[], str], tmp_path: Path, *, reverse: bool
) -> None:
    """All but the leases; what was there before goes, and twice is as once."""
    urls = [f"sqlite:///{tmp_path / 'one' / 'store.db'}", new_store_url()]
    first, second = reversed(urls) if reverse else urls
    with Store.open(first) as source, Store.open(second) as target:
        fill(source)
        rows = read_rows(source)
        assert {"winnow_run", "winnow_assessment", "winnow_cleaning", "winnow_paused_by"} <= {
            t for t in rows if rows[t]
        }
        assert target.portable_rows.find_filled_tables() == []
        open_run(target, "other")
        assert "winnow_run" in target.portable_rows.find_filled_tables()
        for _ in range(2):
            target.portable_rows.replace_all((table, iter(found)) for table, found in rows.items())
        assert read_rows(target) == rows
        assert target.leases.find("orders") is None
        assert target.audit.verify_chain().first_break is None
        target.audit.record(AuditEntry(NOW_MS + 9, "zoe", "resume", "orders"))


def test_rows_that_this_winnow_does_not_know_change_nothing(store: Store) -> None:
    """A newer Winnow's table, or column."""
    fill(store)
    before = read_rows(store)
    for rows, known in (
        ([("winnow_unheard_of", [{"name": "x"}])], "winnow_unheard_of"),
        ([("winnow_run", [{"plan_id": "x", "colour": "red"}])], "colour"),
    ):
        with pytest.raises(FormatVersionError, match=known):
            store.portable_rows.replace_all(rows)
        assert read_rows(store) == before
