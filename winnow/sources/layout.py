"""The values that describe a layout: what recognises it, how its objects are put together and read, what it loses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from winnow.sources.choices import Choices
from winnow.sources.field_map import FieldMap
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject


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


Locate = Callable[[str], tuple[str | None, int | None, int | None]]
"""Returns topic, partition and first offset that a path tells, None for what it does not."""


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
class ObjectSurvey:
    """What an object tells of its records without their being read. ``findings``: what of it is not taken.

    It knows transactions: only records of committed ones are counted, and read.
    """

    records: int
    first_offset: int
    last_offset: int
    maximum_timestamp_ms: int | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class UnorderedKeys:
    """The keys of one topic partition of which the archive does not tell whether a value or a tombstone came last."""

    topic: str
    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class RecordOrder:
    """How the order of records is found where neither they nor names alone tell it.

    ``place``: gives objects the offset of their first record. ``find_unordered``: keys whose last record is not known.
    ``count_overlaps``: how many objects of each topic partition overlap an earlier one.
    """

    place: Callable[[Sequence[ArchiveObject], Choices], Sequence[ArchiveObject]]
    find_unordered: Callable[[Sequence[ArchiveObject]], Sequence[UnorderedKeys]]
    count_overlaps: Callable[[Sequence[ArchiveObject]], Mapping[tuple[str, int], int]]


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """What stands beside objects about their topic.

    ``read_topic_ids``: its id by partition, since a topic that is created again has another one. ``find_checkpoint``:
    the file that says how far each topic partition was cleaned; None if there is none.
    """

    read_topic_ids: Callable[[Sequence[StoredObject], Sequence[ArchiveObject]], Mapping[int, str]]
    find_checkpoint: Callable[[Sequence[StoredObject], Sequence[ArchiveObject]], StoredObject | None]


@dataclass(frozen=True, slots=True)
class Layout:
    """One way in which programs leave records on disk.

    ``recognise``: whether an object, one of the largest of the call, is of this layout, by its name and first bytes;
    None: never, a person has to say so. ``arrange``: puts the objects of a call together. ``read``: yields the records
    of one. All else is for layouts that are not like most:

    ``suggest``: whether an object may be of this layout, though nothing in it shows that: then a person has to say so,
    and says ``suggestion`` with it. ``assume``: whether it may be where no other layout is recognised. ``is_decisive``:
    one object that is recognised decides for the whole call. ``takes_partition``: no record tells its partition, and of
    objects whose names do not tell it either, a person may. ``keeps_order``: records have to be in the order of the
    files as they are named. ``null_text``: what is written for null, and may be a value as well. ``fields``: columns
    that a person has named. ``order``, ``survey``, ``identity``: see there.
    """

    name: str
    description: Description
    recognise: Callable[[StoredObject], bool] | None
    arrange: Callable[[Sequence[StoredObject]], Arrangement]
    read: Callable[[ArchiveObject, ReadOptions], Iterator[RecordChunk]]
    suggest: Callable[[StoredObject], bool] | None = None
    suggestion: str = ""
    assume: Callable[[StoredObject], bool] | None = None
    is_decisive: bool = False
    takes_partition: bool = False
    keeps_order: bool = False
    null_text: bytes | None = None
    fields: FieldMap | None = None
    order: RecordOrder | None = None
    survey: Callable[[ArchiveObject], ObjectSurvey] | None = None
    identity: SourceIdentity | None = None

    def recognises(self, obj: StoredObject) -> bool:
        """Check whether ``obj`` is of this layout."""
        return self.recognise is not None and self.recognise(obj)


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


def list_files(
    name: str,
    stored: Sequence[StoredObject],
    forms: Mapping[str, FieldForm],
    locate: Locate = lambda _: (None, None, None),
) -> tuple[ArchiveObject, ...]:
    """Make an archive object of each object of layout ``name``; ``locate``: returns what its path tells."""
    return sort_objects([ArchiveObject(name, obj.uri, {"value": obj}, *locate(obj.uri), forms) for obj in stored])


def find_largest(objects: Sequence[StoredObject]) -> StoredObject:
    """Return the largest object; of equal ones the first by name."""
    return min(objects, key=lambda each: (-each.size_bytes, each.uri))
