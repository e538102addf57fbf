"""The pictures of docs/airflow.md. SCREENSHOTS=docs/img puts them where the page looks for them."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.docs.runbook import DOCS


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

    page = (DOCS / "airflow.md").read_text()
    assert [picture.name for picture in taken if f"](img/{picture.name})" not in page] == []
