"""What was erased from the log, as the judge knows it: which records may never be read again, and which may come.

It knows the keys from the processes that erase them, and from the log when they did, and as of when.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from simulation.source import SourceRecord

RecordId = tuple[int, int]
"""Partition and offset."""


@dataclass
class Erasure:
    """Keys that were erased. ``ends``: the log end of each partition then, or the lowest since."""

    keys: frozenset[bytes]
    at_ms: int
    ends: dict[int, int]
    with_tombstone: bool = False

    def is_old(self, record: SourceRecord) -> bool:
        """Whether a record of these keys is a copy of what was erased, by its offset or by its time."""
        if record.key not in self.keys:
            return False
        return record.offset < self.ends[record.partition] or record.timestamp_ms <= self.at_ms


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What a process erases, or allows again."""

    keys: frozenset[bytes]
    with_tombstone: bool = False


@dataclass
class ErasedKeys:
    """All erasures of one log. ``places``: of erased records that nobody has appended since."""

    known: set[str] = field(default_factory=set)
    requests: dict[str, ErasureRequest] = field(default_factory=dict)
    places: set[RecordId] = field(default_factory=set)
    _all: list[Erasure] = field(default_factory=list)
    _counting: dict[bytes, Erasure] = field(default_factory=dict)

    @property
    def keys(self) -> set[bytes]:
        """Keys that were ever erased."""
        return {key for erasure in self._all for key in erasure.keys}

    def erase(self, process: str, at_ms: int, ends: Mapping[int, int], places: Collection[RecordId]) -> None:
        """Note that ``process`` erased its keys at ``at_ms``, of which records were at ``places``."""
        request = self.requests[process]
        erasure = Erasure(request.keys, at_ms, dict(ends), request.with_tombstone)
        self._all.append(erasure)
        self._counting |= dict.fromkeys(request.keys, replace(erasure))
        self.places |= set(places)

    def lift(self, keys: Collection[bytes]) -> None:
        """Note that ``keys`` may come again."""
        for key in keys:
            self._counting.pop(key, None)

    def lower_ends(self, ends: Mapping[int, int]) -> None:
        """Note the present log ends: offsets from there on are given away again, and tell nothing."""
        for erasure in self._counting.values():
            erasure.ends = {number: min(end, ends[number]) for number, end in erasure.ends.items()}

    def is_old_copy(self, record: SourceRecord) -> bool:
        """Whether a record that arrives now is to be left out."""
        erasure = self._counting.get(record.key) if record.key is not None else None
        return erasure is not None and erasure.is_old(record)

    def must_stay_away(self, record: SourceRecord) -> bool:
        """Whether a record of an older state was erased by a commit, whatever became of its process, and may not come.

        The register has an erasure before its commit.
        """
        erasure = self._counting.get(record.key) if record.key is not None else None
        if erasure is None or not erasure.is_old(record):
            return False
        return record.value is not None or not erasure.with_tombstone

    def was_old_copy(self, record: SourceRecord) -> bool:
        """Whether a record was to be left out once, whatever was lifted or undone since."""
        return any(erasure.is_old(record) for erasure in self._all)
