"""What the page is told, as frozen values. Times are ms since the epoch, sizes bytes, offsets 64-bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from winnow.model import Receipt
from winnow.store.values import Run

T = TypeVar("T")


class OverviewState(StrEnum):
    """A topic's or topic partition's state in one word, the most severe first: of several that hold, the first."""

    UNCLEANABLE = "uncleanable"
    """Marked, because something failed."""
    OVERDUE = "overdue"
    """Its compaction deadline has passed, and nobody paused it."""
    DUE = "due"
    """A compaction now would take it."""
    PAUSED = "paused"
    HEALTHY = "healthy"


class TopicSort(StrEnum):
    """By what topics are sorted. ``state`` ascending is the most severe first, and within that the nearest deadline."""

    TOPIC = "topic"
    STATE = "state"
    DIRTY_RATIO = "dirty_ratio"
    DEADLINE = "deadline"
    RECLAIMABLE = "reclaimable"
    SIZE = "size"
    LAST_RUN = "last_run"


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a list is asked for: ``size`` rows of page ``number``, from 1."""

    number: int = 1
    size: int = 50

    @property
    def offset(self) -> int:
        """How many rows come before it."""
        return (self.number - 1) * self.size


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """One page of a list, and how many rows the whole list has."""

    total: int
    rows: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class TopicOverview:
    """A topic as it was looked at; the columns of ``winnow_topic_overview``.

    ``as_of_ms``: the present in which a compaction was thought of. ``dirty_ratio``: the largest of its partitions'.
    ``deadline_ms``: the earliest of its partitions', None where there is none. ``reclaimable_bytes``: what a compaction
    now would free, None where no earlier run says anything. ``configuration``: JSON.
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


@dataclass(frozen=True, slots=True)
class PartitionOverview:
    """A topic partition as it was looked at; the columns of ``winnow_partition_overview``.

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


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic for the page: its picture, and what holds of it when it is asked for.

    ``states``: how many of its partitions are in each state. ``deadline_ms``: the earliest of the partitions that
    nobody paused.
    """

    picture: TopicOverview
    state: OverviewState
    states: Mapping[OverviewState, int]
    deadline_ms: int | None
    last_run: Run | None
    last_published_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicsView:
    """A page of topics. ``counts``: topics in each state among those that the search finds, whatever the filter."""

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
    """A topic partition for the page: its picture, and the marks that hang on it now."""

    picture: PartitionOverview
    state: OverviewState
    paused: PauseView | None
    uncleanable: MarkView | None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, and the receipt where it published."""

    run: Run
    receipt: Receipt | None


@dataclass(frozen=True, slots=True)
class DayView:
    """Verdicts of one day in UTC: how many, how many of them failed, and how many could not be reached."""

    day_ms: int
    verdicts: int
    failed: int
    broken: int


@dataclass(frozen=True, slots=True)
class ExpectationView:
    """How often an expectation did not hold, in how many topics, when last, and on which of the days."""

    expectation: str
    failures: int
    topics: int
    last_ms: int
    by_day: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QualityView:
    """What validation said over some days, the last of them today."""

    series: tuple[DayView, ...]
    expectations: tuple[ExpectationView, ...]


@dataclass(frozen=True, slots=True)
class AlertView:
    """An alert that has not recovered. ``topic`` is empty where it is about no single one."""

    kind: str
    topic: str
    partition: int | None
    since_ms: int
    message: str | None
