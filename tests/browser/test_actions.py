"""Compact, pause, resume, release: the dialog says what will happen, Airflow gets exactly that, and it is followed."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser_page import BrowserPage
from tests.browser.conftest import Open
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.store import RunState, Store
from winnow.store.rows import AuditEntry
from winnow.values.model import AIRFLOW_HOLDER
from winnow_airflow.outcomes import OUTCOME_KEY

QUICKLY_MS = 15_000
"""Half of the interval at which every view is refreshed."""


def triggered(seen: BrowserPage, dag_id: str) -> dict[str, Any]:
    """The newest DAG run of ``dag_id``, as Airflow has it."""
    answer = seen.page.request.get(f"{seen.server.url}/api/v2/dags/{dag_id}/dagRuns?order_by=-id&limit=1")
    assert answer.ok
    (run,) = answer.json()["dag_runs"]
    return dict(run)


def agree(page: Page, label: str) -> None:
    """Agree to the open dialog, and wait until it is gone."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=label, exact=True).click()
    expect(dialog).to_have_count(0)


def test_selected_topics_are_compacted_by_one_dag_run_that_is_followed_to_its_end(look: Open) -> None:
    """From the boxes over the dialog to the toast, which says queued first and success when the run has ended."""
    seen = look("small")
    page = seen.at("#/topics")
    compact = page.get_by_role("button", name="Compact now")
    expect(compact).to_have_attribute("aria-disabled", "true")
    for name in ("payments", "inventory"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Compact 2 topics now").click()
    dialog = page.get_by_role("dialog", name="Compact 2 topics now?")
    expect(dialog.get_by_role("listitem")).to_have_text(["payments", "inventory"])
    seen.picture("dialog-compact", whole=False)
    agree(page, "Compact now")

    run = triggered(seen, "compact_now")
    assert run["conf"]["topics"] == ["payments", "inventory"]
    assert run["triggering_user_name"] == "admin"
    toast = page.locator(".toast")
    expect(toast).to_contain_text("queued")
    expect(toast).to_contain_text("Waiting for other runs of this DAG to end, or for the scheduler.")
    expect(toast.get_by_role("link")).to_have_attribute(
        "href", re.compile(re.escape("/dags/compact_now/runs/manual__"))
    )
    seen.picture("toast", whole=False)
    # It is looked at while it waits, and what the tasks would leave after a while is seen too.
    leave_outcome(
        seen,
        run["dag_run_id"],
        [
            told("payments", "done", "3,800 records removed, 2.1 MiB freed when the replaced files are swept.", "p-1"),
            told("inventory", "idle", "Nothing was due: its dirty ratio is not above the limit (12% of 50%)."),
        ],
    )
    page.wait_for_event("requestfinished", lambda sent: sent.url.endswith(quote(run["dag_run_id"], safe="")))
    ended = page.request.patch(
        f"{seen.server.url}/api/v2/dags/compact_now/dagRuns/{run['dag_run_id']}", data={"state": "success"}
    )
    assert ended.ok
    expect(toast).to_contain_text("success")
    expect(toast.get_by_role("listitem")).to_have_text(
        [re.compile("payments: 3,800 records removed.* Open the run"), re.compile("inventory: Nothing was due.*12%")]
    )
    expect(toast.get_by_role("link", name="Open the run")).to_have_attribute("href", "#/runs/p-1")
    seen.picture("toast-outcome", whole=False)
    page = seen.at(f"#/dag-runs/compact_now/{quote(run['dag_run_id'], safe='')}")
    expect(page.locator(".outcomes li")).to_have_count(2)
    seen.picture("dag-run-outcome")
    # On the topic's own page it stays when the toast is gone.
    record_compact_request(seen, "payments", run["dag_run_id"])
    page = seen.at("#/topics/payments")
    expect(page.locator(".last-request")).to_contain_text("Last request: compact by alice")
    expect(page.locator(".last-request .outcomes li")).to_have_text(re.compile("^3,800 records removed.* Open the run"))
    seen.picture("topic-last-request", whole=False)


def record_compact_request(seen: BrowserPage, topic: str, run_id: str) -> None:
    """Record what a task of ``compact_now`` records when it begins."""
    origin = f"{AIRFLOW_HOLDER}compact_now:{run_id}"
    open_store(seen).audit.record(AuditEntry(read_wall_clock_ms(), "alice", "compact", topic, origin=origin))


def told(topic: str, kind: str, text: str, plan_id: str | None = None) -> dict[str, str | None]:
    """What a task says of a topic."""
    return {"topic": topic, "kind": kind, "text": text, "plan_id": plan_id}


def leave_outcome(seen: BrowserPage, run_id: str, outcomes: list[dict[str, str | None]]) -> None:
    """Leave in Airflow what the tasks of a run of ``compact_now`` leave there."""
    tasks = f"{seen.server.url}/api/v2/dags/compact_now/dagRuns/{quote(run_id, safe='')}/taskInstances"
    value = {"outcomes": outcomes, "further": 0}
    entry = {"key": OUTCOME_KEY, "value": value, "map_index": -1}
    answer = seen.page.request.post(f"{tasks}/check_eligibility/xcomEntries", data=entry)
    assert answer.ok, answer.text()


def test_the_dialog_shows_before_the_press_what_a_run_would_do_and_who_is_at_work(look: Open) -> None:
    """By the answer of explain: what it reads, keeps and frees; and whose run has the topic."""
    seen = look("small")
    store = open_store(seen)
    page = seen.at("#/topics/payments")
    store.leases.acquire("payments", "airflow:compact_now:manual__of_bob", read_wall_clock_ms(), 600_000)
    try:
        page.get_by_role("button", name="Compact now").click()
        dialog = page.get_by_role("dialog", name="Compact payments now?")
        expect(dialog).to_contain_text("DAG run manual__of_bob of compact_now is at work on it")
        seen.picture("dialog-holder", whole=False)
    finally:
        lease = store.leases.find("payments")
        assert lease is not None
        store.leases.release(lease)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Compact now").click()
    for figure in ("A run would take", "It would read", "It would free", "of task time at the pace of its last runs"):
        expect(dialog).to_contain_text(figure)
    seen.picture("dialog-estimate", whole=False)
    page.keyboard.press("Escape")
    page = seen.at("#/topics/devices")
    page.get_by_role("button", name="Compact now").click()
    expect(page.get_by_role("dialog")).to_contain_text("Nothing is due: ")


def test_a_topic_shows_at_once_that_a_run_began_and_that_it_ended(look: Open) -> None:
    """Not with the page's next refresh."""
    seen = look("small")
    store = open_store(seen)
    page = seen.at("#/topics/inventory")
    page.wait_for_event("requestfinished", lambda sent: "/runs?size=1" in sent.url)
    now_ms = read_wall_clock_ms()
    store.runs.open("p-live", "inventory", attempt="a-1", as_of_ms=now_ms, plan_uri="/p", now_ms=now_ms, holder="a:1")
    try:
        expect(page.locator("h1 .badge")).to_have_text("planned", timeout=QUICKLY_MS)
        store.runs.set_state("p-live", RunState.VOID, now_ms + 1, message="Done.", attempt="a-1")
        expect(page.locator("h1 .badge")).not_to_have_text("planned", timeout=QUICKLY_MS)
    finally:
        store.runs.give_up(["p-live"], now_ms + 2)


def open_store(seen: BrowserPage) -> Store:
    """Open the metadata store that the page shows."""
    return Store.open(load_settings(cwd=seen.server.lake, env={"WINNOW_HOME": str(seen.server.lake)}).store_url)


def test_a_release_sends_topic_partition_and_reason(look: Open) -> None:
    """From the page of the failed run: its marked partition, and why it may be tried again."""
    seen = look("small")
    page = seen.at("#/runs?status=invalid")
    page.locator("tbody a.row-link").first.click()
    page.get_by_role("button", name="Release customers-1").click()
    dialog = page.get_by_role("dialog", name="Release customers-1?")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    dialog.get_by_label("Reason").fill("segment restored from backup")
    seen.picture("dialog-release", whole=False)
    agree(page, "Release")
    conf = triggered(seen, "change_partitions")["conf"]
    assert conf == {
        "action": "release",
        "topic": "customers",
        "partitions": [1],
        "reason": "segment restored from backup",
    }


def test_a_pause_is_made_under_the_users_name_and_for_the_whole_topic(look: Open) -> None:
    """The name is proposed and may be another; no partitions means all of them."""
    seen = look("small")
    page = seen.at("#/topics/devices")
    page.get_by_role("button", name="Pause all partitions of devices").click()
    dialog = page.get_by_role("dialog", name="Pause all partitions of devices?")
    expect(dialog.get_by_label("Name of this pause")).to_have_value("admin")
    dialog.get_by_text("Request to Airflow").click()
    expect(dialog.locator("pre")).to_contain_text('"partitions": []')
    agree(page, "Pause")
    conf = triggered(seen, "change_partitions")["conf"]
    assert conf == {"action": "pause", "topic": "devices", "partitions": [], "reason": "admin"}


def test_a_resume_proposes_the_name_under_which_it_was_paused(look: Open) -> None:
    """Only that name takes the pause back."""
    seen = look("small")
    page = seen.at("#/topics/sessions")
    page.get_by_role("button", name="Resume sessions-1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name of the pause")).to_have_value("restore-2041")
    agree(page, "Resume")
    conf = triggered(seen, "change_partitions")["conf"]
    assert conf == {"action": "resume", "topic": "sessions", "partitions": [1], "reason": "restore-2041"}


