"""Shows the demo's progress: a bar on a terminal, one line per finished step elsewhere."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

_SECONDS_WIDTH = 6


class Step:
    """A step in progress. ``line`` is printed when it is done."""

    def __init__(self, line: str, progress: Progress, bar: TaskID) -> None:
        self.line = line
        self._progress = progress
        self._bar = bar

    def advance(self, count: int) -> None:
        """Advance by ``count`` of the total."""
        self._progress.advance(self._bar, count)

    def now(self, text: str) -> None:
        """Show what the step is doing now."""
        self._progress.update(self._bar, description=text)


class Screen:
    """Prints to standard output. No text is interpreted as markup."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, markup=False)

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Step]:
        """Show ``text`` with a bar over ``total`` while the block runs, then the step's line with its seconds.

        Without a total the bar only shows activity.
        """
        began = time.monotonic()
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        with progress:
            step = Step(text, progress, progress.add_task(text, total=total))
            yield step
        self.line(step.line, time.monotonic() - began)

    def line(self, text: str, seconds: float) -> None:
        """Print a finished step; further lines of a long text stay beside the seconds."""
        lead = f"{seconds:{_SECONDS_WIDTH}.1f} s  "
        self._print(text, lead, " " * len(lead))

    def say(self, text: str = "") -> None:
        """Print paragraphs, one per line of ``text``; further lines of a long one are indented like its first."""
        for paragraph in text.split("\n"):
            indent = paragraph[: len(paragraph) - len(paragraph.lstrip())]
            self._print(paragraph.lstrip(), indent, indent)

    def command(self, text: str, what: str) -> None:
        """Print a command to type, unwrapped, and what it shows."""
        self.console.print(f"  {text}\n      {what}", soft_wrap=True)

    def _print(self, text: str, first: str, others: str) -> None:
        # Do not wrap addresses, so that a terminal can open them.
        lines = textwrap.wrap(
            text,
            max(60, self.console.width),
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self.console.print("\n".join(lines), soft_wrap=True)
