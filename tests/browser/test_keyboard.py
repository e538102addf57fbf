"""The page by keyboard alone at 1000 px, and what the automatic refresh must not take away."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser_page import BrowserPage
from tests.browser.conftest import Open

WIDTH = 1000
TABS_AT_MOST = 80
SEIZE_REFRESH = """const start = setInterval;
window.setInterval = (tick, ms) => { if (ms === 30_000) window.refreshNow = tick; return start(tick, ms); };"""
FOCUSED = "() => document.activeElement?.closest('[data-key]')?.dataset.key ?? null"


@pytest.fixture
def seen(look: Open) -> BrowserPage:
    """A narrow page whose refresh the test can bring about."""
    return open_refreshable(look)


def open_refreshable(look: Open) -> BrowserPage:
    """Open a page at 1000 px whose automatic refresh :func:`refresh` brings about."""
    seen = look("small", width=WIDTH)
    seen.page.add_init_script(SEIZE_REFRESH)
    return seen


def tab_to(page: Page, key: str) -> None:
    """Press Tab until the element with this key has the focus."""
    for _ in range(TABS_AT_MOST):
        if page.evaluate(FOCUSED) == key:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{key} is not reached within {TABS_AT_MOST} presses of Tab")


def refresh(seen: BrowserPage) -> None:
    """Let the page refresh itself as it does every 30 seconds, and wait for its answers."""
    with seen.page.expect_response("**/winnow/api/**"):
        seen.page.evaluate("refreshNow()")
    seen.filled()


def test_record_is_opened_and_closed_by_keyboard_and_outlasts_a_refresh(seen: BrowserPage) -> None:
    """So do a typed key and the focus; closing leads back to where one was."""
    page = seen.at("#/topics/orders/records")
    tab_to(page, "key")
    page.keyboard.type("0-17")
    first = page.locator('[data-key^="record-"]').first.get_attribute("data-key")
    assert first is not None
    tab_to(page, first)
    page.keyboard.press("Enter")
    expect(page.locator("pre[aria-label='Value']")).to_be_visible()
    tab_to(page, "why")
    refresh(seen)
    expect(page.locator("pre[aria-label='Value']")).to_be_visible()
    expect(page.locator('[data-key="key"]')).to_have_value("0-17")
    assert page.evaluate(FOCUSED) == "why"
    tab_to(page, "close-record")
    page.keyboard.press("Enter")
    assert page.evaluate(FOCUSED) == first


def test_half_filled_editor_outlasts_a_refresh_and_the_focus_follows_it(seen: BrowserPage) -> None:
    """In, to the review and back, and out, without a mouse."""
    page = seen.at("#/topics/orders/configuration")
    tab_to(page, "edit")
    page.keyboard.press("Enter")
    expect(page.locator('[data-key="filter-keys"]')).to_be_focused()
    field = page.get_by_label("min.cleanable.dirty.ratio")
    tab_to(page, "config-min.cleanable.dirty.ratio")
    page.keyboard.press("Control+a")
    page.keyboard.type("0.25")
    page.locator('[data-key="review"]').focus()
    refresh(seen)
    expect(field).to_have_value("0.25")
    assert page.evaluate(FOCUSED) == "review"
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("table", name="A run of now, before and after the change")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert page.evaluate(FOCUSED) == "review"
    page.locator('[data-key="discard"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator('[data-key="edit"]')).to_be_focused()
