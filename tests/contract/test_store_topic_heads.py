"""What a store keeps of the newest heads of topics, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from dataclasses import replace

from tests.support import store_fixtures
from tests.support.store_fixtures import NOW_MS
from winnow.store import Store
from winnow.values.topic_state import TopicHead

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

HEAD = TopicHead("orders", "life-1", "s3://lake/00007.metadata.json", 7, 3, 77, 5, NOW_MS, NOW_MS)


def test_a_later_head_replaces_the_one_before_in_one_statement(store: Store) -> None:
    later = replace(HEAD, metadata_location="s3://lake/00008.metadata.json", last_sequence_number=8, snapshot_id=88)
    store.topic_heads.record(HEAD)
    with store_fixtures.collect_statements() as statements:
        store.topic_heads.record(later)
    assert len(statements) <= 5
    assert store.topic_heads.list_lives("orders") == [later]
    assert store.topic_heads.list_lives_of(["orders", "clicks"]) == {"orders": [later]}


def test_an_older_head_of_a_process_that_was_paused_changes_nothing(store: Store) -> None:
    """Neither a lower sequence number nor older metadata with the same one; fence and ingest number only rise."""
    store.topic_heads.record(HEAD)
    store.topic_heads.record(replace(HEAD, last_sequence_number=6, fence=9, metadata_location="older"))
    store.topic_heads.record(replace(HEAD, updated_at_ms=NOW_MS - 1, metadata_location="older"))
    assert store.topic_heads.list_lives("orders") == [HEAD]
    store.topic_heads.record(replace(HEAD, last_sequence_number=8, fence=2, ingest_number=1, snapshot_id=None))
    assert store.topic_heads.list_lives("orders") == [replace(HEAD, last_sequence_number=8, snapshot_id=None)]


def test_an_expiry_keeps_the_snapshot_of_its_sequence_number(store: Store) -> None:
    """A commit without a snapshot has newer metadata with the same number."""
    store.topic_heads.record(HEAD)
    expired = replace(HEAD, metadata_location="s3://lake/00009.metadata.json", updated_at_ms=NOW_MS + 1)
    store.topic_heads.record(replace(expired, snapshot_id=None))
    assert store.topic_heads.list_lives("orders") == [expired]


def test_each_life_of_a_topic_has_its_row_and_a_late_one_of_a_former_life_is_not_the_newest(store: Store) -> None:
    """A topic that was created again is another table; a life that is taken up again is the newest."""
    new = replace(HEAD, table_uuid="life-2", last_sequence_number=1, fence=0)
    store.topic_heads.record(HEAD)
    store.topic_heads.record(new)
    late = replace(HEAD, last_sequence_number=9)
    store.topic_heads.record(late)
    assert store.topic_heads.list_lives("orders") == [late, new]
    store.topic_heads.begin_life("orders", "life-1")
    assert store.topic_heads.list_lives("orders") == [new, late]
    store.topic_heads.begin_life("orders", "life-1")
    assert store.topic_heads.list_lives("orders") == [new, late]


def test_removing_a_topic_keeps_its_heads(store: Store) -> None:
    """A catalog from before the removal may come back."""
    store.topic_heads.record(HEAD)
    store.projection.forget_topic("orders")
    assert store.topic_heads.list_lives("orders") == [HEAD]
