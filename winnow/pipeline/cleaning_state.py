"""The state of one topic partition between scheduler, backfill, shell and whoever paused it. Pure.

Kafka's LogCleanerManager keeps it in memory (none, in progress, aborted, paused(n)); here it follows from two facts
that are kept anyway: whether a run holds the topic, and how many names have paused the partition::

                 not paused       paused by n
    not held     none             paused(n)
    held         in progress      aborted(n)

==========  =================  =================  ===================  ==========================
event       none               in progress        aborted(n)           paused(n)
==========  =================  =================  ===================  ==========================
take        in progress        illegal            illegal              illegal
done        illegal            none               paused(n)            illegal
pause       paused(1)          aborted(1)         aborted(n + 1)       paused(n + 1)
resume      illegal            illegal            aborted(n - 1), or   paused(n - 1), or none
                                                  in progress
==========  =================  =================  ===================  ==========================

Two cells differ from Kafka, where whoever pauses a partition in progress waits until its cleaning has stopped: nobody
waits here, so a second name may pause what is aborted, and a resume before the run is done lets it publish after all.
A run publishes nothing of an aborted partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from winnow.errors import WinnowError


class CleaningStateKind(StrEnum):
    """Which state."""

    NONE = "none"
    IN_PROGRESS = "in_progress"
    ABORTED = "aborted"
    PAUSED = "paused"


class CleaningEvent(StrEnum):
    """What can happen to a partition."""

    TAKE = "take"
    DONE = "done"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class CleaningState:
    """A state; ``pauses`` counts who paused, at least 1 where aborted or paused, else 0."""

    kind: CleaningStateKind
    pauses: int = 0

    def __str__(self) -> str:
        return f"{self.kind.value}({self.pauses})" if self.pauses else self.kind.value


def derive_cleaning_state(*, held: bool, pauses: int) -> CleaningState:
    """The state that follows from the facts."""
    if pauses:
        return CleaningState(CleaningStateKind.ABORTED if held else CleaningStateKind.PAUSED, pauses)
    return CleaningState(CleaningStateKind.IN_PROGRESS if held else CleaningStateKind.NONE)


def is_legal_event(state: CleaningState, event: CleaningEvent) -> bool:
    """Whether ``event`` may happen in ``state``."""
    if event is CleaningEvent.TAKE:
        return state.kind is CleaningStateKind.NONE
    if event is CleaningEvent.DONE:
        return state.kind in {CleaningStateKind.IN_PROGRESS, CleaningStateKind.ABORTED}
    return event is CleaningEvent.PAUSE or state.pauses > 0


def apply_event(state: CleaningState, event: CleaningEvent) -> CleaningState:
    """The state that follows.

    Raises:
        WinnowError: the event is illegal in this state.
    """
    if not is_legal_event(state, event):
        raise WinnowError(f"A partition in state {state} knows no {event.value}. Nothing was changed.")
    held = state.kind in {CleaningStateKind.IN_PROGRESS, CleaningStateKind.ABORTED}
    return derive_cleaning_state(
        held={CleaningEvent.TAKE: True, CleaningEvent.DONE: False}.get(event, held),
        pauses=state.pauses + {CleaningEvent.PAUSE: 1, CleaningEvent.RESUME: -1}.get(event, 0),
    )
