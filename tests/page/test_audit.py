"""The contract of the route of the audit log, over HTTP."""

from __future__ import annotations

import json

import pytest

from tests.page.conftest import Visitor
from tests.page.sample_rows import NOW_MS
from winnow.clock import read_wall_clock_ms
from winnow.store import Store
from winnow.store.audit import name_topics
from winnow.store.rows import AuditEntry

ENTRIES = (
    AuditEntry(NOW_MS - 3, "anna", "pause", "orders", "ticket 7", "airflow:change_partitions:manual__1:2", "orders-0"),
    AuditEntry(NOW_MS - 2, "root@lake", "sweep", origin="shell", detail="all topics"),
    AuditEntry(NOW_MS - 1, "bert", "records_read", "orders", origin="page", detail="orders-0, offsets 0 to 9"),
)


@pytest.fixture(autouse=True)
def present(airflow_client: object, monkeypatch: pytest.MonkeyPatch, home_store: Store) -> None:
    """The page's present stands still, and three people did something."""
    from winnow_airflow.page.app import app

    monkeypatch.setitem(app.dependency_overrides, read_wall_clock_ms, lambda: NOW_MS)
    for each in ENTRIES:
        home_store.audit.record(each)


def test_entries_say_who_did_what_why_and_through_which_dag_run(viewer: Visitor) -> None:
    """The document is exactly that of the contract; the newest is first."""
    found = viewer.json("api/audit")
    assert {name: found[name] for name in ("now_ms", "total", "page", "size")} == {
        "now_ms": NOW_MS, "total": 3, "page": 1, "size": 50,
    }  # fmt: skip
    assert found["entries"][-1] == {
        "entry_id": ENTRIES[0].entry_id, "at_ms": NOW_MS - 3, "actor": "anna", "action": "pause", "topic": "orders",
        "reason": "ticket 7", "detail": "orders-0", "origin": "airflow", "config_changes": None,
        "dag_run": {"dag_id": "change_partitions", "run_id": "manual__1:2"},
    }  # fmt: skip
    assert [(each["origin"], each["dag_run"]) for each in found["entries"][:2]] == [("page", None), ("shell", None)]


@pytest.mark.parametrize(
    ("asked", "actors"),
    [
        ({"topic": "orders"}, ["bert", "anna"]),
        ({"actor": "root@lake"}, ["root@lake"]),
        ({"action": "pause"}, ["anna"]),
        ({"topic": "orders", "action": "sweep"}, []),
    ],
)
def test_entries_are_found_by_topic_actor_and_action(viewer: Visitor, asked: dict[str, str], actors: list[str]) -> None:
    assert [each["actor"] for each in viewer.json("api/audit", **asked)["entries"]] == actors


def test_what_a_change_of_configuration_changed_is_told_of_the_topic_that_is_asked_for(
    viewer: Visitor, home_store: Store
) -> None:
    """Of an entry about one topic always; one about several has other values for each."""
    orders, clicks = {"segment.ms": [None, "5"]}, {"segment.ms": ["7", "5"]}
    alone = AuditEntry(NOW_MS, "anna", "alter", "orders", entry_id="one", config_changes=json.dumps({"orders": orders}))
    both = json.dumps({"orders": orders, "clicks": clicks})
    named = name_topics(["clicks", "orders"])
    for each in (alone, AuditEntry(NOW_MS, "anna", "alter", detail=named, entry_id="two", config_changes=both)):
        home_store.audit.record(each)
    for asked, changes in (
        ({"entry": "one"}, orders),
        ({"entry": "two"}, None),
        ({"entry": "two", "topic": "clicks"}, clicks),
        ({"entry": "two", "topic": "orders"}, orders),
    ):
        (found,) = viewer.json("api/audit", **asked)["entries"]
        assert found["config_changes"] == changes, asked
    assert viewer.json("api/audit", entry="three")["entries"] == []


def test_action_that_nobody_can_do_is_refused(viewer: Visitor) -> None:
    assert viewer.get("api/audit", action="conjure").status_code == 422


def test_detail_that_names_many_topics_is_cut_in_the_list(viewer: Visitor, home_store: Store) -> None:
    home_store.audit.record(AuditEntry(NOW_MS, "anna", "pause", detail=f"900 topics: {', '.join(['topic'] * 900)}"))
    detail = viewer.json("api/audit", actor="anna")["entries"][0]["detail"]
    assert (len(detail), detail[:17], detail[-1]) == (1_001, "900 topics: topic", "…")
