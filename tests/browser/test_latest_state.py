"""The latest tab of a topic: rows of its typed table in pages, the row of a key, and why there are none."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.browser_page import BrowserPage
from tests.browser.conftest import Open


def check_first_page(seen: BrowserPage) -> None:
    """A column for each field that is shown, fifty rows, nothing wider than the window."""
    page = seen.at("#/topics/customers/latest")
    expect(page.get_by_role("columnheader", name="amount")).to_be_visible()
    seen.filled()
    names = [text.strip() for text in page.locator("thead th").all_inner_texts()]
    assert names[:2] == ["Offset", "key"]
    assert names[-1] == "Timestamp"
    assert {"id", "amount", "note"} < set(names)
    assert page.locator("tbody tr").count() == 50
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "card" not in page.locator("main").inner_text()


def test_latest_state_is_read_in_pages_and_by_key(look: Open) -> None:
    """The key stands in no address, an offset leads to its record; a topic of bytes says what it lacks."""
    dark = look("small", theme="dark", width=768)
    check_first_page(dark)
    dark.picture("latest-dark-768")
    seen = look("small")
    check_first_page(seen)
    seen.picture("latest-light-1440")
    page = seen.page
    page.get_by_role("button", name="More").click()
    page.wait_for_url("**start=50**")
    expect(page.get_by_text(re.compile(r"^Rows 51 to"))).to_be_visible()
    key = page.locator("tbody tr td:nth-child(2) code").first.inner_text()
    page.get_by_role("textbox", name="Key").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody td:nth-child(2) code")).to_have_text(key)
    assert key not in page.url
    seen.picture("latest-key")
    page.locator("tbody tr a").click()
    page.wait_for_url("**/records?**offset=**")
    seen.at("#/topics/orders/latest")
    expect(page.get_by_text("its latest state has no columns")).to_be_visible()
    expect(page.get_by_text("winnow topics alter orders --config winnow.value.format=json")).to_be_visible()
    seen.picture("latest-bytes")
