"""Draws the pictures of docs/concepts as SVG, each for a light and for a dark page.

python -m scripts.docs_site.drawings
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "docs" / "img"
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_BOX_PX: Final = 92
_STEP_PX: Final = 104


@dataclass(frozen=True)
class Palette:
    """The colours of one theme. Each pair is a fill and the line around it."""

    text: str
    muted: str
    kept: tuple[str, str]
    gone: tuple[str, str]
    tombstone: tuple[str, str]
    plain: tuple[str, str]


PALETTES: Final[Mapping[str, Palette]] = MappingProxyType(
    {
        "light": Palette(
            text="#1f2933",
            muted="#5f6c7b",
            kept=("#d8f3ec", "#0f766e"),
            gone=("#f3f4f6", "#9aa5b1"),
            tombstone=("#fde7d6", "#b45309"),
            plain=("#ffffff", "#7b8794"),
        ),
        "dark": Palette(
            text="#e6e9ee",
            muted="#a3adba",
            kept=("#134e48", "#5eead4"),
            gone=("#2b303b", "#6b7686"),
            tombstone=("#5b3410", "#fdba74"),
            plain=("#1e222b", "#98a2b0"),
        ),
    }
)


@dataclass
class Drawing:
    """An SVG that is being drawn; coordinates are pixels from the upper left corner."""

    title: str
    width_px: int
    height_px: int
    colours: Palette
    parts: list[str] = field(default_factory=list)

    def draw_text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size_px: int = 14,
        muted: bool = False,
        bold: bool = False,
        at: str = "middle",
    ) -> None:
        """Write ``text`` with its baseline at ``y``; ``at``: which part of it is at ``x``, start, middle or end."""
        colour = self.colours.muted if muted else self.colours.text
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x}" y="{y}" font-size="{size_px}" text-anchor="{at}" fill="{colour}"{weight}>'
            f"{escape(text)}</text>"
        )

    def draw_box(
        self, x: float, y: float, width: float, height: float, pair: tuple[str, str], *, dashed: bool = False
    ) -> None:
        """Draw a rectangle in the fill and the line colour of ``pair``."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{pair[0]}" stroke="{pair[1]}"'
            f' stroke-width="1.5"{dash}/>'
        )

    def draw_path(self, path: str, *, arrow: bool = True, dashed: bool = False) -> None:
        """Draw a line along ``path``, in SVG's words, with an arrow at its end."""
        marks = (' marker-end="url(#arrow)"' if arrow else "") + (' stroke-dasharray="5 4"' if dashed else "")
        self.parts.append(f'<path d="{path}" fill="none" stroke="{self.colours.muted}" stroke-width="1.5"{marks}/>')

    def render(self) -> str:
        """The SVG as text."""
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width_px} {self.height_px}"'
            f' width="{self.width_px}" height="{self.height_px}" role="img" font-family="{FONT}">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
            ' orient="auto">'
            f'<path d="M0 0 L8 4 L0 8 z" fill="{self.colours.muted}"/></marker></defs>\n{body}\n</svg>\n'
        )


_RECORDS: Final = (
    ("ann", "berlin"),
    ("bob", "paris"),
    ("ann", "rome"),
    ("cleo", "oslo"),
    ("bob", "null"),
    ("ann", "madrid"),
)
"""Key and value by offset: the log of the first page and of README."""
_SUPERSEDED_BY: Final[Mapping[int, int]] = MappingProxyType({0: 5, 1: 4, 2: 5})


