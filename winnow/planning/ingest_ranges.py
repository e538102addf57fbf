"""Divides the offsets of arriving partitions into ranges, each one task's work. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.planning import cleanable
from winnow.values.ingest_plans import OFFSETS_END, IngestRange, OffsetExtent
from winnow.values.model import OffsetRange, Segment
from winnow.values.topic_state import PartitionState

MINIMUM_RANGE_BYTES = 16 << 20
"""Below it, starting a task and a segment costs more than idle cores."""
MAXIMUM_RANGE_BYTES = 256 << 20
"""A task that fails is repeated as a whole, and what it cannot stream it sorts on its machine's disk."""
RANGES_WANTED = 16


@dataclass(frozen=True, slots=True)
class Arrival:
    """An object, and the offsets of its records per partition, as far as known.

    Of an object whose name tells its first offset, the last one is not known before it is read (None).
    """

    number: int
    size_bytes: int
    partition: int
    first: int
    last: int | None = None


def list_arrivals(
    number: int, size_bytes: int, named: tuple[int | None, int | None], extents: Mapping[int, OffsetExtent] | None
) -> list[Arrival] | None:
    """Return the arrivals of an object, one a partition; None if neither its name nor a reading tells them.

    ``named``: partition and first offset by its name. ``extents``: what was found in it, None if it was not read.
    """
    partition, first = named
    if extents is not None:
        found = [Arrival(number, size_bytes, number_of, each.first, each.last) for number_of, each in extents.items()]
        # An object without records has to be accounted for as well.
        return found or [Arrival(number, size_bytes, partition or 0, first or 0, first or 0)]
    if partition is None or first is None:
        return None
    return [Arrival(number, size_bytes, partition, first)]


def choose_range_bytes(total_bytes: int) -> int:
    """Choose how many stored bytes a range is to have."""
    return max(MINIMUM_RANGE_BYTES, min(MAXIMUM_RANGE_BYTES, total_bytes // RANGES_WANTED))


def divide_arrivals(arrivals: Iterable[Arrival], range_bytes: int) -> list[IngestRange]:
    """Divide the offsets of each partition where objects begin, after about ``range_bytes`` each.

    An object is accounted for in the range where it begins in its first partition. Where its last offset is not known,
    it is taken to end before the next one begins; whoever reads it has to check that.
    """
    by_partition: dict[int, list[Arrival]] = {}
    homes: dict[int, int] = {}
    for arrival in arrivals:
        by_partition.setdefault(arrival.partition, []).append(arrival)
        homes[arrival.number] = min(arrival.partition, homes.get(arrival.number, arrival.partition))
    found: list[IngestRange] = []
    for partition, mine in sorted(by_partition.items()):
        found += _divide_partition(partition, mine, homes, range_bytes)
    return found


def _divide_partition(
    partition: int, arrivals: Sequence[Arrival], homes: Mapping[int, int], range_bytes: int
) -> list[IngestRange]:
    ordered = sorted(arrivals, key=lambda each: (each.first, each.number))
    starts = [0]
    size_bytes = 0
    for before, arrival in zip([None, *ordered], ordered, strict=False):
        if size_bytes >= range_bytes and before is not None and arrival.first > max(before.first, starts[-1]):
            starts.append(arrival.first)
            size_bytes = 0
        size_bytes += arrival.size_bytes
    firsts = [each.first for each in ordered]
    ranges = []
    reaching: list[Arrival] = []
    for start, end in zip(starts, [*starts[1:], OFFSETS_END], strict=True):
        reaching = [each for each in reaching if _find_last(each) >= start]
        begun = ordered[bisect_left(firsts, start) : bisect_left(firsts, end)]
        own = [each.number for each in begun if homes[each.number] == partition]
        others = [each.number for each in reaching]
        others += [each.number for each in begun if homes[each.number] != partition]
        first = max(start, min((each.first for each in (*reaching, *begun)), default=start))
        ranges.append(IngestRange(partition, OffsetRange(start, end), tuple(own), tuple(others), first))
        reaching += begun
    return ranges


def _find_last(arrival: Arrival) -> int:
    return arrival.first if arrival.last is None else arrival.last


def find_uncovered(ranges: Sequence[IngestRange], extents: Mapping[int, Mapping[int, OffsetExtent]]) -> set[int]:
    """Return the numbers of objects with records in a range whose task did not read them."""
    uncovered: set[int] = set()
    by_partition: dict[int, list[tuple[int, set[int]]]] = {}
    for each in sorted(ranges, key=lambda each: (each.partition, each.offsets.start)):
        by_partition.setdefault(each.partition, []).append((each.offsets.start, {*each.objects, *each.reaching}))
    starts = {partition: [start for start, _ in found] for partition, found in by_partition.items()}
    for number, found in extents.items():
        for partition, extent in found.items():
            begins = starts.get(partition, [])
            reached = by_partition.get(partition, [])[
                max(0, bisect_right(begins, extent.first) - 1) : bisect_right(begins, extent.last)
            ]
            if not reached or any(number not in read for _, read in reached):
                uncovered.add(number)
    return uncovered


def add_log(
    ranges: Sequence[IngestRange], states: Mapping[int, PartitionState], live: Mapping[int, Sequence[Segment]]
) -> tuple[IngestRange, ...]:
    """Return ``ranges`` with what their tasks must know of the log: where it ends, and the segments they overlap."""
    newest_ms = {
        partition: max((each.max_timestamp_ms for each in found if each.max_timestamp_ms is not None), default=None)
        for partition, found in live.items()
    }
    return tuple(
        replace(
            each,
            log_end_offset=states[each.partition].log_end_offset,
            cleaned_offset=cleanable.find_cleaned_offset(states[each.partition]),
            segments=tuple(
                segment
                for segment in live.get(each.partition, ())
                if each.offsets.start <= segment.last_offset and segment.first_offset < each.offsets.end
            ),
            newest_ms=newest_ms.get(each.partition),
        )
        for each in ranges
    )
