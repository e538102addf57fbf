"""What a store keeps of how far logs are behind Kafka, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from dataclasses import replace

from tests.support import store_fixtures
from tests.support.store_fixtures import NOW_MS
from winnow.store import Store
from winnow.store.ingest_lag import CompleteTopic, IngestLag, TopicLag

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

DAY_MS = 86_400_000
BEHIND = IngestLag("orders", 0, NOW_MS, 5, NOW_MS - 10, NOW_MS - 10 + DAY_MS)
LEVEL = IngestLag("orders", 1, NOW_MS, 0, NOW_MS, NOW_MS + DAY_MS)


def test_a_topics_lag_is_the_sum_of_its_partitions_and_the_earliest_of_their_times(store: Store) -> None:
    assert store.ingest_lags.summarize("orders") is None
    store.ingest_lags.record([BEHIND, LEVEL, replace(LEVEL, topic="clicks")])
    assert store.ingest_lags.find("orders") == {0: BEHIND, 1: LEVEL}
    assert store.ingest_lags.summarize("orders") == TopicLag(2, NOW_MS, 5, NOW_MS - 10, BEHIND.deadline_ms)


def test_what_open_transactions_hold_is_the_sum_and_the_oldest_of_them(store: Store) -> None:
    """It is due like what is missing, and a look that finds everything stable forgets it."""
    held = replace(LEVEL, records_uncommitted=120, open_since_ms=NOW_MS - 7)
    store.ingest_lags.record([BEHIND, held, replace(held, partition=2, open_since_ms=None)])
    store.ingest_lags.record([replace(held, topic="clicks")])
    assert store.ingest_lags.find("orders")[1] == held
    found = store.ingest_lags.summarize("orders")
    assert found is not None
    assert (found.records_behind, found.records_uncommitted, found.open_since_ms) == (5, 240, NOW_MS - 7)
    assert store.ingest_lags.list_topics_due_by(NOW_MS + DAY_MS) == {"clicks": True, "orders": True}
    store.ingest_lags.confirm_complete(["orders"], NOW_MS + 1)
    free = {(each.records_uncommitted, each.open_since_ms) for each in store.ingest_lags.find("orders").values()}
    assert free == {(0, None)}


def test_an_older_look_replaces_no_newer_one(store: Store) -> None:
    """A process that was paused records what it found long ago."""
    store.ingest_lags.record([BEHIND])
    store.ingest_lags.record([replace(BEHIND, looked_at_ms=NOW_MS - 1, records_behind=0)])
    store.ingest_lags.confirm_complete(["orders"], NOW_MS - 1)
    assert store.ingest_lags.find("orders") == {0: BEHIND}


def test_a_look_that_finds_nothing_missing_moves_time_and_deadline(store: Store) -> None:
    """Topics that were never ingested get no row, and those without a maximum lag no deadline."""
    free = replace(LEVEL, topic="clicks", deadline_ms=None)
    store.ingest_lags.record([BEHIND, LEVEL, free])
    later_ms = NOW_MS + 500
    store.ingest_lags.confirm_complete(["orders", "clicks", "unknown"], later_ms)
    level = IngestLag("orders", 0, later_ms, 0, later_ms, later_ms + DAY_MS)
    assert store.ingest_lags.find("orders") == {0: level, 1: replace(level, partition=1)}
    assert store.ingest_lags.find("clicks") == {1: IngestLag("clicks", 1, later_ms, 0, later_ms, None)}
    assert store.ingest_lags.find("unknown") == {}


def test_topics_whose_missing_records_are_due_are_found_and_told_from_those_that_nobody_looked_at(
    store: Store,
) -> None:
    store.ingest_lags.record([BEHIND, LEVEL, replace(LEVEL, topic="clicks")])
    assert store.ingest_lags.list_topics_due_by(NOW_MS - 11 + DAY_MS) == {}
    assert store.ingest_lags.list_topics_due_by(NOW_MS - 10 + DAY_MS) == {"orders": True}
    assert store.ingest_lags.list_topics_due_by(NOW_MS + DAY_MS) == {"clicks": False, "orders": True}


def test_a_thousand_topics_are_found_and_confirmed_in_a_few_statements(store: Store) -> None:
    names = [f"t{number:04d}" for number in range(1_001)]
    marks = [CompleteTopic(name, f"s3://lake/{name}/1.json", "digest") for name in names]
    store.ingest_lags.record([replace(LEVEL, topic=name) for name in names])
    store.ingest_lags.record_complete(marks)
    with store_fixtures.collect_statements() as statements:
        assert list(store.ingest_lags.find_complete(names).values()) == marks
        store.ingest_lags.confirm_complete(names, NOW_MS + 5)
    assert len(statements) <= 12


def test_a_topic_that_is_gone_leaves_nothing(store: Store) -> None:
    store.ingest_lags.record([BEHIND])
    store.ingest_lags.record_complete([CompleteTopic("orders", "s3://lake/orders/1.json", "digest")])
    store.projection.forget_topic("orders")
    assert store.ingest_lags.find("orders") == {}
    assert store.ingest_lags.find_complete(["orders"]) == {}


def test_where_partitions_diverge_is_known_until_it_is_forgotten(store: Store) -> None:
    """What a later call found replaces it, and nothing is left of a topic that is gone."""
    store.divergences.record("orders", {0: 5, 1: 1 << 40})
    store.divergences.record("clicks", {0: 7})
    store.divergences.record("orders", {0: 6})
    assert store.divergences.find("orders") == {0: 6}
    assert store.divergences.list_topics() == {"orders", "clicks"}
    store.divergences.forget(["orders", "unknown"])
    assert store.divergences.find("orders") == {}
    store.projection.forget_topic("clicks")
    assert store.divergences.list_topics() == set()
