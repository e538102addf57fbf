"""An evening by the page alone: nothing is typed into a shell, and everything that was done can be read there.

Everything is real: the scheduler, Spark, the table, the browser. Only the records arrive by other means, as they do.
"""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.airflow.conftest import BROWSER_MS, log_in
from tests.support.embedded_airflow import EmbeddedAirflow
from tests.support.world import build_versions, compute_survivors, write_jsonl
from winnow.embedded.airflow_users import LOGIN
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.records import read_batches

TOPIC = "refunds"
RECORDS = 200


def agree(page: Page, label: str, reason: str | None = None) -> None:
    """Give the reason that the open dialog asks for, and agree."""
    dialog = page.get_by_role("dialog")
    if reason is not None:
        dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=label, exact=True).click()
    expect(dialog).to_have_count(0)


def test_a_topic_is_created_configured_compacted_and_read_without_a_shell(
    real_airflow: EmbeddedAirflow, lake: Installation, browser: Browser, tmp_path: Path
) -> None:
    """Create, add partitions, configure, dry run, compact, watch the run, look at who won, read who did what."""
    real_airflow.unpause("compact_now", "change_topics")
    page = browser.new_page()
    page.set_default_timeout(BROWSER_MS)
    expect.set_options(timeout=BROWSER_MS)
    page.goto(f"{real_airflow.url}/winnow/page#/topics")
    log_in(page, real_airflow)

    page.get_by_role("button", name="Create a topic").click()
    page.get_by_role("dialog").get_by_label("Name").fill(TOPIC)
    page.get_by_role("dialog").get_by_label("Partitions").fill("1")
    agree(page, "Create", "a new service")
    # The page shows it when the DAG run has ended.
    page.locator("#main").get_by_role("link", name=TOPIC, exact=True).click()
    # What came of a button stands beside it, in the words of the tasks, until the next one is pressed.
    expect(page.locator(".toast")).to_contain_text(f"Created {TOPIC} with 1 partition")
    page.get_by_role("link", name="Configuration", exact=True).click()
    page.get_by_role("button", name="Add partitions").click()
    agree(page, "Add partitions", "more load")
    expect(page.locator(".facts").first).to_contain_text("2 partitions")

    records = [each for partition in (0, 1) for each in build_versions(0, RECORDS, partition=partition)]
    ingest_files(lake, TOPIC, [write_jsonl(tmp_path / "in.jsonl", records)], as_of_ms=1_000)

    page.get_by_role("button", name="Dismiss").click()  # it lies over the next button
    page.get_by_role("button", name="Edit configuration").click()
    page.get_by_label("min.cleanable.dirty.ratio").fill("0")
    page.get_by_role("button", name="Review changes").click()
    expect(page.get_by_role("dialog").get_by_text("Records to read")).to_be_visible()
    agree(page, "Apply", "compact at once")
    expect(page.locator("tr", has_text="min.cleanable.dirty.ratio")).to_contain_text("topic")
    assert read_overrides(lake.log.open(TOPIC).head().table.properties) == {"min.cleanable.dirty.ratio": "0"}
    # The table has it before the DAG run has ended; its toast makes room for the next one if it has seen the end.
    expect(page.locator(".toast")).to_have_attribute("data-state", "success")

    page.get_by_role("link", name="Explain", exact=True).click()
    expect(page.locator("#main")).to_contain_text("2 partitions")
    page.get_by_role("button", name="Compact now").click()
    agree(page, "Compact now")
    page.get_by_role("link", name="Log", exact=True).click()
    page.locator("#history a.row-link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(f"Compaction of {TOPIC}.*published"))
    toast = page.locator(".toast", has_text=f"Compacting {TOPIC}")
    expect(toast).to_contain_text(re.compile(f"{TOPIC}: [0-9]+ records removed, .* swept"))
    expect(page.locator(".toast")).to_have_count(1)
    page.screenshot(path=tmp_path / "run.png", full_page=True)
    read = [row["offset"] for batch in read_batches(lake, TOPIC) for row in batch.to_pylist()]
    assert sorted(read) == sorted(each.offset for each in compute_survivors(records))

    page.goto(f"{real_airflow.url}/winnow/page#/topics/{TOPIC}/records")
    page.locator('[data-key^="record-"]').first.click()
    expect(page.locator("#main")).to_contain_text("Why is it here?")

    page.goto(f"{real_airflow.url}/winnow/page#/topics/{TOPIC}/audit")
    done = page.locator("tbody tr")
    for action in ("create", "add partitions", "alter", "compact", "records read"):
        expect(done.filter(has_text=action).first).to_contain_text(LOGIN)
    expect(done.filter(has_text="alter").first).to_contain_text("compact at once")
    page.screenshot(path=tmp_path / "audit.png", full_page=True)
    page.close()
