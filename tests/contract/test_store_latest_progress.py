"""What a store keeps of how far tables of latest states are behind their logs, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tests.support import store_fixtures
from tests.support.store_fixtures import NOW_MS
from winnow.store import Store
from winnow.store.latest_progress import LatestLimits, LatestProgress, LogState
from winnow.values.topic_state import TopicHead

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

DAY_MS = 86_400_000
LIMITS = LatestLimits(max_age_ms=DAY_MS, update_ms=60_000)
FIRST = LogState("orders", "life-1", 1, LIMITS, 10, NOW_MS - 5, appended=10)
SECOND = LogState("orders", "life-1", 2, LIMITS, 15, NOW_MS - 9, appended=5)
WHOLE = LogState("orders", "life-1", 2, LIMITS, 15, NOW_MS - 9)


def find(store: Store, topic: str = "orders") -> LatestProgress:
    found = store.latest_tables.find(topic)
    assert found is not None
    return found


def record_head(store: Store, sequence: int) -> None:
    store.topic_heads.record(TopicHead("orders", "life-1", f"{sequence}.json", sequence, 0, sequence, 0, NOW_MS))


def test_the_oldest_record_that_was_appended_sets_deadline_and_next_update(store: Store) -> None:
    store.latest_tables.record_log(FIRST)
    store.latest_tables.record_log(SECOND)
    assert find(store) == LatestProgress(
        topic="orders", table_uuid="life-1", shown_sequence=0, seen_sequence=2, seen_end_offsets=15,
        missing_since_ms=NOW_MS - 9, updated_at_ms=None, tried_at_ms=0, max_age_ms=DAY_MS, update_ms=60_000,
        deadline_ms=NOW_MS - 9 + DAY_MS, due_ms=60_000,
    )  # fmt: skip
    assert [late.topic for late in store.latest_tables.list_late(NOW_MS - 9 + DAY_MS)] == ["orders"]
    assert store.latest_tables.list_late(NOW_MS - 10 + DAY_MS) == []
    assert [due.topic for due in store.latest_tables.list_due(60_000)] == ["orders"]
    assert store.latest_tables.list_due(59_999) == []


def test_an_append_that_is_noted_after_the_update_that_shows_it_is_not_missing(store: Store) -> None:
    """Its process was paused between its commit and the store."""
    store.latest_tables.record_log(FIRST)
    assert store.latest_tables.record_shown(WHOLE, 2, None, updated_at_ms=NOW_MS)
    store.latest_tables.record_log(SECOND)
    assert (find(store).missing_since_ms, find(store).deadline_ms, find(store).due_ms) == (None, None, None)


def test_an_update_that_saw_an_older_log_is_told_to_look_again(store: Store) -> None:
    store.latest_tables.record_log(FIRST)
    store.latest_tables.record_log(SECOND)
    assert not store.latest_tables.record_shown(replace(WHOLE, sequence=1, end_offsets=10), 1, None, updated_at_ms=5)
    assert find(store).missing_since_ms == NOW_MS - 9


def test_a_commit_after_one_that_nobody_noted_is_not_accounted_for(store: Store) -> None:
    """The table itself is looked at then; a commit that appends nothing is none of those."""
    record_head(store, 1)
    store.latest_tables.record_log(FIRST)
    store.latest_tables.record_shown(replace(WHOLE, sequence=1, end_offsets=10), 1, None, updated_at_ms=NOW_MS)
    record_head(store, 2)
    assert store.latest_tables.list_unaccounted() == ["orders"]
    store.latest_tables.record_log(replace(WHOLE, end_offsets=10))
    assert store.latest_tables.list_unaccounted() == []
    record_head(store, 4)
    store.latest_tables.record_log(replace(SECOND, sequence=4, end_offsets=20))
    assert store.latest_tables.list_unaccounted() == ["orders"]
    assert find(store).missing_since_ms == NOW_MS - 9
    store.latest_tables.record_log(replace(WHOLE, sequence=4, end_offsets=20, limits=LatestLimits()))
    assert store.latest_tables.list_unaccounted() == []


def test_another_life_of_the_topic_begins_without_anything_shown(store: Store) -> None:
    store.latest_tables.record_shown(WHOLE, 2, None, updated_at_ms=NOW_MS)
    store.latest_tables.record_log(replace(WHOLE, table_uuid="life-2", sequence=1))
    assert (find(store).shown_sequence, find(store).updated_at_ms) == (0, None)
    assert find(store).missing_since_ms == NOW_MS - 9


def test_a_topic_that_keeps_no_table_has_no_row(store: Store) -> None:
    store.latest_tables.record_log(FIRST)
    store.latest_tables.record_log(replace(WHOLE, limits=None))
    assert store.latest_tables.find("orders") is None


def test_of_many_processes_one_takes_an_update_that_is_due(store: Store) -> None:
    store.latest_tables.record_log(FIRST)
    (due,) = store.latest_tables.list_due(NOW_MS)
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda number: store.latest_tables.claim(due, NOW_MS + number), range(8)))
    assert sum(taken) == 1
    assert store.latest_tables.list_due(NOW_MS) == []


def test_a_thousand_tables_are_looked_through_in_a_statement_each(store: Store) -> None:
    for number in range(20):
        store.latest_tables.record_log(replace(FIRST, topic=f"t{number:02d}"))
    with store_fixtures.collect_statements() as statements:
        assert len(store.latest_tables.list_late(NOW_MS + DAY_MS)) == 20
        assert store.latest_tables.list_unaccounted() == []
        assert len(store.latest_tables.list_due(NOW_MS)) == 20
    assert len([text for text in statements if text.startswith("SELECT")]) == 3
