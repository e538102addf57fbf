"""The values that the metadata store returns. Times are ms since the epoch, offsets 64-bit."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from winnow.values.model import OverviewState
from winnow.values.results import Receipt
from winnow.values.topic_state import Cleaning

RETIRED_KINDS = frozenset({"data", "manifest", "manifest_list", "state", "metadata", "attempts"})
"""The kinds of retired files; ``attempts``: the folder of a plan whose unused attempts are deleted."""


class RunState(StrEnum):
    """State of a plan's compaction run. :mod:`winnow.store.runs` has the table of legal transitions."""

    PLANNED = "planned"
    COMPACTING = "compacting"
    STAGED = "staged"
    VALIDATED = "validated"
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    INVALID = "invalid"
    BROKEN = "broken"
    SPARK_FAILED = "spark_failed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    VOID = "void"

    @property
    def is_closed(self) -> bool:
        """Whether nothing of the run is left to settle. Publishing, unknown and broken runs are open."""
        return self in _CLOSED_STATES

    @property
    def is_unsettled(self) -> bool:
        """Whether its commit may exist: only the table's history shows."""
        return self in {RunState.PUBLISHING, RunState.UNKNOWN}

    @property
    def may_be_published(self) -> bool:
        """Whether its commit exists, or may exist."""
        return self is RunState.PUBLISHED or self.is_unsettled


_CLOSED_STATES = frozenset(
    {RunState.PUBLISHED, RunState.INVALID, RunState.SPARK_FAILED, RunState.REFUSED, RunState.VOID}
)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one topic until ``expires_ms`` (exclusive).

    ``token`` is the fencing token: every acquisition of a topic has a higher one, a renewal keeps it.
    """

    topic: str
    holder: str
    token: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Run:
    """One compaction run of one plan. ``attempt`` is the latest one, empty before the first.

    ``holder``: the last planner, as leases name it: ``airflow:DAG:RUN``, or a process of a machine.
    ``plan_sha256``: of the plan's bytes; None: planned before it was noted. ``fence``: the topic's fence when the run
    was opened last; its attempts may be published while the topic still has that one. ``found_empty_at_ms``: when a
    sweep first found nothing left to delete of it. ``partitions_marked``: how many partitions were marked uncleanable
    because of its failure; None: none.
    """

    plan_id: str
    topic: str
    attempt: str
    status: RunState
    as_of_ms: int
    plan_uri: str
    opened_at_ms: int
    updated_at_ms: int
    message: str = ""
    snapshot_id: int | None = None
    holder: str | None = None
    plan_sha256: str | None = None
    fence: int = 0
    found_empty_at_ms: int | None = None
    partitions_marked: int | None = None


@dataclass(frozen=True, slots=True)
class OpenIngest:
    """An ingest call whose end is not recorded: at work, or dead.

    ``number`` rises in the order of opening, per topic. ``renewed_at_ms``: when it last reported that it is at work.
    ``voided_at_ms``: when a commit ended its right to commit; from then on its files may be deleted.
    """

    ingest_id: str
    topic: str
    number: int
    holder: str
    opened_at_ms: int
    renewed_at_ms: int
    voided_at_ms: int | None = None
    found_empty_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """The cleaner checkpoint of one topic partition. ``updated_at_ms``: when this projection last changed."""

    topic: str
    partition: int
    first_dirty_offset: int | None
    log_start_offset: int
    log_end_offset: int
    strategy: str | None
    history: tuple[Cleaning, ...]
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class RetiredRow:
    """A file that no present reader needs. ``deleted_at_ms`` None: it is not deleted yet."""

    topic: str
    path: str
    kind: str
    size_bytes: int
    retired_at_ms: int
    plan_id: str
    deleted_at_ms: int | None = None


T = TypeVar("T")


class TopicSort(StrEnum):
    """Sort order of topics. ``state`` ascending is the most severe first, and within that the nearest deadline."""

    TOPIC = "topic"
    STATE = "state"
    DIRTY_RATIO = "dirty_ratio"
    DEADLINE = "deadline"
    RECLAIMABLE = "reclaimable"
    SIZE = "size"
    LAST_RUN = "last_run"


@dataclass(frozen=True, slots=True)
class Window:
    """A page of a list: ``size`` rows of page ``number``, from 1."""

    number: int = 1
    size: int = 50

    @property
    def offset(self) -> int:
        """Number of rows before the page."""
        return (self.number - 1) * self.size


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Which topics a list has; an empty text or None: any.

    ``search``: part of the name, in any case; no character of it is special. ``owner``, ``tag``: exactly these.
    """

    search: str = ""
    state: OverviewState | None = None
    owner: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class TopicLabels:
    """The owners and tags of all topics, sorted."""

    owners: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """One page of a list, and the number of rows of the whole list."""

    total: int
    rows: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class TopicOverview:
    """A topic as of its last assessment; the columns of ``winnow_topic_overview``.

    ``as_of_ms``: the present for which it was assessed. ``dirty_ratio``: the largest of its partitions'.
    ``deadline_ms``: the earliest of its partitions', None where there is none. ``reclaimable_bytes``: what a compaction
    now would free at least, None if no earlier run allows an estimate of any partition. ``configuration``: JSON.
    ``tags``: separated by commas.
    ``end_offsets``: the sum of the partitions' log ends, which grows by what is appended.
    """

    topic: str
    as_of_ms: int
    recorded_at_ms: int
    partitions: int
    eligible: int
    dirty_ratio: float
    threshold: float
    compacts: bool
    policy: str
    strategy: str
    deadline_ms: int | None
    size_bytes: int
    reclaimable_bytes: int | None
    retired_bytes: int
    configuration: str
    table_name: str
    location: str
    owner: str = ""
    tags: str = ""
    records: int = 0
    files: int = 0
    clean_bytes: int = 0
    cleanable_bytes: int = 0
    end_offsets: int = 0


