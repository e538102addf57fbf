"""Open alerts: acknowledged, muted and unmuted on the page, with the runbook beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import delete

from tests.browser.airflow_servers import Server
from tests.browser.conftest import Open
from tests.browser.test_keyboard import FOCUSED, open_refreshable, refresh, tab_to
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.store import Store, tables
from winnow.store.alert_events import AlertEventTable
from winnow.store.alert_handling import AlertState
from winnow.store.database import Database
from winnow.store.rows import Window
from winnow.values.results import OpenAlert

HOUR_MS = 3_600_000
PLAN = "Topic audit.log was not compacted"
SAFE = "Nothing was published and nothing was lost; readers see the log as before."


@pytest.fixture
def alerts(servers: dict[str, Server]) -> Iterator[Store]:
    """Three alerts about a topic of their own in the lake "small"; gone after the test."""
    url = load_settings(env={"WINNOW_HOME": str(servers["small"].lake)}).store_url
    now_ms = read_wall_clock_ms()
    opened = [
        OpenAlert(
            "uncleanable_partition", "audit.log", number, now_ms - HOUR_MS * (number + 1),
            f"{PLAN}: audit.log-{number}: segment s3://lake/audit.log/data/00000-{number:020d}.parquet has 845 bytes "
            "instead of 1,691.", safe=SAFE,
            next=f"Retry at once with: winnow partitions release audit.log --partition {number}", plan_id="plan-audit",
        )
        for number in (3, 4)
    ]  # fmt: skip
    stuck = OpenAlert("sweep_stuck", "audit.log", None, now_ms - 30 * HOUR_MS, "Topic audit.log: 12 retired files lie.")
    with Store.open(url) as store:
        store.alerts.remember_all([stuck], now_ms - 30 * HOUR_MS, lambda _: [])
        store.alerts.remember_all(opened, now_ms - 60_000, lambda _: [])
        yield store
    database = Database(url)
    with database.writing() as session:
        for model in (tables.AlertTable, AlertEventTable, tables.AuditTable):
            session.execute(delete(model).where(model.topic == "audit.log"))
    database.close()


def confirm(page: Page, reason: str, verb: str) -> None:
    """Give a reason in the open dialog, and agree."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=verb, exact=True).click()
    expect(dialog).to_have_count(0)


def test_alert_is_acknowledged_and_muted_and_everybody_sees_by_whom_and_why(look: Open, alerts: Store) -> None:
    """The number on the tab counts what nobody has looked at yet; the history keeps all of it."""
    seen = look("small")
    page = seen.at("#/alerts?topic=audit.log")
    before = alerts.alert_handling.count(read_wall_clock_ms()).new
    count = page.locator(".tab-count")
    expect(count).to_have_text(str(before))
    seen.picture("alerts")
    page.get_by_role("button", name="Acknowledge uncleanable partition of audit.log-3").click()
    confirm(page, "The backup is being copied", "Acknowledge")
    row = page.get_by_role("region", name="Open alerts").locator("tr").filter(has_text="audit.log-3")
    expect(row).to_contain_text("admin: The backup is being copied")
    expect(count).to_have_text(str(before - 1))

    page.get_by_role("button", name="Mute sweep stuck of audit.log").click()
    page.get_by_role("dialog").get_by_label("For").select_option("1 day")
    seen.picture("alert-mute", whole=False)
    confirm(page, "A branch is dropped tomorrow", "Mute")
    row = page.get_by_role("region", name="Open alerts").locator("tr").filter(has_text="sweep stuck")
    expect(row).to_contain_text("muted ends in 23 h")
    expect(row).to_contain_text("A branch is dropped tomorrow")
    muted = alerts.alert_handling.list_alerts(Window(), read_wall_clock_ms(), state=AlertState.MUTED)
    assert [each.kind for each in muted.rows] == ["sweep_stuck"]
    seen.filled()
    seen.picture("alerts-handled")
    history = page.get_by_role("group", name="History of alerts")
    expect(history.locator("tbody tr").first).to_contain_text("muted")

    page.get_by_role("button", name="Unmute sweep stuck of audit.log").click()
    confirm(page, "It is dropped", "Unmute")
    expect(page.get_by_role("button", name="Mute sweep stuck of audit.log", exact=True)).to_be_visible()


