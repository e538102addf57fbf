"""The overview of topics and partitions for the page: recorded whole, read with filter, order and pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVarTuple

from sqlalchemy import ColumnElement, RowMapping, Select, Subquery, and_, case, func, select
from sqlalchemy.orm import Session

from winnow.model import STATES_HIDDEN_BY_PAUSE, OverviewState
from winnow.store import bulk_statements, tables
from winnow.store.assessments import AssessedTopic, find_overview_topic, write_assessments, write_overviews
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.idle_topics import write_idle_topics
from winnow.store.runs import make_run
from winnow.store.values import (
    Listed,
    MarkView,
    PartitionOverview,
    PartitionView,
    PauseView,
    Run,
    TopicOverview,
    TopicSort,
    TopicSummary,
    TopicsView,
    Window,
)

Columns = TypeVarTuple("Columns")

STATES: Final = tuple(OverviewState)
"""In the order of severity: SQL handles a state as its index here."""

_RANK: Final = {state: place for place, state in enumerate(STATES)}

partition_overview = tables.PartitionOverviewTable

mark = tables.UncleanableTable

pause = tables.Paused

_MARKED: Final = and_(mark.topic == partition_overview.topic, mark.partition == partition_overview.partition)

_PAUSED: Final = and_(pause.topic == partition_overview.topic, pause.partition == partition_overview.partition)


def make_rank(state: OverviewState) -> int:
    """Return the place of ``state`` in the order of severity."""
    return _RANK[state]


def make_partition_rank(now_ms: int) -> ColumnElement[int]:
    """Make the rank of a partition's state at ``now_ms``, over overviews with marks and pauses joined."""
    holding: dict[OverviewState, ColumnElement[bool]] = {
        OverviewState.UNCLEANABLE: mark.topic.is_not(None),
        OverviewState.OVERDUE: partition_overview.deadline_ms < now_ms,
        OverviewState.DUE: partition_overview.eligible.is_(True),
        OverviewState.PAUSED: pause.topic.is_not(None),
    }
    working = pause.topic.is_(None)
    ranks = [
        (and_(working, holding[state]) if state in STATES_HIDDEN_BY_PAUSE else holding[state], rank)
        for state, rank in _RANK.items()
        if state in holding
    ]
    return case(*ranks, else_=_RANK[OverviewState.HEALTHY])


def select_topic_ranks(now_ms: int, *, topic: str | None = None) -> Subquery:
    """Select, per topic (None = all), the ``rank`` of its worst partition and its earliest unpaused ``deadline_ms``."""
    ranked = select(
        partition_overview.topic,
        func.min(make_partition_rank(now_ms)).label("rank"),
        func.min(case((pause.topic.is_(None), partition_overview.deadline_ms))).label("deadline_ms"),
    )
    if topic is not None:
        ranked = ranked.where(partition_overview.topic == topic)
    return join_marks(ranked).group_by(partition_overview.topic).subquery("states")


def join_marks(pictures: Select[*Columns]) -> Select[*Columns]:
    """Join marks and pauses to the overviews of partitions."""
    return pictures.select_from(partition_overview).outerjoin(mark, _MARKED).outerjoin(pause, _PAUSED)


_TOPIC_COLUMNS: Final = tuple(field.name for field in fields(TopicOverview))

_PARTITION_COLUMNS: Final = tuple(field.name for field in fields(PartitionOverview))


