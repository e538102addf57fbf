"""What happened to a log, commit by commit: it tells what the log would be, had a change never been.

Records that were in the log before that change, and those that came since, are in it; the log begins where the highest
of the raises that stay lets it begin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

RecordId = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class _Commit:
    """One commit: what it is called, what came into the log, what the log held and where it began before it."""

    name: str | None
    came: frozenset[RecordId]
    content_before: frozenset[RecordId]
    starts_before: Mapping[int, int]
    starts: Mapping[int, int]


@dataclass
class Past:
    """The commits of one log, oldest first. ``undone``: names of changes that were taken back, with the partition.

    ``is_known`` False: the log went on from an earlier commit, so what happened to it is not told by all of these.
    """

    undone: set[tuple[str, int]] = field(default_factory=set)
    is_known: bool = True
    _commits: list[_Commit] = field(default_factory=list)
    _content: frozenset[RecordId] = frozenset()
    _starts: Mapping[int, int] = field(default_factory=dict)

    @property
    def content(self) -> frozenset[RecordId]:
        """What the log held after the last commit."""
        return self._content

    def forget(self) -> None:
        """Note that an older commit is the newest again."""
        self.is_known = False

    def note(
        self, name: str | None, content: Collection[RecordId], starts: Mapping[int, int], undone: set[tuple[str, int]]
    ) -> None:
        """Note a commit after which the log holds ``content``."""
        present = frozenset(content)
        self._commits.append(_Commit(name, present - self._content, self._content, self._starts, dict(starts)))
        self._content, self._starts, self.undone = present, dict(starts), undone

    def remove(self, records: Collection[RecordId]) -> None:
        """Note that an ingest of ``records`` was taken back: the partitions that it leaves empty begin anew."""
        self._content -= frozenset(records)

    def find_removed(self, content: Collection[RecordId]) -> set[RecordId]:
        """Find what is not in ``content`` and was in the log after the last commit."""
        return set(self._content - frozenset(content))

    def find_content(self, names: Collection[str], partition: int) -> set[RecordId]:
        """Find what a partition would hold if none of ``names`` had been, whatever of it lies below the log start."""
        first = next(number for number, commit in enumerate(self._commits) if commit.name in names)
        found = set(self._commits[first].content_before)
        for commit in self._commits[first:]:
            found |= commit.came
        return {place for place in found if place[0] == partition}

    def find_log_start(self, names: Collection[str], partition: int) -> int:
        """Find where a partition would begin, if none of ``names`` had been."""
        start: int | None = None
        present = self._starts.get(partition, 0)
        is_raise_undone = False
        for commit in self._commits:
            before, after = commit.starts_before.get(partition, 0), commit.starts.get(partition, 0)
            if commit.name is None or after <= before:
                continue
            start = before if start is None else start
            is_taken = commit.name in names
            is_raise_undone = is_raise_undone or is_taken
            if not is_taken and (commit.name, partition) not in self.undone:
                start = max(start, after)
        return present if start is None or not is_raise_undone else start
