"""Writes a history down: which processes begin when, what fails where, who goes on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec


class FaultKind(StrEnum):
    """What can happen to a process at a call to the outside."""

    KILL = "kill"
    STAND_STILL = "stand_still"
    REFUSE = "refuse"
    LOSE_ANSWER = "lose_answer"
    CUT_OFF = "cut_off"
    POWER_CUT = "power_cut"
    OLDER_CATALOG = "older_catalog"
    LOST_CATALOG = "lost_catalog"
    OLDER_STORE = "older_store"
    LOST_LAKE = "lost_lake"
    DAMAGE = "damage"
    FOREIGN_COMMIT = "foreign_commit"
    OLD_LISTING = "old_listing"


ENDED: Final = -1
"""The call number of a process that has ended."""


class Place(msgspec.Struct, frozen=True, order=True):
    """A process at its ``call``-th call to the outside; :data:`ENDED`: after its end."""

    process: str
    call: int


class Start(msgspec.Struct, frozen=True):
    """A process that begins: at ``at``, or as soon as nothing runs.

    ``advance_ms``: how much time goes by before. ``skew_ms``: how far its clock is ahead.
    """

    process: str
    step: str
    at: Place | None
    advance_ms: int
    skew_ms: int


class Fault(msgspec.Struct, frozen=True):
    """Something that happens at a place.

    ``hours``: how long the process stands still, or cannot reach a service; how old a listing is.
    """

    kind: FaultKind
    at: Place
    hours: float = 0


class Switch(msgspec.Struct, frozen=True):
    """At a place the turn goes to another process."""

    at: Place
    to: str


class Script(msgspec.Struct, frozen=True):
    """A history. ``seed`` gives the arguments of the steps; ``config`` is the topic's.

    ``ahead_ms``: how far the clock of the source's producers is ahead.
    """

    seed: int
    config: Mapping[str, str]
    starts: tuple[Start, ...]
    faults: tuple[Fault, ...] = ()
    switches: tuple[Switch, ...] = ()
    ahead_ms: int = 0

    @property
    def size(self) -> int:
        """Number of things that a reader of the story has to follow."""
        return len(self.starts) + len(self.faults) + len(self.switches)


def write_script(path: Path, script: Script) -> None:
    """Write a script as JSON, one indented document."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(script), indent=1) + b"\n")


def read_script(path: Path) -> Script:
    """Read a script that :func:`write_script` wrote.

    Raises:
        msgspec.ValidationError: it is none.
    """
    return msgspec.json.decode(path.read_bytes(), type=Script)
