"""The time line of a run, from its transitions: plan, wait, Spark, validate, publish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from winnow.store import RunState
from winnow.store.run_progress import PLANNING, Transition

_ORDER: Final = (
    PLANNING,
    *(state.value for state in (RunState.PLANNED, RunState.COMPACTING, RunState.STAGED, RunState.VALIDATED)),
    RunState.PUBLISHING.value,
)
"""States in the order of a run; all others end it."""

_STEPS: Final = (
    ("plan", PLANNING, RunState.PLANNED.value),
    ("wait", RunState.PLANNED.value, RunState.COMPACTING.value),
    ("spark", RunState.COMPACTING.value, RunState.STAGED.value),
    ("validate", RunState.STAGED.value, RunState.VALIDATED.value),
    ("publish", RunState.VALIDATED.value, RunState.PUBLISHED.value),
)
"""Each stage with the state in which it begins, and the one that completes it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a run. ``state``: pending, running, done, failed, or stopped (the run was closed in it)."""

    name: str
    state: str
    started_at_ms: int | None = None
    ended_at_ms: int | None = None


def build_stages(transitions: Sequence[Transition]) -> list[Stage]:
    """Build the time line of the latest opening of a run and, within it, of the latest attempt.

    Empty if the run is older than these records.
    """
    ordered = sorted(transitions, key=lambda each: (each.at_ms, _rank(each.state)))
    openings = [place for place, each in enumerate(ordered) if each.state == RunState.PLANNED.value]
    if not openings:
        return []
    begun = openings[-1]
    is_planning_known = begun > 0 and ordered[begun - 1].state == PLANNING
    latest = ordered[begun - is_planning_known :]
    return [stage for step in _STEPS if (stage := _build_stage(step, latest)) is not None]


def _rank(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _build_stage(step: tuple[str, str, str], transitions: Sequence[Transition]) -> Stage | None:
    name, first, last = step
    begins = [place for place, each in enumerate(transitions) if each.state == first]
    if not begins:
        return None if name == "plan" else Stage(name, "pending")
    # Waiting ends with the first attempt; of later stages the latest attempt counts.
    begin = begins[0] if name == "wait" else begins[-1]
    started_at_ms = transitions[begin].at_ms
    for each in transitions[begin + 1 :]:
        if each.state == last:
            return Stage(name, "done", started_at_ms, each.at_ms)
        if each.state not in _ORDER:
            state = "stopped" if each.state == RunState.VOID.value else "failed"
            return Stage(name, state, started_at_ms, each.at_ms)
    return Stage(name, "running", started_at_ms)
