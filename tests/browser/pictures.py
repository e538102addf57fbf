"""The pictures of the documentation, taken anew: python -m tests.browser.pictures [FOLDER], docs/img when left out.

What they show is the small lake of the tests, in Airflow's own frame, so that one sees where it is found.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Frame, sync_playwright

import tests.conftest  # noqa: F401 - leaves nothing of the caller's environment, and finds Java
from tests.browser.airflow_servers import serving
from tests.browser.chromium import chromium
from tests.browser.looking import Look, log_in, looking, new_context

WIDTH = 1280
TARGET = Path(__file__).parents[2] / "docs" / "img"


@dataclass(frozen=True)
class Picture:
    """One picture: its name, the route below ``#/`` in Airflow's frame, and what to do before it is taken."""

    name: str
    route: str
    before: Callable[[Frame], None] = lambda _: None
    theme: str = "light"


def _first_run(frame: Frame) -> None:
    frame.locator("tbody a.row-link").first.click()
    frame.locator(".figures").wait_for()


PICTURES = (
    Picture("page-topics-light", "topics"),
    Picture("page-topic-dark", "topics/orders", theme="dark"),
    Picture("page-run-light", "runs?status=published&search=orders", _first_run),
    Picture("page-run-failed-light", "runs?status=invalid", _first_run),
    Picture("page-quality-dark", "quality", theme="dark"),
)
"""The names are those that docs/ shows."""


def take(look: Look, picture: Picture) -> Path:
    """Take one picture."""
    frame = look.within_airflow(f"plugin/winnow/winnow/page#/{picture.route}")
    picture.before(frame)
    look.filled(frame)
    return look.picture(picture.name, whole=False)


def main() -> None:
    """Take every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=TARGET)
    target = parser.parse_args().folder
    with tempfile.TemporaryDirectory(prefix="winnow-pictures-") as folder:
        home = Path(folder)
        fillers = (("tests.browser.small_lake", str(home / "small")),)
        with serving(home, {"small": home / "small" / "home"}, fillers) as servers, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            login = log_in(browser, servers["small"], "admin", home)
            for picture in PICTURES:
                context = new_context(browser, login, picture.theme)
                with looking(context, servers["small"], target, width=WIDTH) as look:
                    print(take(look, picture))
                context.close()
            browser.close()


if __name__ == "__main__":
    main()
