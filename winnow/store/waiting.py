"""What waits too long, found without looking into any table: deadlines and retired files."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, func, select

from winnow.store import tables
from winnow.store.database import Room


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """Retired files of one topic that still have their bytes. ``oldest_ms``: when the first of them was retired."""

    topic: str
    files: int
    size_bytes: int
    oldest_ms: int


class Waiting(Room):
    """Questions over all topics, answered by one statement each."""

    def topics_due_by(self, ms: int) -> list[str]:
        """Topics with a partition whose deadline, as it was assessed last, lies at or before ``ms``; in order."""
        row, latest = tables.Assessment, tables.LatestAssessment
        same = and_(latest.topic == row.topic, latest.partition == row.partition, latest.as_of_ms == row.as_of_ms)
        found = select(row.topic).join(latest, same).where(row.deadline_ms <= ms).distinct().order_by(row.topic)
        with self._database.reading() as session:
            return list(session.scalars(found))

    def waiting_files(self, retired_by_ms: int, topic: str | None = None) -> list[WaitingFiles]:
        """Files of every topic (or of one) that were retired at or before ``retired_by_ms`` and are not deleted."""
        row = tables.RetiredFile
        sums = (func.count(), func.sum(row.size_bytes), func.min(row.retired_at_ms))
        found = select(row.topic, *sums).where(
            row.deleted_at_ms.is_(None), row.kind != "attempts", row.retired_at_ms <= retired_by_ms
        )
        if topic is not None:
            found = found.where(row.topic == topic)
        with self._database.reading() as session:
            rows = session.execute(found.group_by(row.topic).order_by(row.topic))
            return [WaitingFiles(name, files, int(size), oldest) for name, files, size, oldest in rows]
