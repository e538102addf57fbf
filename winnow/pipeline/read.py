"""Reading a topic: records in offset order per partition, partitions in order, only what is published. Streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import DamagedSegmentError, UsageError
from winnow.files import storage
from winnow.files.schema import ARROW_SCHEMA
from winnow.files.segments import conform
from winnow.log.topic_log import TopicLog
from winnow.model import Segment
from winnow.pipeline.context import Context

BATCH_ROWS = 8_192
BATCH_BYTES = 16 << 20
"""About what a batch takes as Arrow; of records that are large, fewer are read at a time."""
PAGES_BYTES = 1 << 20
"""Read of a column at a time where only the first records are wanted, instead of all that a row group has of it."""


def read_batches(
    ctx: Context,
    topic: str,
    *,
    partition: int | None = None,
    from_offset: int | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Records of ``topic`` in batches of :data:`winnow.files.schema.ARROW_SCHEMA`.

    ``from_offset`` may be any offset of the log: reading begins at the next record that is there (Kafka's guarantee for
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
    left = limit if limit is not None else -1
    for segment, start in wanted:
        if left == 0:
            return  # nothing of it is wanted, so it is not opened: it may be the damaged one
        for batch in _checked(log, segment, start, left):
            if left == 0:
                return
            part = batch if left < 0 else batch.slice(0, left)
            left -= part.num_rows if left > 0 else 0
            yield part


def _checked(log: TopicLog, segment: Segment, start: int, most: int) -> Iterator[pa.RecordBatch]:
    """The segment's records; that it is damaged is said, that it was swept meanwhile stays a FileNotFoundError."""
    try:
        yield from _read_segment(segment, start, most)
    except FileNotFoundError as problem:
        if segment in log.segments(log.head()).get(segment.partition, ()):
            raise _damaged(log.topic, segment, "is missing") from problem
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, pa.ArrowTypeError, EOFError) as problem:
        raise _damaged(log.topic, segment, f"cannot be read ({type(problem).__name__})") from problem
    except OSError as problem:
        if problem.errno is not None:
            raise
        # The operating system's errors have a number; without one it is Arrow that cannot make out a page.
        raise _damaged(log.topic, segment, "cannot be read: a page is damaged") from problem


def _damaged(topic: str, segment: Segment, wrong: str) -> DamagedSegmentError:
    return DamagedSegmentError(
        f"A segment of {topic}-{segment.partition} {wrong}: {segment.path}. What was written so far is incomplete; "
        "nothing was changed. Restore that file from a backup or the object store's versions; other partitions are "
        "read with --partition."
    )


def _read_segment(segment: Segment, start: int, most: int) -> Iterator[pa.RecordBatch]:
    """The records from offset ``start`` on, row group by row group; no more than ``most`` are wanted (-1: all)."""
    filesystem, path = storage.filesystem_for(segment.path)
    with storage.answering(segment.path), filesystem.open_input_file(path) as stream:
        file = pq.ParquetFile(stream, buffer_size=PAGES_BYTES if most >= 0 else 0)
        offset_column = file.schema_arrow.get_field_index("offset")
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if group.num_rows == 0 or _ends_before(group, offset_column, start):
                continue
            rows = max(1, min(BATCH_ROWS, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)))
            if most >= 0 and segment.first_offset >= start:
                rows = max(1, min(rows, most))
            for batch in file.iter_batches(batch_size=rows, row_groups=[number], columns=ARROW_SCHEMA.names):
                ordered = conform(batch.select(ARROW_SCHEMA.names))
                if segment.first_offset < start:
                    offsets = ordered.column("offset").to_numpy()
                    ordered = ordered.slice(int(np.searchsorted(offsets, start)))
                if ordered.num_rows:
                    yield ordered


def _ends_before(group: pq.RowGroupMetaData, offset_column: int, start: int) -> bool:
    """Whether the file itself says that all offsets of the row group are below ``start``."""
    statistics = group.column(offset_column).statistics
    return statistics is not None and statistics.has_min_max and statistics.max < start
