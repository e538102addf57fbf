"""Plans the reading of a topic's records in parts: ranges of offsets, so that one partition is the work of many."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from winnow.engine.latest_records import build_latest_plan
from winnow.engine.read_plans import ReadKind, ReadPart, ReadPlan
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.read.records import list_wanted_segments
from winnow.values.model import Segment

PART_BYTES: Final = 256 << 20
"""About how much of segments one part reads, and so the size of its file: enough to be worth a task."""


def plan_records(
    log: TopicLog, head: Head, *, partition: int | None, from_offset: int | None, from_time_ms: int | None
) -> ReadPlan:
    """Plan the reading of the records that :func:`winnow.pipeline.read.records.read_batches` yields.

    Raises:
        UsageError: the topic has no such partition.
        DamagedSegmentError, FileNotFoundError: a segment cannot be read for its timestamps.
    """
    ranges = _list_ranges(list_wanted_segments(log, head, partition, from_offset or 0, from_time_ms))
    parts = [replace(part, number=number) for number, part in enumerate(ranges)]
    return ReadPlan(
        uuid.uuid4().hex, log.topic, ReadKind.RECORDS, tuple(parts) or (_make_part(partition or 0, 0, 0, [], 0),)
    )


def _list_ranges(wanted: Iterator[tuple[Segment, int]]) -> Iterator[ReadPart]:
    """Yield the parts. Small segments that follow each other are one; a large one is cut, by its offsets, evenly."""
    held: list[Segment] = []
    begin = 0
    for segment, start in wanted:
        size_bytes = sum(before.size_bytes for before in held) + segment.size_bytes
        if held and (held[0].partition != segment.partition or size_bytes > PART_BYTES):
            yield _join(held, begin)
            held = []
        if segment.size_bytes > PART_BYTES:
            yield from _cut(segment, max(start, segment.first_offset))
            continue
        begin = begin if held else start
        held.append(segment)
    if held:
        yield _join(held, begin)


def _join(segments: Sequence[Segment], start: int) -> ReadPart:
    size_bytes = sum(segment.size_bytes for segment in segments)
    return _make_part(segments[0].partition, start, segments[-1].last_offset + 1, segments, size_bytes)


def _cut(segment: Segment, start: int) -> Iterator[ReadPart]:
    end = segment.last_offset + 1
    count = min(-(-segment.size_bytes // PART_BYTES), end - start)
    bounds = [start + (end - start) * number // count for number in range(count + 1)]
    for first, behind in pairwise(bounds):
        yield _make_part(segment.partition, first, behind, [segment], segment.size_bytes // count)


def _make_part(partition: int, start: int, end: int, segments: Sequence[Segment], size_bytes: int) -> ReadPart:
    return ReadPart(0, build_latest_plan(partition, start, start, end, segments), size_bytes)