def test_escape_leaves_a_dialog_and_nothing_happens(look: Open) -> None:
    """No DAG run, and the focus is back on the button."""
    seen = look("small")
    page = seen.at("#/topics/payments")
    before = page.request.get(f"{seen.server.url}/api/v2/dags/compact_now/dagRuns").json()["total_entries"]
    button = page.get_by_role("button", name="Compact now")
    button.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    after = page.request.get(f"{seen.server.url}/api/v2/dags/compact_now/dagRuns").json()["total_entries"]
    assert after == before


def test_a_paused_dag_is_named_before_anybody_waits_for_it(look: Open) -> None:
    """Its runs would wait for ever, which nobody could see from this page."""
    seen = look("small")
    page = seen.at("#/topics/payments")
    dag = f"{seen.server.url}/api/v2/dags/compact_now"
    try:
        assert page.request.patch(dag, data={"is_paused": True}).ok
        page.get_by_role("button", name="Compact now").click()
        expect(page.get_by_role("dialog")).to_contain_text("The DAG compact_now is paused in Airflow")
    finally:
        assert page.request.patch(dag, data={"is_paused": False}).ok


@pytest.mark.parametrize(
    ("route", "buttons"),
    [
        ("#/topics", ["Compact now"]),
        ("#/topics/customers", ["Compact now", "Pause all partitions of customers", "Release customers-1"]),
        ("#/topics/sessions", ["Resume sessions-1"]),
        ("#/quality", ["Release customers-1"]),
    ],
)
def test_a_viewer_sees_every_action_switched_off_and_why(look: Open, route: str, buttons: list[str]) -> None:
    """The buttons stay, so that everybody knows what there is; pressing them opens nothing."""
    seen = look("small", user="vera")
    page = seen.at(route)
    for name in buttons:
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("data-tip", re.compile("may not trigger (compact_now|change_partitions)"))
        button.click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)
    seen.picture(f"viewer-{re.sub(r'[^a-z]+', '-', route).strip('-')}", whole=False)


