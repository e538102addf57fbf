"""Makes a failing script smaller: fewer processes, faults and switches that still break the same promise."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from simulation.history import Outcome
from simulation.runner import replay
from simulation.script import Script

Item = TypeVar("Item")
Keep = Callable[[Script], bool]


def shrink(script: Script, broken: str, *, tries: int, report: Callable[[str], None]) -> tuple[Script, Outcome | None]:
    """Shrink ``script``, which breaks a promise with the sentence ``broken``, with at most ``tries`` runs.

    ``report`` is told how far it is. Returns the smallest script, and what came of it; None: it was not made smaller.
    """
    kind = get_kind(broken)
    best: tuple[Script, Outcome | None] = script, None
    left = tries

    def fails(candidate: Script) -> bool:
        nonlocal best, left
        if left <= 0:
            return False
        left -= 1
        candidate = _prune(candidate)
        outcome = replay(candidate)
        if outcome.broken is None or get_kind(outcome.broken) != kind:
            return False
        best = candidate, outcome
        report(f"{candidate.size} things, {left} tries left")
        return True

    size = script.size + 1
    while best[0].size < size and left > 0:
        size = best[0].size
        _drop_some(best[0].starts, lambda starts: fails(msgspec.structs.replace(best[0], starts=tuple(starts))))
        _drop_some(best[0].faults, lambda faults: fails(msgspec.structs.replace(best[0], faults=tuple(faults))))
        _drop_some(best[0].switches, lambda switches: fails(msgspec.structs.replace(best[0], switches=tuple(switches))))
    return best


def get_kind(broken: str) -> str:
    """Return a broken promise without its numbers and names: the same promise in another history."""
    return " ".join(re.sub(r"[\w.-]*\d[\w.-]*", "N", broken).split()[:14])


def _prune(script: Script) -> Script:
    """Leave out the faults and switches of processes that do not begin: they cannot happen."""
    names = {start.process for start in script.starts} | {"creation"}
    return msgspec.structs.replace(
        script,
        faults=tuple(fault for fault in script.faults if fault.at.process in names),
        switches=tuple(switch for switch in script.switches if {switch.at.process, switch.to} <= names),
    )


def _drop_some(items: Sequence[Item], still_fails: Callable[[Sequence[Item]], bool]) -> None:
    """Leave out parts of ``items``, in halves, quarters and so on down to single ones, where it still fails."""
    kept = list(items)
    size = len(kept)
    while size and kept:
        first = len(kept)
        while first > 0:
            first = max(0, first - size)
            candidate = kept[:first] + kept[first + size :]
            if len(candidate) < len(kept) and still_fails(candidate):
                kept = candidate
        size //= 2
