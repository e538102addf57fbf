"""Names of the objects of Lenses' sinks (Stream Reactor) for S3, GCS and Azure.

``prefix/topic/partition/offset_earliest_latest.json``, the two being timestamps; with PARTITIONBY
``prefix/…/topic(partition_offset).json``; before version 6 ``prefix/topic/partition/offset.json``. Numbers may be
padded. **The offset is that of the object's last record.**
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_EXTENSION = r"\.(?:json|avro|parquet)(?:\.gz)?"
_OFFSET_FILE = re.compile(rf"(?P<offset>\d{{1,20}})(?:_-?\d+_-?\d+[^/]*)?{_EXTENSION}")
_NAMED_FILE = re.compile(
    rf"(?P<topic>[A-Za-z0-9._-]+)\((?P<partition>\d{{1,12}})_(?P<offset>\d{{1,20}})\)[^/]*{_EXTENSION}"
)
_TOPIC = re.compile(r"(?:(?:_topic|topic)=)?(?P<topic>[A-Za-z0-9._-]+)")
_PARTITION = re.compile(r"(?:(?:_partition|partition)=)?(?P<partition>\d{1,12})")

_MAXIMUM_PARTITION = 2**31 - 1
_MAXIMUM_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LensesName:
    """What a name tells."""

    topic: str
    partition: int
    last_offset: int


def parse_name(path: str) -> LensesName | None:
    """Return what the name of an object tells, by its path below the archive's root; None if it is no such name."""
    parts = [part for part in path.split("/") if part]
    named = _NAMED_FILE.fullmatch(parts[-1]) if parts else None
    if named:
        return _make_name(named["topic"], named["partition"], named["offset"])
    if len(parts) < 3:  # noqa: PLR2004
        return None
    topic, partition = _TOPIC.fullmatch(parts[-3]), _PARTITION.fullmatch(parts[-2])
    offset = _OFFSET_FILE.fullmatch(parts[-1])
    return (
        _make_name(topic["topic"], partition["partition"], offset["offset"]) if topic and partition and offset else None
    )


def _make_name(topic: str, partition: str, offset: str) -> LensesName | None:
    if int(partition) > _MAXIMUM_PARTITION or int(offset) > _MAXIMUM_OFFSET:
        return None
    return LensesName(topic, int(partition), int(offset))
