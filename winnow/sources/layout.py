"""The values that describe a layout: what recognises it, how its objects are put together and read, what it loses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from winnow.sources.choices import Choices
from winnow.sources.objects import ArchiveObject, ReadOptions, RecordChunk, StoredObject


class FindingKind(StrEnum):
    """What can be wrong with an archive, or missing in it; the ``kind`` of ``winnow inspect --json``."""

    NO_TOMBSTONES = "no_tombstones"
    NULL_EQUALS_EMPTY = "null_equals_empty"
    TOMBSTONE_ORDER_UNKNOWN = "tombstone_order_unknown"
    OFFSETS_DERIVED = "offsets_derived"
    NO_KEYS = "no_keys"
    NO_TIMESTAMPS = "no_timestamps"
    HEADERS_LOST = "headers_lost"
    BYTES_DESTROYED = "bytes_destroyed"
    OVERLAP = "overlap"
    GAP = "gap"
    CUT_OFF = "cut_off"
    LAST_PER_KEY_ONLY = "last_per_key_only"
    SEVERAL_TOPICS = "several_topics"
    SCHEMA_ID_IN_KEYS = "schema_id_in_keys"
    ABORTED_INCLUDED = "aborted_included"
    UNCOMMITTED_AT_END = "uncommitted_at_end"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that an archive has lost or cannot tell. ``count``: how often, None where it was not counted."""

    kind: FindingKind
    text: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The objects of an archive, put together.

    ``objects``: in the order of topic, partition and first offset, as far as names tell. ``orphans``: parts without
    what they belong to; they must not be read. ``findings``: what names and first bytes tell. ``notices``: what was
    assumed to read them.
    """

    objects: tuple[ArchiveObject, ...]
    orphans: tuple[StoredObject, ...] = ()
    findings: tuple[Finding, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """What the documentation says of a layout; see docs/archives.md."""

    title: str
    recognised_by: str
    loses: Sequence[str]
    settings: Sequence[str]
    """Settings of the writing program with which nothing is lost, one a line; empty where there are none."""
    settings_note: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """One way in which programs leave records on disk.

    ``recognise``: whether an object, one of the largest of the call, is of this layout, by its name and first bytes.
    ``arrange``: puts the objects of a call together. ``read``: yields the records of one. ``place``: gives objects the
    offset of their first record where names alone do not tell; None where they do. ``suggest``: whether an object may
    be of this layout, though nothing in it shows that: then a person has to say so, and says ``suggestion`` with it;
    None: never. ``takes_partition``:
    no record tells its partition, and of objects whose names do not tell it either, a person may.
    """

    name: str
    description: Description
    recognise: Callable[[StoredObject], bool]
    arrange: Callable[[Sequence[StoredObject]], Arrangement]
    read: Callable[[ArchiveObject, ReadOptions], Iterator[RecordChunk]]
    place: Callable[[Sequence[ArchiveObject], Choices], Sequence[ArchiveObject]] | None = None
    suggest: Callable[[StoredObject], bool] | None = None
    takes_partition: bool = False
    suggestion: str = ""


def sort_objects(objects: Sequence[ArchiveObject]) -> tuple[ArchiveObject, ...]:
    """Sort objects by topic, partition and first offset, those whose names do not tell by their names."""
    return tuple(
        sorted(
            objects,
            key=lambda each: (
                each.topic or "",
                -1 if each.partition is None else each.partition,
                -1 if each.first_offset is None else each.first_offset,
                each.uri,
            ),
        )
    )


def find_largest(objects: Sequence[StoredObject]) -> StoredObject:
    """Return the largest object; of equal ones the first by name."""
    return min(objects, key=lambda each: (-each.size_bytes, each.uri))
