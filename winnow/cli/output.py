"""Two streams: results go to standard output, everything said on the way to standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable
from typing import IO

import typer

_printed_messages: set[str] = set()


def print_message(message: str, *, prefix: str = "") -> None:
    """Say ``message`` on standard error; once per command, however many parts of the pipeline bring it up."""
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
    """Lead what is still buffered for a reader that has gone away to nowhere, or Python complains as it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def format_bytes(size_bytes: float) -> str:
    """Bytes for people, with a binary unit."""
    from winnow.report.receipts import format_human_bytes as convert

    return convert(size_bytes)


def format_count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``, ``12,345 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_names(items: Iterable[str], most: int = 5) -> str:
    """The first few of ``items``, and how many more there are."""
    listed = list(items)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


class _MessageHandler(logging.Handler):
    """Warnings and errors of the libraries and of Winnow's alerts, said like everything else."""

    def emit(self, record: logging.LogRecord) -> None:
        print_message(record.getMessage(), prefix="error: " if record.levelno >= logging.ERROR else "")


def prepare_output() -> None:
    """Forget what an earlier command of this process said, and speak for the loggers."""
    _printed_messages.clear()
    root = logging.getLogger()
    if not any(isinstance(handler, _MessageHandler) for handler in root.handlers):
        root.addHandler(_MessageHandler(logging.WARNING))
