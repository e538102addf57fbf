"""What a store keeps of idle topics, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.page.sample_rows import topic_picture
from tests.support import store_fixtures
from tests.support.store_fixtures import NOW_MS, open_run
from winnow.store import RunState, Store
from winnow.store.assessments import AssessedTopic
from winnow.store.idle_topics import IdleTopic

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

IDLE = IdleTopic("orders", "s3://lake/orders/00003.metadata.json", "digest", NOW_MS, NOW_MS + 10, '{"clean": 2}')


def record(store: Store, *idle: IdleTopic) -> None:
    """Record what a check found, with an overview of each topic."""
    pictures = [topic_picture(each.topic, recorded_at_ms=NOW_MS, as_of_ms=NOW_MS) for each in idle]
    looks = [AssessedTopic(picture=picture, idle=each) for picture, each in zip(pictures, idle, strict=True)]
    store.overview.record_many(NOW_MS, NOW_MS, looks)


def test_the_newest_check_replaces_what_was_known_and_an_assessment_without_an_answer_changes_nothing(
    store: Store,
) -> None:
    newer = replace(IDLE, metadata_location="s3://lake/orders/00004.metadata.json", until_ms=None)
    record(store, IDLE)
    record(store, newer)
    store.overview.record_many(NOW_MS, NOW_MS, [AssessedTopic(picture=topic_picture("orders"))])
    assert store.idle_topics.find_many(["orders", "clicks"]) == {"orders": newer}


def test_a_thousand_topics_are_found_and_confirmed_in_a_few_statements(store: Store) -> None:
    names = [f"t{number:04d}" for number in range(1_001)]
    record(store, *(replace(IDLE, topic=name) for name in names))
    with store_fixtures.collect_statements() as statements:
        assert len(store.idle_topics.find_many(names)) == len(names)
        store.idle_topics.confirm(names, NOW_MS + 5)
    assert len(statements) <= 12
    confirmed = {store.overview.find_recorded(name) for name in names[::250]}
    assert {(each.recorded_at_ms, each.as_of_ms) for each in confirmed if each is not None} == {
        (NOW_MS + 5, NOW_MS + 5)
    }


def test_an_overview_that_was_recorded_later_is_not_dated_back(store: Store) -> None:
    record(store, IDLE)
    store.idle_topics.confirm(["orders", "unknown"], NOW_MS - 1)
    found = store.overview.find_recorded("orders")
    assert found is not None
    assert found.recorded_at_ms == NOW_MS


def test_two_checks_confirm_the_same_topics_at_once_in_any_order(store: Store) -> None:
    """Neither waits for the other for ever."""
    names = [f"t{number:03d}" for number in range(200)]
    record(store, *(replace(IDLE, topic=name) for name in names))
    with ThreadPoolExecutor(2) as threads:
        for number in range(10):
            orders = (names, names[::-1])
            list(threads.map(lambda order, at=NOW_MS + number: store.idle_topics.confirm(order, at), orders))
    found = store.overview.find_recorded(names[0])
    assert found is not None
    assert found.recorded_at_ms >= NOW_MS


@pytest.mark.parametrize(("from_ms", "to_ms", "holds"), [(0, 9, True), (-1, 5, False), (0, 10, False), (3, 4, True)])
def test_an_answer_holds_from_its_look_until_the_clock_changes_it(from_ms: int, to_ms: int, holds: bool) -> None:
    assert IDLE.covers(NOW_MS + from_ms, NOW_MS + to_ms) is holds


def test_a_dropped_topic_is_forgotten(store: Store) -> None:
    record(store, IDLE)
    store.projection.forget_topic("orders")
    assert store.idle_topics.find_many(["orders"]) == {}


def test_topics_with_an_open_run_are_listed_once(store: Store) -> None:
    open_run(store, "plan-1")
    open_run(store, "plan-2")
    assert store.runs.list_open_topics() == {"orders"}
    for plan_id in ("plan-1", "plan-2"):
        store.runs.set_state(plan_id, RunState.VOID, NOW_MS, attempt="a-1")
    assert store.runs.list_open_topics() == frozenset()
