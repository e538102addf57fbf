"""Erasing in the browser: one person asks, another approves, and the certificate names both; nobody types a key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.browser_page import BrowserPage
from tests.browser.conftest import Open
from tests.browser.test_actions import agree, triggered
from tests.support.world import FakeClock, World, open_world
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.topics.leases import hold_lease
from winnow_airflow.tasks.erase_steps import KeysErased, erase_keys

TOPIC = "sessions"
SIZES = [("light", 1440), ("dark", 768), ("light", 768), ("dark", 1440)]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with two keys, below the folder in which runs may read."""
    path = tmp_path / "4711.txt"
    path.write_text("0-7\n1-11\n")
    return path


@contextmanager
def lake_of(seen: BrowserPage, folder: Path) -> Iterator[World]:
    """The lake as a task of Airflow has it, where erasures take two persons."""
    settings = {"WINNOW_ERASE__APPROVALS": "2", "WINNOW_ERASE__ROOTS": str(folder)}
    with open_world(seen.server.lake.parent, FakeClock(read_wall_clock_ms()), settings) as world:
        yield world


def carry_out(seen: BrowserPage, world: World, *, is_first_try: bool = True) -> KeysErased:
    """Do what the newest DAG run would, as who triggered it, and end it in Airflow."""
    run = triggered(seen, "erase_keys")
    wanted: Any = {"request_id": None, **run["conf"]}
    installation = replace(world.installation, actor=run["triggering_user_name"])
    done = erase_keys(installation, wanted, is_first_try=is_first_try)
    address = f"{seen.server.url}/api/v2/dags/erase_keys/dagRuns/{run['dag_run_id']}"
    assert seen.page.request.patch(address, data={"state": "success"}).ok
    return done


def test_keys_of_a_file_are_erased_when_another_person_has_approved_it(look: Open, keys: Path) -> None:
    """From the form over the request to the certificate; each DAG run is carried out here."""
    seen = look("small")
    page = seen.at(f"#/topics/{TOPIC}/erasures")
    expect(page.locator("#erasures")).to_contain_text("No key was erased from this topic")
    page.get_by_role("button", name="Erase keys…").click()
    form = page.get_by_role("dialog", name=f"Erase keys of {TOPIC}?")
    expect(form).to_contain_text("This takes two persons")
    expect(form.get_by_label("File with the keys")).to_be_focused()
    form.get_by_label("File with the keys").fill(str(keys))
    form.get_by_label("Reason").fill("request 4711")
    seen.picture("erase-form-light-1440", whole=False)
    agree(page, "Erase keys")
    assert triggered(seen, "erase_keys")["conf"] == {
        "topic": TOPIC,
        "keys_from": str(keys),
        "reason": "request 4711",
        "with_tombstone": False,
        "break_pins": False,
    }
    with lake_of(seen, keys.parent) as world:
        before = world.read(topic=TOPIC)
        asked = carry_out(seen, world)
        assert asked.row["erasure_id"] is None
        assert world.read(topic=TOPIC) == before
        own = page.get_by_role("table", name=f"Requests for erasures of {TOPIC}").locator("tbody tr")
        expect(own).to_contain_text("pending")
        expect(own.get_by_role("button", name="Approve…")).to_have_attribute("aria-disabled", "true")
        other = look_at_request(look)
        sheet, dialog = other.page, other.page.get_by_role("dialog")
        expect(dialog).to_contain_text("admin, ")
        expect(dialog).to_contain_text(str(keys))
        dialog.get_by_label("Reason").fill("it is the person's wish")
        agree(sheet, "Approve and erase")
        run = triggered(other, "erase_keys")
        assert (run["triggering_user_name"], run["conf"]["request_id"]) == ("bert", asked.row["request_id"])
        with hold_lease(replace(world.installation, holder="another"), TOPIC):
            with pytest.raises(Exception, match="not yet from disk"):
                carry_out(other, world)
            sheet.get_by_role("button", name="Ask again").click()
            expect(sheet.locator("#erasures")).to_contain_text("Erased for readers, not yet from disk: ")
            other.picture("erase-unfinished-dark-1440")
        world.clock.now_ms = read_wall_clock_ms()
        assert carry_out(other, world, is_first_try=False).row["deleted"]
        assert [each.key for each in world.read(topic=TOPIC) if each.key in {b"0-7", b"1-11"}] == []
        sheet.get_by_role("button", name="Ask again").click()
        rows = sheet.get_by_role("table", name=f"Erasures of {TOPIC}, newest first", exact=True).locator("tbody tr")
        expect(rows).to_contain_text("asked by admin, approved by bert")
        expect(sheet.locator("#erasures")).not_to_contain_text("not yet from disk")
        expect(sheet.get_by_role("table", name=f"Requests for erasures of {TOPIC}")).to_contain_text("carried out")
        other.picture("erased-dark-1440")
        print_certificate(other)


def look_at_request(look: Open) -> BrowserPage:
    """The other person's page, with the dialog open, in every size and theme; the last one."""
    return [open_approval(look, theme, width) for theme, width in SIZES][-1]


def open_approval(look: Open, theme: str, width: int) -> BrowserPage:
    """The other person's page, with the dialog open."""
    seen = look("small", user="bert", theme=theme, width=width)
    page = seen.at(f"#/topics/{TOPIC}/erasures")
    seen.picture(f"erase-request-{theme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Approve…").click()
    dialog = page.get_by_role("dialog", name=f"Approve the erasure of 2 keys of {TOPIC}?")
    dialog.get_by_text("Files that hold a key").click()
    seen.picture(f"dialog-approve-{theme}-{width}", whole=False)
    return seen


def print_certificate(seen: BrowserPage) -> None:
    """Open the certificate as a page, which has its own style."""
    with seen.page.expect_popup() as opened:
        seen.page.get_by_role("link", name=re.compile("Print")).click()
    certificate = opened.value
    expect(certificate.get_by_role("heading", level=1)).to_contain_text("Erasure ")
    expect(certificate.locator("dl")).to_contain_text("bert, ")
    assert certificate.locator("dt").first.evaluate("each => getComputedStyle(each).color") == "rgb(85, 85, 85)"
    certificate.screenshot(path=seen.folder / "erasure-certificate.png", full_page=True)


def test_viewer_sees_erasures_and_may_neither_erase_nor_approve(look: Open) -> None:
    """The button says which right is missing."""
    seen = look("small", user="vera")
    page = seen.at("#/topics/orders/erasures")
    button = page.get_by_role("button", name="Erase keys…")
    expect(button).to_have_attribute("aria-disabled", "true")
    button.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("may not trigger erase_keys")
