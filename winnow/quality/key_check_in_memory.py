"""Checks survivors in memory, without grouping; anything suspicious goes to the full key census.

It proves that nothing is wrong or says that it cannot; then :class:`winnow.quality.key_check_spilling.KeyCensus` counts
by the bytes of the keys. The rewrite groups all records by key; here only the survivors' key hashes (64 bits) and
orders are held, and input records are not compared with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.quality.key_check_spilling import CensusResult, offer_batches

if TYPE_CHECKING:
    import duckdb

Hashes = npt.NDArray[np.uint64]

KEY_HASH = "hash(key)"
"""Identifies keys except for collisions: anything found by it is checked again by the key bytes."""

_LOW = np.uint64(0xFFFFFFFF)

_HALF = np.uint64(32)


def hash_records(connection: duckdb.DuckDBPyConnection, batch: pa.RecordBatch, *expressions: str) -> list[Hashes]:
    """Return one array per hash expression, in record order; ``batch`` has the columns that they name."""
    if batch.num_rows == 0:
        return [np.empty(0, dtype=np.uint64) for _ in expressions]
    columns = ", ".join(f"{expression} AS h{number}" for number, expression in enumerate(expressions))
    connection.register("records", batch)
    try:
        found = connection.execute(f"SELECT {columns} FROM records").fetchnumpy()
    finally:
        connection.unregister("records")
    return [found[f"h{number}"] for number in range(len(expressions))]


_STREAM_ROWS = 131_072


def stream_hashes(
    connection: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch], *expressions: str
) -> Iterator[tuple[list[Hashes], pa.RecordBatch]]:
    """Yield one array per hash expression, and the same records' columns without ``key``; other batches than given.

    One query over all ``batches``, which have the same columns, takes half of the time of one query per batch. Until
    the end neither ``batches`` nor the caller may use ``connection``. An exception of ``batches`` is raised unchanged.
    """
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return
    columns = ", ".join(f"{expression} AS h{number}" for number, expression in enumerate(expressions))
    with offer_batches(connection, first.schema, chain([first], filled)):
        relation = connection.sql(f"SELECT {columns}, * EXCLUDE (key) FROM feed")
        for found in relation.to_arrow_reader(_STREAM_ROWS):
            hashes = [found.column(number).to_numpy(zero_copy_only=True) for number in range(len(expressions))]
            yield hashes, found.select(range(len(expressions), found.num_columns))


class HashFingerprint:
    """The running ``count:sum:xor`` of :mod:`winnow.files.fingerprint`, independent of batch boundaries."""

    def __init__(self) -> None:
        self._count = 0
        self._total = 0
        self._xor = np.uint64(0)

    def add(self, hashes: Hashes) -> None:
        """Add the hashes of more records, fewer than 2**32."""
        self._count += len(hashes)
        # Sums of 2**32 halves cannot overflow 64 bits.
        self._total += (int((hashes >> _HALF).sum()) << 32) + int((hashes & _LOW).sum())
        self._xor ^= np.bitwise_xor.reduce(hashes)

    def __str__(self) -> str:
        return f"{self._count}:{self._total}:{int(self._xor)}"


Numbers = npt.NDArray[np.int32]

MAXIMUM_RECORDS = 2**31 - 1

_SLOTS_PER_RECORD = 2

_NO_RECORD = np.int32(-1)

_ODD_NUMBER = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio. Multiplying by an odd number modulo 2**64 can be undone, so it keeps hashes apart."""

_UNCHECKED: Final = "clip"
"""For indexes that are in range by construction: checking them takes as long as everything else."""


