"""The documentation site: built without a warning, loads nothing from elsewhere; its drawings are drawn by code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from scripts.docs_site.command_reference import list_commands, render_commands
from scripts.docs_site.drawings import FOLDER, render_drawings
from scripts.docs_site.hooks import format_lists, resolve_link
from tests.docs.runbook import DOCS
from tests.support.chromium import find_chromium

ROOT = DOCS.parent
BRANCH = "https://github.com/winnow-data/winnow/blob/main/"


class LoadedAddresses(HTMLParser):
    """Collects what a browser loads for a page; links that a reader follows are none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in {"script", "img", "iframe", "source"}:
            self.found.append(given.get("src", ""))
        if tag == "link" and given.get("rel") not in {"canonical", "next", "prev"}:
            self.found.append(given.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it: every warning, such as a link that leads nowhere, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_document_has_a_page(site: Path) -> None:
    """Also those that are no files of docs/: the commands, and the documents at the top of the repository."""
    wanted = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    wanted = {path.with_name("index.html") if path.stem == "README" else path for path in wanted}
    wanted |= {Path("reference/commands.html"), Path("architecture.html"), Path("changelog.html")}
    assert sorted(str(page) for page in wanted if not (site / page).is_file()) == []


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    """No script, font, style or picture, and no question how many stars there are: it works without a network."""
    outside = {}
    asks = [page.name for page in site.rglob("*.html") if 'data-md-component="source"' in page.read_text("utf-8")]
    assert asks == []
    for page in site.rglob("*.html"):
        parser = LoadedAddresses()
        parser.feed(page.read_text(encoding="utf-8"))
        outside[page.name] = [address for address in parser.found if re.match(r"(https?:)?//", address)]
    assert {page: found for page, found in outside.items() if found} == {}
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^\"')]+", styles) == []


def test_blocks_lists_and_tables_of_the_documents_arrive_as_such(site: Path) -> None:
    """No fence, no comment and no table row is left as text."""
    left = {}
    for page in site.rglob("*.html"):
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        left[page.name] = re.findall(r"```\w*|^\|[^\n]*\|$|<p>- |&lt;!--", text, re.MULTILINE)
    assert {page: found for page, found in left.items() if found} == {}


def test_pages_opened_as_files_are_searched_and_ask_nobody(site: Path) -> None:
    """In a browser, without a web server: what a word finds, and every address that was asked for."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "how-to" / "index.html").as_uri())
        page.locator(".md-search__input").click()
        page.keyboard.type("tombstone")
        expect(page.locator(".md-search-result__item").first).to_be_visible()
        found = page.locator(".md-search-result__item a").evaluate_all("links => links.map(each => each.href)")
        browser.close()
    assert any("glossary.html" in address or "log-compaction.html" in address for address in found)
    assert [address for address in asked if not address.startswith(("file:", "data:", "blob:"))] == []


def test_reference_has_every_command_with_every_option() -> None:
    """From the tree of commands, so that none is forgotten."""
    page = render_commands()
    commands = {name: command for name, command in list_commands() if not hasattr(command, "commands")}
    assert len(commands) > 30
    for name, command in commands.items():
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
        options = [option for parameter in shown for option in parameter.opts if option.startswith("--")]
        assert [option for option in options if option not in section] == [], name


def test_drawings_are_what_the_code_draws() -> None:
    """In light and in dark."""
    written = {name: (FOLDER / name).read_text(encoding="utf-8") for name in render_drawings()}
    assert written == render_drawings(), "Draw them anew: make docs"


@pytest.mark.parametrize(
    ("link", "source", "page", "target"),
    [
        ("airflow.md#permissions", "docs/operations.md", "operations.md", "airflow.md#permissions"),
        ("../README.md", "docs/airflow.md", "airflow.md", "index.md"),
        ("../docker-compose.yml", "docs/user-guide.md", "user-guide.md", f"{BRANCH}docker-compose.yml"),
        ("docs/decisions/", "ARCHITECTURE.md", "architecture.md", "decisions/README.md"),
        ("../../ARCHITECTURE.md", "docs/concepts/a-run.md", "concepts/a-run.md", "../architecture.md"),
        ("../gone.md", "docs/airflow.md", "airflow.md", "../gone.md"),
    ],
)
def test_links_lead_to_pages_or_to_the_repository(link: str, source: str, page: str, target: str) -> None:
    """A link that leads nowhere stays as it is, for the build to fail on."""
    path, _, anchor = link.partition("#")
    assert resolve_link(path, source, page, BRANCH) + (f"#{anchor}" if anchor else "") == target


def test_lists_get_a_blank_line_and_four_spaces() -> None:
    """As Python-Markdown wants them; what is in a block of code stays as it is."""
    written = "Text:\n- one\n  more\n- two\n\n  ```sh prepare\n  - x\n  ```\n\nEnd\n```text\na:\n- b\n```\n"
    wanted = "Text:\n\n-   one\n    more\n-   two\n\n    ```sh\n    - x\n    ```\n\nEnd\n```text\na:\n- b\n```\n"
    assert format_lists(written) == wanted
    assert format_lists("1. one\n\n   more\n2. two\n") == "1.  one\n\n    more\n\n2.  two\n"
