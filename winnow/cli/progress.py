"""Progress on standard error: a bar where that is a terminal, a plain line per finished partition elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from winnow.cli.output import format_bytes, format_count

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressBar:
    """A bar over bytes that moves only on a terminal; elsewhere it is silent."""

    def __init__(self, description: str) -> None:
        self._description = description
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressBar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

            # What is said meanwhile appears above the bar. Standard output is not the bar's to lead anywhere.
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn(binary_units=True),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
            )
            self._task = self._progress.add_task(self._description, total=None)
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    @property
    def is_shown(self) -> bool:
        """Whether there is a terminal to show it."""
        return self._progress is not None

    def move(self, done_bytes: int, total_bytes: int | None, description: str | None = None) -> None:
        """Set how far it is; a total of None: it cannot be known yet."""
        if self._progress is not None and self._task is not None:
            self._progress.update(
                self._task,
                completed=done_bytes,
                total=total_bytes,
                description=description or self._description,
            )


class JobProgress:
    """A bar over the bytes of Spark applications. Subclasses say how far an event moves it."""

    def __init__(self, description: str) -> None:
        self._bar = ProgressBar(description)
        self._total_bytes = self._done_bytes = 0

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)


class CompactionProgress(JobProgress):
    """Shows the events of compactions: started, partition, plan. Several Spark applications add up."""

    def __init__(self) -> None:
        super().__init__("Deciding what is eligible")
        self._partitions = self._finished = 0

    def __call__(self, event: dict[str, Any]) -> None:
        """Take in one event."""
        kind = event.get("event")
        if kind == "started":
            self._partitions += int(event["partitions"])
            self._total_bytes += int(event["bytes"])
            if not self._bar.is_shown:
                what = f"{format_count(int(event['partitions']), 'partition')}, {format_bytes(int(event['bytes']))}"
                typer.echo(f"Compacting {what}", err=True)
            self._move(f"Compacting {format_count(self._partitions, 'partition')}")
        elif kind == "partition":
            self._finished += 1
            self._done_bytes += int(event.get("bytes_in", 0))
            if not self._bar.is_shown or "error" in event:
                typer.echo(format_partition_line(event), err=True)
            self._move(f"Compacting, {self._finished:,} of {format_count(self._partitions, 'partition')} done")
        elif kind == "plan":
            self._done_bytes = self._total_bytes
            self._move("Validating and publishing")

    def _move(self, description: str) -> None:
        self._bar.move(min(self._done_bytes, self._total_bytes), self._total_bytes, description)


def format_partition_line(event: dict[str, Any]) -> str:
    """What happened to one partition, as one line."""
    name = f"{event['topic']}-{event['partition']}"
    if "error" in event:
        return f"{name}: failed: {event['error']}"
    return (
        f"{name}: {event['records_in']:,} records in, {event['records_kept']:,} kept, "
        f"{event['records_superseded']:,} superseded, {event['tombstones_expired']:,} tombstones expired; "
        f"{format_bytes(event['bytes_in'])} -> {format_bytes(event['bytes_out'])} in {event['seconds']:.1f} s"
    )
