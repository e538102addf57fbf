"""Builds the health of a topic's table from its view: no file is opened for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from winnow.store.table_health import SizeClass, TableHealth
from winnow.values.topic_state import RetiredFile

if TYPE_CHECKING:
    from winnow.pipeline.topics.topic_view import TopicView

SHARES: Final = (16, 4, 2, 1)
"""Size classes end at ``segment.bytes`` divided by these; files that are larger than ``segment.bytes`` come last."""

SMALL_SHARE: Final = 2
"""Files below ``segment.bytes`` divided by this count as small, where the partition has others."""


def build_table_health(view: TopicView, *, recorded_at_ms: int) -> TableHealth:
    """Build the health of the table of the topic in ``view``."""
    segment_bytes = view.config.segment_bytes
    by_partition = [[segment.size_bytes for segment in log.segments] for log in view.partitions]
    sizes = [size for partition_sizes in by_partition for size in partition_sizes]
    # The only file of a partition is as large as its log is: there is nothing to merge it with.
    small = [
        size
        for partition_sizes in by_partition
        if len(partition_sizes) > 1
        for size in partition_sizes
        if size * SMALL_SHARE < segment_bytes
    ]
    metadata, state = view.head.table.metadata, view.head.state
    return TableHealth(
        topic=view.log.topic,
        recorded_at_ms=recorded_at_ms,
        segment_bytes=segment_bytes,
        files=len(sizes),
        size_bytes=sum(sizes),
        small_files=len(small),
        small_bytes=sum(small),
        largest_bytes=max(sizes, default=0),
        file_sizes=_count_by_size(sizes, segment_bytes),
        manifests=view.log.find_manifest_count(view.head),
        snapshots=len(metadata.snapshots),
        oldest_snapshot_ms=min((each.timestamp_ms for each in metadata.snapshots), default=None),
        metadata_files=len(metadata.metadata_log),
        retired_files=len(state.retired),
        retired_bytes=_sum_bytes(state.retired),
        oldest_retired_ms=min((file.retired_at_ms for file in state.waiting_files), default=None),
        condemned_files=len(state.condemned),
        condemned_bytes=_sum_bytes(state.condemned),
    )


def _count_by_size(sizes: Sequence[int], segment_bytes: int) -> tuple[SizeClass, ...]:
    classes: list[SizeClass] = []
    rest = sizes
    for share in SHARES:
        limit = segment_bytes // share
        inside = [size for size in rest if size <= limit]
        rest = [size for size in rest if size > limit]
        classes.append(SizeClass(limit, len(inside), sum(inside)))
    return (*classes, SizeClass(None, len(rest), sum(rest)))


def _sum_bytes(files: Sequence[RetiredFile]) -> int:
    return sum(file.size_bytes for file in files)
