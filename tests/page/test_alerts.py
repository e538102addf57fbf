"""The contract of the routes of alerts, over HTTP: lists, runbook, and what an operator may do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.page.conftest import Visitor, WithOwners
from tests.page.sample_rows import NOW_MS, put
from winnow.clock import read_wall_clock_ms
from winnow.errors import ServiceError
from winnow.report.alert_kinds import AlertKind
from winnow.store import Store
from winnow.store.rows import Window
from winnow.store.segment_checks import FileCheck
from winnow.values.results import OpenAlert

HOUR_MS = 3_600_000
OWN = {"X-Winnow-Page": "1"}
ALERTS = [
    OpenAlert("validation_failed", "orders", 1, NOW_MS - 9, "It failed.", safe="Safe.", next="Look.", plan_id="plan-1"),
    OpenAlert("sweep_stuck", "clicks", None, NOW_MS - 5, "Files lie.", safe="Safe.", next="Sweep."),
]
KEYS = [each.key for each in ALERTS]


@pytest.fixture(autouse=True)
def present(airflow_client: object, monkeypatch: pytest.MonkeyPatch, home_store: Store) -> None:
    """The page's present stands still, and two alerts are open."""
    from winnow_airflow.page.app import app

    monkeypatch.setitem(app.dependency_overrides, read_wall_clock_ms, lambda: NOW_MS)
    for at_ms, alert in enumerate(ALERTS, NOW_MS - 2):
        home_store.alerts.remember_all([alert], at_ms, lambda _: [])


def act(who: Visitor, action: str, **body: Any) -> Any:
    return who.post(f"api/alerts/{action}", {"keys": KEYS[:1], "reason": "disk ordered", **body}, headers=OWN)


def test_open_alerts_are_listed_with_what_to_do_and_who_deals_with_them(admin: Visitor, home_store: Store) -> None:
    """The document is exactly that of the contract."""
    assert act(admin, "acknowledge").json() == {"changed": 1}
    assert act(admin, "mute", until_ms=NOW_MS + HOUR_MS, reason="copying").json() == {"changed": 1}
    found = admin.json("api/alerts")
    assert found["counts"] == admin.json("api/alerts/count") == {"open": 2, "new": 1, "muted": 1}
    assert [each["key"] for each in found["alerts"]] == KEYS[::-1]
    assert found["alerts"][1] == {
        "key": KEYS[0], "kind": "validation_failed", "topic": "orders", "partition": 1, "since_ms": NOW_MS - 9,
        "sent_at_ms": NOW_MS - 2, "message": "It failed.", "safe": "Safe.", "next": "Look.", "plan_id": "plan-1",
        "released": None, "severity": "error", "acknowledged_by": "admin", "acknowledged_why": "disk ordered",
        "acknowledged_at_ms": NOW_MS, "muted_by": "admin", "muted_why": "copying", "muted_until_ms": NOW_MS + HOUR_MS,
    }  # fmt: skip
    for parameter, number in ({"state": "new"}, 1), ({"state": "muted"}, 0), ({"topic": "orders"}, 0):
        (only,) = admin.json("api/alerts", **parameter)["alerts"]
        assert only["key"] == KEYS[number]


def test_alerts_of_an_owners_topics_are_left_to_those_who_may_act_for_it(
    admin: Visitor, home_store: Store, with_owners: WithOwners
) -> None:
    """One of several is enough to refuse them all; of a topic that nobody knows the owner is not known."""
    put(home_store, "orders", owner="payments")
    with_owners({"payments": "ada"})
    for action, more in (("acknowledge", {}), ("mute", {"until_ms": NOW_MS + HOUR_MS}), ("unmute", {})):
        for keys in (KEYS[:1], KEYS, KEYS[1:]):
            answer = act(admin, action, keys=keys, **more)
            assert answer.status_code == 403
            assert "by the setting owners. Nothing was changed." in answer.json()["detail"]
    assert admin.json("api/alerts/count") == {"open": 2, "new": 2, "muted": 0}
    with_owners({"payments": "ada, admin"})
    assert act(admin, "acknowledge").json() == {"changed": 1}
    with_owners({"payments": "ada", "*": "admin"})
    assert act(admin, "acknowledge", keys=KEYS).json() == {"changed": 2}


def test_what_was_done_is_in_the_history_and_in_the_audit_log(admin: Visitor, home_store: Store) -> None:
    """With the user who is logged in, whatever the request says, and why."""
    act(admin, "acknowledge", keys=KEYS)
    act(admin, "mute", until_ms=NOW_MS + HOUR_MS, reason="copying")
    act(admin, "unmute", reason="copied")
    events = admin.json("api/alerts/history", topic="orders")["events"]
    assert [(each["event"], each["actor"], each["text"]) for each in events] == [
        ("unmuted", "admin", "copied"),
        ("muted", "admin", "copying"),
        ("acknowledged", "admin", "disk ordered"),
        ("raised", "", "It failed."),
    ]
    seen = home_store.audit.list_entries(Window()).rows
    assert {(each.actor, each.origin) for each in seen} == {("admin", "page")}
    assert sorted((each.action, each.topic, each.reason, each.detail) for each in seen) == [
        ("alert_acknowledge", "clicks", "disk ordered", "sweep_stuck of clicks"),
        ("alert_acknowledge", "orders", "disk ordered", "validation_failed of orders-1"),
        ("alert_mute", "orders", "copying", "validation_failed of orders-1 until 2026-09-21T15:13:20.000Z"),
        ("alert_unmute", "orders", "copied", "validation_failed of orders-1"),
    ]


