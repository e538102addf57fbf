"""The audit log on both databases: who did what, the newest first."""

from __future__ import annotations

from dataclasses import replace

from tests.support import store_fixtures
from winnow.store import Store
from winnow.store.audit import MAXIMUM_TEXT_CHARACTERS, AuditEntry
from winnow.store.values import Window

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

PAUSED = AuditEntry(
    1_000, "ann", "pause", "orders", "restore-2041", "airflow:change_partitions:manual__1", "partition 1"
)
ALTERED = AuditEntry(2_000, "bob@host", "alter", "orders", "", "shell", "segment.ms")
SWEPT = AuditEntry(3_000, "ann", "sweep")


def test_entries_are_found_by_topic_actor_and_action_newest_first(store: Store) -> None:
    """Each filter alone, and pages."""
    for entry in (PAUSED, ALTERED, SWEPT):
        store.audit.record(entry)
    assert store.audit.list_entries(Window()).rows == (SWEPT, ALTERED, PAUSED)
    assert store.audit.list_entries(Window(), topic="orders").rows == (ALTERED, PAUSED)
    assert store.audit.list_entries(Window(), actor="ann", action="pause").rows == (PAUSED,)
    second = store.audit.list_entries(Window(2, 2))
    assert (second.total, second.rows) == (3, (PAUSED,))


def test_entry_written_again_is_there_once_and_long_texts_are_cut(store: Store) -> None:
    """A write whose outcome was unknown may be repeated."""
    long = replace(PAUSED, reason="x" * (MAXIMUM_TEXT_CHARACTERS + 1))
    store.audit.record(long)
    store.audit.record(long)
    assert store.audit.list_entries(Window()).rows == (replace(long, reason="x" * MAXIMUM_TEXT_CHARACTERS),)
