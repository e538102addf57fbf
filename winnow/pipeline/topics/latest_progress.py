"""What a topic's table of the latest state has to follow: the log at one of its commits. No file is opened for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from winnow.log.newer_metadata import read_sequence_number
from winnow.planning.cleanable import find_oldest_ms
from winnow.store.latest_progress import LatestLimits, LogState

if TYPE_CHECKING:
    from winnow.config.topic import TopicConfig
    from winnow.log.head import Head
    from winnow.planning.cleanable import PartitionLog
    from winnow.store.rows import AppendedRecords
    from winnow.values.model import Segment


def build_log_state(head: Head, config: TopicConfig, partitions: Sequence[PartitionLog], now_ms: int) -> LogState:
    """Build it of a whole log; ``partitions``: those at ``head``; ``now_ms``: for records without any time."""
    # Of a topic without such a table nothing is recorded, and the segments of large logs are many.
    oldest_ms = find_oldest_waiting_ms(partitions, {}, now_ms) if config.latest_table else None
    return _build_state(head, config, oldest_ms, None)


def build_appended_state(
    head: Head,
    config: TopicConfig,
    segments: Sequence[Segment],
    appended: Sequence[AppendedRecords],
    as_of_ms: int,
) -> LogState:
    """Build it of an append of ``segments``, whose commit ``head`` is; ``as_of_ms``: replaces missing timestamps."""
    times = [as_of_ms if segment.min_timestamp_ms is None else segment.min_timestamp_ms for segment in segments]
    grown = sum(part.log_end_offset - part.previous_log_end_offset for part in appended)
    return _build_state(head, config, min(times, default=None), grown)


def find_oldest_waiting_ms(
    partitions: Sequence[PartitionLog], shown_ends: Mapping[int, int], now_ms: int
) -> int | None:
    """Find a time at or before that of every record from ``shown_ends`` on, by partition; None: there is none.

    The time of a segment is that of its oldest record, also where only later ones are meant, and ``now_ms`` where
    nothing is known of it.
    """
    known = (
        find_oldest_ms(segment, log.state.appends)
        for log in partitions
        for segment in log.segments
        if segment.last_offset >= max(shown_ends.get(log.partition, 0), log.state.log_start_offset)
    )
    return min((now_ms if time_ms is None else time_ms for time_ms in known), default=None)


def _build_state(head: Head, config: TopicConfig, oldest_ms: int | None, appended: int | None) -> LogState:
    return LogState(
        topic=head.state.topic,
        table_uuid=head.table_uuid,
        sequence=read_sequence_number(head.table.metadata),
        limits=LatestLimits(config.latest_max_age_ms, config.latest_update_ms) if config.latest_table else None,
        end_offsets=sum(part.log_end_offset for part in head.state.partitions.values()),
        oldest_ms=oldest_ms,
        appended=appended,
    )
