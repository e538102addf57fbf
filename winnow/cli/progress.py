"""Progress on standard error: a bar where that is a terminal, a plain line per finished partition elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from winnow.cli.output import format_bytes
from winnow.cli.work_pace import ASSUMED_RECORDS_PER_SECOND, WorkPace
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task, TaskID

    from winnow.cli.work_pace import Estimate


STARTING_SPARK = "Starting Spark"


class ProgressBar:
    """A bar over bytes with pace and time left; on a terminal only, elsewhere it is silent.

    Between two reports it moves by estimate (:class:`winnow.cli.work_pace.WorkPace`), and its clock never stops.

    Args:
        description: what is going on.
        expected_bytes_per_second: the pace to assume before anything was measured; None: a usual one.
        counts_records: whether all sizes are numbers of records, because nobody knows the bytes.
    """

    def __init__(
        self, description: str, expected_bytes_per_second: float | None = None, *, counts_records: bool = False
    ) -> None:
        self._description = description
        self._counts_records = counts_records
        self._pace = WorkPace(ASSUMED_RECORDS_PER_SECOND if counts_records else expected_bytes_per_second)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._phases: dict[str, TaskID] = {}

    def __enter__(self) -> ProgressBar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            # What is said meanwhile appears above the bar. Standard output is not the bar's to lead anywhere.
            self._progress = Progress(
                *make_columns(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
            )
            self._task = self._progress.add_task(
                self._description,
                total=None,
                pace=self._pace,
                counts_records=self._counts_records,
                began_s=time.monotonic(),
            )
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

    def move(
        self,
        done_bytes: int,
        total_bytes: int | None,
        description: str | None = None,
        total_records: int | None = None,
        done_records: int | None = None,
    ) -> None:
        """Set how far it is; a total of None: it cannot be known yet."""
        if self._progress is not None and self._task is not None:
            now_s = time.monotonic()
            self._pace.start(total_bytes or 0, total_records, now_s)
            self._pace.report(done_bytes, now_s, done_records)
            self._progress.update(
                self._task,
                completed=done_bytes,
                total=total_bytes,
                description=description or self._description,
            )

    def follow_reading(self, done_bytes: int, total_bytes: int, done_records: int) -> None:
        """Set how far an input is read, and how many records were in it so far."""
        self.move(done_bytes, total_bytes, done_records=done_records)

    def begin_phase(self, name: str) -> None:
        """Show a line of its own for a phase beside the work, such as the start of Spark, with a clock."""
        if self._progress is not None and name not in self._phases:
            self._phases[name] = self._progress.add_task(name, total=None, began_s=time.monotonic())

    def end_phase(self, name: str, description: str) -> None:
        """Stop the clock of a phase and say what became of it; nothing if it never began."""
        if self._progress is not None and name in self._phases:
            self._progress.update(self._phases.pop(name), description=description, ended_s=time.monotonic())


class JobBar:
    """A bar over the bytes of Spark applications. Subclasses say how far an event moves it."""

    def __init__(self, description: str, expected_bytes_per_second: float | None = None) -> None:
        self._bar = ProgressBar(description, expected_bytes_per_second)
        self._total_bytes = self._done_bytes = 0

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)


class CompactionProgress(JobBar):
    """Shows the events of compactions: submitted, started, partition, plan. Several Spark applications add up."""

    def __init__(self, expected_bytes_per_second: float | None = None) -> None:
        super().__init__("Deciding what is eligible", expected_bytes_per_second)
        self._partitions = self._finished = 0
        self._records: int | None = 0

    def __call__(self, event: dict[str, Any]) -> None:
        """Take in one event."""
        kind = event.get("event")
        if kind == "submitted":
            self._bar.begin_phase(STARTING_SPARK)
        elif kind == "started":
            self._bar.end_phase(STARTING_SPARK, "Spark started")
            self._partitions += int(event["partitions"])
            self._total_bytes += int(event["bytes"])
            if self._records is not None:
                self._records = self._records + int(event["records"]) if "records" in event else None
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
        done_bytes = min(self._done_bytes, self._total_bytes)
        self._bar.move(done_bytes, self._total_bytes, description, self._records or None)


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


def make_columns() -> tuple[ProgressColumn, ...]:
    """Make the columns of a bar that moves by estimate: clock, words, bar, bytes with pace and time left."""
    from rich.progress import ProgressColumn, TextColumn
    from rich.progress_bar import ProgressBar as Bar
    from rich.text import Text

    class Clock(ProgressColumn):
        """The time since the work began, until it ends; Rich's own stops when all bytes are read."""

        def render(self, task: Task) -> Text:
            return Text(_format_clock(task.fields.get("ended_s", time.monotonic()) - task.fields["began_s"]))

    class MovingBar(ProgressColumn):
        """A bar as far as the work is by estimate; without an end before its size is known, and after its bytes."""

        def render(self, task: Task) -> Bar | Text:
            if "ended_s" in task.fields:
                return Text("")
            found = _estimate(task)
            pulses = found is None or task.total is None or found.done_bytes >= task.total
            done = 0 if found is None else found.done_bytes
            return Bar(total=task.total, completed=done, width=24, pulse=pulses, animation_time=task.get_time())

    class Figures(ProgressColumn):
        """Bytes, records per second and time left."""

        def render(self, task: Task) -> Text:
            found = _estimate(task)
            if found is None or task.total is None or found.done_bytes >= task.total:
                return Text("")
            return Text(format_figures(found, int(task.total), counts_records=task.fields.get("counts_records", False)))

    return Clock(), TextColumn("{task.description}", markup=False), MovingBar(), Figures()


def format_figures(found: Estimate, total_bytes: int, *, counts_records: bool = False) -> str:
    """Format how far work is, its pace and the time left; ``counts_records``: all sizes are numbers of records."""
    left = f"about {_format_clock(max(found.seconds_left, 1))} left"
    if counts_records:
        return f"{found.done_bytes:,} of {total_bytes:,} records, {found.bytes_per_second:,.0f} records/s, {left}"
    records = found.records_per_second
    pace = f"{format_bytes(found.bytes_per_second)}/s" if records is None else f"{records:,.0f} records/s"
    return f"{format_bytes(found.done_bytes)} of {format_bytes(total_bytes)}, {pace}, {left}"


def _estimate(task: Task) -> Estimate | None:
    pace: WorkPace | None = task.fields.get("pace")
    return None if pace is None else pace.estimate(time.monotonic())


def _format_clock(seconds: float) -> str:
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
