"""Reads the changed keys of a topic as ``winnow changes`` does."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from winnow.pipeline.explain.changes import OffsetBounds, find_offset_extents, find_snapshot_extents, read_changes
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.topic_view import load_topic_view


def read_snapshot_changes(
    installation: Installation, topic: str, from_snapshot: int, to_snapshot: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the changed keys between two snapshots."""
    view = load_topic_view(installation, topic)
    yield from read_changes(installation, view, find_snapshot_extents(view, from_snapshot, to_snapshot))


def read_offset_changes(
    installation: Installation, topic: str, from_offset: OffsetBounds, to_offset: OffsetBounds
) -> Iterator[pa.RecordBatch]:
    """Yield the keys that the records between two offsets changed."""
    view = load_topic_view(installation, topic)
    yield from read_changes(installation, view, find_offset_extents(installation, view, from_offset, to_offset))
