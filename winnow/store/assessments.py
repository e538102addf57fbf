"""History: what was eligible, what was idle, and why."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, func, select

from winnow.model import Assessment, Reason
from winnow.store import tables
from winnow.store.database import StorePart
from winnow.store.looks import write_assessments


class Assessments(StorePart):
    """One row per topic partition and as-of."""

    def record(self, as_of_ms: int, recorded_at_ms: int, assessments: Sequence[Assessment]) -> None:
        """Write down ``assessments``; the same as-of again replaces its row. Ten thousand rows are a few statements."""
        with self._database.writing() as session:
            write_assessments(session, as_of_ms, recorded_at_ms, assessments)

    def list_latest(self, topics: Sequence[str] = ()) -> list[Assessment]:
        """The assessment recorded last of every topic partition of ``topics`` (none = all), in their order.

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
            return [_assessment(found) for found in session.scalars(statement)]

    def last_assessed_ms(self, topic: str) -> int | None:
        """When ``topic`` was assessed last, whatever came of it; None: never."""
        latest = tables.LatestAssessment
        with self._database.reading() as session:
            return session.scalar(select(func.max(latest.recorded_at_ms)).where(latest.topic == topic))

    def list_topics_due_by(self, ms: int) -> list[str]:
        """Topics with a partition whose deadline, as it was assessed last, lies at or before ``ms``; in order."""
        row, latest = tables.AssessmentTable, tables.LatestAssessment
        same = and_(latest.topic == row.topic, latest.partition == row.partition, latest.as_of_ms == row.as_of_ms)
        found = select(row.topic).join(latest, same).where(row.deadline_ms <= ms).distinct().order_by(row.topic)
        with self._database.reading() as session:
            return list(session.scalars(found))


def _assessment(row: tables.AssessmentTable) -> Assessment:
    return Assessment(
        topic=row.topic,
        partition=row.partition,
        eligible=row.eligible,
        reason=Reason(row.reason),
        log_start_offset=row.log_start_offset,
        first_dirty_offset=row.first_dirty_offset,
        first_uncleanable_offset=row.first_uncleanable_offset,
        log_end_offset=row.log_end_offset,
        dirty_ratio=row.dirty_ratio,
        clean_bytes=row.clean_bytes,
        cleanable_bytes=row.cleanable_bytes,
        max_compaction_delay_ms=row.max_compaction_delay_ms,
        deadline_ms=row.deadline_ms,
    )
