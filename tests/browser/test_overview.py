"""The overview is the first thing seen; trends and the health of tables fill, and are read by keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open

THEMES = ("light", "dark")
LAKES = ("small", "thousand")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("lake", LAKES)
def test_the_overview_comes_first_and_fills(look: Open, lake: str, theme: str) -> None:
    seen = look(lake, theme=theme)
    page = seen.at("")
    expect(page).to_have_url(re.compile("#/overview$"))
    expect(page.locator(".is-totals .figure")).to_have_count(7)
    expect(page.locator(".is-totals .figure").first).to_contain_text("6" if lake == "small" else "1\u202f000")
    expect(page.locator("#wrong li").first).to_be_visible()
    expect(page.locator("#schedule tbody tr").first).to_be_visible()
    expect(page.locator("#trends .plot-svg").first).to_be_visible()
    seen.picture(f"overview-{lake}-{theme}")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("lake", LAKES)
def test_trends_and_table_of_a_topic_fill(look: Open, lake: str, theme: str) -> None:
    seen = look(lake, theme=theme)
    page = seen.at("#/topics?state=overdue")
    topic = page.locator("tbody tr a.row-link").first.inner_text()
    seen.at(f"#/topics/{topic}/trends")
    expect(page.locator("#trends .plot")).to_have_count(7)
    expect(page.locator("#trends .plot-svg")).to_have_count(7)
    seen.picture(f"trends-{lake}-{theme}")
    seen.at(f"#/topics/{topic}/table")
    expect(page.locator("#files .plot-svg")).to_have_count(2)
    expect(page.locator("#waiting .figure")).to_have_count(3)
    seen.picture(f"table-{lake}-{theme}")


def test_each_problem_leads_to_its_cause(look: Open) -> None:
    page = look("small").at("#/overview")
    page.locator("#wrong a", has_text="uncleanable").click()
    expect(page).to_have_url(re.compile(r"#/topics\?state=uncleanable"))
    expect(page.locator("tbody tr .badge.is-uncleanable").first).to_be_visible()


def test_a_line_chart_is_read_with_the_arrow_keys(look: Open) -> None:
    page = look("thousand").at("#/overview")
    chart = page.locator("#trends [role=slider]").first
    chart.scroll_into_view_if_needed()
    chart.focus()
    newest = chart.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowLeft")
    before = chart.get_attribute("aria-valuetext")
    assert before != newest
    expect(page.locator("#trends .plot-reading").first).to_have_text(before or "")
    page.keyboard.press("End")
    assert chart.get_attribute("aria-valuetext") == newest


def test_other_days_are_kept_in_the_address(look: Open) -> None:
    seen = look("thousand")
    page = seen.at("#/overview")
    page.get_by_role("button", name="7 days", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/overview\?days=7"))
    seen.filled()
    expect(page.get_by_role("button", name="7 days", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#trends .plot").nth(2).locator(".bar-group")).to_have_count(7)


@pytest.mark.parametrize("width", [1000, 2560])
def test_overview_trends_and_table_fit_the_window(look: Open, width: int) -> None:
    seen = look("thousand", width=width)
    topic = seen.at("#/topics?state=overdue").locator("tbody tr a.row-link").first.inner_text()
    for route in ("#/overview", f"#/topics/{topic}/trends", f"#/topics/{topic}/table"):
        page = seen.at(route)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        seen.picture(f"wide-{width}-" + route.rsplit("/", 1)[-1])
