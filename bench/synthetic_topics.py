"""Registers topics with many partitions and segments but no data files.

Segments are registered in the real table with invented figures; opening one of their files would fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.workloads import BASE_MS

if TYPE_CHECKING:
    from winnow.log.head import Change, Head
    from winnow.pipeline.installation import Installation
    from winnow.values.model import Segment
    from winnow.values.topic_state import PartitionState

SEGMENT_RECORDS = 1_000_000
SEGMENT_BYTES = 128 << 20


def register_topic(
    installation: Installation,
    topic: str,
    *,
    partitions: int,
    segments: int,
    clean: int,
    commits: int = 1,
    tombstones: bool = True,
) -> None:
    """Create a topic whose first ``clean`` segments per partition lie below its checkpoint, in ``commits`` commits.

    ``tombstones``: some partitions have tombstones that have expired, so that they are due.
    """
    from winnow.pipeline.topics.definition import create_topic

    create_topic(installation, topic, partitions, {})
    log = installation.log.open(topic)
    for number in range(commits):
        first, last = segments * number // commits, segments * (number + 1) // commits
        log.commit(_appending(partitions, range(first, last), clean, tombstones))


def _appending(partitions: int, numbers: range, clean: int, tombstones: bool) -> Callable[[Head], Change]:
    from winnow.log.head import Change

    def build(head: Head) -> Change:
        states = {number: _state(number, numbers.stop, clean) for number in range(partitions)}
        added = [
            _segment(head.location, partition, each, partition % 3 if tombstones else 0)
            for partition in range(partitions)
            for each in numbers
        ]
        return Change(state=replace(head.state, partitions=states), add=added)

    return build


def _segment(location: str, partition: int, number: int, tombstones: int) -> Segment:
    from winnow.values.model import Segment

    first = number * SEGMENT_RECORDS
    return Segment(
        path=f"{location}/data/synthetic/{partition:05d}-{first:020d}.parquet",
        partition=partition,
        first_offset=first,
        last_offset=first + SEGMENT_RECORDS - 1,
        records=SEGMENT_RECORDS,
        size_bytes=SEGMENT_BYTES,
        min_timestamp_ms=BASE_MS + first,
        max_timestamp_ms=BASE_MS + first + SEGMENT_RECORDS,
        tombstones=tombstones,
    )


def _state(partition: int, segments: int, clean: int) -> PartitionState:
    from winnow.values.topic_state import Append, Cleaning, PartitionState

    dirty = min(clean, segments)
    appends = tuple(
        Append(
            digest=hashlib.sha256(f"{partition}/{number}".encode()).hexdigest(),
            first_offset=number * SEGMENT_RECORDS,
            last_offset=(number + 1) * SEGMENT_RECORDS - 1,
            records=SEGMENT_RECORDS,
            as_of_ms=BASE_MS,
        )
        for number in range(dirty, segments)
    )
    return PartitionState(
        log_end_offset=segments * SEGMENT_RECORDS,
        first_dirty_offset=dirty * SEGMENT_RECORDS,
        strategy="offset",
        history=(Cleaning(dirty * SEGMENT_RECORDS, BASE_MS, BASE_MS),),
        appends=appends,
    )
