"""Estimates how much a compaction will keep, from manifests, history and earlier receipts. Pure.

The cleaned part of a log holds one record per key, regardless of the strategy in force now; all other versions of a
key came since. The share of new records with a new key is known only when keys are
read, so it is taken from earlier runs: of this partition, else of the topic. Without either, the estimate
is None, and the bounds, which need no earlier run, remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from winnow.values.model import OffsetRange, PartitionPlan, Segment, Status
from winnow.values.results import PartitionReceipt, Receipt
from winnow.values.topic_state import Cleaning

MAXIMUM_EARLIER_RUNS = 5
"""Maximum newest receipts of a topic that an estimate reads: smooths one odd run, cheap for 10,000 partitions."""

WINNER_ENTRY_BYTES = 128
"""Memory (bytes) that the engine needs per distinct key while it picks winners.

Measured with DuckDB 2.0: about 100 bytes for keys of up to 16 bytes, and longer keys' own bytes. This figure fits keys
of up to 40 bytes; manifests know no key lengths, since they hold no user bytes.
"""


class Basis(StrEnum):
    """Source of an expected number of records."""

    MANIFEST = "manifest"
    """Nothing came since the last cleaning: the manifests are sufficient."""
    PARTITION = "partition"
    """Earlier runs of this partition."""
    TOPIC = "topic"
    """Earlier runs of other partitions of the topic."""
    UNKNOWN = "unknown"
    """No earlier run to estimate from."""


class Memory(StrEnum):
    """Whether picking the winners stays within its memory budget. Above it, it spills to disk and does not fail."""

    FITS = "fits"
    MAY_SPILL = "may_spill"
    SPILLS = "spills"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated result of compacting one partition, over [log start after retention, next first dirty offset).

    ``records_clean``: records that a run has cleaned already, one per key. ``records_dirty``: keyed records that
    came since. ``tombstones_due``: null values that lie wholly in ranges past their delete horizon and go in any case.
    ``expected_*`` are None when ``basis`` is unknown; ``expected_bytes_out`` is comparable with a receipt's
    ``bytes_out``, segments kept by reference included. The two bounds always hold for a partition that Winnow wrote.
    """

    records_in: int
    records_keyless: int
    records_clean: int
    records_dirty: int
    tombstones_due: int
    at_least_records_kept: int
    at_most_records_kept: int
    expected_records_kept: int | None
    expected_bytes_out: int | None
    basis: Basis

    @property
    def at_most_keys(self) -> int:
        """Maximum distinct keys that the winners' table may have to hold."""
        return self.records_clean + self.records_dirty

    @property
    def at_most_winners_bytes(self) -> int:
        """Maximum memory of the winners' table, for keys of up to 40 bytes."""
        return self.at_most_keys * WINNER_ENTRY_BYTES

    def memory(self, budget_bytes: int) -> Memory:
        """Check whether picking the winners stays within ``budget_bytes``, the engine's memory setting."""
        if self.at_most_winners_bytes <= budget_bytes:
            return Memory.FITS
        at_least_keys = max(self.records_clean, self.at_least_records_kept)
        return Memory.SPILLS if at_least_keys * WINNER_ENTRY_BYTES > budget_bytes else Memory.MAY_SPILL


@dataclass(slots=True)
class _Share:
    """New keys among dirty records, summed over runs."""

    new_keys: int = 0
    dirty: int = 0

    def add(self, new_keys: int, dirty: int) -> None:
        self.new_keys += min(max(0, new_keys), dirty)
        self.dirty += dirty

    def expect(self, dirty: int) -> int | None:
        return round(dirty * self.new_keys / self.dirty) if self.dirty else None


