"""Names of the objects of Aiven's sinks for S3, GCS and Azure: what their templates tell.

Without a template it is ``{{topic}}-{{partition}}-{{start_offset}}``, with ``.avro`` for Avro and the compression's
suffix. A template may have other text around and between, dates (``{{timestamp:unit=yyyy}}``: wall clock, unless set
otherwise), and ``padding=true``: 10 digits for the partition, 20 for the offset. With ``{{key}}`` the name is the
record's key. In dated names the offset is that of the first record of the flush: the object's first one or an earlier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SUFFIXES = re.compile(r"(?:\.(?:csv|json|jsonl|txt|avro|parquet|gz|zst|snappy|gzip|zstd))+$")

# From the right: the topic may hold dashes, dots, underscores and digits itself.
_NAME = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+?)"
    r"[-_+.=](?:partition[-_=]?|p)?(?P<partition>\d{1,10})"
    r"[-_+.=](?:(?:start_)?offset[-_=]?|o)?(?P<offset>\d{1,20})"
)
_USUAL_NAME = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d{1,10})-(?P<offset>\d{1,9}|\d{20})")
_RANDOM_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-", re.IGNORECASE)
_FOLDER = re.compile(r"(?:(?:partition|p)[-_=]?)?(?P<partition>\d{1,10})")
_OFFSET_FILE = re.compile(r"(?:(?:start_offset|offset|o)[-_=]?)?(?P<offset>\d{1,20})")
_PARTITION_OFFSET = re.compile(r"(?:(?:partition|p)[-_=]?)?(?P<partition>\d{1,10})[-_+.=](?P<offset>\d{1,20})")
_TOPIC = re.compile(r"(?:topic=)?(?P<topic>[A-Za-z0-9._-]*[A-Za-z_][A-Za-z0-9._-]*)")

_YEAR = r"(?:19|20)\d\d"
_DATE_FOLDERS = [
    re.compile(rf"(?:^|(?<=/))(?:[A-Za-z]+=)?{_YEAR}(?:[-/_](?:[A-Za-z]+=)?\d\d){{{count}}}/") for count in (3, 2, 1, 0)
]
_DATE_FIRST = re.compile(rf"^{_YEAR}(?:[-_.]?\d\d){{1,3}}[-_.+]")
_COMPACT_DATE = r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])?"
_DATE_LAST = re.compile(rf"[-_.+]{_YEAR}(?:(?:[-_]\d\d){{2,3}}|{_COMPACT_DATE})$")

_MAXIMUM_PARTITION = 2**31 - 1
_MAXIMUM_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AivenName:
    """What a name tells."""

    topic: str
    partition: int
    first_offset: int


def parse_name(path: str) -> AivenName | None:
    """Return what the name of an object tells, by its path below the archive's root; None if it is no such name.

    Recognised are topic, partition and offset in this order: all in the last part of the path with one of ``-_+.=``
    between, or the topic a folder, or topic and partition folders. Dates are left out: folders, or at the begin or the
    end of the last part.
    """
    # How many parts of a date are folders is not known: a folder of two digits may be the hour, or the partition.
    for dates in _DATE_FOLDERS:
        undated = dates.sub("", path)
        if undated != path and (found := _parse_parts(undated)):
            return found
    return _parse_parts(path)


def has_usual_name(path: str) -> bool:
    """Check whether an object is called as this sink does it untold: ``{{topic}}-{{partition}}-{{start_offset}}``.

    Flink, Spark and others end names in numbers as well, behind a random id; an offset of 10 digits may be a time.
    """
    name = _SUFFIXES.sub("", path.rpartition("/")[2])
    found = _USUAL_NAME.fullmatch(name)
    return found is not None and _RANDOM_ID.search(found["topic"]) is None


def is_named_by_key(path: str, key: bytes | None) -> bool:
    """Check whether an object is named after the key of its record, as with the template ``{{key}}``."""
    text = "null" if key is None else key.decode(errors="replace")
    candidates = (path, _SUFFIXES.sub("", path))
    return bool(text) and any(name == text or name.endswith(("/" + text, "-" + text)) for name in candidates)


def _parse_parts(path: str) -> AivenName | None:
    parts = [part for part in path.split("/") if part]
    if not parts:
        return None
    name = _SUFFIXES.sub("", parts[-1])
    undated = _DATE_LAST.sub("", _DATE_FIRST.sub("", name))
    for candidate in (undated, name):
        if found := _NAME.fullmatch(candidate):
            return _make_name(found["topic"], found["partition"], found["offset"])
    for candidate in (undated, name):
        if in_folders := _parse_folders(parts[:-1], candidate):
            return in_folders
    return None


def _parse_folders(folders: list[str], name: str) -> AivenName | None:
    pair = _PARTITION_OFFSET.fullmatch(name)
    if pair and folders and (topic := _TOPIC.fullmatch(folders[-1])):
        return _make_name(topic["topic"], pair["partition"], pair["offset"])
    offset = _OFFSET_FILE.fullmatch(name)
    if offset and len(folders) > 1:
        topic, folder = _TOPIC.fullmatch(folders[-2]), _FOLDER.fullmatch(folders[-1])
        if topic and folder:
            return _make_name(topic["topic"], folder["partition"], offset["offset"])
    return None


def _make_name(topic: str, partition: str, offset: str) -> AivenName | None:
    if int(partition) > _MAXIMUM_PARTITION or int(offset) > _MAXIMUM_OFFSET:
        return None
    return AivenName(topic, int(partition), int(offset))
