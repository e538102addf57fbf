"""A browser, two api-servers and two users for all tests of this folder: they take half a minute to start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser.airflow_servers import USERS, Server, start_servers
from tests.browser.browser_page import BrowserPage, log_in, new_context, open_browser_page
from tests.support.chromium import find_chromium
from winnow.config.settings import load_settings

PICTURES = os.environ.get("SCREENSHOTS")
"""Where pictures go that one wants to look at. Not a name of Winnow's: tests lose all of those."""

Open = Callable[..., BrowserPage]
"""Opens a page: ``server`` "small" or "thousand", ``user`` "admin" or "vera", ``theme``, ``width``."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """The api-servers "small" (a lake made by the real pipeline) and "thousand" (a thousand generated topics)."""
    home = tmp_path_factory.mktemp("browser")
    lakes = {"small": home / "small" / "home", "thousand": home / "thousand"}
    lakes["thousand"].mkdir()
    store_url = load_settings(cwd=home, env={"WINNOW_HOME": str(lakes["thousand"])}).store_url
    fillers = (("tests.browser.small_lake", str(home / "small")), ("tests.support.generated_store", store_url))
    with start_servers(home, lakes, fillers) as started:
        yield started


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def logins(browser: Browser, servers: dict[str, Server], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The cookies of each user. Cookies know no ports, so they serve both api-servers."""
    folder = tmp_path_factory.mktemp("logins")
    return {name: log_in(browser, servers["small"], name, folder) for name in USERS}


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go."""
    return Path(PICTURES) if PICTURES else tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="session")
def contexts(browser: Browser, logins: dict[str, str]) -> Iterator[Callable[[str, str], BrowserContext]]:
    """A browser context per user and theme."""
    made: dict[tuple[str, str], BrowserContext] = {}

    def context(user: str, theme: str) -> BrowserContext:
        if (user, theme) not in made:
            made[user, theme] = new_context(browser, logins[user], theme)
        return made[user, theme]

    yield context
    for each in made.values():
        each.close()


@pytest.fixture
def look(contexts: Callable[[str, str], BrowserContext], servers: dict[str, Server], pictures: Path) -> Iterator[Open]:
    """Opens pages. What they logged as an error, or asked of another host, fails the test at its end."""
    with ExitStack() as stack:
        opened: list[BrowserPage] = []

        def open_page(
            server: str = "small", *, user: str = "admin", theme: str = "light", width: int = 1440
        ) -> BrowserPage:
            page = open_browser_page(contexts(user, theme), servers[server], pictures, width=width)
            opened.append(stack.enter_context(page))
            return opened[-1]

        yield open_page
        for each in opened:
            each.is_clean()