@dataclass(frozen=True, slots=True)
class PartitionOverview:
    """A topic partition as of its last assessment; the columns of ``winnow_partition_overview``.

    ``active_offset``: where the active segment begins, None where nothing is active.
    """

    topic: str
    partition: int
    eligible: bool
    reason: str
    log_start_offset: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    active_offset: int | None
    log_end_offset: int
    dirty_ratio: float
    clean_bytes: int
    cleanable_bytes: int
    size_bytes: int
    max_compaction_delay_ms: int
    deadline_ms: int | None
    reclaimable_bytes: int | None
    records: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class AppendedRecords:
    """What one commit appended to a topic partition."""

    partition: int
    previous_log_end_offset: int
    log_end_offset: int
    records: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic for the page: its overview, and values computed when it is read.

    ``states``: how many of its partitions are in each state. ``deadline_ms``: the earliest of the partitions that
    are not paused. ``partitions_unestimated``: of which it is not known what is reclaimable.
    """

    overview: TopicOverview
    state: OverviewState
    states: Mapping[OverviewState, int]
    partitions_unestimated: int
    deadline_ms: int | None
    last_run: Run | None
    last_published_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicsView:
    """A page of topics. ``counts``: topics by state among the search results, before the filter."""

    listed: Listed[TopicSummary]
    counts: Mapping[OverviewState, int]


@dataclass(frozen=True, slots=True)
class PauseView:
    """Since when a partition is paused, and under which names."""

    since_ms: int
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkView:
    """Why and since when a partition is not cleaned, and when it is tried again."""

    topic: str
    partition: int
    reason: str
    since_ms: int
    attempts: int
    next_attempt_ms: int | None
    plan_id: str | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A topic partition for the page: its overview, and its present marks."""

    overview: PartitionOverview
    state: OverviewState
    paused: PauseView | None
    uncleanable: MarkView | None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, with its receipt if it was published."""

    run: Run
    receipt: Receipt | None


@dataclass(frozen=True, slots=True)
class DayView:
    """Verdicts of one day in UTC: number of all, of failed ones, and of broken ones."""

    day_ms: int
    verdicts: int
    failed: int
    broken: int


@dataclass(frozen=True, slots=True)
class ExpectationView:
    """An expectation's failures: their number, in how many topics, when last, and on which of the days."""

    expectation: str
    failures: int
    topics: int
    last_ms: int
    by_day: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QualityView:
    """Validation results of some days, the last of them today."""

    series: tuple[DayView, ...]
    expectations: tuple[ExpectationView, ...]


@dataclass(frozen=True, slots=True)
class AlertView:
    """An alert that has not recovered. ``topic`` is empty if it concerns no single one."""

    kind: str
    topic: str
    partition: int | None
    since_ms: int
    message: str


@dataclass(frozen=True, slots=True)
class HandledAlert:
    """An open alert, and what people have done about it.

    ``key`` names it among the open ones. ``released``: by whom or why it was released by hand. ``muted_until_ms`` None:
    it is not muted.
    """

    key: str
    kind: str
    topic: str
    partition: int | None
    since_ms: int
    sent_at_ms: int
    message: str
    safe: str
    next: str
    plan_id: str | None
    released: str | None
    acknowledged_by: str | None
    acknowledged_why: str | None
    acknowledged_at_ms: int | None
    muted_by: str | None
    muted_why: str | None
    muted_until_ms: int | None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing that somebody did; the columns of ``winnow_audit``.

    Args:
        at_ms: when, in ms since the epoch.
        actor: who: a user of Airflow, or ``user@host`` of a shell.
        action: what; the value of an :class:`winnow.store.audit.AuditAction`.
        topic: the topic; empty: not about a single one.
        reason: why, in the actor's words; empty if none was given.
        origin: how: ``page``, ``shell``, or the DAG run as leases name it, ``airflow:DAG:RUN``.
        detail: what exactly: partitions, offsets, keys of the configuration. Never a record's bytes.
        entry_id: tells the entry from others; writing the same entry again changes nothing.
        config_changes: what a change of configuration changed, as :mod:`winnow.values.config_changes` formats it; None:
            it was none, or it is from before this was recorded.
    """

    at_ms: int
    actor: str
    action: str
    topic: str = ""
    reason: str = ""
    origin: str = ""
    detail: str = ""
    entry_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    config_changes: str | None = None
