"""Browser pages that record logged errors and requested addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Frame, Page, Request, expect

from tests.browser.airflow_servers import Server

HEIGHT = 900
FILLED = """() => document.querySelector(".place")
  && !document.querySelector('[aria-busy="true"]:not([hidden], [hidden] *)')"""
BLOCKED = ("csp", "net::ERR_BLOCKED_BY_CSP")
SLOWEST_MS = 20_000
expect.set_options(timeout=SLOWEST_MS)


@dataclass
class BrowserPage:
    """One page of one user, and what was noted. ``folder``: where pictures go."""

    page: Page
    server: Server
    folder: Path
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def at(self, route: str) -> Page:
        """Open a route of the page on its own, such as ``#/topics``, and wait until it is filled."""
        # Another hash alone would not load the document anew.
        self.page.goto("about:blank")
        self.page.goto(f"{self.server.url}/winnow/page{route}")
        self.filled()
        return self.page

    def within_airflow(self, path: str) -> Frame:
        """Open a path of Airflow's UI that holds the page in a frame; the frame, filled."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.server.url}/{path}")
        element = self.page.wait_for_selector('iframe[title="Winnow"]')
        frame = element.content_frame() if element else None
        assert frame is not None
        frame.wait_for_url("**/winnow/page#/**")
        self.filled(frame)
        return frame

    def filled(self, where: Page | Frame | None = None) -> None:
        """Wait until nothing of the page is still being asked for."""
        where = where or self.page
        where.wait_for_selector("#main .view")
        where.wait_for_function(FILLED)

    def picture(self, name: str, *, whole: bool = True) -> Path:
        """Take a picture, of the whole page or of what the window shows."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.png"
        self.page.screenshot(path=path, full_page=whole, animations="disabled")
        return path

    def is_clean(self) -> None:
        """Raise AssertionError when something was logged as an error, or a request left the origin."""
        assert self.errors == []
        assert self.strangers == []


def new_context(browser: Browser, login: str, theme: str) -> BrowserContext:
    """A browser of its own for one user; ``login``: the file with their cookies, ``theme`` as Airflow's UI keeps it.

    Its cache is what makes Airflow's own UI, 7 MB of script, quick from the second page on.
    """
    context = browser.new_context(storage_state=login)
    context.add_init_script(f"if (location.protocol.startsWith('http')) localStorage.setItem('theme', '{theme}')")
    context.set_default_timeout(SLOWEST_MS)
    return context


@contextmanager
def open_browser_page(context: BrowserContext, server: Server, folder: Path, *, width: int) -> Iterator[BrowserPage]:
    """A page of ``context``, and what it and its popups do."""
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": HEIGHT})
    look = BrowserPage(page, server, folder)
    _note(page, look)
    try:
        yield look
    finally:
        page.close()


def _note(page: Page, look: BrowserPage) -> None:
    origin = look.server.url

    def console(message: ConsoleMessage) -> None:
        if message.type == "error":
            look.errors.append(message.text)

    def request(sent: Request) -> None:
        if not sent.url.removeprefix("blob:").startswith(f"{origin}/") and not sent.url.startswith("data:"):
            look.strangers.append(sent.url)

    def failed(sent: Request) -> None:
        # What the content security policy forbids never leaves the browser.
        if sent.url in look.strangers and sent.failure in BLOCKED:
            look.strangers.remove(sent.url)

    page.on("console", console)
    page.on("pageerror", lambda error: look.errors.append(str(error)))
    page.on("request", request)
    page.on("requestfailed", failed)
    page.on("popup", lambda popup: _note(popup, look))


def log_in(browser: Browser, server: Server, name: str, target: Path) -> str:
    """Log in through the form of Airflow's UI, as people do; the file with the cookies."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url)
    page.locator('input[name="username"]').fill(name)
    page.locator('input[name="password"]').fill(name)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/login" not in url)
    path = target / f"{name}.json"
    context.storage_state(path=path)
    context.close()
    return str(path)