class KeyTable:
    """Finds records, numbered from 0, by the hashes of their keys. At most :data:`MAXIMUM_RECORDS`.

    The leading bits of a hash choose a slot, which holds one record. The others of its slot, a fifth, are in a smaller
    table of the same kind, with other leading bits.
    """

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        bits = max(1, (len(hashes) * _SLOTS_PER_RECORD - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._slots = np.full(1 << bits, _NO_RECORD, dtype=np.int32)
        slots = self._find_slots(hashes)
        numbers = np.arange(len(hashes), dtype=np.int32)
        self._slots[slots] = numbers
        holders = self._slots.take(slots, mode=_UNCHECKED)
        crowded = np.flatnonzero(holders != numbers).astype(np.int32)
        twice = hashes.take(holders.take(crowded)) == hashes.take(crowded)
        self._crowded: Numbers = crowded[~twice]
        self._others = KeyTable(_scatter(hashes.take(self._crowded))) if len(self._crowded) else None
        self.has_duplicates: bool = bool(twice.any()) or (self._others is not None and self._others.has_duplicates)

    def find(self, hashes: Hashes) -> Numbers:
        """Return the number of a record with each hash, -1 where there is none."""
        if len(self._hashes) == 0:
            return np.full(len(hashes), _NO_RECORD, dtype=np.int32)
        found: Numbers = self._slots.take(self._find_slots(hashes), mode=_UNCHECKED)
        # -1, an empty slot, indexes the first record, whose hash differs: it would have filled that slot.
        missing = np.flatnonzero(self._hashes.take(found, mode=_UNCHECKED) != hashes)
        found[missing] = _NO_RECORD
        if self._others is not None and len(missing):
            places = self._others.find(_scatter(hashes.take(missing)))
            known = places >= 0
            found[missing[known]] = self._crowded.take(places[known])
        return found

    def _find_slots(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        slots: npt.NDArray[np.int64] = (hashes >> self._shift).view(np.int64)
        return slots


def _scatter(hashes: Hashes) -> Hashes:
    """Return other numbers, different for different hashes, whose leading bits depend on all bits of the hash."""
    return hashes * _ODD_NUMBER


SURVIVOR_BYTES = 128
"""Maximum memory of one survivor: hash, order, slots, and what building the table needs for a moment."""

_MINIMUM_RECORDS_TO_REDUCE = 1 << 20
"""Records without a survivor that are held before they are reduced to the greatest of each key."""

Mask = npt.NDArray[np.bool_]

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RecordPositions:
    """Positions of records in the total order: present, version, offset. Without versions the offset alone decides."""

    offsets: Longs
    versions: Longs | None = None
    present: Mask | None = None

    @classmethod
    def from_batch(cls, ranked: pa.RecordBatch) -> RecordPositions:
        """Return the positions of a batch of :meth:`winnow.quality.record_versions.Ordering.rank`."""
        offsets = ranked.column("offset").to_numpy(zero_copy_only=False)
        if "version" not in ranked.schema.names:
            return cls(offsets)
        version, present = (ranked.column(name).to_numpy(zero_copy_only=False) for name in ("version", "present"))
        return cls(offsets, version, present)

    def select(self, chosen: Mask) -> RecordPositions:
        """Return the positions of the ``chosen`` records."""
        if self.versions is None or self.present is None:
            return RecordPositions(self.offsets[chosen])
        return RecordPositions(self.offsets[chosen], self.versions[chosen], self.present[chosen])

    def take(self, numbers: npt.NDArray[np.integer]) -> RecordPositions:
        """Return the positions of the records with these ``numbers``, which exist."""
        offsets = self.offsets.take(numbers, mode=_UNCHECKED)
        if self.versions is None or self.present is None:
            return RecordPositions(offsets)
        return RecordPositions(
            offsets, self.versions.take(numbers, mode=_UNCHECKED), self.present.take(numbers, mode=_UNCHECKED)
        )

    def are_above(self, others: RecordPositions) -> Mask:
        """Return which of them are above their counterpart in ``others``."""
        later: Mask = self.offsets > others.offsets
        if self.versions is None or self.present is None or others.versions is None or others.present is None:
            return later
        higher = (self.versions > others.versions) | ((self.versions == others.versions) & later)
        above: Mask = (self.present & ~others.present) | ((self.present == others.present) & higher)
        return above

    def sort_ascending(self, hashes: Hashes) -> npt.NDArray[np.intp]:
        """Return the indices that sort by ``hashes``, then by position."""
        if self.versions is None or self.present is None:
            return np.lexsort((self.offsets, hashes))
        return np.lexsort((self.offsets, self.versions, self.present, hashes))

    @classmethod
    def concatenate(cls, parts: list[RecordPositions]) -> RecordPositions:
        """Concatenate ``parts``."""
        if not parts:
            return cls(np.empty(0, dtype=np.int64))
        offsets = np.concatenate([part.offsets for part in parts])
        versions = [part.versions for part in parts if part.versions is not None]
        present = [part.present for part in parts if part.present is not None]
        return cls(offsets, np.concatenate(versions), np.concatenate(present)) if versions else cls(offsets)


class FastKeyCensus:
    """Counts keys. Call :meth:`add_survivors`, then :meth:`add_inputs` for rewritten inputs, then :meth:`build_result`.

    All records are keyed and inside the compacted range. ``maximum_survivors``: the number that fits into memory.
    ``superseding_stay``: a tombstone that superseded a record must not be removed; :meth:`find_superseding` needs it.
    """

    def __init__(self, maximum_survivors: int, *, superseding_stay: bool = False) -> None:
        self._maximum_survivors = min(maximum_survivors, MAXIMUM_RECORDS)
        self._hashes: list[Hashes] = []
        self._parts: list[RecordPositions] = []
        self._new: list[Mask] = []
        self._survivors = 0
        self._table: KeyTable | None = None
        self._places = RecordPositions.concatenate([])
        self._matched: Mask = np.empty(0, dtype=np.bool_)
        self._superseding: Mask = np.empty(0, dtype=np.bool_)
        self._superseding_stay = superseding_stay
        self._gone = _RemovedKeys(alone=superseding_stay)
        self._found_nothing = True

    def add_survivors(self, hashes: Hashes, places: RecordPositions, *, by_reference: bool) -> None:
        """Add records that stay in the log: rewritten ones, or those of segments kept by reference."""
        self._survivors += len(hashes)
        if self._survivors > self._maximum_survivors:
            self._give_up()
        if self._found_nothing:
            self._hashes.append(hashes)
            self._parts.append(places)
            self._new.append(np.full(len(hashes), not by_reference))

    def add_inputs(self, hashes: Hashes, places: RecordPositions, may_go: Mask) -> None:
        """Add records of rewritten inputs; ``may_go`` marks tombstones of an expired range."""
        table = self._seal()
        if table is None:
            return
        numbers = table.find(hashes)
        known = numbers >= 0
        if not known.all():
            self._gone.add(hashes[~known], places.select(~known), may_go[~known])
            numbers, places = numbers[known], places.select(known)
        theirs = self._places.take(numbers)
        if self._gone.keys > self._maximum_survivors or places.are_above(theirs).any():
            self._give_up()
            return
        themselves = places.offsets == theirs.offsets
        self._matched[numbers[themselves]] = True
        if self._superseding_stay:
            self._superseding[numbers[~themselves]] = True

    def find_superseding(self, start: int, end: int) -> Longs:
        """Return the offsets in [``start``, ``end``) of survivors whose key had other records, after all inputs."""
        offsets = self._places.offsets[self._superseding]
        return offsets[(offsets >= start) & (offsets < end)]

    @property
    def has_matched_every_new_record(self) -> bool:
        """Whether each rewritten survivor was among the inputs, by offset and key."""
        return self._seal() is not None and bool(self._matched.all())

    def build_result(self, keys_gone: int) -> CensusResult | None:
        """Return the census if the only finding is ``keys_gone`` keys without a survivor; None: count exactly.

        Each of these keys must have ended with a tombstone of an expired range.
        """
        if not self.has_matched_every_new_record or self._gone.count_keys() != (keys_gone, keys_gone):
            return None
        kept = self._survivors
        return CensusResult(kept + keys_gone, kept, duplicate_keys=0, stale_winners=0, keys_expired=keys_gone)

    def _seal(self) -> KeyTable | None:
        if self._table is None and self._found_nothing:
            hashes = np.concatenate([np.empty(0, dtype=np.uint64), *self._hashes])
            self._places = RecordPositions.concatenate(self._parts)
            self._matched = ~np.concatenate([np.empty(0, dtype=np.bool_), *self._new])
            self._superseding = np.zeros(len(hashes), dtype=np.bool_)
            self._hashes, self._parts, self._new = [], [], []
            self._table = KeyTable(hashes)
            if self._table.has_duplicates:
                self._give_up()
        return self._table

    def _give_up(self) -> None:
        self._found_nothing = False
        self._hashes, self._parts, self._new = [], [], []
        self._table, self._places = None, RecordPositions.concatenate([])
        self._matched = self._superseding = np.empty(0, dtype=np.bool_)
        self._gone = _RemovedKeys(alone=False)


class _RemovedKeys:
    """Records of keys without a survivor, at least the greatest of each key.

    ``keys``: number of keys at the last reduction. At most twice as many records are held, or a million.
    ``alone``: a record may be removed only if its key had no other.
    """

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._hashes: list[Hashes] = []
        self._places: list[RecordPositions] = []
        self._may_go: list[Mask] = []
        self._held = 0
        self.keys = 0

    def add(self, hashes: Hashes, places: RecordPositions, may_go: Mask) -> None:
        """Add records."""
        self._hashes.append(hashes)
        self._places.append(places)
        self._may_go.append(may_go)
        self._held += len(hashes)
        if self._held > max(_MINIMUM_RECORDS_TO_REDUCE, 2 * self.keys):
            self._reduce()

    def count_keys(self) -> tuple[int, int]:
        """Return the number of keys, and of those whose greatest record may be removed."""
        if not self._hashes:
            return 0, 0
        self._reduce()
        return self.keys, int(self._may_go[0].sum())

    def _reduce(self) -> None:
        hashes, places = np.concatenate(self._hashes), RecordPositions.concatenate(self._places)
        order = places.sort_ascending(hashes)
        sorted_hashes = hashes[order]
        # The last record of a key is its greatest.
        ends = np.append(sorted_hashes[1:] != sorted_hashes[:-1], True)[: len(order)]
        last = order[ends]
        may_go = np.concatenate(self._may_go)[last]
        if self._alone:
            # A key that had several records here is not alone, whatever follows.
            may_go &= np.append(True, ends[:-1])[: len(order)][ends]
        self._may_go = [may_go]
        self._hashes, self._places = [hashes[last]], [places.take(last)]
        self._held = self.keys = len(last)