def draw_log_before_and_after(colours: Palette) -> Drawing:
    """Six records; three are superseded, three stay, one of them a tombstone."""
    drawing = Drawing("A log before and after compaction", 760, 330, colours)
    for row, (title, y) in enumerate((("before", 80), ("after", 236))):
        drawing.draw_text(16, y + 32, title, bold=True, at="start")
        for offset, (key, value) in enumerate(_RECORDS):
            x = 116 + offset * _STEP_PX
            drawing.draw_text(x + _BOX_PX / 2, y - 8, f"offset {offset}", size_px=12, muted=True)
            gone = offset in _SUPERSEDED_BY
            if row and gone:
                drawing.draw_box(x, y, _BOX_PX, 56, ("none", colours.gone[1]), dashed=True)
                continue
            pair = colours.tombstone if value == "null" else colours.gone if gone else colours.kept
            drawing.draw_box(x, y, _BOX_PX, 56, pair)
            drawing.draw_text(x + _BOX_PX / 2, y + 23, key, bold=True)
            drawing.draw_text(x + _BOX_PX / 2, y + 43, value, size_px=13)
    for older, newer in _SUPERSEDED_BY.items():
        start, end = (116 + offset * _STEP_PX + _BOX_PX / 2 for offset in (older, newer))
        depth = 162 + 8 * older
        drawing.draw_path(
            f"M{start} 138 V{depth - 12} Q{start} {depth} {start + 12} {depth} H{end - 12 - 6 * older} "
            f"Q{end - 6 * older} {depth} {end - 6 * older} {depth - 12} V140"
        )
    drawing.draw_text(
        116,
        30,
        "An arrow leads from a record to the one that supersedes it: same key, greater offset.",
        size_px=13,
        muted=True,
        at="start",
    )
    drawing.draw_text(
        116,
        318,
        "Offsets of the records that stay do not change. The tombstone (null) goes in a later run.",
        size_px=13,
        muted=True,
        at="start",
    )
    return drawing


def draw_clean_and_dirty(colours: Palette) -> Drawing:
    """A topic partition as a row of segments: clean, dirty, active."""
    drawing = Drawing("Clean section, dirty section and active segment of a topic partition", 760, 210, colours)
    segments = (
        (16, 92, colours.kept), (112, 92, colours.kept), (208, 92, colours.kept), (304, 92, colours.kept),
        (400, 92, colours.plain), (496, 92, colours.plain), (592, 152, colours.plain),
    )  # fmt: skip
    for number, (x, width, pair) in enumerate(segments):
        last = number == len(segments) - 1
        drawing.draw_box(x, 80, width, 44, pair, dashed=last)
        drawing.draw_text(x + width / 2, 107, "active segment" if last else "segment", size_px=13)
    for start, end, title, note in (
        (16, 396, "clean", "each key occurs once; a data file per segment"),
        (400, 588, "dirty", "keys may repeat"),
        (592, 744, "not closed", "never compacted"),
    ):
        drawing.draw_path(f"M{start} 66 V58 H{end} V66", arrow=False)
        drawing.draw_text((start + end) / 2, 28, title, bold=True)
        drawing.draw_text((start + end) / 2, 47, note, size_px=12, muted=True)
    drawing.draw_path("M398 164 V130")
    drawing.draw_text(398, 182, "first dirty offset", size_px=13, bold=True)
    drawing.draw_text(398, 200, "the cleaner checkpoint: the next run begins here", size_px=12, muted=True)
    drawing.draw_text(16, 150, "log start", size_px=12, muted=True, at="start")
    drawing.draw_text(744, 150, "log end", size_px=12, muted=True, at="end")
    return drawing


