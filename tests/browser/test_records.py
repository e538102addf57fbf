"""Records in the browser: browsing, finding a key, the picture of who won, formats, and who may not."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser_page import BrowserPage
from tests.browser.conftest import Open


@pytest.fixture
def seen(look: Open) -> BrowserPage:
    """Orders' records, as the administrator sees them."""
    seen = look("small")
    seen.at("#/topics/orders/records")
    return seen


def list_offsets(page: Page) -> list[int]:
    """The offsets of the records shown."""
    texts = page.locator('[data-key^="record-"]').all_inner_texts()
    return [int(re.sub(r"\D", "", each)) for each in texts]


def test_newest_records_come_first_and_earlier_ones_join_without_a_gap(seen: BrowserPage) -> None:
    """Fifty a page; the address names the page, and Back returns to it."""
    page = seen.page
    newest = list_offsets(page)
    assert len(newest) == 50
    assert newest == sorted(newest)
    page.get_by_role("button", name="Earlier").click()
    page.wait_for_url(f"**before={newest[0]}**")
    expect(page.locator(f'[data-key="record-{newest[0]}"]')).to_have_count(0)
    seen.filled()
    earlier = list_offsets(page)
    assert earlier[-1] < newest[0]
    page.get_by_role("button", name="Later").click()
    expect(page.locator(f'[data-key="record-{newest[0]}"]')).to_have_count(1)
    seen.filled()
    assert list_offsets(page) == newest


