"""The values of an ingest on Spark: the immutable plan that a Spark application gets, and what its tasks report.

The application sees neither catalog nor metadata store: what a task has to know of the log is in the plan. All offsets
of a planned partition are in exactly one of its ranges, so every record is written, skipped or refused by one task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from winnow.errors import Explanation
from winnow.values.epochs import LeaderEpoch
from winnow.values.model import OffsetRange, Segment

OFFSETS_END: Final = 2**63 - 1
"""The end of the last range of a partition."""


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A stored object, as :class:`winnow.sources.objects.StoredObject`."""

    uri: str
    size_bytes: int
    modified_ns: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedObject:
    """An object, as :class:`winnow.sources.objects.ArchiveObject`. ``number``: its place in the call."""

    number: int
    uri: str
    parts: dict[str, PlannedPart]
    topic: str | None
    partition: int | None
    first_offset: int | None
    forms: dict[str, str]
    reference: PlannedPart | None
    null_is_empty: bool
    offsets: str

    @property
    def size_bytes(self) -> int:
        """The stored size of all its parts."""
        return sum(part.size_bytes for part in self.parts.values())


@dataclass(frozen=True, slots=True)
class IngestRange:
    """The offsets of one partition that one task writes.

    ``objects``: the objects that this task accounts for, each object in one range, in the order of their first offsets.
    ``reaching``: objects of other ranges that reach into this one. ``first_offset``: the lowest offset that names or a
    survey tell. ``log_end_offset``: records below it are compared
    with ``segments``, the live ones that overlap the range. Absent records below ``cleaned_offset`` may have been
    compacted away. ``newest_ms``: the newest timestamp in the log's partition. ``after``: of a range at brokers, as
    :class:`winnow.kafka.range_reader.BrokerRange`.
    """

    partition: int
    offsets: OffsetRange
    objects: tuple[int, ...]
    reaching: tuple[int, ...] = ()
    first_offset: int = 0
    log_end_offset: int = 0
    cleaned_offset: int = 0
    segments: tuple[Segment, ...] = ()
    newest_ms: int | None = None
    after: LeaderEpoch | None = None


@dataclass(frozen=True, slots=True)
class PlannedErasure:
    """The document of an erasure. ``places``: its own, then that of its copy.

    ``erasure_id``, ``sha256``, ``lowered_ends``: as of :class:`winnow.values.topic_state.ErasureReference`.
    """

    erasure_id: str
    places: tuple[str, ...]
    sha256: str
    lowered_ends: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedErasures:
    """What tasks leave out of the input: where it is written, never a key or a digest of one.

    ``table_uuid``: the life of the topic, for the digests. ``documents``: oldest first. ``needs_timestamps``: as
    :class:`winnow.arrivals.erased_records.ErasedRecords`.
    """

    table_uuid: str
    documents: tuple[PlannedErasure, ...]
    needs_timestamps: bool = False


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """The immutable decision how an archive is read into one topic. ``plan_id`` is a digest of everything else in it.

    ``folder``: where new files go. ``choices``: as :meth:`winnow.sources.choices.Choices.to_document`. ``readings``:
    per field that may be text or base64 how it is read. ``needs_keys``: whether a new record without a key is refused.
    ``surveyed``: groups of objects of which only the offsets are to be found; such a plan has no ranges.
    ``erasures``: of the topic; None: no key was erased.
    """

    plan_id: str
    topic: str
    ingest_id: str
    folder: str
    layout: str
    source_topic: str | None
    choices: dict[str, str]
    readings: dict[str, str]
    partition_count: int
    needs_keys: bool
    segment_bytes: int
    objects: tuple[PlannedObject, ...]
    winnow_version: str
    ranges: tuple[IngestRange, ...] = ()
    surveyed: tuple[tuple[int, ...], ...] = ()
    erasures: PlannedErasures | None = None
    format_version: int = 1

    @property
    def table_location(self) -> str:
        """The folder of the log's table: the root of the files that the plan has written."""
        return self.folder.rsplit("/", 2)[0]


@dataclass(frozen=True, slots=True)
class FieldCounts:
    """What the values of a field look like; as :class:`winnow.sources.formats.encoding.FieldEvidence`."""

    values: int = 0
    canonical: int = 0
    showing: int = 0
    structured: bool = False


@dataclass(frozen=True, slots=True)
class OffsetExtent:
    """The lowest and the highest offset of an object's records in a partition."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What a task found in an object: its records of the topic, whatever their range.

    ``slices`` and ``digest`` are those of :class:`winnow.sources.slice_digests.SliceDigests`, empty in a survey.
    """

    number: int
    records: int
    extents: dict[int, OffsetExtent]
    slices: dict[int, str] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Where a record stands: number of its object, row in it, offset; ``count``: of how many it is the first."""

    number: int
    row: int
    offset: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class TaskFindings:
    """What a task found in the objects that it accounts for."""

    objects: tuple[ObjectFacts, ...]
    evidence: dict[str, FieldCounts]
    empty_values: int = 0
    deletions: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    rendered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeResult:
    """What the task of a range wrote and found.

    ``records``: those in the range but for ``erased``, the old copies of erased keys that were left out, by object. Of
    them ``repeats`` were there twice and ``skipped`` are in the log already; the others are in ``segments``.
    ``appended_objects``: numbers of objects with a record in ``segments``. ``keyless``: the first new record without a
    key. ``absent``: per object the first record that the log has gone on without; ``absent_records`` of them,
    ``absent_later`` later than all of the log. ``leader_epochs``: of records at brokers.
    """

    number: int
    findings: TaskFindings
    records: int = 0
    repeats: int = 0
    skipped: int = 0
    segments: tuple[Segment, ...] = ()
    appended_objects: tuple[int, ...] = ()
    keyless: RecordPlace | None = None
    absent: tuple[RecordPlace, ...] = ()
    absent_records: int = 0
    absent_later: int = 0
    leader_epochs: tuple[LeaderEpoch, ...] = ()
    erased: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherTopic:
    """A record of another topic; as :class:`winnow.sources.topic_filter.OtherTopicError`."""

    path: str
    found: str
    sentence: str


@dataclass(frozen=True, slots=True)
class RangeFailure:
    """Why a task has no result. ``order``: the number of the object that it read, for the first of several failures.

    ``error``: what happened, in an older document the whole message. ``left`` and ``next``: the other parts of it.
    ``lacks_offsets``: a record has no offset, so that one process has to read the input. ``misread_field``: a field
    that turned out to be text although the plan reads it as base64.
    """

    number: int
    order: int
    error: str
    exit_code: int
    other_topic: OtherTopic | None = None
    lacks_offsets: bool = False
    misread_field: str | None = None
    left: str = ""
    next: str = ""

    @property
    def explanation(self) -> Explanation:
        """What happened, what was left behind, and what to do next."""
        return Explanation(self.error, self.left, self.next)


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What one application made of a plan: a result or a failure for each range, or for each surveyed group."""

    plan_id: str
    application: str
    ranges: tuple[RangeResult, ...]
    failures: tuple[RangeFailure, ...] = ()
    format_version: int = 1
