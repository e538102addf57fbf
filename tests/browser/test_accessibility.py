"""Every page and dialog keeps WCAG 2.2 AA as axe-core judges what is drawn: light and dark, narrow and wide."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open

RULES = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
}
STORE_ROUTES = (
    "#/overview",
    "#/topics",
    "#/topics/{topic}",
    "#/topics/{topic}/trends",
    "#/topics/{topic}/audit",
    "#/runs",
    "#/alerts",
    "#/quality",
    "#/audit",
)
LOG_ROUTES = tuple(
    f"#/topics/{{topic}}/{tab}"
    for tab in ("records", "latest", "explain", "ingests", "undo", "erasures", "table", "configuration")
)
"""Answered from a topic's log, which generated topics have not."""


def list_violations(page: Page) -> list[str]:
    """Each element that breaks a rule, with that rule."""
    # A tooltip floats over the landmarks: it belongs to what describes itself by it.
    found = Axe().run(page, context={"exclude": [["#tooltip"]]}, options=RULES).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize(
    ("lake", "theme", "width"),
    [("small", "dark", 768), ("small", "light", 1920), ("thousand", "light", 768), ("thousand", "dark", 1440)],
)
def test_every_page_is_accessible(look: Open, lake: str, theme: str, width: int) -> None:
    seen = look(lake, theme=theme, width=width)
    topic, routes = "customers", (*STORE_ROUTES, *LOG_ROUTES)
    if lake == "thousand":
        topic, routes = (
            seen.at("#/topics?state=overdue").locator("tbody tr a.row-link").first.inner_text(),
            STORE_ROUTES,
        )
    broken: dict[str, set[str]] = {}
    for route in routes:
        for violation in list_violations(seen.at(route.format(topic=topic))):
            broken.setdefault(violation, set()).add(route)
    assert not broken, "\n".join(f"{violation} on {sorted(places)}" for violation, places in broken.items())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dialogs_and_the_editor_are_accessible(look: Open, theme: str) -> None:
    seen = look("small", theme=theme)
    page = seen.at("#/topics/payments")
    page.get_by_role("button", name="Compact now").click()
    expect(page.get_by_role("dialog")).to_contain_text("It would read")
    assert not (broken := list_violations(page)), "\n".join(broken)
    page = seen.at("#/topics/orders/configuration")
    page.get_by_role("button", name="Edit configuration").click()
    page.get_by_label("min.cleanable.dirty.ratio").fill("7")
    expect(page.get_by_label("min.cleanable.dirty.ratio")).to_have_attribute("aria-invalid", "true")
    assert not (broken := list_violations(page)), "\n".join(broken)
    page.get_by_label("min.cleanable.dirty.ratio").fill("0.25")
    page.get_by_role("button", name="Review changes").click()
    expect(page.get_by_role("dialog").get_by_role("table")).to_have_count(2)
    assert not (broken := list_violations(page)), "\n".join(broken)
