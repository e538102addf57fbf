"""Every page and dialog keeps WCAG 2.2 AA as axe-core judges what is drawn: light and dark, narrow and wide."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open

WIDTHS_PX = (768, 1440, 1920)
RULES = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
}
ROUTES = (
    "#/overview",
    "#/topics",
    "#/topics/{topic}",
    "#/topics/{topic}/trends",
    "#/topics/{topic}/records",
    "#/topics/{topic}/explain",
    "#/topics/{topic}/ingests",
    "#/topics/{topic}/undo",
    "#/topics/{topic}/erasures",
    "#/topics/{topic}/table",
    "#/topics/{topic}/configuration",
    "#/topics/{topic}/audit",
    "#/runs",
    "#/alerts",
    "#/quality",
    "#/audit",
)


def list_violations(page: Page) -> dict[str, list[str]]:
    """The rules that are broken, each with the elements that break it."""
    found = Axe().run(page, options=RULES).response["violations"]
    return {
        f"{rule['id']}: {rule['help']}": [
            f"{node['html'][:160]} {node['failureSummary'][:240]}" for node in rule["nodes"][:3]
        ]
        for rule in found
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("lake", ["small", "thousand"])
def test_every_page_is_accessible_at_every_width(look: Open, lake: str, theme: str) -> None:
    seen = look(lake, theme=theme)
    topic = "customers"
    if lake == "thousand":
        topic = seen.at("#/topics?state=overdue").locator("tbody tr a.row-link").first.inner_text()
    broken = {}
    for route in ROUTES:
        page = seen.at(route.format(topic=topic))
        for width in WIDTHS_PX:
            page.set_viewport_size({"width": width, "height": 900})
            if violations := list_violations(page):
                broken[f"{route} at {width} px"] = violations
    assert broken == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dialogs_and_the_editor_are_accessible(look: Open, theme: str) -> None:
    seen = look("small", theme=theme)
    page = seen.at("#/topics/payments")
    page.get_by_role("button", name="Compact now").click()
    expect(page.get_by_role("dialog")).to_contain_text("It would read")
    assert list_violations(page) == {}
    page = seen.at("#/topics/orders/configuration")
    page.get_by_role("button", name="Edit configuration").click()
    page.get_by_label("min.cleanable.dirty.ratio").fill("7")
    expect(page.get_by_label("min.cleanable.dirty.ratio")).to_have_attribute("aria-invalid", "true")
    assert list_violations(page) == {}
    page.get_by_label("min.cleanable.dirty.ratio").fill("0.25")
    page.get_by_role("button", name="Review changes").click()
    expect(page.get_by_role("dialog").get_by_role("table")).to_have_count(2)
    assert list_violations(page) == {}