def draw_one_commit(colours: Palette) -> Drawing:
    """Two snapshots of one table; a file that loses nothing belongs to both."""
    drawing = Drawing("A compaction is one commit from one list of files to another", 760, 330, colours)
    drawing.draw_text(16, 64, "the table's", at="start", muted=True, size_px=13)
    drawing.draw_text(16, 82, "snapshots", at="start", muted=True, size_px=13)
    drawing.draw_text(16, 216, "Parquet files", at="start", muted=True, size_px=13)
    drawing.draw_text(16, 234, "(segments)", at="start", muted=True, size_px=13)
    drawing.draw_box(150, 44, 220, 58, colours.plain)
    drawing.draw_text(260, 69, "snapshot 7", bold=True)
    drawing.draw_text(260, 90, "files A, B, C", size_px=13)
    drawing.draw_box(500, 44, 220, 58, colours.kept)
    drawing.draw_text(610, 69, "snapshot 8", bold=True)
    drawing.draw_text(610, 90, "files A, D", size_px=13)
    drawing.draw_path("M374 73 H494")
    drawing.draw_text(435, 62, "one commit", size_px=13, bold=True)
    for x, name, pair, dashed in (
        (150, "A", colours.kept, False),
        (290, "B", colours.gone, True),
        (398, "C", colours.gone, True),
        (560, "D", colours.kept, False),
    ):
        drawing.draw_box(x, 194, 96, 50, pair, dashed=dashed)
        drawing.draw_text(x + 48, 225, name, bold=True)
    drawing.draw_path("M220 104 L200 190")
    drawing.draw_path("M260 104 L330 190")
    drawing.draw_path("M310 104 L432 190")
    drawing.draw_path("M560 104 L250 192")
    drawing.draw_path("M614 104 L608 190")
    drawing.draw_text(198, 264, "loses nothing:", size_px=12, muted=True)
    drawing.draw_text(198, 280, "kept as it is", size_px=12, muted=True)
    drawing.draw_text(392, 264, "replaced: stay for readers of", size_px=12, muted=True)
    drawing.draw_text(392, 280, "snapshot 7, then a sweep deletes them", size_px=12, muted=True)
    drawing.draw_text(608, 264, "what B and C", size_px=12, muted=True)
    drawing.draw_text(608, 280, "still have", size_px=12, muted=True)
    drawing.draw_text(
        16, 316, "A reader sees snapshot 7 or snapshot 8, never a mixture.", size_px=13, muted=True, at="start"
    )
    return drawing


def draw_tombstone_phases(colours: Palette) -> Drawing:
    """What happens to a key's value and to its tombstone, over three runs."""
    drawing = Drawing("A tombstone goes in two phases", 760, 230, colours)
    columns = ((40, "in the archive"), (290, "after the first run"), (540, "a run after delete.retention.ms"))
    for x, title in columns:
        drawing.draw_text(x + 96, 30, title, bold=True)
    drawing.draw_box(40, 50, 92, 56, colours.gone)
    drawing.draw_text(86, 73, "bob", bold=True)
    drawing.draw_text(86, 93, "paris", size_px=13)
    drawing.draw_box(140, 50, 92, 56, colours.tombstone)
    drawing.draw_text(186, 73, "bob", bold=True)
    drawing.draw_text(186, 93, "null", size_px=13)
    drawing.draw_box(290, 50, 92, 56, ("none", colours.gone[1]), dashed=True)
    drawing.draw_box(390, 50, 92, 56, colours.tombstone)
    drawing.draw_text(436, 73, "bob", bold=True)
    drawing.draw_text(436, 93, "null", size_px=13)
    for x in (540, 640):
        drawing.draw_box(x, 50, 92, 56, ("none", colours.gone[1]), dashed=True)
    drawing.draw_path("M240 78 H284")
    drawing.draw_path("M490 78 H534")
    for x, lines in (
        (136, ("A consumer that reads all", "sees paris, then the delete.")),
        (386, ("The value is gone. The delete stays,", "so that a slow consumer sees it.")),
        (636, ("Nothing is left", "of the key.")),
    ):
        for number, line in enumerate(lines):
            drawing.draw_text(x, 136 + 18 * number, line, size_px=12, muted=True)
    drawing.draw_text(
        16,
        206,
        "delete.retention.ms (one day) counts from the first run, not from the tombstone's timestamp.",
        size_px=13,
        muted=True,
        at="start",
    )
    return drawing


DRAWINGS: Final[Mapping[str, Callable[[Palette], Drawing]]] = MappingProxyType(
    {
        "log-before-and-after": draw_log_before_and_after,
        "clean-and-dirty": draw_clean_and_dirty,
        "one-commit": draw_one_commit,
        "tombstone-phases": draw_tombstone_phases,
    }
)


def render_drawings() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {
        f"{name}-{theme}.svg": draw(colours).render()
        for name, draw in DRAWINGS.items()
        for theme, colours in PALETTES.items()
    }


if __name__ == "__main__":
    for file_name, svg in render_drawings().items():
        (FOLDER / file_name).write_text(svg, encoding="utf-8")