class Overview(StorePart):
    """One row per topic and one per topic partition, as of the last assessment."""

    def record(self, topic: TopicOverview, partitions: Sequence[PartitionOverview]) -> bool:
        """Replace the overview of a topic and its partitions; ten thousand partitions take a few statements.

        Returns:
            False, without a change, if a later overview exists already.
        """
        with self._database.writing() as session:
            lock_topic_rows(session, topic.topic)
            return bool(write_overviews(session, [AssessedTopic(picture=topic, partitions=partitions)]))

    def record_many(self, as_of_ms: int, recorded_at_ms: int, topics: Sequence[AssessedTopic]) -> None:
        """Record the results of several assessments in one transaction.

        The same as-of again replaces its assessments; an existing later overview of a topic stays.
        """
        with self._database.writing() as session:
            # Sorted, so that two writers of the same topics wait for one another without a deadlock.
            pictured = sorted((each for each in topics if each.picture is not None), key=find_overview_topic)
            for topic in pictured:
                lock_topic_rows(session, find_overview_topic(topic))
            write_assessments(session, as_of_ms, recorded_at_ms, [a for topic in topics for a in topic.assessments])
            write_overviews(session, pictured)
            write_idle_topics(session, [topic.idle for topic in topics if topic.idle is not None])

    def list_topics(
        self,
        now_ms: int,
        window: Window,
        *,
        search: str = "",
        state: OverviewState | None = None,
        sort: TopicSort = TopicSort.STATE,
        descending: bool = False,
    ) -> TopicsView:
        """List one page of topics.

        Args:
            now_ms: the present, which decides whose deadline has passed.
            window: which page.
            search: part of a topic's name, in any case; no character of it is special.
            state: only topics in this state.
            sort: the sort column; missing values come last in either direction, and equal ones are sorted by name.
            descending: reverse the order.
        """
        topic, ranks = tables.TopicOverviewTable, select_topic_ranks(now_ms)
        rank = func.coalesce(ranks.c.rank, make_rank(OverviewState.HEALTHY))
        found = _read_topics(ranks)
        counted = select(rank, func.count()).select_from(topic).outerjoin(ranks, ranks.c.topic == topic.topic)
        if search:
            matches = func.lower(topic.topic).contains(search.lower(), autoescape=True)
            found, counted = found.where(matches), counted.where(matches)
        if state is not None:
            found = found.where(rank == make_rank(state))
        ordered = found.order_by(*_order(sort, rank, ranks, descending=descending))
        with self._database.reading() as session:
            by_rank = {row[0]: row[1] for row in session.execute(counted.group_by(rank))}
            counts = {each: by_rank.get(make_rank(each), 0) for each in OverviewState}
            rows = session.execute(ordered.offset(window.offset).limit(window.size)).mappings().all()
            total = sum(counts.values()) if state is None else counts[state]
            return TopicsView(Listed(total, _summarize_topics(session, rows, now_ms)), counts)

    def find_recorded(self, topic: str) -> TopicOverview | None:
        """Find the recorded overview of ``topic`` alone; None if it was never assessed."""
        with self._database.reading() as session:
            row = session.get(tables.TopicOverviewTable, topic)
            return None if row is None else TopicOverview(**{name: getattr(row, name) for name in _TOPIC_COLUMNS})

    def find_topic(self, topic: str, now_ms: int) -> TopicSummary | None:
        """Find one topic; None if it was never assessed."""
        ranks = select_topic_ranks(now_ms, topic=topic)
        with self._database.reading() as session:
            rows = session.execute(_read_topics(ranks).where(tables.TopicOverviewTable.topic == topic)).mappings().all()
            return next(iter(_summarize_topics(session, rows, now_ms)), None)

    def list_partitions(
        self, topic: str, now_ms: int, window: Window, *, state: OverviewState | None = None
    ) -> Listed[PartitionView]:
        """List one page of the partitions of ``topic`` in their order, or of those in ``state``."""
        rank = make_partition_rank(now_ms)
        found = join_marks(select(partition_overview, rank.label("rank"), mark, pause.since_ms)).where(
            partition_overview.topic == topic
        )
        if state is not None:
            found = found.where(rank == make_rank(state))
        page = found.order_by(partition_overview.partition).offset(window.offset).limit(window.size)
        with self._database.reading() as session:
            total = session.scalar(select(func.count()).select_from(found.subquery())) or 0
            rows: list[tuple[Any, ...]] = [tuple(row) for row in session.execute(page)]
            names = _find_pausing_names(session, topic, [row[0].partition for row in rows if row[3] is not None])
            return Listed(total, tuple(_make_partition_view(row, names) for row in rows))


def _make_partition_view(row: tuple[Any, ...], names: Mapping[int, tuple[str, ...]]) -> PartitionView:
    pictured, rank, marked, paused_since_ms = row
    return PartitionView(
        overview=PartitionOverview(**{name: getattr(pictured, name) for name in _PARTITION_COLUMNS}),
        state=STATES[rank],
        paused=None if paused_since_ms is None else PauseView(paused_since_ms, names.get(pictured.partition, ())),
        uncleanable=None if marked is None else make_mark_view(marked),
    )


def make_mark_view(row: tables.UncleanableTable) -> MarkView:
    """Make the mark in ``row``."""
    return MarkView(
        topic=row.topic,
        partition=row.partition,
        reason=row.reason,
        since_ms=row.since_ms,
        attempts=row.attempts,
        next_attempt_ms=row.next_attempt_ms,
        plan_id=row.plan_id,
    )


