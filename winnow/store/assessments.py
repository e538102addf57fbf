"""Records assessments as history, and the newest overview of topics and partitions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from sqlalchemy import and_, delete, func, or_, select
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.deadlines import read_deadlines, write_deadlines
from winnow.store.idle_topics import IdleTopic
from winnow.store.latest_progress import LogState, write_log_states
from winnow.store.row_values import read_value
from winnow.store.rows import PartitionOverview, TopicOverview
from winnow.store.samples import write_samples
from winnow.store.table_health import TableHealth, write_table_health
from winnow.values.model import Assessment


@dataclass(frozen=True, slots=True)
class AssessedTopic:
    """One assessment of one topic. ``picture`` None: no overview could be built, and the previous one stays.

    ``idle``: what later checks may rely on, if nothing of the topic is due. ``health``: of its table. ``latest``: what
    its table of the latest state has to follow. ``table_uuid``: the life of the topic that was looked at; of one that
    has ended nothing is recorded.
    """

    assessments: Sequence[Assessment] = ()
    picture: TopicOverview | None = None
    partitions: Sequence[PartitionOverview] = ()
    idle: IdleTopic | None = None
    health: TableHealth | None = None
    latest: LogState | None = None
    table_uuid: str | None = None


def write_assessments(session: Session, as_of_ms: int, recorded_at_ms: int, assessments: Sequence[Assessment]) -> None:
    """Write history: one row per topic partition and as-of, and which of them was recorded last."""
    rows = [
        tables.AssessmentTable.make_row(assessment, as_of_ms=as_of_ms, recorded_at_ms=recorded_at_ms)
        for assessment in sorted(assessments, key=attrgetter("topic", "partition"))
    ]
    latest = [{name: row[name] for name in ("topic", "partition", "as_of_ms", "recorded_at_ms")} for row in rows]
    current = tables.LatestAssessment
    bulk_statements.upsert(session, tables.AssessmentTable, rows)
    bulk_statements.upsert(
        session,
        current,
        latest,
        when=lambda new: or_(
            new.recorded_at_ms > current.recorded_at_ms,
            and_(new.recorded_at_ms == current.recorded_at_ms, new.as_of_ms >= current.as_of_ms),
        ),
    )


def write_overviews(session: Session, topics: Sequence[AssessedTopic]) -> list[str]:
    """Replace the overviews of topics, given with one; return the topics whose overview was written."""
    known = _find_recorded_at_ms(session, [find_overview_topic(topic) for topic in topics])
    newer = [
        (topic.picture, topic.partitions)
        for topic in topics
        if topic.picture is not None and known.get(topic.picture.topic, -1) <= topic.picture.recorded_at_ms
    ]
    if not newer:
        return []
    pictures = [picture for picture, _ in newer]
    names = {picture.topic for picture in pictures}
    earlier = read_deadlines(session, sorted(names))
    overview, part = tables.TopicOverviewTable, tables.PartitionOverviewTable
    rows = [overview.make_row(picture, sort_key=make_sort_key(picture.topic)) for picture in pictures]
    bulk_statements.upsert(session, overview, rows)
    _drop_beyond(session, {picture.topic: _find_last(partitions) for picture, partitions in newer})
    parts = [
        part.make_row(overviewed)
        for _, partitions in newer
        for overviewed in sorted(partitions, key=attrgetter("partition"))
    ]
    bulk_statements.upsert(session, part, parts)
    for picture, partitions in newer:
        write_deadlines(session, earlier, partitions, picture.recorded_at_ms)
    write_log_states(session, [t.latest for t in topics if t.latest is not None and t.latest.topic in names])
    write_table_health(session, [t.health for t in topics if t.health is not None and t.health.topic in names])
    write_samples(session, pictures, max(picture.recorded_at_ms for picture in pictures))
    return [picture.topic for picture in pictures]


def make_sort_key(topic: str) -> str:
    """Make the key that orders topics as people do: ``orders-2`` before ``orders-10``, whatever the case."""
    # A number begins with the count of its digits, so that a longer one, which is larger, comes later.
    return re.sub(r"[0-9]+", lambda digits: f"{len(digits[0].lstrip('0')):03d}{digits[0].lstrip('0')}", topic.lower())


def find_overview_topic(topic: AssessedTopic) -> str:
    """Return the topic of an assessed topic's overview; empty if it has none."""
    return topic.picture.topic if topic.picture is not None else ""