def test_gap_says_which_run_removed_what_was_there_and_opens_the_answer_of_why(look: Open) -> None:
    """A row between records, with a link to the run; newest first it stands where it belongs, too."""
    seen = look("small")
    page = seen.at("#/topics/orders/records?offset=0")
    gap = page.locator("tr.is-span").first
    expect(gap).to_contain_text(re.compile(r"^Offsets? .*: removed .*run [0-9a-f]{12} of .*: superseded"))
    expect(gap.locator("a").first).to_have_attribute("href", re.compile("^#/runs/"))
    seen.picture("records-gaps")
    rows = page.locator("tbody tr").all_inner_texts()
    page.get_by_label("newest first").check()
    page.wait_for_url("**order=newest**")
    expect(page.locator("tbody tr").first).not_to_have_text(rows[0])
    assert [each[:20] for each in page.locator("tbody tr").all_inner_texts()] == [each[:20] for each in rows[::-1]]
    page.locator("tr.is-span").last.get_by_role("button", name="Why is there no record").click()
    expect(page.locator(".message")).to_contain_text("removed")
    expect(page.get_by_text("There is no record at this offset.")).to_be_visible()
    seen.filled()
    seen.picture("records-gap-why")
    dark = look("small", theme="dark", width=768)
    page = dark.at("#/topics/orders/records?offset=0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark.picture("records-gaps-dark")


def test_newest_records_of_all_partitions_are_in_one_list(seen: BrowserPage) -> None:
    """By timestamp, with the partition of each; earlier pages and back."""
    page = seen.page
    page.get_by_label("all", exact=True).check()
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**partition=all**")
    expect(page.get_by_role("columnheader", name="Partition")).to_be_visible()
    seen.filled()
    newest, numbers = list_offsets(page), page.locator('td[data-column="partition"]').all_inner_texts()
    assert len(newest) == len(numbers) == 50
    assert len(set(numbers)) > 1
    places = list(zip(numbers, newest, strict=True))
    assert sorted(places) == sorted(places, key=lambda place: place[0]), "a partition's records are in order"
    seen.picture("records-all-partitions")
    page.get_by_role("button", name="Earlier").click()
    expect(page.get_by_role("button", name="Later")).to_be_enabled()
    seen.filled()
    earlier = list(zip(page.locator('td[data-column="partition"]').all_inner_texts(), list_offsets(page), strict=True))
    assert not set(earlier) & set(places)
    page.get_by_role("button", name="Later").click()
    expect(page.get_by_role("button", name="Later")).to_be_disabled()
    seen.filled()
    assert list_offsets(page) == newest
    while page.locator("tr.is-span").count() == 0:
        first = page.locator('[data-key^="record-"]').first
        shown = str(first.get_attribute("data-key"))
        page.get_by_role("button", name="Earlier").click()
        expect(first).not_to_have_attribute("data-key", shown)
    gap = page.locator("tr.is-span").first
    expect(gap).to_contain_text(re.compile(r"^No record of partition \d+ at offsets? "))
    gap.get_by_role("button", name="Why is there no record of partition").click()
    expect(page.get_by_text("There is no record at this offset.")).to_be_visible()
    seen.picture("records-all-gap")


def test_search_goes_on_until_all_is_searched_and_is_saved_without_what_was_looked_for(look: Open) -> None:
    """With its progress; what was typed stands in no address and not in the browser's storage."""
    seen = look("small", theme="dark", width=768)
    page = seen.at("#/topics/orders/records")
    addresses: list[str] = []
    page.on("request", lambda sent: addresses.append(sent.url))
    page.get_by_text("Search records").click()
    page.get_by_label("Key begins with").fill("0-1")
    page.get_by_label("JSON field").fill("amount")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".search-progress")).to_contain_text(re.compile(r"Searched (.+) of \1, \d+ matches"))
    found = page.get_by_role("group", name="Records found")
    numbers = found.locator('td[data-column="partition"]').all_inner_texts()
    keys = found.locator('[data-key^="match-"]').evaluate_all("buttons => buttons.map((one) => one.dataset.key)")
    offsets = [int(key.removeprefix("match-")) for key in keys]
    of_first = [offset for number, offset in zip(numbers, offsets, strict=True) if number == numbers[0]]
    assert of_first == sorted(of_first, reverse=True), "the newest match is the first"
    assert all(each.startswith("0-1") for each in found.locator('td[data-column="key"]').all_inner_texts())
    assert any(each.endswith("/records/search") for each in addresses)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    seen.picture("records-search-dark")
    page.get_by_role("button", name="Save this search").click()
    page.get_by_label("Name", exact=True).fill("amounts")
    page.get_by_role("button", name="Save search").click()
    expect(page.get_by_label("Saved searches")).to_have_value("amounts")
    kept = page.evaluate("JSON.stringify(localStorage)")
    assert "amounts" in kept
    assert "0-1" not in " ".join([kept, *addresses, page.url])
    page.reload()
    page.get_by_text("Search records").click()
    page.get_by_label("Saved searches").select_option("amounts")
    expect(page.get_by_label("JSON field")).to_have_value("amount")
    expect(page.get_by_label("Key begins with")).to_have_value("")
    page.get_by_role("button", name="Forget this search").click()
    expect(page.get_by_label("Saved searches")).to_have_count(0)


def test_search_is_stopped_and_goes_on(seen: BrowserPage) -> None:
    """What was found so far stays."""
    page = seen.page
    page.get_by_text("Search records").click()
    page.route("**/records/search", lambda _: None)
    page.get_by_label("Value contains").fill("id")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.unroute("**/records/search")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("group", name="Records found")).to_be_visible()
    expect(page.locator(".search-progress")).to_contain_text("200 matches")
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".search-progress")).to_contain_text("400 matches")
    seen.filled()
    seen.picture("records-search")


def test_record_opens_in_full_and_why_shows_who_won(seen: BrowserPage) -> None:
    """JSON with exact numbers, masked fields, the bytes in hexadecimal digits, and the versions of its key."""
    page = seen.at("#/topics/payments/records")
    page.get_by_label("Partition", exact=True).fill("1")
    page.get_by_label("from").select_option("offset")
    page.get_by_label("Where").fill("0")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**partition=1**")
    seen.filled()
    first = page.locator('[data-key^="record-"]').first
    first.click()
    value = page.locator("pre[aria-label='Value']")
    expect(value).to_contain_text('"card": "***"')
    page.locator('[data-key="Value-as-json"]').click()
    expect(value).to_contain_text(re.compile(r'^\{\n  "id": \d{19},\n'))
    page.locator('[data-key="Value-as-hex"]').click()
    expect(value).to_contain_text("000000  7b 22 69 64 22")
    page.get_by_role("button", name="Why is it here?").click()
    expect(page.locator(".why-svg")).to_be_visible()
    expect(page.locator(".message")).to_contain_text("wins by highest offset")
    assert page.locator(".why-arc").count() >= 1
    seen.filled()
    seen.picture("records-why")


