"""The pictures of docs/airflow.md. SCREENSHOTS=docs/img puts them where the page looks for them."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser import test_alerts, test_run_progress
from tests.browser.conftest import Open
from tests.browser.test_run_progress import HOLDER, TOPICS, RunningRuns, begin_dag_run
from tests.docs.runbook import DOCS
from winnow.store import Store

# Fixtures are found by the names they have here.
running = test_run_progress.running
alerts = test_alerts.alerts


def assert_shown(taken: list[Path]) -> None:
    """The tour has each of these pictures."""
    page = (DOCS / "airflow.md").read_text()
    assert [picture.name for picture in taken if f"](img/{picture.name})" not in page] == []


def test_pictures_of_the_tour_are_of_pages_that_are_filled(look: Open) -> None:
    """Topics and a run by day, a topic and quality by night; each is linked under the name that it gets here."""
    light, dark = look("small", theme="light"), look("small", theme="dark")
    light.at("#/topics")
    expect(light.page.locator("tbody tr")).to_have_count(6)
    taken = [light.picture("page-topics-light", whole=False)]

    dark.at("#/topics/orders")
    expect(dark.page.locator(".log-strip")).to_have_count(3)
    taken.append(dark.picture("page-topic-dark", whole=False))

    light.at("#/runs?status=published&search=orders")
    light.page.locator("tbody a.row-link").first.click()
    expect(light.page.locator("table.equation")).to_be_visible()
    # A command that is offered to be copied must be one.
    expect(light.page.get_by_text("winnow receipts orders", exact=True)).to_be_visible()
    light.filled()
    # What the window shows; below it stands where this lake rests on this machine.
    taken.append(light.picture("page-run-light", whole=False))

    dark.at("#/quality")
    expect(dark.page.locator(".plot-svg")).to_have_count(1)
    taken.append(dark.picture("page-quality-dark", whole=False))

    assert_shown(taken)


def test_pictures_of_the_workplace_are_of_pages_that_are_filled(
    look: Open, running: RunningRuns, alerts: Store
) -> None:
    """Overview and trends of a thousand topics; a run at work, records, a configuration under review and an alert."""
    many = look("thousand", theme="light")
    many.at("#/overview")
    taken = [many.picture("page-overview-light", whole=False)]
    dark = look("thousand", theme="dark")
    dark.at("#/topics")
    dark.page.locator("tbody a.row-link").first.click()
    dark.page.get_by_role("link", name="Trends", exact=True).click()
    dark.filled()
    dark.page.wait_for_selector(".line-path")
    taken.append(dark.picture("page-trends-dark", whole=False))

    light = look("small", theme="light")
    for topic in TOPICS:
        running.open(f"progress-{topic}", topic, ago_s=100, holder=HOLDER)
    running.job()
    begin_dag_run(light)
    light.at("#/runs/progress-orders")
    expect(light.page.get_by_role("link", name="http://driver.example:4040")).to_be_visible()
    taken.append(light.picture("page-running-light", whole=False))

    light.at("#/topics/orders/records?partition=0")
    light.page.get_by_role("textbox", name="Key").fill("0-17")
    light.page.get_by_role("button", name="Find its versions").click()
    expect(light.page.get_by_text("Versions of the key")).to_be_visible()
    light.filled()
    taken.append(light.picture("page-records-light", whole=False))

    light.at("#/topics/orders/configuration")
    light.page.get_by_role("button", name="Edit configuration").click()
    light.page.get_by_label("min.cleanable.dirty.ratio").fill("0.25")
    light.page.get_by_label("cleanup.policy").select_option(label="compact and delete")
    light.page.get_by_label("retention.ms", exact=True).fill("86400000")
    light.page.get_by_role("button", name="Review changes").click()
    expect(light.page.get_by_role("table", name="A run of now, before and after the change")).to_be_visible()
    taken.append(light.picture("page-configuration-light", whole=False))

    night = look("small", theme="dark")
    night.at("#/alerts")
    taken.append(night.picture("page-alerts-dark", whole=False))
    assert_shown(taken)
