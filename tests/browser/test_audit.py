"""The audit log: a list of all topics with filters, and a tab of one topic."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from sqlalchemy import delete

from tests.browser.airflow_servers import Server
from tests.browser.conftest import Open
from tests.browser.test_accessibility import list_violations
from tests.browser.test_actions import agree, triggered
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.store import Store, tables
from winnow.store.audit import AuditAction
from winnow.store.database import Database
from winnow.store.rows import AuditEntry

WEEK_MS = 7 * 24 * 3_600_000
"""What the topic orders sets max.compaction.lag.ms to."""
CHANGES = (
    f'{{"orders":{{"max.compaction.lag.ms":["86400000","{WEEK_MS}"],"min.cleanable.dirty.ratio":["0.3","0.4"],'
    '"segment.ms":[null,"3600000"]}}'
)
RUN = "airflow:change_partitions:manual__audit"


@pytest.fixture
def audited(servers: dict[str, Server]) -> Iterator[None]:
    """What three people did to topics of the lake "small"; gone after the test."""
    url = load_settings(env={"WINNOW_HOME": str(servers["small"].lake)}).store_url
    now_ms = read_wall_clock_ms()
    with Store.open(url) as store:
        for ago_s, actor, action, topic, reason, origin, detail in (
            (7_200, "anna", "alter", "orders", "legal asked for 30 days", RUN, "retention.ms=2592000000"),
            (3_600, "root@lake-1", "sweep", "", "", "shell", "all topics"),
            (600, "anna", "pause", "orders", "restore-42", RUN, "orders-0, orders-1"),
            (60, "admin", "records_read", "orders", "", "page", "orders-0, 50 records from offset 1,200"),
        ):
            values = CHANGES if action == "alter" else None
            entry = AuditEntry(
                now_ms - ago_s * 1_000, actor, action, topic, reason, origin, detail, f"b-{ago_s}", values
            )
            store.audit.record(entry)
    yield
    database = Database(url)
    with database.writing() as session:
        session.execute(delete(tables.AuditTable).where(tables.AuditTable.entry_id.startswith("b-")))
    database.close()


def test_list_is_reached_from_the_topics_and_narrowed_by_whom_and_what(look: Open, audited: None) -> None:
    """A filter is part of the address, so a colleague sees the same."""
    seen = look("small")
    page = seen.at("#/topics")
    page.get_by_role("link", name="Audit log").click()
    rows = page.get_by_role("group", name="Audit log").locator("tbody tr")
    expect(rows.filter(has_text="all topics")).to_contain_text("root@lake-1")
    seen.filled()
    seen.picture("audit")
    page.get_by_label("By whom").fill("anna")
    expect(rows).to_have_count(2)
    page.get_by_label("Action", exact=True).select_option("pause")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("restore-42")
    expect(page).to_have_url(re.compile(r"#/audit\?actor=anna&action=pause"))
    link = rows.get_by_role("link", name="change_partitions")
    expect(link).to_have_attribute("href", re.compile("/dags/change_partitions/runs/manual__audit"))


def test_tab_of_a_topic_has_its_own_entries(look: Open, audited: None) -> None:
    seen = look("small", width=1000, theme="dark")
    page = seen.at("#/topics/orders/audit")
    rows = page.get_by_role("group", name="Audit log").locator("tbody tr")
    expect(rows.filter(has_text="legal asked for 30 days")).to_contain_text("retention.ms=2592000000")
    expect(page.get_by_text("all topics")).to_have_count(0)
    seen.picture("audit-tab-dark-1000px")


def test_change_of_configuration_is_undone_in_the_form_with_its_former_values(look: Open, audited: None) -> None:
    """One key that was changed again since is named; the review is that of any change."""
    seen = look("small")
    page = seen.at("#/topics/orders/audit")
    keys = "max.compaction.lag.ms, min.cleanable.dirty.ratio, segment.ms"
    undo = page.get_by_role("link", name=f"Undo the change of {keys}")
    expect(undo).to_be_visible()
    assert not list_violations(page)
    undo.click()
    note = page.get_by_text("The values from before the change by anna")
    expect(note).to_contain_text(keys)
    expect(page.get_by_label("max.compaction.lag.ms")).to_have_value("86400000")
    expect(page.get_by_label("segment.ms")).to_have_value("")
    expect(page.locator(".edit-bar")).to_contain_text("3 changes")
    expect(page.get_by_role("alert")).to_contain_text("min.cleanable.dirty.ratio is 0.5.")
    assert not list_violations(page)
    seen.picture("configuration-undo", whole=False)
    page.get_by_role("button", name="Review changes").click()
    dialog = page.get_by_role("dialog", name="Change the configuration of orders?")
    expect(dialog.get_by_label("Reason")).to_have_value("undoes b-7200")
    expect(dialog.get_by_role("table", name="A run of now, before and after the change")).to_be_visible(timeout=20_000)
    agree(page, "Apply")
    conf = triggered(seen, "change_topics")["conf"]
    assert conf["config"] == {"max.compaction.lag.ms": "86400000", "min.cleanable.dirty.ratio": "0.3"}
    assert conf["reset"] == ["segment.ms"]
    assert conf["expected"]["max.compaction.lag.ms"] == str(WEEK_MS)
    expect(page.get_by_role("button", name="Edit configuration")).to_be_visible()
    assert "undo" not in page.url


def test_every_action_can_be_chosen_as_a_filter(look: Open) -> None:
    page = look("small").at("#/audit")
    offered = (
        page.get_by_label("Action", exact=True).locator("option").evaluate_all("each => each.map((one) => one.value)")
    )
    assert set(offered) == {"", *AuditAction}
