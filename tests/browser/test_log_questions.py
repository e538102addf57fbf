"""Explain and ingests in the browser: what a run would do, deadlines, the calls of ingest and taking one back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Open

ENDS_WITHIN_SECONDS = 10
"""The process would have half a minute otherwise."""


def test_explain_shows_what_a_run_would_do_and_the_forecast(look: Open) -> None:
    """Figures of the topic, a row per partition, and the deadlines; with active segments closed on request."""
    seen = look("small")
    page = seen.at("#/topics/payments/explain")
    expect(page.locator("#explain .figure").first).to_contain_text("2 partitions")
    expect(page.locator("#explain tbody tr")).to_have_count(2)
    expect(page.locator("#explain tbody tr").first).to_contain_text("compacted")
    seen.picture("explain")
    page.locator('[data-key="closes-active"]').check()
    seen.filled()
    expect(page.locator("#explain tbody tr")).to_have_count(2)
    page = seen.at("#/topics/orders/explain")
    expect(page.locator("#forecast")).to_contain_text("in time")


def test_ingest_calls_are_listed_and_the_newest_is_undone_by_a_dag_run(look: Open) -> None:
    """Older ones say why not; the dialog asks for a reason and triggers change_topics."""
    seen = look("small", theme="dark", width=1000)
    page = seen.at("#/topics/devices/ingests")
    rows = page.locator("#ingests tbody tr")
    expect(rows.first).to_contain_text("120")
    refused = rows.last.get_by_role("button", name="Undo")
    expect(refused).to_have_attribute("aria-disabled", "true")
    refused.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("It cannot be undone")
    seen.picture("ingests")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_viewer_sees_both_and_undoes_nothing(look: Open) -> None:
    """The buttons say which right is missing."""
    seen = look("small", user="vera")
    page = seen.at("#/topics/orders/ingests")
    expect(page.get_by_role("button", name="Undo").first).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#ingests tbody tr").first).to_contain_text("135")


def test_process_that_reads_the_log_ends_when_the_browser_goes_away(look: Open) -> None:
    """Through every layer of Airflow's server: the process, stopped so that it cannot end by itself, is killed."""
    seen = look("small")
    page = seen.at("#/topics/orders/ingests")
    (reader,) = wait_for_readers(seen.server.process.pid, 1)
    os.kill(reader, signal.SIGSTOP)
    with page.expect_request("**/ingests*"):
        page.get_by_role("button", name="Ask again").click()
    page.wait_for_timeout(500)
    assert reader in list_readers(seen.server.process.pid)
    page.goto("about:blank")
    until = time.monotonic() + ENDS_WITHIN_SECONDS
    while reader in list_readers(seen.server.process.pid):
        assert time.monotonic() < until, "the process outlived the request that it was started for"
        time.sleep(0.1)


def wait_for_readers(server: int, number: int) -> list[int]:
    """The reader processes of an api-server, once there are that many."""
    until = time.monotonic() + ENDS_WITHIN_SECONDS
    while len(found := list_readers(server)) != number:
        assert time.monotonic() < until, f"{len(found)} processes wait for a question instead of {number}"
        time.sleep(0.1)
    return found


def list_readers(server: int) -> list[int]:
    """The processes below an api-server that read the log."""
    parents: dict[int, int] = {}
    readers: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text().rpartition(")")[2].split()
            arguments = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        parents[int(place.name)] = int(state[1])
        if b"winnow.log_reader" in arguments and state[0] != "Z":
            readers.append(int(place.name))
    return [pid for pid in readers if is_below(pid, server, parents)]


def is_below(pid: int, server: int, parents: Mapping[int, int]) -> bool:
    """Whether a process is a descendant of another."""
    while pid in parents:
        pid = parents[pid]
        if pid == server:
            return True
    return False
