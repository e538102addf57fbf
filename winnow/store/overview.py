"""The overview of topics and partitions for the page: recorded whole, read with filter, order and pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVarTuple

from sqlalchemy import ColumnElement, RowMapping, Select, Subquery, and_, case, func, literal, or_, select, update
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import list_fields, read_value
from winnow.store.rows import (
    AppendedRecords,
    Listed,
    MarkView,
    PartitionOverview,
    PartitionView,
    PauseView,
    Run,
    TopicFilter,
    TopicLabels,
    TopicOverview,
    TopicSort,
    TopicSummary,
    TopicsView,
    Window,
)
from winnow.store.topic_rows import is_former_life
from winnow.values.model import STATES_HIDDEN_BY_PAUSE, OverviewState

if TYPE_CHECKING:
    from winnow.store.assessments import AssessedTopic

Columns = TypeVarTuple("Columns")

STATES: Final = tuple(OverviewState)
"""In the order of severity: SQL handles a state as its index here."""

ROWS_AT_ONCE: Final = 500
"""Topics that one statement reads where all are read."""

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


ANY_TOPIC: Final = TopicFilter()


class Overview(StorePart):
    """One row per topic and one per topic partition, as of the last assessment."""

    def record(self, topic: TopicOverview, partitions: Sequence[PartitionOverview]) -> bool:
        """Replace the overview of a topic and its partitions, as :meth:`record_topic`."""
        from winnow.store.assessments import AssessedTopic

        return self.record_topic(AssessedTopic(picture=topic, partitions=partitions))

    def record_topic(self, topic: AssessedTopic) -> bool:
        """Replace the overview of a topic and its partitions; ten thousand partitions take a few statements.

        Returns:
            False, without a change, if a later overview exists already.
        """
        from winnow.store.assessments import find_overview_topic, write_overviews

        with self._database.writing() as session:
            name = find_overview_topic(topic)
            lock_topic_rows(session, name)
            return not is_former_life(session, name, topic.table_uuid) and bool(write_overviews(session, [topic]))

    def record_many(self, as_of_ms: int, recorded_at_ms: int, topics: Sequence[AssessedTopic]) -> None:
        """Record the results of several assessments in one transaction.

        The same as-of again replaces its assessments; an existing later overview of a topic stays.
        """
        from winnow.store.assessments import find_overview_topic, write_assessments, write_overviews
        from winnow.store.idle_topics import write_idle_topics

        with self._database.writing() as session:
            # Sorted, so that two writers of the same topics wait for one another without a deadlock.
            pictured = sorted(
                (assessed for assessed in topics if assessed.picture is not None), key=find_overview_topic
            )
            for topic in pictured:
                lock_topic_rows(session, find_overview_topic(topic))
            topics = [assessed for assessed in topics if not _is_of_former_life(session, assessed)]
            pictured = [assessed for assessed in pictured if assessed in topics]
            write_assessments(session, as_of_ms, recorded_at_ms, [a for topic in topics for a in topic.assessments])
            write_overviews(session, pictured)
            write_idle_topics(session, [topic.idle for topic in topics if topic.idle is not None])

    def add_appended(self, topic: str, appended: Sequence[AppendedRecords]) -> None:
        """Add what was appended to the recorded overview of ``topic``, without a new decision.

        Partitions whose recorded log end is another one stay as they are: that overview has the records already.
        """
        row, whole = tables.PartitionOverviewTable, tables.TopicOverviewTable
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            added = [
                part
                for part in appended
                if bulk_statements.execute_change(
                    session,
                    update(row)
                    .where(
                        row.topic == topic,
                        row.partition == part.partition,
                        row.log_end_offset == part.previous_log_end_offset,
                    )
                    .values(
                        log_end_offset=part.log_end_offset,
                        active_offset=func.coalesce(row.active_offset, part.previous_log_end_offset),
                        size_bytes=row.size_bytes + part.size_bytes,
                        records=row.records + part.records,
                        files=row.files + part.files,
                    ),
                )
            ]
            grown = sum(part.log_end_offset - part.previous_log_end_offset for part in added)
            bulk_statements.execute_change(
                session,
                update(whole)
                .where(whole.topic == topic)
                .values(
                    size_bytes=whole.size_bytes + sum(part.size_bytes for part in added),
                    records=whole.records + sum(part.records for part in added),
                    files=whole.files + sum(part.files for part in added),
                    end_offsets=whole.end_offsets + grown,
                ),
            )

    def list_topics(
        self,
        now_ms: int,
        window: Window,
        *,
        only: TopicFilter = ANY_TOPIC,
        sort: TopicSort = TopicSort.STATE,
        descending: bool = False,
    ) -> TopicsView:
        """List one page of topics.

        Args:
            now_ms: the present, which decides whose deadline has passed.
            window: which page.
            only: which topics; the counts by state are those of all states.
            sort: the sort column; missing values come last in either direction, and equal ones are sorted by
                name, with its numbers by their value.
            descending: reverse the order.
        """
        topic, ranks = tables.TopicOverviewTable, select_topic_ranks(now_ms)
        rank = func.coalesce(ranks.c.rank, make_rank(OverviewState.HEALTHY))
        listed = _read_topics(ranks)
        counted = select(rank, func.count()).select_from(topic).outerjoin(ranks, ranks.c.topic == topic.topic)
        for condition in _list_conditions(only):
            listed, counted = listed.where(condition), counted.where(condition)
        if only.state is not None:
            listed = listed.where(rank == make_rank(only.state))
        ordered = listed.order_by(*_order(sort, rank, ranks, descending=descending))
        with self._database.reading() as session:
            by_rank = {row[0]: row[1] for row in session.execute(counted.group_by(rank))}
            counts = {state: by_rank.get(make_rank(state), 0) for state in OverviewState}
            rows = session.execute(ordered.offset(window.offset).limit(window.size)).mappings().all()
            total = sum(counts.values()) if only.state is None else counts[only.state]
            return TopicsView(Listed(total, _summarize_topics(session, rows, now_ms)), counts)

    def stream_topics(
        self, now_ms: int, *, only: TopicFilter = ANY_TOPIC, rows_at_once: int = ROWS_AT_ONCE
    ) -> Iterator[TopicSummary]:
        """Read all topics that match, by name as lists have it: each once, whatever is created or deleted meanwhile."""
        topic, ranks = tables.TopicOverviewTable, select_topic_ranks(now_ms)
        listed = _read_topics(ranks).add_columns(topic.sort_key).where(*_list_conditions(only))
        if only.state is not None:
            listed = listed.where(
                func.coalesce(ranks.c.rank, make_rank(OverviewState.HEALTHY)) == make_rank(only.state)
            )
        ordered = listed.order_by(topic.sort_key, topic.topic).limit(rows_at_once)
        rows = self._read_page(ordered, now_ms)
        while rows:
            yield from (summary for _, summary in rows)
            sort_key, last = rows[-1][0], rows[-1][1].overview.topic
            page = ordered.where(or_(topic.sort_key > sort_key, and_(topic.sort_key == sort_key, topic.topic > last)))
            rows = self._read_page(page, now_ms)

    def _read_page(self, page: Select[Any], now_ms: int) -> list[tuple[str, TopicSummary]]:
        with self._database.reading() as session:
            rows = session.execute(page).mappings().all()
            summaries = _summarize_topics(session, rows, now_ms)
            return [(row["sort_key"], summary) for row, summary in zip(rows, summaries, strict=True)]

    def find_owners(self, topics: Collection[str]) -> dict[str, str]:
        """Find the owners of those of ``topics`` that are recorded; empty: nobody in particular."""
        topic = tables.TopicOverviewTable
        with self._database.reading() as session:
            rows = session.execute(select(topic.topic, topic.owner).where(topic.topic.in_(topics)))
            return {row.topic: row.owner for row in rows}

    def find_owned(self, owners: Collection[str]) -> dict[str, str]:
        """Find the recorded topics that one of ``owners`` owns, each with its owner."""
        topic = tables.TopicOverviewTable
        with self._database.reading() as session:
            rows = session.execute(select(topic.topic, topic.owner).where(topic.owner.in_(owners)))
            return {row.topic: row.owner for row in rows}

    def find_pausing_names(self) -> dict[str, frozenset[str]]:
        """Find the topics with a paused partition, each with the names of its pauses; a pause may have none."""
        row = tables.PausedBy
        named = select(pause.topic, func.coalesce(row.name, "")).outerjoin(
            row, and_(row.topic == pause.topic, row.partition == pause.partition)
        )
        found: dict[str, set[str]] = defaultdict(set)
        with self._database.reading() as session:
            for topic, name in session.execute(named.distinct()):
                found[topic].update((name,) if name else ())
        return {topic: frozenset(names) for topic, names in found.items()}

    def list_labels(self) -> TopicLabels:
        """List the owners and the tags that topics have."""
        topic = tables.TopicOverviewTable
        with self._database.reading() as session:
            owners = session.scalars(select(topic.owner).where(topic.owner != "").distinct())
            tags = session.scalars(select(topic.tags).where(topic.tags != "").distinct())
            named = {tag for joined in tags for tag in joined.split(",")}
            return TopicLabels(tuple(sorted(owners)), tuple(sorted(named)))

    def list_recorded(self, now_ms: int) -> dict[str, tuple[TopicOverview, OverviewState]]:
        """List the recorded overview of every topic with the state of its worst partition at ``now_ms``, by topic."""
        with self._database.reading() as session:
            rows = session.execute(_read_topics(select_topic_ranks(now_ms))).mappings().all()
            return {row["topic"]: (read_value(TopicOverview, row), STATES[row["rank"]]) for row in rows}

    def find_recorded(self, topic: str) -> TopicOverview | None:
        """Find the recorded overview of ``topic`` alone; None if it was never assessed."""
        with self._database.reading() as session:
            row = session.get(tables.TopicOverviewTable, topic)
            return None if row is None else read_value(TopicOverview, row)

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
        listed = join_marks(select(partition_overview, rank.label("rank"), mark, pause.since_ms)).where(
            partition_overview.topic == topic
        )
        if state is not None:
            listed = listed.where(rank == make_rank(state))
        page = listed.order_by(partition_overview.partition).offset(window.offset).limit(window.size)
        with self._database.reading() as session:
            total = session.scalar(select(func.count()).select_from(listed.subquery())) or 0
            rows: list[tuple[Any, ...]] = [tuple(row) for row in session.execute(page)]
            names = _find_pausing_names(session, topic, [row[0].partition for row in rows if row[3] is not None])
            return Listed(total, tuple(_make_partition_view(row, names) for row in rows))


def _make_partition_view(row: tuple[Any, ...], names: Mapping[int, tuple[str, ...]]) -> PartitionView:
    pictured, rank, marked, paused_since_ms = row
    return PartitionView(
        overview=read_value(PartitionOverview, pictured),
        state=STATES[rank],
        paused=None if paused_since_ms is None else PauseView(paused_since_ms, names.get(pictured.partition, ())),
        uncleanable=None if marked is None else read_value(MarkView, marked),
    )


def _list_conditions(only: TopicFilter) -> list[ColumnElement[bool]]:
    topic = tables.TopicOverviewTable
    conditions = []
    if only.search:
        conditions.append(func.lower(topic.topic).contains(only.search.lower(), autoescape=True))
    if only.owner:
        conditions.append(topic.owner == only.owner)
    if only.tag:
        # Tags are separated by commas, which none of them holds.
        conditions.append(literal(",").concat(topic.tags).concat(",").contains(f",{only.tag},", autoescape=True))
    return conditions


def _read_topics(ranks: Subquery) -> Select[Any]:
    topic = tables.TopicOverviewTable
    pictured = [getattr(topic, name) for name in list_fields(TopicOverview)]
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
        TopicSort.TOPIC: topic.sort_key.expression,
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
    return [*ordered, topic.sort_key.asc(), topic.topic.asc()]


def _summarize_topics(session: Session, rows: Sequence[RowMapping], now_ms: int) -> tuple[TopicSummary, ...]:
    names = [row["topic"] for row in rows]
    states, unestimated = _count_states(session, names, now_ms), _count_unestimated(session, names)
    runs, published = _find_last_runs(session, names), _find_last_published(session, names)
    return tuple(
        TopicSummary(
            overview=read_value(TopicOverview, row),
            state=STATES[row["rank"]],
            states={state: states.get((row["topic"], state), 0) for state in STATES},
            partitions_unestimated=unestimated.get(row["topic"], 0),
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


def _count_unestimated(session: Session, topics: Sequence[str]) -> Mapping[str, int]:
    topic, is_unknown = partition_overview.topic, partition_overview.reclaimable_bytes.is_(None)
    statement = select(topic, func.count()).where(topic.in_(topics), is_unknown).group_by(topic)
    return {row[0]: row[1] for row in session.execute(statement)}


def _find_last_runs(session: Session, topics: Sequence[str]) -> Mapping[str, Run]:

    run = tables.RunTable
    latest = (
        select(run.topic, func.max(run.updated_at_ms).label("at_ms"))
        .where(run.topic.in_(topics))
        .group_by(run.topic)
        .subquery()
    )
    statement = (
        select(run)
        .join(latest, (latest.c.topic == run.topic) & (latest.c.at_ms == run.updated_at_ms))
        .order_by(run.opened_at_ms, run.plan_id.desc())
    )
    return {row.topic: read_value(Run, row) for row in session.scalars(statement)}


def _find_last_published(session: Session, topics: Sequence[str]) -> Mapping[str, int]:
    receipt = tables.ReceiptTable
    statement = (
        select(receipt.topic, func.max(receipt.finished_at_ms)).where(receipt.topic.in_(topics)).group_by(receipt.topic)
    )
    return {row[0]: row[1] for row in session.execute(statement)}


def _find_pausing_names(session: Session, topic: str, partitions: Sequence[int]) -> Mapping[int, tuple[str, ...]]:
    row = tables.PausedBy
    names: dict[int, list[str]] = defaultdict(list)
    for some in bulk_statements.split_chunks(partitions):
        statement = select(row).where(row.topic == topic, row.partition.in_(some)).order_by(row.partition, row.number)
        for pausing in session.scalars(statement):
            names[pausing.partition].append(pausing.name)
    return {number: tuple(listed) for number, listed in names.items()}


def _is_of_former_life(session: Session, topic: AssessedTopic) -> bool:
    names = {assessment.topic for assessment in topic.assessments} | (
        {topic.picture.topic} if topic.picture is not None else set()
    )
    return any(is_former_life(session, name, topic.table_uuid) for name in names)