def _read_topics(ranks: Subquery) -> Select[Any]:
    topic = tables.TopicOverviewTable
    pictured = [getattr(topic, name) for name in _TOPIC_COLUMNS]
    return (
        select(
            *pictured,
            func.coalesce(ranks.c.rank, make_rank(OverviewState.HEALTHY)).label("rank"),
            ranks.c.deadline_ms.label("unpaused_deadline_ms"),
        )
        .select_from(topic)
        .outerjoin(ranks, ranks.c.topic == topic.topic)
    )


def _order(
    sort: TopicSort, rank: ColumnElement[int], ranks: Subquery, *, descending: bool
) -> Sequence[ColumnElement[Any]]:
    topic, run = tables.TopicOverviewTable, tables.RunTable
    deadline_ms = ranks.c.deadline_ms
    last_run_ms = select(func.max(run.updated_at_ms)).where(run.topic == topic.topic).scalar_subquery()
    keys: dict[TopicSort, ColumnElement[Any]] = {
        TopicSort.TOPIC: topic.topic.expression,
        TopicSort.STATE: rank,
        TopicSort.DIRTY_RATIO: topic.dirty_ratio.expression,
        TopicSort.DEADLINE: deadline_ms,
        TopicSort.RECLAIMABLE: topic.reclaimable_bytes.expression,
        TopicSort.SIZE: topic.size_bytes.expression,
        TopicSort.LAST_RUN: last_run_ms,
    }
    key = keys[sort]
    ordered = [key.is_(None), key.desc() if descending else key.asc()]
    if sort is TopicSort.STATE:
        ordered += [deadline_ms.is_(None), deadline_ms.asc()]
    return [*ordered, topic.topic.asc()]


def _summarize_topics(session: Session, rows: Sequence[RowMapping], now_ms: int) -> tuple[TopicSummary, ...]:
    names = [row["topic"] for row in rows]
    states = _count_states(session, names, now_ms)
    runs, published = _find_last_runs(session, names), _find_last_published(session, names)
    return tuple(
        TopicSummary(
            overview=TopicOverview(**{name: row[name] for name in _TOPIC_COLUMNS}),
            state=STATES[row["rank"]],
            states={state: states.get((row["topic"], state), 0) for state in STATES},
            deadline_ms=row["unpaused_deadline_ms"],
            last_run=runs.get(row["topic"]),
            last_published_ms=published.get(row["topic"]),
        )
        for row in rows
    )


def _count_states(session: Session, topics: Sequence[str], now_ms: int) -> Mapping[tuple[str, OverviewState], int]:
    rank = make_partition_rank(now_ms).label("rank")
    ranked = (
        join_marks(select(partition_overview.topic, rank))
        .where(partition_overview.topic.in_(topics))
        .subquery("ranked")
    )
    counted = select(ranked.c.topic, ranked.c.rank, func.count()).group_by(ranked.c.topic, ranked.c.rank)
    return {(row[0], STATES[row[1]]): row[2] for row in session.execute(counted)}


def _find_last_runs(session: Session, topics: Sequence[str]) -> Mapping[str, Run]:
    run = tables.RunTable
    latest = (
        select(run.topic, func.max(run.updated_at_ms).label("at_ms"))
        .where(run.topic.in_(topics))
        .group_by(run.topic)
        .subquery()
    )
    found = (
        select(run)
        .join(latest, (latest.c.topic == run.topic) & (latest.c.at_ms == run.updated_at_ms))
        .order_by(run.opened_at_ms, run.plan_id.desc())
    )
    return {row.topic: make_run(row) for row in session.scalars(found)}


def _find_last_published(session: Session, topics: Sequence[str]) -> Mapping[str, int]:
    receipt = tables.ReceiptTable
    found = (
        select(receipt.topic, func.max(receipt.finished_at_ms)).where(receipt.topic.in_(topics)).group_by(receipt.topic)
    )
    return {row[0]: row[1] for row in session.execute(found)}


def _find_pausing_names(session: Session, topic: str, partitions: Sequence[int]) -> Mapping[int, tuple[str, ...]]:
    row = tables.PausedBy
    names: dict[int, list[str]] = defaultdict(list)
    for some in bulk_statements.split_chunks(partitions):
        found = select(row).where(row.topic == topic, row.partition.in_(some)).order_by(row.partition, row.number)
        for each in session.scalars(found):
            names[each.partition].append(each.name)
    return {number: tuple(listed) for number, listed in names.items()}
