"""All topics summed up for the first page: how many, how large, in which state, what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import case, exists, func, select
from sqlalchemy.orm import Session, aliased

from winnow.store import tables
from winnow.store.database import StorePart
from winnow.store.overview import STATES, join_marks, make_partition_rank, make_rank, partition_overview, pause
from winnow.store.receipt_figures import sum_saved_bytes
from winnow.store.row_values import read_value
from winnow.store.rows import Run, RunState
from winnow.store.samples import sum_overviews
from winnow.store.segment_checks import SegmentCheck
from winnow.values.model import OverviewState

WORKING: Final = (
    *(RunState.PLANNED, RunState.COMPACTING, RunState.STAGED, RunState.VALIDATED),
    RunState.PUBLISHING,
)

FAILED: Final = (RunState.INVALID, RunState.BROKEN, RunState.SPARK_FAILED, RunState.REFUSED, RunState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class LakeTotals:
    """Sums over all topics. ``reclaimable_bytes`` None: no run allows an estimate. ``waiting_bytes``: retired files.

    ``topics_unestimated``: topics of which it is not known, or not of all partitions, what is reclaimable, so that the
    sum is a lower bound.

    ``assessed_at_ms``: the oldest overview's; None: there is no topic.
    """

    topics: int
    partitions: int
    records: int
    files: int
    size_bytes: int
    reclaimable_bytes: int | None
    topics_unestimated: int
    waiting_bytes: int
    saved_bytes: int
    assessed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class NextTopic:
    """A topic with one of the nearest deadlines; ``deadline_ms`` is that of its partitions that are not paused."""

    topic: str
    state: OverviewState
    deadline_ms: int
    dirty_ratio: float
    threshold: float
    size_bytes: int
    reclaimable_bytes: int | None


@dataclass(frozen=True, slots=True)
class LakeSummary:
    """The lake at one instant. ``topic_states``, ``partition_states``: how many are in each state.

    ``next``: the topics with the nearest deadlines. ``runs_failed``: runs by state, of those that failed since the time
    that was asked for and after which no run of their topic was published. ``runs_working``: the ones with the latest
    activity first. ``damaged_files``: files in which a scrub found damage.
    """

    totals: LakeTotals
    topic_states: Mapping[OverviewState, int]
    partition_states: Mapping[OverviewState, int]
    next: tuple[NextTopic, ...]
    runs_failed: Mapping[RunState, int]
    runs_working: tuple[Run, ...]
    working: int
    damaged_files: int


class LakeSummaries(StorePart):
    """What the first page says of all topics together."""

    def summarize(self, now_ms: int, *, failed_since_ms: int, limit: int) -> LakeSummary:
        """Summarize all topics at ``now_ms``; list at most ``limit`` runs that work and topics that are next."""
        run, check = tables.RunTable, SegmentCheck
        working = run.status.in_([state.value for state in WORKING])
        newest = select(run).where(working).order_by(run.updated_at_ms.desc(), run.plan_id).limit(limit)
        later = aliased(run)
        is_recovered = exists().where(
            later.topic == run.topic,
            later.status == RunState.PUBLISHED.value,
            later.updated_at_ms > run.updated_at_ms,
        )
        failed = (
            select(run.status, func.count())
            .where(run.status.in_([state.value for state in FAILED]), run.updated_at_ms >= failed_since_ms)
            .where(~is_recovered)
            .group_by(run.status)
        )
        with self._database.reading() as session:
            totals = _sum_topics(session)
            ranks, partitions, deadlines = _rank_topics(session, now_ms)
            topics = Counter(ranks.values())
            # A topic of which no partition is known yet is in no other state.
            topics[make_rank(OverviewState.HEALTHY)] += totals.topics - len(ranks)
            return LakeSummary(
                totals=totals,
                topic_states={state: topics[make_rank(state)] for state in STATES},
                partition_states={state: partitions[make_rank(state)] for state in STATES},
                next=_list_next(session, ranks, deadlines, limit),
                runs_failed={RunState(status): count for status, count in session.execute(failed)},
                runs_working=tuple(read_value(Run, row) for row in session.scalars(newest)),
                working=session.scalar(select(func.count()).select_from(run).where(working)) or 0,
                damaged_files=session.scalar(select(func.count(check.finding))) or 0,
            )


def _sum_topics(session: Session) -> LakeTotals:
    total = sum_overviews(session)
    topic = tables.TopicOverviewTable
    unknown = select(partition_overview.topic).where(partition_overview.reclaimable_bytes.is_(None))
    unestimated = select(func.count()).where(topic.reclaimable_bytes.is_(None) | topic.topic.in_(unknown))
    oldest_ms = session.scalar(select(func.min(topic.recorded_at_ms)))
    return LakeTotals(
        **{name: total[name] for name in ("topics", "partitions", "records", "files", "size_bytes")},
        reclaimable_bytes=total["reclaimable_bytes"],
        topics_unestimated=session.scalar(unestimated) or 0,
        waiting_bytes=total["retired_bytes"],
        saved_bytes=sum_saved_bytes(session),
        assessed_at_ms=oldest_ms,
    )


def _rank_topics(session: Session, now_ms: int) -> tuple[dict[str, int], Counter[int], dict[str, int]]:
    """Rank each topic with partitions by the worst of them, count partitions by rank, and find unpaused deadlines."""
    rank = make_partition_rank(now_ms)
    deadline_ms = func.min(case((pause.topic.is_(None), partition_overview.deadline_ms)))
    counted = join_marks(select(partition_overview.topic, rank.label("rank"), func.count(), deadline_ms))
    ranks: dict[str, int] = {}
    partitions: Counter[int] = Counter()
    deadlines: dict[str, int] = {}
    for topic, number, count, nearest_ms in session.execute(counted.group_by(partition_overview.topic, rank)):
        ranks[topic] = min(number, ranks.get(topic, number))
        partitions[number] += count
        if nearest_ms is not None:
            deadlines[topic] = min(nearest_ms, deadlines.get(topic, nearest_ms))
    return ranks, partitions, deadlines


def _list_next(
    session: Session, ranks: Mapping[str, int], deadlines: Mapping[str, int], limit: int
) -> tuple[NextTopic, ...]:
    nearest = sorted(deadlines, key=lambda topic: (deadlines[topic], topic))[:limit]
    row = tables.TopicOverviewTable
    overviews = {overview.topic: overview for overview in session.scalars(select(row).where(row.topic.in_(nearest)))}
    return tuple(
        NextTopic(
            topic=topic,
            state=STATES[ranks[topic]],
            deadline_ms=deadlines[topic],
            dirty_ratio=overviews[topic].dirty_ratio,
            threshold=overviews[topic].threshold,
            size_bytes=overviews[topic].size_bytes,
            reclaimable_bytes=overviews[topic].reclaimable_bytes,
        )
        for topic in nearest
        if topic in overviews
    )
