"""The state machine of a partition: which event leads where, and which is illegal."""

from __future__ import annotations

import pytest

from winnow.errors import WinnowError
from winnow.pipeline.cleaning_state import CleaningState, Event, Kind, after, is_legal, state_of

NONE = CleaningState(Kind.NONE)
IN_PROGRESS = CleaningState(Kind.IN_PROGRESS)


def aborted(pauses: int) -> CleaningState:
    return CleaningState(Kind.ABORTED, pauses)


def paused(pauses: int) -> CleaningState:
    return CleaningState(Kind.PAUSED, pauses)


@pytest.mark.kafka("92", "93")
@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        (NONE, Event.TAKE, IN_PROGRESS),
        (NONE, Event.PAUSE, paused(1)),
        (IN_PROGRESS, Event.DONE, NONE),
        (IN_PROGRESS, Event.PAUSE, aborted(1)),
        (aborted(1), Event.DONE, paused(1)),
        (aborted(2), Event.DONE, paused(2)),
        (aborted(1), Event.PAUSE, aborted(2)),
        (aborted(2), Event.RESUME, aborted(1)),
        (aborted(1), Event.RESUME, IN_PROGRESS),
        (paused(1), Event.PAUSE, paused(2)),
        (paused(2), Event.RESUME, paused(1)),
        (paused(1), Event.RESUME, NONE),
    ],
)
def test_legal_event_leads_to_its_state(state: CleaningState, event: Event, expected: CleaningState) -> None:
    assert after(state, event) == expected


@pytest.mark.kafka("92", "93")
@pytest.mark.parametrize(
    ("state", "event"),
    [
        (NONE, Event.DONE),
        (NONE, Event.RESUME),
        (IN_PROGRESS, Event.TAKE),
        (IN_PROGRESS, Event.RESUME),
        (aborted(1), Event.TAKE),
        (paused(1), Event.TAKE),
        (paused(1), Event.DONE),
    ],
)
def test_illegal_event_is_refused(state: CleaningState, event: Event) -> None:
    assert not is_legal(state, event)
    with pytest.raises(WinnowError, match="Nothing was changed"):
        after(state, event)


@pytest.mark.kafka("94", "95")
def test_pause_abort_resume_and_resume_end_in_none() -> None:
    """LogCleanerManagerTest: truncation and topic deletion beside a cleaning."""
    state = NONE
    for event in (Event.TAKE, Event.PAUSE, Event.PAUSE, Event.DONE, Event.RESUME, Event.RESUME):
        state = after(state, event)
    assert state == NONE


def test_state_follows_from_lease_and_pauses() -> None:
    assert [str(state_of(held=held, pauses=n)) for held in (False, True) for n in (0, 2)] == [
        "none",
        "paused(2)",
        "in_progress",
        "aborted(2)",
    ]
