"""Every page, light and dark, with a small lake and a thousand topics: it fills, logs no error, asks no stranger."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.browser_page import BrowserPage
from tests.browser.conftest import Open

THEMES = ("light", "dark")
LAKES = ("small", "thousand")


def first_topic(look: BrowserPage, state: str) -> str:
    """The first topic in ``state``."""
    look.at(f"#/topics?state={state}")
    return look.page.locator("tbody tr a.row-link").first.inner_text()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("lake", LAKES)
def test_each_page_fills_in_both_themes(look: Open, lake: str, theme: str) -> None:
    """From the topics over one topic, its runs and a failed run to quality, in the theme that Airflow's UI has."""
    seen = look(lake, theme=theme)
    page = seen.at("#/topics")
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    expect(page.locator("tbody tr")).to_have_count(6 if lake == "small" else 50)
    seen.picture(f"topics-{lake}-{theme}")

    name = "orders" if lake == "small" else first_topic(seen, "overdue")
    seen.at(f"#/topics/{name}")
    expect(page.locator("h1")).to_contain_text(name)
    expect(page.locator(".log-strip")).to_have_count(3 if lake == "small" else 10)
    expect(page.locator(".plot-svg")).to_have_count(2)
    seen.picture(f"topic-{lake}-{theme}")

    seen.at("#/runs?status=published" + ("&search=orders" if lake == "small" else ""))
    page.locator("tbody a.row-link").first.click()
    expect(page.locator("table.equation")).to_be_visible()
    seen.filled()
    seen.picture(f"run-{lake}-{theme}")

    seen.at("#/runs?status=invalid")
    page.locator("tbody a.row-link").first.click()
    expect(page.get_by_text("Validation failed. Nothing was published.")).to_be_visible()
    seen.filled()
    seen.picture(f"run-failed-{lake}-{theme}")

    seen.at(f"#/topics/{first_topic(seen, 'uncleanable')}")
    expect(page.locator("h1 .badge")).to_have_text("uncleanable")
    seen.picture(f"topic-uncleanable-{lake}-{theme}")

    seen.at("#/quality")
    expect(page.locator(".plot-svg")).to_have_count(1)
    seen.picture(f"quality-{lake}-{theme}")

    seen.at("#/runs")
    expect(page.locator("tbody tr").first).to_be_visible()
    seen.picture(f"runs-{lake}-{theme}")


@pytest.mark.parametrize("theme", THEMES)
def test_the_page_stands_in_airflows_navigation(look: Open, theme: str) -> None:
    """The entry of the navigation opens it in Airflow's frame, in Airflow's theme."""
    seen = look("thousand", theme=theme)
    frame = seen.within_airflow("plugin/winnow")
    expect(frame.locator("html")).to_have_attribute("data-theme", theme)
    expect(frame.locator(".is-totals .figure")).to_have_count(7)
    expect(seen.page.get_by_role("link", name="Winnow")).to_be_visible()
    frame = seen.within_airflow("plugin/winnow/winnow/page#/topics")
    expect(frame.locator("tbody tr")).to_have_count(50)
    seen.picture(f"airflow-topics-{theme}", whole=False)


def test_a_narrow_window_scrolls_tables_and_not_the_page(look: Open) -> None:
    """At 800 pixels nothing is wider than the window."""
    seen = look("small", width=800)
    for route in ("#/overview", "#/topics", "#/topics/customers", "#/topics/customers/trends", "#/runs", "#/quality"):
        page = seen.at(route)
        assert page.evaluate("document.documentElement.scrollWidth") <= 800
        seen.picture("narrow-" + re.sub(r"\W+", "-", route).strip("-"))
