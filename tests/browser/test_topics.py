"""The list of topics: search, filter, sort and pages change the rows, live in the address and survive a reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_accessibility import list_violations
from tests.browser.test_actions import agree, triggered


def names(page: Page) -> list[str]:
    """The topics shown, from the top."""
    return page.locator("tbody a.row-link").all_inner_texts()


def shown(page: Page, total: str) -> None:
    """Wait until the list says that it has ``total`` topics."""
    expect(page.locator('[data-pager="range"]')).to_have_text(re.compile(f"(^|of ){total} topics$"))


def test_search_narrows_the_rows_and_survives_a_reload(look: Open) -> None:
    """What is typed goes into the address; the counts of the states follow the search."""
    seen = look("thousand")
    page = seen.at("#/topics")
    everything = page.locator('[data-key="chip-"] .chip-count').inner_text()
    page.get_by_role("searchbox").fill("payments.")
    page.wait_for_url("**search=payments.**")
    expect(page.locator('[data-key="chip-"] .chip-count')).not_to_have_text(everything)
    found = names(page)
    assert found
    assert all("payments." in name for name in found)
    page.reload()
    seen.filled()
    assert names(page) == found
    expect(page.get_by_role("searchbox")).to_have_value("payments.")


def test_a_state_filters_and_its_count_is_the_number_of_rows(look: Open) -> None:
    """The chip of a state says how many there are, and pressing it shows exactly those."""
    seen = look("thousand")
    page = seen.at("#/topics")
    chip = page.locator('[data-key="chip-paused"]')
    number = chip.locator(".chip-count").inner_text()
    chip.click()
    shown(page, number)
    expect(chip).to_have_attribute("aria-pressed", "true")
    assert set(page.locator("tbody td[data-column='state'] .badge").all_inner_texts()) == {"paused"}
    page.go_back()
    shown(page, "1\u202f000")


def test_a_header_sorts_and_sorts_back(look: Open) -> None:
    """Largest first for sizes; a second press turns the order over; screen readers are told."""
    seen = look("thousand")
    page = seen.at("#/topics")
    header = page.locator("th", has=page.get_by_role("button", name="Size"))
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    seen.filled()
    largest = names(page)
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    seen.filled()
    assert not set(names(page)) & set(largest)
    page.reload()
    seen.filled()
    expect(header).to_have_attribute("aria-sort", "ascending")


def test_pages_show_other_topics_and_the_address_names_the_page(look: Open) -> None:
    """Twenty pages of fifty; the second has none of the first; more rows a page begin at the first again."""
    seen = look("thousand")
    page = seen.at("#/topics?sort=topic")
    first = names(page)
    assert first == sorted(first)
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_text("Page 2 of 20")).to_be_visible()
    second = names(page)
    assert len(second) == 50
    assert first[-1] < second[0]
    page.reload()
    seen.filled()
    assert names(page) == second
    page.get_by_label("Rows").select_option("200")
    expect(page.get_by_text("Page 1 of 5")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(200)


def test_the_keyboard_alone_leads_from_the_search_to_a_topic(look: Open) -> None:
    """Tab reaches the skip link first; a slash the search; Enter sorts by a header and opens a row's topic."""
    seen = look("small")
    page = seen.at("#/topics")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()

    sorter = page.get_by_role("button", name="Topic", exact=True)
    for _ in range(20):
        if sorter.evaluate("element => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=topic**")
    seen.filled()
    # The header was drawn anew and the focus stayed on it.
    expect(sorter).to_be_focused()
    assert names(page) == sorted(names(page))

    link = page.get_by_role("link", name="customers")
    for _ in range(20):
        if link.evaluate("element => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("customers")
    expect(page).to_have_url(re.compile("#/topics/customers$"))


def test_a_search_without_result_says_so_and_leads_back(look: Open) -> None:
    """An empty list is explained, with the way to all topics."""
    seen = look("small")
    page = seen.at("#/topics?search=nothing-of-that-name&state=due")
    expect(page.get_by_text('No topic matches due, "nothing-of-that-name".')).to_be_visible()
    page.get_by_role("button", name="Show all topics").click()
    shown(page, "6")


def test_an_unknown_topic_and_an_unknown_page_say_what_there_is_not(look: Open) -> None:
    """A link that leads nowhere ends in a sentence."""
    seen = look("small")
    page = seen.at("#/topics/no-such-topic")
    expect(page.locator("main")).to_contain_text("no-such-topic")
    expect(page.get_by_role("button", name="Compact now")).to_have_count(0)
    seen.page.goto(f"{seen.server.url}/winnow/page#/elsewhere")
    expect(page.get_by_text("There is no such page.")).to_be_visible()
    # The browser itself logs the answer 404.
    assert all("404" in error for error in seen.errors)
    seen.errors.clear()


def test_a_question_that_is_refused_leaves_what_was_shown(look: Open) -> None:
    """A sentence says what was wrong with it, and the rows stay."""
    seen = look("small")
    page = seen.at("#/topics")
    before = names(page)
    page.evaluate("location.hash = '#/topics?sort=colour'")
    expect(page.locator("main .callout")).to_contain_text("Input should be")
    assert names(page) == before
    assert all("422" in error for error in seen.errors)
    seen.errors.clear()


def test_an_api_server_that_is_away_leaves_what_was_shown(look: Open) -> None:
    """The rows stay, a sentence says what to do, and looking again heals it."""
    seen = look("small")
    page = seen.at("#/topics")
    before = names(page)
    page.context.set_offline(True)
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("Airflow's api-server did not answer.")).to_be_visible()
    assert names(page) == before
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("Airflow's api-server did not answer.")).to_have_count(0)
    assert names(page) == before
    assert all("ERR_INTERNET_DISCONNECTED" in error for error in seen.errors)
    seen.errors.clear()