def test_runbook_is_read_beside_the_alert_with_the_commands_of_its_topic_and_partition(
    look: Open, alerts: Store
) -> None:
    """Commands can be pasted as they are; links lead to other sections of the runbook."""
    seen = look("small", theme="dark")
    page = seen.at("#/alerts?topic=audit.log")
    page.get_by_role("button", name="Runbook of uncleanable partition").first.click()
    dialog = page.get_by_role("dialog", name="uncleanable partition")
    expect(dialog).to_contain_text("winnow partitions release audit.log --partition 3")
    expect(dialog).to_contain_text("docs/operations.md#uncleanable_partition")
    seen.picture("runbook-dark", whole=False)
    dialog.get_by_role("button", name="A segment is gone for good").click()
    expect(page.get_by_role("dialog", name="A segment is gone for good")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_commands_of_the_runbook_are_copied_with_what_was_typed_for_their_variables(look: Open, alerts: Store) -> None:
    """Quoted, so that a path with a space can be pasted; a section that needs no path asks for none."""
    page = look("small").at("#/alerts?topic=audit.log")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Runbook of uncleanable partition").first.click()
    dialog = page.get_by_role("dialog", name="uncleanable partition")
    dialog.get_by_role("textbox", name="$SEGMENT").fill("/lake/my data/it's.parquet")
    dialog.get_by_role("textbox", name="$BACKUP").fill("/backup")
    assignments = "BACKUP='/backup'\nSEGMENT='/lake/my data/it'\\''s.parquet'\n"
    text = f'{assignments}cp "$BACKUP/$(basename "$SEGMENT")" "$SEGMENT"'
    block = dialog.locator(".command", has_text="cp ")
    expect(block).to_contain_text(text)
    block.get_by_role("button", name="Copy the commands").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith(text)
    dialog.get_by_role("button", name="A segment is gone for good").click()
    other = page.get_by_role("dialog", name="A segment is gone for good")
    expect(other.get_by_role("textbox", name="$BEFORE")).to_be_visible()
    expect(other.get_by_role("textbox", name="$SEGMENT")).to_have_count(0)


def test_open_advice_and_the_focus_outlast_a_refresh(look: Open, alerts: Store) -> None:
    """By keyboard at 1000 px: a summary opens, and nothing is taken away while one reads."""
    seen = open_refreshable(look)
    page = seen.at("#/alerts?topic=audit.log")
    advice = page.get_by_text("Retry at once with: winnow partitions release audit.log --partition 3")
    summary = "more-uncleanable_partition:audit.log:3"
    tab_to(page, summary)
    page.keyboard.press("Enter")
    expect(advice).to_be_visible()
    refresh(seen)
    expect(advice).to_be_visible()
    assert page.evaluate(FOCUSED) == summary
    page.locator('[data-key="state-muted"]').focus()
    refresh(seen)
    assert page.evaluate(FOCUSED) == "state-muted"


def test_who_may_only_look_reads_alerts_and_runbook_and_is_told_why_not_more(look: Open, alerts: Store) -> None:
    page = look("small", user="vera", width=1000).at("#/alerts?topic=audit.log")
    button = page.get_by_role("button", name="Acknowledge uncleanable partition of audit.log-3")
    expect(button).to_have_attribute("aria-disabled", "true")
    button.click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_alerts_of_a_thousand_topics_are_shown_by_page(look: Open) -> None:
    seen = look("thousand", width=1000)
    page = seen.at("#/alerts")
    expect(page.get_by_role("navigation", name="Pages of alerts")).to_contain_text("of")
    seen.picture("alerts-1000px")
