"""Reads the published records of a topic in offset order, in batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from winnow.errors import DamagedSegmentError, UsageError
from winnow.files.checked_reading import make_damage_error, read_segment
from winnow.log.topic_log import TopicLog
from winnow.model import Segment
from winnow.pipeline.context import Context


def read_batches(
    ctx: Context,
    topic: str,
    *,
    partition: int | None = None,
    from_offset: int | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``topic`` in batches of :data:`winnow.files.segments.ARROW_SCHEMA`.

    ``from_offset`` may be any offset of the log: reading begins at the next existing record (Kafka's guarantee for
    compacted logs). ``limit`` counts records over all partitions read.

    Raises:
        UsageError: the topic has no such partition.
        DamagedSegmentError: a segment is missing or cannot be read.
        FileNotFoundError: a segment was swept meanwhile.
    """
    log = ctx.log.open(topic)
    head = log.head()
    count = log.partitions(head)
    if partition is not None and not 0 <= partition < count:
        raise UsageError(f"Topic {topic} has partitions 0 to {count - 1}; there is no partition {partition}.")
    starts = {n: max(from_offset or 0, state.log_start_offset) for n, state in head.state.partitions.items()}
    wanted = [
        (segment, starts[number])
        for number, segments in log.segments(head).items()
        if partition in (None, number)
        for segment in segments
        if segment.last_offset >= starts[number]
    ]
    remaining = limit if limit is not None else -1
    for segment, start in wanted:
        if remaining == 0:
            return  # the remaining segments are not opened: one may be damaged
        for batch in _read_segment(log, segment, start, remaining):
            if remaining == 0:
                return
            part = batch if remaining < 0 else batch.slice(0, remaining)
            remaining -= part.num_rows if remaining > 0 else 0
            yield part


def _read_segment(log: TopicLog, segment: Segment, start: int, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the segment's records; damage is reported, a segment swept meanwhile stays a FileNotFoundError."""
    try:
        yield from read_segment(segment, start, limit=limit)
    except FileNotFoundError as problem:
        if segment in log.segments(log.head()).get(segment.partition, ()):
            raise _build_damaged_error(log.topic, segment, "is missing") from problem
        raise
    except DamagedSegmentError as problem:
        raise _build_damaged_error(log.topic, segment, str(problem)) from problem


def _build_damaged_error(topic: str, segment: Segment, wrong: str) -> DamagedSegmentError:
    after = "What was written so far is incomplete; nothing was changed. Other partitions are read with --partition."
    return make_damage_error(topic, segment, wrong, after)
