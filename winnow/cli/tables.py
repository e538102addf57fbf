"""Tables for people. Cells are plain text: nothing in them is taken for markup."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from winnow.cli.output import print_lines, write_text
from winnow.clock import format_ms

MAXIMUM_ROWS = 50
"""Longer lists are cut here; --json has them whole."""

_NATURAL_WIDTH = 10_000
"""Columns where standard output is no terminal: nothing is folded for a script or a pager."""

_FOLDED_WIDTH = 24
"""Sentences are folded down to this many columns to fit a terminal."""


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    sentences: Collection[int] = (),
) -> None:
    """Print a table. Columns without any value are left out; no value is ever cut.

    ``right`` numbers the columns (from 0) that hold figures, ``sentences`` those that may be folded to fit a terminal.
    A table that is still too wide is left to the terminal.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    kept = [number for number in range(len(header)) if any(row[number] for row in rows)]
    for number in kept:
        natural = max(cell_len(cell) for cell in (header[number], *(row[number] for row in rows)))
        table.add_column(
            Text(header[number]),
            justify="right" if number in right else "left",
            overflow="fold",
            min_width=min(natural, _FOLDED_WIDTH) if number in sentences else natural,
        )
    for row in rows:
        table.add_row(*(Text(row[number]) for number in kept))
    console = Console() if sys.stdout.isatty() else Console(width=_NATURAL_WIDTH)
    needed = Measurement.get(console, console.options.update(width=_NATURAL_WIDTH), table).minimum
    with console.capture() as captured:
        console.print(table, width=max(console.width, needed), crop=False)
    write_text("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


def print_heading(text: str) -> None:
    """Print a line above a table."""
    print_lines(f"\n{text}")


def format_short_time(ms: int | None) -> str:
    """A point in time to the second, in UTC; empty for None."""
    return "" if ms is None else f"{format_ms(ms).partition('.')[0]}Z"
