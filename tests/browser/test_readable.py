"""For everybody: contrast of text, data that looks like markup, and what the static files are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from winnow.config.settings import load_settings
from winnow.store import tables
from winnow.store.database import Database

STATIC = Path(__file__).parents[2] / "plugins" / "winnow_airflow" / "page" / "static"
LEAST_CONTRAST = 4.5
"""WCAG 2.2, 1.4.3, for text of any size."""

TEXT_ON = {
    "--bg": ("--fg", "--fg-muted", "--link", "--overdue", "--uncleanable"),
    "--bg-subtle": ("--fg", "--fg-muted"),
    "--bg-muted": ("--fg", "--fg-muted"),
    "--bg-raised": ("--fg", "--fg-muted", "--link"),
    "--hover": ("--fg", "--fg-muted", "--link", "--overdue"),
    "--selected": ("--fg", "--fg-muted", "--link", "--overdue"),
    "--brand": ("--on-brand",),
    "--brand-hover": ("--on-brand",),
    "--healthy-bg": ("--healthy",),
    "--due-bg": ("--due", "--fg"),
    "--overdue-bg": ("--overdue", "--fg", "--link"),
    "--uncleanable-bg": ("--uncleanable", "--fg", "--link"),
    "--paused-bg": ("--paused", "--fg"),
}

TO_RGB = """(names) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((name) => {
    canvas.fillStyle = style.getPropertyValue(name);
    canvas.fillRect(0, 0, 1, 1);
    return [name, [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)];
  }));
}"""


def luminance(rgb: list[int]) -> float:
    """Relative luminance, WCAG 2.2."""
    linear = [(v / 255) / 12.92 if v / 255 <= 0.04045 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[int], other: list[int]) -> float:
    """Contrast ratio, 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground_in_both_themes(look: Open, theme: str) -> None:
    """At least 4.5 to 1 for every pair of colours that text and ground make."""
    page = look("small", theme=theme).at("#/topics")
    pairs = [(ground, text) for ground, texts in TEXT_ON.items() for text in texts]
    colours = page.evaluate(TO_RGB, sorted({name for pair in pairs for name in pair}))
    weak = {
        f"{text} on {ground}": round(contrast(colours[text], colours[ground]), 2)
        for ground, text in pairs
        if contrast(colours[text], colours[ground]) < LEAST_CONTRAST
    }
    assert weak == {}


def test_states_differ_in_more_than_colour(look: Open) -> None:
    """Each has its own word and its own shape."""
    page = look("small").at("#/topics")
    shapes = page.locator("td[data-column='state'] .badge").evaluate_all(
        "badges => badges.map(b => [b.textContent, b.querySelector('svg').innerHTML])"
    )
    assert len({word for word, _ in shapes}) == len({shape for _, shape in shapes}) == 5


def test_offsets_of_a_log_are_read_by_keyboard(look: Open) -> None:
    """The drawing of a log takes the focus, says its offsets, and shows them beside it."""
    page = look("small").at("#/topics/payments")
    strip = page.locator(".log-strip").first
    expect(strip).to_have_attribute("aria-label", re.compile(r"First dirty offset [\d\u202f]+"))
    strip.focus()
    # A focus by script shows itself only after a key.
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(strip).to_be_focused()
    expect(page.get_by_role("tooltip")).to_contain_text("Cleanable up to (exclusive)")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_be_hidden()


def test_data_that_looks_like_markup_is_text(look: Open) -> None:
    """Whatever a message holds is shown as it is and never becomes an element."""
    seen = look("thousand")
    markup = '<img src=x onerror="document.title=1"><b>bold</b>'
    database = Database(load_settings(env={"WINNOW_HOME": str(seen.server.lake)}).store_url)
    try:
        with database.writing() as session:
            session.merge(
                tables.AlertTable(
                    key="sweep_stuck:markup",
                    sent_at_ms=4_000_000_000_000,
                    kind="sweep_stuck",
                    topic="markup",
                    partition=None,
                    message=markup,
                )
            )
    finally:
        database.close()
    page = seen.at("#/quality")
    expect(page.get_by_text(markup)).to_be_visible()
    expect(page.locator("main img, main b")).to_have_count(0)


def modules() -> Iterator[Path]:
    """Every script of the page."""
    yield from sorted((STATIC / "js").rglob("*.js"))


def test_scripts_and_styles_name_no_other_host_and_make_no_markup() -> None:
    """Works offline, and data cannot become elements: no address, no innerHTML, no inline style."""
    forbidden = re.compile(
        r"https?://(?!www\.w3\.org/2000/svg)|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\("
    )
    texts = {path: path.read_text() for path in STATIC.rglob("*") if path.suffix in {".js", ".css", ".html"}}
    assert len(texts) > 30
    assert [path.name for path, text in texts.items() if forbidden.search(text)] == []
    document = texts[STATIC / "index.html"]
    assert re.search(r"\s(style|on\w+)=|<style", document) is None
    assert all(re.search(r"<script[^>]*src=", tag) for tag in re.findall(r"<script[^>]*>", document))


def test_every_icon_that_is_asked_for_is_drawn() -> None:
    """Names of icons are text, so a typing error would draw nothing."""
    source = "\n".join(path.read_text() for path in modules())
    drawn = set(re.findall(r"^  (\w+): \[", (STATIC / "js" / "icons.js").read_text(), re.MULTILINE))
    asked = set(re.findall(r"createIcon\(\"(\w+)\"\)|shape: \"(\w+)\"", source))
    names = {name for pair in asked for name in pair if name}
    assert len(names) > 10
    assert names <= drawn
