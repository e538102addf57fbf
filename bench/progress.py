"""Shows progress: a bar on a terminal, a line per step elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from bench.results import CompetitorRun
    from bench.suites import Step

DEFAULT_WIDTH_CHARACTERS = 200
"""Default width (columns) of tables that go into a file."""


class ProgressPrinter:
    """Prints tables to standard output, everything else to standard error."""

    def __init__(self) -> None:
        self.out = Console()
        if not self.out.is_terminal:
            self.out = Console(width=DEFAULT_WIDTH_CHARACTERS)
        self._err = Console(stderr=True)
        self._progress: Progress | None = None

    def say(self, text: str) -> None:
        """Print the current step as one line; on a terminal as the bar's label."""
        if self._progress is not None and self._err.is_terminal:
            self._progress.update(self._progress.task_ids[0], description=text)
        else:
            self._err.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def over(self, steps: int) -> Iterator[None]:
        """Show a bar over ``steps`` runs."""
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._err, transient=True, disable=not self._err.is_terminal) as progress:
            progress.add_task("", total=steps)
            self._progress = progress
            try:
                yield
            finally:
                self._progress = None

    def on_run(self, step: Step, run: CompetitorRun) -> None:
        """Advance by one finished run."""
        if self._progress is not None:
            self._progress.advance(self._progress.task_ids[0])
        work = f", work {run.work_seconds:.2f} s" if run.work_seconds is not None else ""
        self._err.print(
            f"{step.workload}: {step.competitor} {run.seconds:.2f} s{work}"
            + ("" if run.ended else ", did not end well"),
            highlight=False,
        )