def _find_last(partitions: Sequence[PartitionOverview]) -> int:
    return max((overview.partition for overview in partitions), default=-1)


def _find_recorded_at_ms(session: Session, topics: Sequence[str]) -> dict[str, int]:
    row, recorded = tables.TopicOverviewTable, dict[str, int]()
    for some in bulk_statements.split_chunks(topics):
        rows = session.execute(select(row.topic, row.recorded_at_ms).where(row.topic.in_(some)))
        recorded.update((topic, at_ms) for topic, at_ms in rows)
    return recorded


def _drop_beyond(session: Session, last: dict[str, int]) -> None:
    """Delete rows of higher partitions: a topic that was dropped and created again may have fewer."""
    row = tables.PartitionOverviewTable
    for some in bulk_statements.split_chunks(sorted(last)):
        there = select(row.topic, func.max(row.partition)).where(row.topic.in_(some)).group_by(row.topic)
        for topic, highest in session.execute(there).all():
            if highest > last[topic]:
                session.execute(delete(row).where(row.topic == topic, row.partition > last[topic]))


class Assessments(StorePart):
    """One row per topic partition and as-of."""

    def record(self, as_of_ms: int, recorded_at_ms: int, assessments: Sequence[Assessment]) -> None:
        """Record ``assessments``; the same as-of again replaces its row. Ten thousand rows take a few statements."""
        with self._database.writing() as session:
            write_assessments(session, as_of_ms, recorded_at_ms, assessments)

    def list_latest(self, topics: Sequence[str] = ()) -> list[Assessment]:
        """List the assessment recorded last of every topic partition of ``topics`` (none = all), in their order.

        Last by the time of recording, not by as-of: a simulated future must not hide the present for ever.
        """
        row, latest = tables.AssessmentTable, tables.LatestAssessment
        statement = (
            select(row)
            .join(
                latest,
                and_(latest.topic == row.topic, latest.partition == row.partition, latest.as_of_ms == row.as_of_ms),
            )
            .order_by(row.topic, row.partition)
        )
        if topics:
            statement = statement.where(row.topic.in_(topics))
        with self._database.reading() as session:
            return [read_value(Assessment, assessed, active_closes_ms=None) for assessed in session.scalars(statement)]

    def last_assessed_ms(self, topic: str) -> int | None:
        """Find when ``topic`` was assessed last, or found unchanged since, with any outcome; None: never."""
        latest, overview = tables.LatestAssessment, tables.TopicOverviewTable
        with self._database.reading() as session:
            assessed_ms = session.scalar(select(func.max(latest.recorded_at_ms)).where(latest.topic == topic))
            if assessed_ms is None:
                return None
            confirmed_ms = session.scalar(select(overview.recorded_at_ms).where(overview.topic == topic))
            return max(assessed_ms, confirmed_ms or 0)

    def list_topics_due_by(self, ms: int) -> list[str]:
        """List topics with a partition whose last assessed deadline is at or before ``ms``; in order."""
        row, latest = tables.AssessmentTable, tables.LatestAssessment
        same = and_(latest.topic == row.topic, latest.partition == row.partition, latest.as_of_ms == row.as_of_ms)
        due = select(row.topic).join(latest, same).where(row.deadline_ms <= ms).distinct().order_by(row.topic)
        with self._database.reading() as session:
            return list(session.scalars(due))
