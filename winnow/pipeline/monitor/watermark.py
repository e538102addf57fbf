"""Computes up to which time a topic is compacted, for readers of the compacted log."""

from __future__ import annotations

from dataclasses import dataclass, replace

from winnow.errors import WinnowError
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.topic_view import build_rules, load_partition_logs
from winnow.planning.cleanable import (
    PartitionLog,
    Rules,
    find_append_as_of_ms,
    find_first_dirty_offset,
    is_whole_log_dirty,
    list_dirty_segments,
)
from winnow.values.model import Segment


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far one topic is compacted at one snapshot.

    ``compacted_through_ms`` is a time T, in ms since the epoch: every record in the log of ``snapshot_id`` with a
    timestamp of T or before lies below the first dirty offset of its partition. None: unknown, since a dirty segment
    has no time at all. A record without a timestamp counts by the as-of of its append. A record that arrives later with
    an older timestamp is dirty then, and the watermark of that snapshot is before it.

    ``first_dirty_offsets``: per partition; the log start if another strategy made all records dirty again.
    ``latest_snapshot_id``: the snapshot of the table of the latest state that shows this (:func:`name_latest_table`).
    """

    topic: str
    snapshot_id: int | None
    first_dirty_offsets: dict[int, int]
    compacted_through_ms: int | None
    latest_snapshot_id: int | None = None


def compute_watermark(log: TopicLog, *, now_ms: int, head: Head | None = None) -> Watermark:
    """Compute the watermark of a topic: the minimum over partitions of the earliest dirty timestamp less 1 ms.

    It is at most ``now_ms``, also without dirty records: a record from the future proves nothing about the time until
    then.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    head = head or log.head()
    rules = build_rules(log.config(head))
    offsets: dict[int, int] = {}
    times: list[int | None] = [now_ms]
    for partition in load_partition_logs(log, head):
        start, time_ms = _compute_partition_watermark(partition, rules, now_ms)
        offsets[partition.partition] = start
        times.append(time_ms)
    known = [time_ms for time_ms in times if time_ms is not None]
    return Watermark(log.topic, head.snapshot_id, offsets, min(known) if len(known) == len(times) else None)


def name_latest_table(installation: Installation, mark: Watermark, snapshot_id: int | None) -> Watermark:
    """Add to ``mark`` the newest snapshot of the topic's table of the latest state.

    None is added where the topic keeps no such table, or the table does not reflect the log's ``snapshot_id`` or a
    later one; and where that is not known, since nobody waits for a report because of it.
    """
    try:
        topic_log = installation.log.open(mark.topic)
        head = topic_log.head()
        present = installation.log.latest_table(mark.topic).load() if topic_log.config(head).latest_table else None
    except WinnowError:
        return mark
    if present is None or present.reflected is None or snapshot_id is None:
        return mark
    shown, wanted = (head.table.snapshot_by_id(each) for each in (present.reflected.snapshot_id, snapshot_id))
    if shown is None or wanted is None or (shown.sequence_number or 0) < (wanted.sequence_number or 0):
        return mark
    return replace(mark, latest_snapshot_id=present.snapshot_id)


def _compute_partition_watermark(log: PartitionLog, rules: Rules, now_ms: int) -> tuple[int, int | None]:
    start = log.state.log_start_offset if is_whole_log_dirty(log, rules) else find_first_dirty_offset(log.state)
    earliest = [_find_earliest_ms(segment, log) for segment in list_dirty_segments(log, start)]
    known = [time_ms for time_ms in earliest if time_ms is not None]
    if len(known) < len(earliest):
        return start, None
    return start, min((time_ms - 1 for time_ms in known), default=now_ms)


def _find_earliest_ms(segment: Segment, log: PartitionLog) -> int | None:
    """Return a time at or before every record of ``segment``, of which some may have no timestamp."""
    times = [segment.min_timestamp_ms, find_append_as_of_ms(segment, log.state.appends)]
    return min((time_ms for time_ms in times if time_ms is not None), default=None)
