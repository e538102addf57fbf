"""The state machine of a partition: which event leads where, and which is illegal."""

from __future__ import annotations

import pytest

from winnow.errors import WinnowError
from winnow.pipeline.topics.partitions import (
    CleaningEvent,
    CleaningState,
    CleaningStateKind,
    apply_event,
    derive_cleaning_state,
    is_legal_event,
)

NONE = CleaningState(CleaningStateKind.NONE)
IN_PROGRESS = CleaningState(CleaningStateKind.IN_PROGRESS)


def aborted(pauses: int) -> CleaningState:
    return CleaningState(CleaningStateKind.ABORTED, pauses)


def paused(pauses: int) -> CleaningState:
    return CleaningState(CleaningStateKind.PAUSED, pauses)


@pytest.mark.kafka("92", "93")
@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        (NONE, CleaningEvent.TAKE, IN_PROGRESS),
        (NONE, CleaningEvent.PAUSE, paused(1)),
        (IN_PROGRESS, CleaningEvent.DONE, NONE),
        (IN_PROGRESS, CleaningEvent.PAUSE, aborted(1)),
        (aborted(1), CleaningEvent.DONE, paused(1)),
        (aborted(2), CleaningEvent.DONE, paused(2)),
        (aborted(1), CleaningEvent.PAUSE, aborted(2)),
        (aborted(2), CleaningEvent.RESUME, aborted(1)),
        (aborted(1), CleaningEvent.RESUME, IN_PROGRESS),
        (paused(1), CleaningEvent.PAUSE, paused(2)),
        (paused(2), CleaningEvent.RESUME, paused(1)),
        (paused(1), CleaningEvent.RESUME, NONE),
    ],
)
def test_legal_event_leads_to_its_state(state: CleaningState, event: CleaningEvent, expected: CleaningState) -> None:
    assert apply_event(state, event) == expected


@pytest.mark.kafka("92", "93")
@pytest.mark.parametrize(
    ("state", "event"),
    [
        (NONE, CleaningEvent.DONE),
        (NONE, CleaningEvent.RESUME),
        (IN_PROGRESS, CleaningEvent.TAKE),
        (IN_PROGRESS, CleaningEvent.RESUME),
        (aborted(1), CleaningEvent.TAKE),
        (paused(1), CleaningEvent.TAKE),
        (paused(1), CleaningEvent.DONE),
    ],
)
def test_illegal_event_is_refused(state: CleaningState, event: CleaningEvent) -> None:
    assert not is_legal_event(state, event)
    with pytest.raises(WinnowError, match="Nothing was changed"):
        apply_event(state, event)


@pytest.mark.kafka("94", "95")
def test_pause_abort_resume_and_resume_end_in_none() -> None:
    """LogCleanerManagerTest: truncation and topic deletion beside a cleaning."""
    state = NONE
    for event in (
        CleaningEvent.TAKE,
        CleaningEvent.PAUSE,
        CleaningEvent.PAUSE,
        CleaningEvent.DONE,
        CleaningEvent.RESUME,
        CleaningEvent.RESUME,
    ):
        state = apply_event(state, event)
    assert state == NONE


def test_state_follows_from_lease_and_pauses() -> None:
    assert [str(derive_cleaning_state(held=held, pauses=n)) for held in (False, True) for n in (0, 2)] == [
        "none",
        "paused(2)",
        "in_progress",
        "aborted(2)",
    ]
