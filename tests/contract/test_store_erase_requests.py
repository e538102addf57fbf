"""Requests for erasures that take two persons, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.support import store_fixtures
from tests.support.store_fixtures import NOW_MS
from winnow.errors import EraseRefusedError
from winnow.store import Store
from winnow.store.erase_requests import RequestedErasure, RequestState
from winnow.store.rows import Window

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

REQUEST = RequestedErasure("r1", "orders", "uuid-1", "anna", NOW_MS, "binding", '{"keys":1}', "sha")


def decide(store: Store, by: str, *, approves: bool = True) -> RequestedErasure:
    return store.erase_requests.decide("r1", "sha", approves=approves, by=by, why="checked", now_ms=NOW_MS + 5)


def test_requests_are_found_newest_first_by_topic_and_by_what_they_are_for(store: Store) -> None:
    others = [
        replace(REQUEST, request_id="r2", requested_at_ms=NOW_MS + 1),
        replace(REQUEST, request_id="r3", binding="another"),
        replace(REQUEST, request_id="r4", topic="clicks"),
    ]
    for each in (REQUEST, *others):
        store.erase_requests.open(each)
    found = store.erase_requests.list_requests(Window(), topic="orders")
    assert (found.total, [each.request_id for each in found.rows]) == (3, ["r2", "r1", "r3"])
    same = store.erase_requests.list_requests(Window(size=1), topic="orders", binding="binding")
    assert same.rows == (others[0],)
    assert store.erase_requests.find("r1") == REQUEST
    assert store.erase_requests.find("r5") is None


def test_request_is_approved_taken_back_and_stays_so(store: Store) -> None:
    store.erase_requests.open(REQUEST)
    approved = decide(store, "bert")
    assert approved == replace(
        REQUEST, state=RequestState.APPROVED, decided_by="bert", decided_at_ms=NOW_MS + 5, decided_why="checked"
    )
    assert decide(store, "bert") == approved
    with pytest.raises(EraseRefusedError, match="approved already"):
        decide(store, "carla")
    assert decide(store, "anna", approves=False).state is RequestState.REJECTED
    with pytest.raises(EraseRefusedError, match="rejected already"):
        decide(store, "bert")


def test_request_that_was_carried_out_is_not_decided_any_more(store: Store) -> None:
    store.erase_requests.open(REQUEST)
    decide(store, "bert")
    store.erase_requests.note_used("r1", "erasure-1")
    for approves in (True, False):
        with pytest.raises(EraseRefusedError, match="used already"):
            decide(store, "carla", approves=approves)
    found = store.erase_requests.find("r1")
    assert found is not None
    assert (found.state, found.erasure_id, found.decided_by) == (RequestState.USED, "erasure-1", "bert")


def test_of_two_who_approve_at_once_one_does(store: Store) -> None:
    store.erase_requests.open(REQUEST)

    def attempt(name: str) -> str | None:
        try:
            return decide(store, name).decided_by
        except EraseRefusedError:
            return None

    with ThreadPoolExecutor(4) as pool:
        won = {each for each in pool.map(attempt, ("bert", "carla", "dora", "emil")) if each is not None}
    found = store.erase_requests.find("r1")
    assert found is not None
    assert won == {found.decided_by}
