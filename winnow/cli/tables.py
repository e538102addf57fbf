"""Tables for people. Cells are plain text: nothing in them is taken for markup."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from winnow.cli.output import tell, write

MOST_ROWS = 50
"""Longer lists are cut here; --json has them whole."""

_NATURAL_WIDTH = 10_000
"""Columns where standard output is no terminal: no cell is cut or folded for a script or a pager."""


def show(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> None:
    """Print a table; ``right`` numbers the columns (from 0) that hold figures."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(header):
        table.add_column(Text(name), justify="right" if number in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console() if sys.stdout.isatty() else Console(width=_NATURAL_WIDTH)
    with console.capture() as captured:
        console.print(table)
    write("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


def heading(text: str) -> None:
    """Print a line above a table."""
    tell(f"\n{text}")