@dataclass(frozen=True)
class NewKeyEstimator:
    """Estimates new keys from earlier runs of one topic: the share of dirty records with a new key.

    A first run, with nothing clean below it, predicts later ones badly and is kept apart. Made by :meth:`of`.
    """

    _first: dict[int, _Share] = field(default_factory=dict)
    _later: dict[int, _Share] = field(default_factory=dict)
    _topic_first: _Share = field(default_factory=_Share)
    _topic_later: _Share = field(default_factory=_Share)

    @classmethod
    def of(cls, receipts: Iterable[Receipt]) -> NewKeyEstimator:
        """Make an estimator from receipts of one topic, in any order; those that published nothing are left out."""
        earlier = cls()
        published = [
            (receipt.finished_at_ms, part.next_first_dirty_offset, part)
            for receipt in receipts
            if receipt.status is Status.PUBLISHED
            for part in receipt.partitions
            if part.records_in
        ]
        per_partition: dict[int, list[PartitionReceipt]] = {}
        for _, _, part in sorted(published, key=lambda each: each[:2]):
            per_partition.setdefault(part.partition, []).append(part)
        for number, parts in per_partition.items():
            if parts[0].first_dirty_offset == 0:
                keyed = parts[0].records_in - parts[0].records_keyless
                new_keys = parts[0].records_kept + parts[0].tombstones_expired
                earlier._first.setdefault(number, _Share()).add(new_keys, keyed)
                earlier._topic_first.add(new_keys, keyed)
            for before, after in pairwise(parts):
                clean = max(0, before.records_kept - after.records_retired)
                dirty = after.records_in - after.records_keyless - clean
                if dirty > 0:
                    new_keys = after.records_kept + after.tombstones_expired - clean
                    earlier._later.setdefault(number, _Share()).add(new_keys, dirty)
                    earlier._topic_later.add(new_keys, dirty)
        return earlier

    def new_keys(self, partition: int, dirty: int, *, first: bool) -> tuple[int | None, Basis]:
        """Estimate how many of ``dirty`` records will have a new key; ``first``: nothing below them is clean."""
        own, topic = (self._first, self._topic_first) if first else (self._later, self._topic_later)
        looked_at = (
            (own.get(partition), Basis.PARTITION),
            (topic, Basis.TOPIC),
            (self._first.get(partition), Basis.PARTITION),
            (self._topic_first, Basis.TOPIC),
        )
        for share, basis in looked_at:
            expected = share.expect(dirty) if share is not None else None
            if expected is not None:
                return expected, basis
        return None, Basis.UNKNOWN


def find_cleaned_offset(history: Sequence[Cleaning]) -> int:
    """Find the offset below which a run of Winnow left one record per key; 0 if none did.

    An imported checkpoint (its cleaning time is unknown) shows how far another cleaner came, perhaps on another copy of
    the log, so nothing is concluded from it.
    """
    end = 0
    for entry in history:
        if entry.cleaning_time_ms is None:
            break
        end = entry.end_offset
    return end


def estimate_plan(plan: PartitionPlan, history: Sequence[Cleaning], earlier: NewKeyEstimator) -> Estimate:
    """Estimate the result of carrying out ``plan``.

    Args:
        plan: the decision, with the segments it reads.
        history: the cleaning history of the partition's state that was planned from.
        earlier: the estimator from earlier runs of the topic.
    """
    cleaned = find_cleaned_offset(history)
    clean = dirty = keyless = records_below_start = due = perhaps_due = 0
    for segment in plan.segments:
        keyless += segment.keyless
        keyed = segment.records - segment.keyless
        if segment.last_offset < cleaned:
            clean += keyed
        else:
            dirty += keyed
        if segment.first_offset < plan.log_start_offset:
            records_below_start += min(segment.records, plan.log_start_offset - segment.first_offset)
        due += segment.tombstones if _is_inside(segment, plan.expired) else 0
        perhaps_due += segment.tombstones if _is_overlapping(segment, plan.expired) else 0
    keyed = clean + dirty
    due = min(due, keyed)
    at_least_keys = max(0, clean - records_below_start, min(1, keyed - records_below_start))
    at_most = keyed - due
    at_least = min(at_most, max(0, at_least_keys - perhaps_due))
    new_keys, basis = earlier.new_keys(plan.partition, dirty, first=clean == 0)
    if dirty == 0:
        new_keys, basis = 0, Basis.MANIFEST
    kept = None if new_keys is None else min(at_most, max(at_least, clean + new_keys - due))
    records = keyed + keyless
    return Estimate(
        records_in=records,
        records_keyless=keyless,
        records_clean=clean,
        records_dirty=dirty,
        tombstones_due=due,
        at_least_records_kept=at_least,
        at_most_records_kept=at_most,
        expected_records_kept=kept,
        expected_bytes_out=None if kept is None else round(plan.size_bytes * kept / records) if records else 0,
        basis=basis,
    )


def _is_inside(segment: Segment, ranges: Sequence[OffsetRange]) -> bool:
    return any(r.start <= segment.first_offset and segment.last_offset < r.end for r in ranges)


def _is_overlapping(segment: Segment, ranges: Sequence[OffsetRange]) -> bool:
    return any(r.start <= segment.last_offset and segment.first_offset < r.end for r in ranges)
