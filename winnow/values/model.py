"""Values that the steps exchange. Frozen, comparable, standard library only.

Kafka's words for the log, Iceberg's for the table. Offsets are 64-bit, first inclusive, end exclusive unless a name
says ``last``. Times are milliseconds since the epoch and end in ``_ms``; sizes end in ``_bytes``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from winnow.values.strategies import Strategy

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One topic partition. Printed as Kafka names its log folder: ``orders-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a topic partition.

    ``timestamp_ms`` is None where Kafka has -1 (no timestamp). ``key`` None is keyless; ``value`` None is a tombstone;
    an empty value is not. ``headers`` None means that the record carries none.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers | None = None
    timestamp_type: int = 0
    partition: int = 0


class OverviewState(StrEnum):
    """The state of a topic or topic partition in one word, the most severe first; of several that hold, the first."""

    UNCLEANABLE = "uncleanable"
    """Marked because something failed."""
    OVERDUE = "overdue"
    """Its compaction deadline has passed, and it is not paused."""
    DUE = "due"
    """Would be compacted now."""
    PAUSED = "paused"
    HEALTHY = "healthy"


STATES_HIDDEN_BY_PAUSE: Final = frozenset({OverviewState.OVERDUE, OverviewState.DUE})
"""A paused partition is in none of these states."""


class Reason(StrEnum):
    """Why a topic partition is eligible, or idle. Checked in this order."""

    # idle, regardless of the log's content
    IN_PROGRESS = "in_progress"
    UNCLEANABLE = "uncleanable"
    PAUSED = "paused"
    POLICY_DELETE_ONLY = "policy_delete_only"
    EMPTY = "empty"
    # eligible
    STRATEGY_CHANGED = "strategy_changed"
    MAX_COMPACTION_LAG = "max_compaction_lag"
    DIRTY_RATIO = "dirty_ratio"
    TOMBSTONES_EXPIRED = "tombstones_expired"
    RETENTION = "retention"
    # idle
    CLEAN = "clean"
    NO_CLOSED_SEGMENT = "no_closed_segment"
    INSIDE_MIN_LAG = "inside_min_lag"
    NOT_DIRTY_ENOUGH = "not_dirty_enough"


ELIGIBLE_REASONS = frozenset(
    {
        Reason.STRATEGY_CHANGED,
        Reason.MAX_COMPACTION_LAG,
        Reason.DIRTY_RATIO,
        Reason.TOMBSTONES_EXPIRED,
        Reason.RETENTION,
    }
)


class Status(StrEnum):
    """How a compaction of one topic ended."""

    PUBLISHED = "published"
    NOTHING_TO_DO = "nothing_to_do"
    INVALID = "invalid"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """Effect of a failed expectation: ``fail`` voids the plan, ``warn`` is reported."""

    FAIL = "fail"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from ``start`` (inclusive) to ``end`` (exclusive)."""

    start: int
    end: int

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end


@dataclass(frozen=True, slots=True)
class Segment:
    """A data file: records of one topic partition, sorted by offset. All figures come from the manifest.

    ``min_timestamp_ms`` and ``max_timestamp_ms`` are None when no record has a timestamp. ``tombstones`` counts null
    values, ``keyless`` null keys.
    """

    path: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    size_bytes: int
    min_timestamp_ms: int | None
    max_timestamp_ms: int | None
    tombstones: int
    keyless: int = 0


AIRFLOW_HOLDER = "airflow:"
"""Begins the name under which a DAG run holds topics: ``airflow:DAG id:run id``."""


@dataclass(frozen=True, slots=True)
class InstallationIdentity:
    """An installation of Winnow: its id, and when it was first used."""

    installation_id: str
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Assessment:
    """Whether one topic partition would be compacted now, and why or why not (interface: ``assess --json``).

    ``active_closes_ms``: when the active segment closes by its age; None if there is none, or it has no timestamps. It
    is not recorded.
    """

    topic: str
    partition: int
    eligible: bool
    reason: Reason
    log_start_offset: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    log_end_offset: int
    dirty_ratio: float
    clean_bytes: int
    cleanable_bytes: int
    max_compaction_delay_ms: int
    deadline_ms: int | None
    active_closes_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The segments that a compaction of one topic partition reads, and the offset where it stops.

    ``segments``: every segment that begins below ``next_first_dirty_offset``, in offset order; what is at or above it
    is not touched. ``expired``: the offset ranges whose tombstones may go if they won. ``covered_end``: a tombstone
    below it that supersedes a record in this run stays, and its wait for late records restarts; 0 where none does.

    ``retired``: the oldest segments, which retention takes out of the log unread; ``segments`` begin after them, and
    ``log_start_offset`` is the one after retention (``previous_log_start_offset`` the one that was planned from).
    ``compacts`` False: retention only, ``segments`` is empty and the checkpoint stays. ``expected_*``: estimates for
    people, None where nothing is known; they decide nothing and are no part of the plan's id. ``closes_active``: the
    active segment counted as closed.
    """

    partition: int
    reason: Reason
    log_start_offset: int
    first_dirty_offset: int
    next_first_dirty_offset: int
    log_end_offset: int
    segments: tuple[Segment, ...]
    expired: tuple[OffsetRange, ...] = ()
    deadline_ms: int | None = None
    retired: tuple[Segment, ...] = ()
    previous_log_start_offset: int | None = None
    compacts: bool = True
    expected_records_kept: int | None = None
    expected_bytes_out: int | None = None
    covered_end: int = 0
    closes_active: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of the planned segments."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Plan:
    """The immutable decision for one topic. ``plan_id`` is a digest of everything else in it.

    ``partition_count``: how many partitions the topic has now, None unless some were added: then the engine counts
    the misplaced keys. ``configuration``: digest of the rules it was made under; under others it is void.
    ``quarantine_location``: folder of the quarantine's table, for keyless records. ``undone_ms``: when something of the
    log was last taken back: a plan that is made again after that is another one.
    """

    plan_id: str
    topic: str
    table_uuid: str
    data_location: str
    as_of_ms: int
    strategy: Strategy
    strategy_header: str | None
    delete_retention_ms: int
    segment_bytes: int
    partitions: tuple[PartitionPlan, ...]
    winnow_version: str
    format_version: int = 2
    partition_count: int | None = None
    quarantine_location: str | None = None
    configuration: str | None = None
    undone_ms: int | None = None

    @property
    def table_location(self) -> str:
        """The folder of the log's table: the root of the files that the plan has written."""
        return self.data_location.rsplit("/", 1)[0]
