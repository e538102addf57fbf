"""Explain, ingests and undo in the browser: what a run would do, deadlines, what can be taken back, and taking it."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.small_lake import compact
from tests.browser.test_actions import agree, triggered
from tests.support.reader_lake import find_readers, is_alive
from tests.support.world import FakeClock, open_world
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.topics.partitions import resume_partitions
from winnow_airflow.tasks.topic_changes import change_topic

ENDS_WITHIN_SECONDS = 10
"""The process would have half a minute otherwise."""


def test_explain_shows_what_a_run_would_do_and_the_forecast(look: Open) -> None:
    """Figures of the topic, a row per partition, and the deadlines; with active segments closed on request."""
    seen = look("small")
    page = seen.at("#/topics/payments/explain")
    expect(page.locator("#explain .figure").first).to_contain_text("2 partitions")
    expect(page.locator("#explain tbody tr")).to_have_count(2)
    expect(page.locator("#explain tbody tr").first).to_contain_text("compacted")
    seen.picture("explain")
    page.locator('[data-key="closes-active"]').check()
    seen.filled()
    expect(page.locator("#explain tbody tr")).to_have_count(2)
    page = seen.at("#/topics/orders/explain")
    expect(page.locator("#forecast")).to_contain_text("in time")


def test_ingest_calls_are_listed_and_the_newest_is_undone_by_a_dag_run(look: Open) -> None:
    """Older ones say why not; the dialog asks for a reason and triggers change_topics."""
    seen = look("small", theme="dark", width=1000)
    page = seen.at("#/topics/devices/ingests")
    rows = page.locator("#ingests tbody tr")
    expect(rows.first).to_contain_text("120")
    refused = rows.last.get_by_role("button", name="Undo")
    expect(refused).to_have_attribute("aria-disabled", "true")
    refused.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("It cannot be undone")
    seen.picture("ingests")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [768, 1440])
def test_changes_that_can_be_undone_are_listed_with_their_window_and_what_comes_back(
    look: Open, theme: str, width: int
) -> None:
    """Newest first; an older one goes only together with the runs that worked on its result, which the dialog names."""
    seen = look("small", theme=theme, width=width)
    page = seen.at("#/topics/orders/undo")
    rows = page.locator("#undo tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.first).to_contain_text("compaction")
    expect(rows.first).to_contain_text(re.compile(r"for \d+\W(h|min)"))
    expect(rows.last).to_contain_text("with 4 later runs")
    expect(page.locator("#undo .section-head")).to_contain_text("Replaced files stay for 1")
    seen.picture(f"undo-{theme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    rows.last.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this compaction of orders?")
    expect(dialog.get_by_role("listitem")).to_have_count(4)
    expect(dialog).to_contain_text("Partitions 0, 1, 2 are paused until somebody resumes them")
    expect(dialog).to_contain_text("Possible until")
    expect(dialog.get_by_role("button", name="Undo with 4 later runs")).to_be_visible()
    seen.picture(f"dialog-undo-{theme}-{width}", whole=False)


def test_a_compaction_is_undone_from_its_runs_page_by_a_dag_run_and_the_topic_is_paused(look: Open) -> None:
    """The link leads to its row; what is sent is carried out here, and the list is asked again when it has ended."""
    seen = look("small")
    page = seen.at("#/runs?status=published&search=devices")
    page.locator("tbody a.row-link").first.click()
    seen.filled()
    seen.picture("run-undo", whole=False)
    page.get_by_role("link", name="Undo…").click()
    row = page.locator("#undo tbody tr.is-selected")
    expect(row).to_contain_text("compaction")
    row.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this compaction of devices?")
    dialog.get_by_label("Reason").fill("strategy switched by mistake")
    agree(page, "Undo")
    run = triggered(seen, "change_topics")
    conf = run["conf"]
    assert (conf["action"], conf["topic"], conf["and_later"]) == ("undo", "devices", False)
    with open_world(seen.server.lake.parent, FakeClock(read_wall_clock_ms())) as world:
        try:
            wanted: Any = {"config": {}, "only_partitions": [], **conf}
            assert "came back into the log" in change_topic(world.installation, wanted).text
            address = f"{seen.server.url}/api/v2/dags/change_topics/dagRuns/{run['dag_run_id']}"
            assert page.request.patch(address, data={"state": "success"}).ok
            expect(row).to_contain_text("undone by ")
            expect(row.get_by_role("button", name="Undo")).to_have_attribute("aria-disabled", "true")
            seen.picture("undone")
            page = seen.at("#/topics/devices")
            expect(page.get_by_role("button", name="Resume all")).to_be_visible()
        finally:
            # Others of this folder look at the topic as it was made.
            resume_partitions(world.installation, "devices", by="tests", everybody=True)
            compact(world, "devices")
            assess_topics(world.installation, ["devices"], as_of_ms=world.clock())


def test_viewer_sees_all_and_undoes_nothing(look: Open) -> None:
    """The buttons say which right is missing."""
    seen = look("small", user="vera")
    page = seen.at("#/topics/orders/undo")
    expect(page.get_by_role("button", name="Undo").first).to_have_attribute("aria-disabled", "true")
    page = seen.at("#/topics/orders/ingests")
    expect(page.get_by_role("button", name="Undo").first).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#ingests tbody tr").first).to_contain_text("135")


def test_process_that_reads_the_log_ends_when_the_browser_goes_away(look: Open) -> None:
    """Through every layer of Airflow's server: the process, stopped so that it cannot end by itself, is killed."""
    seen = look("small")
    page = seen.at("#/topics/orders/ingests")
    (reader,) = find_readers(seen.server.process.pid)
    os.kill(reader, signal.SIGSTOP)
    with page.expect_request("**/ingests*"):
        page.get_by_role("button", name="Ask again").click()
    page.wait_for_timeout(500)
    assert is_alive(reader)
    page.goto("about:blank")
    until = time.monotonic() + ENDS_WITHIN_SECONDS
    while is_alive(reader):
        assert time.monotonic() < until, "the process outlived the request that it was stopped for"
        time.sleep(0.1)