@pytest.mark.parametrize("width", [700, 1440])
def test_a_topic_says_what_is_the_matter_with_its_topic_at_kafka(look: Open, width: int) -> None:
    """One is gone at Kafka; of another some records are missing and an open transaction holds back more of them."""
    seen = look("small", width=width)
    page = seen.at("#/topics/devices")
    figure = page.locator(".figure", has_text="Kafka topic")
    expect(figure).to_contain_text("gone at Kafka")
    expect(figure).to_contain_text("since ")
    seen.picture(f"topic-gone-{width}")
    page = seen.at("#/topics/inventory")
    figure = page.locator(".figure", has_text="Behind Kafka")
    expect(figure).to_contain_text("35 offsets")
    expect(figure).to_contain_text("1\u202f240 held by an open transaction since ")
    seen.picture(f"topic-behind-{width}")
    page = seen.at("#/topics/sessions/configuration")
    expect(page.locator(".edit-bar")).to_contain_text("delete.retention.ms=3600000")
    seen.picture(f"configuration-held-{width}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_filters_are_kept_under_a_name_until_they_are_forgotten(look: Open) -> None:
    page = look("small").at("#/topics?state=due")
    page.get_by_role("button", name="Save view").click()
    dialog = page.get_by_role("dialog", name="Save this view?")
    dialog.get_by_label("Name").fill("what is due")
    dialog.get_by_role("button", name="Save view").click()
    page.goto(page.url.replace("?state=due", ""))
    page.get_by_label("Saved views").select_option("what is due")
    expect(page).to_have_url(re.compile(r"#/topics\?state=due$"))
    page.get_by_role("button", name="Forget view").click()
    expect(page.get_by_label("Saved views")).to_have_count(0)


@pytest.mark.parametrize(("theme", "width"), [("light", 768), ("dark", 1440), ("light", 1920)])
def test_all_topics_that_match_are_changed_by_one_reviewed_request(look: Open, theme: str, width: int) -> None:
    """The review names what it leaves out and why; Airflow gets exactly the topics of the review, in one run."""
    seen = look("thousand", theme=theme, width=width)
    page = seen.at("#/topics?search=or")
    matching = page.locator('[data-pager="range"]').inner_text().removesuffix(" topics").split("of ")[-1]
    page.get_by_label("Select all topics of this page").check()
    bar = page.get_by_role("group", name="Selected topics")
    expect(bar).to_contain_text("50 topics selected")
    bar.get_by_role("button", name=f"Select all {matching} that match").click()
    expect(bar).to_contain_text(f"All {matching} topics that match")
    seen.picture(f"bulk-bar-{theme}-{width}", whole=False)
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    bar.get_by_role("button", name="Configuration").click()
    dialog = page.get_by_role("dialog", name=f"Configuration: {matching} topics?")
    expect(dialog).to_contain_text("Nothing is changed yet.")
    dialog.get_by_label("Filter keys").fill("delete.retention.ms")
    dialog.get_by_label("delete.retention.ms", exact=True).fill("1h")
    expect(dialog.get_by_role("status").last).to_contain_text("It takes ")
    expect(dialog.get_by_role("table", name="Topics that it takes").locator("tbody tr")).to_have_count(20)
    refused = dialog.get_by_role("table", name="Topics that it cannot take")
    expect(refused).to_contain_text("owned by growth, for whom you may not act (setting owners)")
    expect(dialog).to_contain_text(re.compile(r"Because of it, runs can remove records of [\d,]+ topics for good"))
    assert not (broken := list_violations(page)), "\n".join(broken)
    seen.picture(f"bulk-review-{theme}-{width}", whole=False)
    said = dialog.get_by_role("status").last.inner_text()
    dialog.get_by_label("Reason").fill("half the disk")
    agree(page, "Configuration")
    run = triggered(seen, "change_many")
    assert (run["conf"]["config"], run["conf"]["reason"]) == ({"delete.retention.ms": "3600000"}, "half the disk")
    assert said.startswith(f"It takes {len(run['conf']['topics'])} topics.")
    expect(bar).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_sweep_of_a_thousand_topics_says_that_it_is_for_good_and_names_all(look: Open, theme: str) -> None:
    seen = look("thousand", theme=theme)
    page = seen.at("#/topics")
    page.locator("input[data-topic]").first.check()
    page.get_by_role("button", name="Select all 1\u202f000 that match").click()
    page.get_by_role("button", name="Sweep").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This cannot be undone.")
    expect(dialog.get_by_role("status").last).to_contain_text("wait in all")
    seen.picture(f"bulk-sweep-{theme}", whole=False)
    dialog.get_by_label("Reason").fill("room")
    agree(page, "Sweep")
    conf = triggered(seen, "sweep_topics")["conf"]
    assert len(conf["topics"]) > 800
    assert conf["reason"] == "room"
    # One that is left out makes of "all" the others of this page.
    page.get_by_label("Select all topics of this page").check()
    page.get_by_role("button", name="Select all 1\u202f000 that match").click()
    page.locator("input[data-topic]").first.uncheck()
    expect(page.get_by_role("group", name="Selected topics")).to_contain_text("49 topics selected")