def test_what_was_done_stays_done_if_the_audit_log_cannot_be_written(
    admin: Visitor, home_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The alert's own history has it, and the warning names what is missing."""

    def fail(*_: object) -> None:
        raise ServiceError("The metadata store does not answer.")

    monkeypatch.setattr(type(home_store.audit), "record", fail)
    assert act(admin, "acknowledge").json() == {"changed": 1}
    assert admin.json("api/alerts/history")["events"][0]["event"] == "acknowledged"
    assert "did not get that admin did alert_acknowledge (validation_failed of orders-1)" in caplog.text


def test_nothing_happens_without_a_reason_an_end_within_days_or_an_open_alert(
    admin: Visitor, home_store: Store
) -> None:
    """A mute that nobody ends must not hide an alert for ever."""
    before = home_store.alert_history.list_events(Window())
    assert act(admin, "acknowledge", reason="").status_code == 422
    assert act(admin, "acknowledge", keys=[]).status_code == 422
    assert act(admin, "acknowledge", keys=["validation_failed:gone:0"]).status_code == 409
    assert act(admin, "unmute").status_code == 409
    for until_ms in (NOW_MS, NOW_MS + 91 * 24 * HOUR_MS):
        answer = act(admin, "mute", until_ms=until_ms)
        assert (answer.status_code, "within the next 90 days" in answer.json()["detail"]) == (422, True)
    assert home_store.alert_history.list_events(Window()) == before
    assert home_store.audit.list_entries(Window()).total == 0


def test_runbook_has_a_section_for_each_kind_of_alert_with_its_commands(viewer: Visitor) -> None:
    """Of docs/operations.md, as text and commands without any markup left."""
    for kind in AlertKind:
        found = viewer.json(f"api/alerts/runbook/{kind}")
        assert (found["title"], found["address"]) == (kind, f"docs/operations.md#{kind}")
        assert found["blocks"][0]["spans"][0] == {"text": "What it means.", "style": "strong"}
        commands = [each["text"] for each in found["blocks"] if each["kind"] == "code"]
        assert commands
        assert all(text.startswith(("winnow ", "cp ")) for text in commands)
        spans = [span for each in found["blocks"] for span in each.get("spans", ()) if span.get("style") != "code"]
        assert not [span for span in spans if any(mark in span["text"] for mark in ("**", "`", "]("))]
    assert viewer.get("api/alerts/runbook/nothing").status_code == 404


def test_runbook_of_an_alert_knows_the_path_of_its_only_damaged_segment(viewer: Visitor, home_store: Store) -> None:
    """With two of them a person chooses; a document is no segment, and another topic's is not concerned."""

    def damage(path: str, partition: int | None, kind: str = "segment", topic: str = "orders") -> None:
        check = FileCheck(topic, path, kind, partition, 1, NOW_MS, "damaged", "cut short", NOW_MS)
        home_store.segment_checks.record([check])

    def ask(**about: Any) -> Any:
        return viewer.json("api/alerts/runbook/segment_damaged", **about)["values"]

    damage("file:///lake/a.parquet", 0)
    damage("file:///lake/state.json", None, kind="document")
    damage("file:///lake/b.parquet", 0, topic="clicks")
    assert ask() == {}
    assert ask(topic="orders") == ask(topic="orders", partition=0) == {"SEGMENT": "/lake/a.parquet"}
    assert ask(topic="orders", partition=1) == {}
    damage("s3://lake/c.parquet", 1)
    assert ask(topic="orders") == {}
    assert ask(topic="orders", partition=1) == {"SEGMENT": "s3://lake/c.parquet"}


def test_runbook_names_the_dags_of_this_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a prefix a command with a plain name would be of another installation, or of none."""
    from winnow_airflow import dag_ids
    from winnow_airflow.page.runbook import load_sections

    monkeypatch.setattr(dag_ids, "get_prefix", lambda: "sales_")
    told = json.dumps(load_sections.__wrapped__())
    assert "sales_sweep_topics" in told
    assert "--dag-id sales_backfill_topics" in told
    assert "airflow:sales_compact_topics:" in told
    assert re.search(r"(?<!sales_)\b(compact|sweep|scrub|watch|ingest|change|backfill)_topics\b", told) is None


def test_links_of_the_runbook_lead_to_sections_that_are_there(viewer: Visitor) -> None:
    from winnow_airflow.page.runbook import load_sections

    sections = load_sections()
    anchors = {
        span["anchor"]
        for section in sections.values()
        for block in section["blocks"]
        for spans in (*block.get("items", ()), block.get("spans", ()))
        for span in spans
        if "anchor" in span
    }
    assert "a-segment-is-gone-for-good" in anchors
    assert anchors <= set(sections)
