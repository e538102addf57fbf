"""Reads what the broker's cleaner logs: every look at a log, and every cleaning with its range and its counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

QUIET_LOOKS: Final = 3
_LOOK: Final = re.compile(
    r"range of cleanable offsets for log=(\S+?)\. Last clean offset=.*? now=(\d+) => "
    r"firstDirtyOffset=(\d+) firstUncleanableOffset=(\d+)"
)
_BEGUN: Final = re.compile(r"^(\S+) INFO Cleaner \d+: Beginning cleaning of log (\S+)")
_ENDED: Final = re.compile(r"cleaned log (\S+) \(dirty section = \[(\d+), (\d+)\]\)")
_DELAYED: Final = re.compile(r"Cleanable partitions: \d+, Delayed partitions: (\d+), max delay: (\d+)")
_START_SIZE: Final = re.compile(r"Start size: .*\(([\d,.]+) messages\)")
_END_SIZE: Final = re.compile(r"End size: .*\(([\d,.]+) messages\)")


@dataclass(frozen=True, slots=True)
class Look:
    """One look of the cleaner at a log."""

    now_ms: int
    first_dirty_offset: int
    first_uncleanable_offset: int


@dataclass(frozen=True, slots=True)
class Cleaning:
    """A finished cleaning of one log. ``look``: the one that led to it. ``begun_ms``: within a few milliseconds."""

    look: Look
    begun_ms: int
    end_offset: int
    messages_before: int
    messages_after: int


@dataclass(frozen=True, slots=True)
class Grab:
    """One time that the cleaner chose what to clean: its look at each log, all at one reading of its clock.

    ``cleaned``: the log that it chose; None: nothing. ``delayed`` and ``max_delay_ms``: how many logs were past
    max.compaction.lag.ms, and by how much; said only after a cleaning.
    """

    now_ms: int
    looks: Mapping[str, Look]
    cleaned: str | None = None
    delayed: int | None = None
    max_delay_ms: int | None = None


@dataclass
class CleanerLog:
    """Follows the cleaner's log file."""

    path: Path
    looks: dict[str, Look] = field(default_factory=dict)
    """The last look at each log."""
    cleanings: dict[str, list[Cleaning]] = field(default_factory=dict)
    """The cleanings since the last :meth:`forget`."""
    looks_since_cleaning: dict[str, int] = field(default_factory=dict)
    _position: int = 0
    _begun: dict[str, tuple[Look, int]] = field(default_factory=dict)
    _ended: tuple[str, int] | None = None
    _messages_before: int = 0

    def forget(self) -> None:
        """Read to the end, and forget every look and cleaning so far."""
        self.read_on()
        self.looks.clear()
        self.cleanings.clear()
        self.looks_since_cleaning.clear()

    def read_on(self) -> None:
        """Take up the lines that were added."""
        with self.path.open("rb") as stream:
            stream.seek(self._position)
            data = stream.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            self._take_up(line)

    def is_quiet(self, logs: Iterable[str]) -> bool:
        """Check whether the cleaner has looked at each of ``logs`` often enough since anything was cleaned."""
        return not self._begun and all(self.looks_since_cleaning.get(log, 0) >= QUIET_LOOKS for log in logs)

    def _take_up(self, line: str) -> None:
        if found := _LOOK.search(line):
            log, now_ms, dirty, uncleanable = found.groups()
            self.looks[log] = Look(int(now_ms), int(dirty), int(uncleanable))
            self.looks_since_cleaning[log] = self.looks_since_cleaning.get(log, 0) + 1
        elif found := _BEGUN.search(line):
            begun_ms = round(datetime.fromisoformat(found[1].replace(",", ".")).timestamp() * 1000)
            log = found[2].removesuffix(".")
            if log in self.looks:
                self._begun[log] = (self.looks[log], begun_ms)
            self.looks_since_cleaning.clear()
        elif found := _ENDED.search(line):
            self._ended = (found[1], int(found[3]))
            self.looks_since_cleaning.clear()
        elif found := _START_SIZE.search(line):
            self._messages_before = _read_number(found[1])
        elif (found := _END_SIZE.search(line)) and self._ended is not None:
            log, end = self._ended
            begun = self._begun.pop(log, None)
            if begun is not None:
                cleaning = Cleaning(*begun, end, self._messages_before, _read_number(found[1]))
                self.cleanings.setdefault(log, []).append(replace(cleaning))
            self._ended = None


def read_grabs(path: Path, position: int = 0) -> list[Grab]:
    """Read every grab of the cleaner from byte ``position`` of its log file on; the last one may still go on."""
    with path.open("rb") as stream:
        stream.seek(position)
        lines = stream.read().decode(errors="replace").splitlines()
    return list(_follow_grabs(lines))


def _follow_grabs(lines: Iterable[str]) -> Iterator[Grab]:
    grab: Grab | None = None
    for line in lines:
        if found := _LOOK.search(line):
            log, now_ms, dirty, uncleanable = found.groups()
            look = Look(int(now_ms), int(dirty), int(uncleanable))
            if grab is not None and grab.now_ms == look.now_ms and log not in grab.looks and grab.cleaned is None:
                grab = replace(grab, looks={**grab.looks, log: look})
                continue
            if grab is not None:
                yield grab
            grab = Grab(look.now_ms, {log: look})
        elif grab is not None and (found := _BEGUN.search(line)):
            grab = replace(grab, cleaned=found[2].removesuffix("."))
        elif grab is not None and (found := _DELAYED.search(line)):
            grab = replace(grab, delayed=int(found[1]), max_delay_ms=int(found[2]))
    if grab is not None:
        yield grab


def _read_number(text: str) -> int:
    return int(text.replace(",", "").replace(".", ""))