def test_what_an_owner_keeps_from_the_user_is_switched_off_with_a_sentence(look: Open) -> None:
    """On the topic, its tabs and among selected topics; what belongs to others of the setting's owners stays on."""
    seen = look("thousand")
    page = seen.at("#/topics?owner=growth")
    kept = page.locator("a.row-link").first.text_content() or ""
    page.get_by_label(f"Select {kept}", exact=True).check()
    sentence = f"{kept} is owned by growth, for whom you may not act (setting owners)."
    selected = page.get_by_role("button", name="Compact 1 topic now")
    expect(selected).to_have_attribute("data-tip", sentence)
    page = seen.at(f"#/topics/{kept}")
    for name in ("Compact now", "Dry run", "Scrub", "Sweep", f"Pause all partitions of {kept}"):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("data-tip", sentence)
        button.click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Compact now").hover()
    seen.picture("topic-of-others", whole=False)
    page = seen.at(f"#/topics/{kept}/configuration")
    expect(page.get_by_role("button", name="Edit configuration")).to_have_attribute("data-tip", sentence)
    page = seen.at(f"#/topics/{kept}/records")
    expect(page.get_by_role("note")).to_have_text(sentence)
    page = seen.at("#/topics?owner=payments")
    free = page.locator("a.row-link").first.text_content() or ""
    page = seen.at(f"#/topics/{free}")
    expect(page.get_by_role("button", name="Compact now")).not_to_have_attribute("aria-disabled", "true")
