"""Writes results to standard output, as tables or JSON, and messages to standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import IO

import typer

from winnow.clock import format_ms
from winnow.errors import join_first

_printed_messages: set[str] = set()


def print_message(message: str, *, prefix: str = "") -> None:
    """Print ``message`` on standard error; once per command, even if several parts of the pipeline report it."""
    if message in _printed_messages:
        return
    _printed_messages.add(message)
    typer.echo(f"{prefix}{message}", err=True)


def print_lines(text: str) -> None:
    """Print sentences for people on standard output."""
    write_text(f"{text}\n")


def write_json(value: object) -> None:
    """Print ``value`` (plain JSON types) as the one JSON document on standard output; indented for a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    write_text(json.dumps(value, indent=indent, allow_nan=False) + "\n")


def write_text(text: str) -> None:
    """Print ``text`` on standard output. A reader that has gone away (``| head``) is no error."""
    try:
        typer.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout)


def discard_output(stream: IO[str] | IO[bytes]) -> None:
    """Discard output buffered for a reader that has gone away; otherwise Python prints an error as it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def format_bytes(size_bytes: float) -> str:
    """Bytes for people, with a binary unit."""
    from winnow.report.receipts import format_human_bytes as convert

    return convert(size_bytes)


def format_names(items: Iterable[str], most: int = 5) -> str:
    """The first few of ``items``, and how many more there are."""
    return join_first(list(items), most, ", ", last=" and ")


class _MessageHandler(logging.Handler):
    """Warnings and errors of the libraries and of Winnow's alerts, said like everything else."""

    def emit(self, record: logging.LogRecord) -> None:
        print_message(record.getMessage(), prefix="error: " if record.levelno >= logging.ERROR else "")


def prepare_output() -> None:
    """Forget messages of an earlier command of this process, and print what is logged."""
    _printed_messages.clear()
    root = logging.getLogger()
    if not any(isinstance(handler, _MessageHandler) for handler in root.handlers):
        root.addHandler(_MessageHandler(logging.WARNING))


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
    A table that is still wider than the terminal is printed as a block of lines per row, as psql does.
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
        # A heading may be folded between its words.
        natural = max(cell_len(cell) for cell in (*header[number].split(), *(row[number] for row in rows)))
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
    if needed > console.width and rows:
        print_blocks([header[number] for number in kept], [[row[number] for number in kept] for row in rows])
        return
    with console.capture() as captured:
        console.print(table, width=max(console.width, needed), crop=False)
    write_text("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


def print_blocks(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as lines of name and value, with an empty line between rows. Empty values are left out."""
    width = max(len(name) for name in header)
    blocks = (
        "\n".join(f"{name:<{width}}  {value}" for name, value in zip(header, row, strict=True) if value) for row in rows
    )
    write_text("\n\n".join(blocks) + "\n")


def print_heading(text: str) -> None:
    """Print a line above a table."""
    print_lines(f"\n{text}")


def format_short_time(ms: int | None) -> str:
    """A point in time to the second, in UTC; empty for None."""
    return "" if ms is None else f"{format_ms(ms).partition('.')[0]}Z"
