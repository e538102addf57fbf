"""Reads the published records of a topic in offset order, in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import DamagedSegmentError, UsageError
from winnow.files.checked_reading import make_damage_error, read_segment, read_segment_columns
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.values.model import Segment


def read_batches(
    installation: Installation,
    topic: str,
    *,
    partition: int | None = None,
    from_offset: int | None = None,
    from_time_ms: int | None = None,
    key: bytes | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``topic`` in batches of :data:`winnow.files.segments.ARROW_SCHEMA`.

    Args:
        installation: the command's context.
        topic: the topic.
        partition: only this one.
        from_offset: begin here or at the next existing record (Kafka's guarantee for compacted logs).
        from_time_ms: begin, in every partition, at the first record with this timestamp (ms) or a later one.
        key: only records with exactly these bytes as their key; values of other records are not decoded.
        limit: maximum number of records over all partitions read.

    Raises:
        UsageError: the topic has no such partition.
        DamagedSegmentError: a segment is missing or cannot be read.
        FileNotFoundError: a segment was swept meanwhile.
    """
    log = installation.log.open(topic)
    head = log.head()
    remaining = limit if limit is not None else -1
    for segment, start in list_wanted_segments(log, head, partition, from_offset or 0, from_time_ms):
        if remaining == 0:
            return  # the remaining segments are not opened: one may be damaged
        batches = (
            read_log_segment(log, segment, start, remaining)
            if key is None
            else read_key_records(log, segment, start, key)
        )
        for batch in batches:
            if remaining == 0:
                return
            part = batch if remaining < 0 else batch.slice(0, remaining)
            remaining -= part.num_rows if remaining > 0 else 0
            yield part


def list_wanted_segments(
    log: TopicLog, head: Head, partition: int | None, from_offset: int, from_time_ms: int | None
) -> Iterator[tuple[Segment, int]]:
    """Yield the segments to read, each with the first offset that is wanted.

    Raises:
        UsageError: the topic has no such partition.
        DamagedSegmentError, FileNotFoundError: a segment cannot be read for its timestamps.
    """
    count = log.partitions(head)
    if partition is not None and not 0 <= partition < count:
        raise UsageError(f"Topic {log.topic} has partitions 0 to {count - 1}; there is no partition {partition}.")
    for number, segments in log.segments(head).items():
        if partition not in (None, number):
            continue
        start: int | None = max(from_offset, head.state.partitions[number].log_start_offset)
        if from_time_ms is not None and start is not None:
            start = find_time_offset(log, segments, from_time_ms, start)
        if start is not None:
            yield from ((segment, start) for segment in segments if segment.last_offset >= start)


def read_log_segment(log: TopicLog, segment: Segment, start: int, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the segment's records; damage is reported, a segment swept meanwhile stays a FileNotFoundError."""
    with explain_segment_errors(log, segment):
        yield from read_segment(segment, start, limit=limit)


def read_key_records(log: TopicLog, segment: Segment, start: int, key: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the segment's records of ``key`` from offset ``start`` on; other columns are only read if there are some.

    Errors are those of :func:`read_log_segment`.
    """
    with explain_segment_errors(log, segment):
        first: int | None = None
        for batch in read_segment_columns(segment, ("offset", "key")):
            offsets = batch.column("offset")
            mine = pc.and_(pc.equal(batch.column("key"), key).fill_null(False), pc.greater_equal(offsets, start))
            if mine.true_count:
                first = int(offsets.filter(mine)[0].as_py())
                break
        if first is None:
            return
        for batch in read_segment(segment, first):
            part = batch.filter(pc.equal(batch.column("key"), key).fill_null(False))
            if part.num_rows:
                yield part


def find_time_offset(log: TopicLog, segments: Iterable[Segment], timestamp_ms: int, start: int) -> int | None:
    """Find the offset of the first record at or above ``start`` with ``timestamp_ms`` or a later one; None without one.

    As Kafka's lookup of offsets by time. Segments whose newest record is older are not opened.
    """
    for segment in segments:
        if segment.max_timestamp_ms is None or segment.max_timestamp_ms < timestamp_ms or segment.last_offset < start:
            continue
        with explain_segment_errors(log, segment):
            for batch in read_segment_columns(segment, ("offset", "timestamp")):
                times = batch.column("timestamp").cast(pa.int64())
                found = pc.and_(
                    pc.greater_equal(times, timestamp_ms * 1000).fill_null(False),
                    pc.greater_equal(batch.column("offset"), start),
                )
                if found.true_count:
                    return int(batch.column("offset").filter(found)[0].as_py())
    return None


@contextmanager
def explain_segment_errors(log: TopicLog, segment: Segment) -> Iterator[None]:
    """Turn an error of reading ``segment`` into one that names it; if it was swept meanwhile, FileNotFoundError stays.

    Raises:
        DamagedSegmentError: the segment is missing or cannot be read.
    """
    try:
        yield
    except FileNotFoundError as problem:
        if segment in log.segments(log.head()).get(segment.partition, ()):
            raise _build_damaged_error(log.topic, segment, "is missing") from problem
        raise
    except DamagedSegmentError as problem:
        raise _build_damaged_error(log.topic, segment, str(problem)) from problem


def _build_damaged_error(topic: str, segment: Segment, wrong: str) -> DamagedSegmentError:
    after = "What was written so far is incomplete; nothing was changed. Other partitions are read with --partition."
    return make_damage_error(topic, segment, wrong, after)
