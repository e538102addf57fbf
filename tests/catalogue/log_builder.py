"""Builds a partition log by hand and assesses it."""

from __future__ import annotations

from winnow.config.topic import TopicConfig
from winnow.pipeline.topics.topic_view import build_rules
from winnow.planning.cleanable import PartitionLog, Rules
from winnow.planning.eligibility import assess
from winnow.values.model import Assessment, Segment
from winnow.values.topic_state import PartitionState

HOUR_MS = 3_600_000
NOW_MS = 1_760_000_000_000
LONG_AGO_MS = NOW_MS - 1_000 * HOUR_MS
FULL_BYTES = 100
"""With ``segment.bytes`` of this size, a segment of this size is closed by itself and a smaller one is active."""


def build_segment(
    first_offset: int,
    last_offset: int,
    *,
    size_bytes: int = FULL_BYTES,
    at_ms: int | None = LONG_AGO_MS,
    tombstones: int = 0,
) -> Segment:
    """A segment all of whose records have the timestamp ``at_ms``."""
    return Segment(
        path=f"segment-{first_offset}",
        partition=0,
        first_offset=first_offset,
        last_offset=last_offset,
        records=last_offset - first_offset + 1,
        size_bytes=size_bytes,
        min_timestamp_ms=at_ms,
        max_timestamp_ms=at_ms,
        tombstones=tombstones,
    )


def build_segments(count: int, *, first: int = 0, **each: int | None) -> tuple[Segment, ...]:
    """``count`` equal segments of ten offsets, the first of them number ``first``."""
    return tuple(build_segment(n * 10, n * 10 + 9, **each) for n in range(first, first + count))  # type: ignore[arg-type]


def build_log(*segments: Segment, partition: int = 0, **state: object) -> PartitionLog:
    """A partition log of ``segments``; ``state`` as in :class:`PartitionState`, the log end after the last segment."""
    known = {"log_end_offset": segments[-1].last_offset + 1 if segments else 0, **state}
    return PartitionLog("orders", partition, segments, PartitionState(**known))  # type: ignore[arg-type]


def make_rules(**config: object) -> Rules:
    """Rules of a configuration; ``min_compaction_lag_ms`` means ``min.compaction.lag.ms``."""
    given = {"segment.bytes": str(FULL_BYTES)} | {name.replace("_", "."): str(value) for name, value in config.items()}
    return build_rules(TopicConfig.parse(given))


def assess_log(log: PartitionLog, *, as_of_ms: int = NOW_MS, in_progress: bool = False, **config: object) -> Assessment:
    """Assess ``log`` at ``as_of_ms``, which is the present too."""
    return assess(log, make_rules(**config), as_of_ms=as_of_ms, cleaning_time_ms=as_of_ms, in_progress=in_progress)