def test_key_is_found_and_stands_in_no_address(seen: BrowserPage) -> None:
    """Neither in that of the page, nor in one of a request."""
    page = seen.page
    addresses: list[str] = []
    page.on("request", lambda sent: addresses.append(sent.url))
    page.get_by_role("textbox", name="Key").fill("0-17")
    page.keyboard.press("Enter")
    expect(page.locator(".why-svg")).to_be_visible()
    assert page.locator('[data-key^="version-"]').count() >= 1
    removed = page.get_by_role("group", name="Removed versions of the key")
    expect(removed).to_contain_text(re.compile("removed by run [0-9a-f]{12} of "))
    expect(removed.locator('td[data-column="value"] code').first).to_contain_text('"card": "***"')
    assert any(each.endswith("/records/key") for each in addresses)
    assert "0-17" not in " ".join([*addresses, page.url])
    seen.picture("records-key")
    page.get_by_label("The key is typed as").select_option("json")
    page.get_by_role("textbox", name="Key").fill("{0-17")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The key is not JSON")
    seen.errors.clear()  # the browser notes every answer that is an error


def test_who_may_not_read_is_told_what_to_do(look: Open) -> None:
    """No request is sent, so nothing is audited."""
    seen = look("small", user="vera", theme="dark")
    page = seen.page
    page.goto("about:blank")
    page.goto(f"{seen.server.url}/winnow/page#/topics/orders/records")
    expect(page.get_by_text("You may not read records.")).to_be_visible()
    expect(page.get_by_text("record_readers")).to_be_visible()
    assert page.locator("form").count() == 0
    seen.picture("records-refused")


def test_records_fit_into_a_narrow_window(look: Open) -> None:
    """1000 px, in the dark: nothing is wider than the window."""
    seen = look("small", theme="dark", width=1000)
    page = seen.at("#/topics/orders/records")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    seen.picture("records-narrow")


def test_decoded_records_have_a_column_for_each_field_that_is_shown(look: Open) -> None:
    """What the topic's rules hide is nowhere: neither as a column, nor in full, nor among the versions of the key."""
    seen = look("small")
    page = seen.at("#/topics/customers/records")
    page.locator('[data-key="format-decoded"]').click()
    expect(page.get_by_role("columnheader", name="amount")).to_be_visible()
    seen.filled()
    names = [text.strip() for text in page.locator("thead th").all_inner_texts()]
    assert names[:6] == ["Offset", "Timestamp", "Key", "id", "amount", "note"]
    row = page.locator("tbody tr").filter(has=page.locator("td:nth-child(4) code")).first
    expect(row.locator("td").nth(2)).to_contain_text(re.compile(r"^\d"))
    assert re.fullmatch(r"\d{19}", row.locator("code").nth(1).inner_text())
    seen.picture("records-decoded")
    row.locator('[data-key^="record-"]').click()
    value = page.locator("pre[aria-label='Value']")
    expect(value).to_contain_text(re.compile(r'^\{\n  "id": \d{19},\n  "amount": '))
    page.get_by_role("button", name="Why is it here?").click()
    expect(page.locator(".why-svg")).to_be_visible()
    seen.filled()
    assert "card" not in page.content()
    seen.picture("records-decoded-why")
    page.locator('[data-key="format-json"]').click()
    expect(page.get_by_role("columnheader", name="Headers")).to_be_visible()


def test_a_topic_of_bytes_offers_no_decoded_form(seen: BrowserPage) -> None:
    """There is nothing to decode by."""
    assert seen.page.locator('[data-key="format-hex"]').count() == 1
    assert seen.page.locator('[data-key="format-decoded"]').count() == 0
