"""Computes the expected result of the demo from the CSV in plain Python.

Compaction in one sentence: of each key the record with the highest offset survives. The first run covers both logs
of the demo completely, so the second, two days later, removes every tombstone that survived it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from demo.flights import Flight
from demo.records import PARTITIONS, Arrival, PlacedRecord, list_aircraft_arrivals, place_records


@dataclass(frozen=True, slots=True)
class Expected:
    """Figures of one topic; tuples are per partition. ``arrived`` counts every record of the archive.

    ``tombstones``: those of ``kept`` after the first run that the second run removes.
    """

    arrived: int
    keyless: int
    logged: tuple[int, ...]
    kept: tuple[int, ...]
    tombstones: tuple[int, ...]

    @property
    def kept_after_second(self) -> tuple[int, ...]:
        """Records left after the second run."""
        return tuple(kept - gone for kept, gone in zip(self.kept, self.tombstones, strict=True))


def compute_expected(arrivals: Iterable[Arrival]) -> Expected:
    """Compute the figures of one topic. Holds one entry per key, never a value."""
    arrived = keyless = 0

    def counted() -> Iterable[Arrival]:
        nonlocal arrived, keyless
        for arrival in arrivals:
            arrived += 1
            keyless += arrival.key is None
            yield arrival

    logged, kept, tombstones = [0] * PARTITIONS, [0] * PARTITIONS, [0] * PARTITIONS
    last: dict[bytes, tuple[int, bool]] = {}
    for placed in place_records(counted()):
        logged[placed.partition] += 1
        last[_key(placed)] = (placed.partition, placed.arrival.value is None)
    for partition, is_tombstone in last.values():
        kept[partition] += 1
        tombstones[partition] += is_tombstone
    return Expected(arrived, keyless, tuple(logged), tuple(kept), tuple(tombstones))


def list_survivors(arrivals: Iterable[Arrival], *, tombstones: bool) -> list[PlacedRecord]:
    """Return the remaining records, by partition and offset; after the second run without ``tombstones``."""
    last = {_key(placed): placed for placed in place_records(arrivals)}
    found = [p for p in last.values() if tombstones or p.arrival.value is not None]
    return sorted(found, key=lambda p: (p.partition, p.offset))


def list_aircraft_flown(flights: Iterable[Flight]) -> set[str]:
    """Return the tail numbers with at least one departure."""
    return {f.aircraft for f in flights if f.aircraft is not None and f.departed_ms is not None}


def list_late_reports(flights: Sequence[Flight]) -> set[bytes]:
    """Return the aircraft whose latest flight by time is not the one reported last.

    Under ``compaction.strategy=timestamp`` (KIP-280, equal timestamps decided by offset) these keep another record.
    """
    by_offset: dict[bytes, PlacedRecord] = {}
    by_time: dict[bytes, PlacedRecord] = {}
    for placed in place_records(list_aircraft_arrivals(flights)):
        key = _key(placed)
        by_offset[key] = placed
        best = by_time.get(key)
        if best is None or placed.arrival.timestamp_ms >= best.arrival.timestamp_ms:
            by_time[key] = placed
    return {key for key, placed in by_offset.items() if by_time[key].offset != placed.offset}


def _key(placed: PlacedRecord) -> bytes:
    assert placed.arrival.key is not None
    return placed.arrival.key
