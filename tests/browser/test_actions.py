"""Compact, pause, resume, release: the dialog says what will happen, Airflow gets exactly that, and it is followed."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser_page import BrowserPage
from tests.browser.conftest import Open


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
    # It is looked at while it waits, and what the scheduler would do after a while is seen too.
    page.wait_for_event("requestfinished", lambda sent: sent.url.endswith(quote(run["dag_run_id"], safe="")))
    ended = page.request.patch(
        f"{seen.server.url}/api/v2/dags/compact_now/dagRuns/{run['dag_run_id']}", data={"state": "success"}
    )
    assert ended.ok
    expect(toast).to_contain_text("success")


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
