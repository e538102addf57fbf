"""Reads the newest records of all partitions of a topic, merged by timestamp; within a partition by offset."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from winnow.errors import UsageError
from winnow.pipeline.read.browse import BrowsedPartition, RecordPlace

MAXIMUM_PARTITIONS: Final = 64
"""Of each, offsets and timestamps of its newest segment are read."""


@dataclass(frozen=True, slots=True)
class NewestRecords:
    """Places of the newest records, oldest first. ``before``: per partition, where the ones before these end."""

    places: tuple[tuple[int, RecordPlace], ...]
    before: Mapping[int, int]
    has_previous: bool


def find_newest(partitions: Sequence[BrowsedPartition], before: Mapping[int, int], limit: int) -> NewestRecords:
    """Find the ``limit`` newest records of ``partitions`` below the offsets ``before``; others begin at their log end.

    Raises:
        UsageError: there are too many partitions for one look.
        DamagedSegmentError, RunAgainError: as :meth:`winnow.pipeline.read.browse.BrowsedPartition.read_from`.
    """
    if len(partitions) > MAXIMUM_PARTITIONS:
        raise UsageError(
            f"The newest records of {len(partitions):,} partitions are not merged; {MAXIMUM_PARTITIONS} are at most.",
            next="Name one partition.",
        )
    ends = {each.partition.partition: before.get(each.partition.partition, each.log_end_offset) for each in partitions}
    # One more than is wanted, so that what is left of a partition can be seen.
    places = {
        each.partition.partition: each.list_before(ends[each.partition.partition], limit + 1) for each in partitions
    }
    return merge_newest(places, ends, limit)


def merge_newest(places: Mapping[int, Sequence[RecordPlace]], ends: Mapping[int, int], limit: int) -> NewestRecords:
    """Merge the last records of partitions, each in offset order, from their ends.

    A record is taken after all later ones of its partition, so that what is left of each partition ends at one offset.
    One without a timestamp counts as older than all others.
    """
    left = {number: list(of_partition) for number, of_partition in places.items() if of_partition}
    taken: list[tuple[int, RecordPlace]] = []
    before = dict(ends)
    while left and len(taken) < limit:
        number = max(left, key=lambda each: (_get_time(left[each][-1]), -each))
        place = left[number].pop()
        taken.append((number, place))
        before[number] = place.offset
        if not left[number]:
            del left[number]
    return NewestRecords(tuple(reversed(taken)), before, bool(left))


def _get_time(place: RecordPlace) -> float:
    return -math.inf if place.timestamp_ms is None else place.timestamp_ms


def read_places(partitions: Sequence[BrowsedPartition], newest: NewestRecords) -> Iterator[pa.RecordBatch]:
    """Yield the records at the places of ``newest``, in their order; one that is gone meanwhile is left out."""
    records: dict[tuple[int, int], pa.RecordBatch] = {}
    for each in partitions:
        number = each.partition.partition
        offsets = {place.offset for of, place in newest.places if of == number}
        if not offsets:
            continue
        for batch in each.read_from(min(offsets), len(offsets)):
            for row, offset in enumerate(batch.column("offset").to_pylist()):
                if offset in offsets:
                    records[number, offset] = batch.slice(row, 1)
    yield from (records[key] for number, place in newest.places if (key := (number, place.offset)) in records)
