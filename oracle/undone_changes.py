"""Tells what a partition's log would be, had some of its changes never been: everything else happens again, in order.

Appends, imports and raised log starts happen again as they did. A run that only retained is a raised log start. A
compaction that stays leaves the log that it left, since nothing that came before it has been taken back after it: what
was made over the result of another run goes with that run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass, field

from oracle.log_model import LogModel


@dataclass
class LogEvent:
    """One thing that happened to a partition. ``name``: what an undo calls it; None: it cannot be undone by name."""

    name: str | None
    apply: Callable[[LogModel], None]
    compacts: bool = False
    keyless: frozenset[int] = frozenset()
    is_undone: bool = False


@dataclass
class PartitionHistory:
    """Everything that happened to one partition, in order."""

    events: list[LogEvent] = field(default_factory=list)

    def add(self, event: LogEvent) -> None:
        """Add the newest event."""
        self.events.append(event)

    def list_standing(self, name: str) -> list[LogEvent]:
        """List the named event and those after it, as far as they were not undone; none if it was."""
        standing = [each for each in self.events if not each.is_undone]
        names = [each.name for each in standing]
        return standing[names.index(name) :] if name in names else []

    def undo(self, names: Collection[str]) -> LogModel:
        """Take events back for good, and return the log without them.

        Whether it is paused or marked is not told here.
        """
        for event in self.events:
            event.is_undone = event.is_undone or event.name in names
        model = LogModel()
        for event in self.events:
            if not event.is_undone:
                event.apply(model)
        return model


def make_state_setter(model: LogModel) -> Callable[[LogModel], None]:
    """Make what gives a log the files and the state that ``model`` has now."""
    kept = copy(model)
    kept.files = list(model.files)

    def apply(other: LogModel) -> None:
        other.files = list(kept.files)
        other.log_start_offset, other.log_end_offset = kept.log_start_offset, kept.log_end_offset
        other.first_dirty_offset, other.history = kept.first_dirty_offset, kept.history
        other.cleaned_with = kept.cleaned_with

    return apply


def make_log_start_raise(offset: int) -> Callable[[LogModel], None]:
    """Make what raises the log start to ``offset``, and a checkpoint below it; files stay, as no reader sees them."""

    def apply(model: LogModel) -> None:
        model.log_start_offset = max(model.log_start_offset, offset)
        if model.first_dirty_offset is not None:
            model.first_dirty_offset = max(model.first_dirty_offset, model.log_start_offset)

    return apply
