"""The history of compaction deadlines: which were kept, which were missed, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Index, and_, case, delete, exists, func, or_, select, tuple_
from sqlalchemy.orm import Session

from winnow.clock import DAY_MS
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.rows import PartitionOverview


@dataclass(frozen=True, slots=True)
class DeadlineDay:
    """The deadlines of one day in UTC. ``day_ms``: when it begins."""

    day_ms: int
    kept: int
    missed: int


@dataclass(frozen=True, slots=True)
class MissedDeadline:
    """A deadline that was missed. ``settled_at_ms`` None: the partition still waits for its compaction."""

    topic: str
    partition: int
    deadline_ms: int
    settled_at_ms: int | None


class DeadlineTable(tables.Base, of=MissedDeadline, key=[*tables.PARTITION, "deadline_ms"]):
    """History: one row per compaction deadline of a topic partition that was kept or has passed.

    ``settled_at_ms``: when it was first seen to be compacted; None: it has passed and is still due.
    """

    __tablename__ = "winnow_deadline"
    __table_args__ = (Index(None, "deadline_ms"),)


def read_deadlines(session: Session, topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """Read deadline and first dirty offset of each partition of ``topics`` that has a deadline."""
    row = tables.PartitionOverviewTable
    deadlines: dict[tuple[str, int], tuple[int, int]] = {}
    for some in bulk_statements.split_chunks(topics):
        listed = select(row.topic, row.partition, row.deadline_ms, row.first_dirty_offset).where(
            row.topic.in_(some), row.deadline_ms.is_not(None)
        )
        for topic, partition, deadline_ms, first_dirty in session.execute(listed):
            if deadline_ms is not None:
                deadlines[topic, partition] = (deadline_ms, first_dirty)
    return deadlines


def write_deadlines(
    session: Session,
    before: Mapping[tuple[str, int], tuple[int, int]],
    overviews: Sequence[PartitionOverview],
    now_ms: int,
) -> None:
    """Write which of the deadlines ``before`` were settled by a compaction, or passed, when ``overviews`` came.

    A deadline that moved without a compaction (another configuration, older records) is none any more.
    """
    settled: list[dict[str, object]] = []
    passed: list[dict[str, object]] = []
    withdrawn: list[tuple[str, int, int]] = []
    for overview in overviews:
        known = before.get((overview.topic, overview.partition))
        if known is None:
            continue
        deadline_ms, first_dirty = known
        row: dict[str, object] = {"topic": overview.topic, "partition": overview.partition, "deadline_ms": deadline_ms}
        if overview.first_dirty_offset > first_dirty:
            settled.append({**row, "settled_at_ms": now_ms})
        elif overview.deadline_ms != deadline_ms:
            withdrawn.append((overview.topic, overview.partition, deadline_ms))
        elif deadline_ms <= now_ms:
            passed.append({**row, "settled_at_ms": None})
    table = DeadlineTable
    bulk_statements.upsert(session, table, settled, when=lambda _: table.settled_at_ms.is_(None))
    if passed:
        bulk_statements.insert_missing(session, table, passed)
    for some in bulk_statements.split_chunks(withdrawn):
        keys = tuple_(table.topic, table.partition, table.deadline_ms)
        session.execute(delete(table).where(keys.in_(some), table.settled_at_ms.is_(None)))


class Deadlines(StorePart):
    """One row per deadline of a topic partition that was kept or has passed.

    A deadline counts as missed once ``grace_ms`` have passed without a compaction: a partition is only due when its
    deadline has passed. Partitions that are paused miss none while they are.
    """

    def count_by_day(self, since_ms: int, now_ms: int, *, grace_ms: int, topic: str | None = None) -> list[DeadlineDay]:
        """Count the deadlines kept and missed since ``since_ms``.

        The day is that of the deadline, or that of the compaction if it came earlier. Days without either are left out.
        """
        row = DeadlineTable
        missed = _is_missed(now_ms, grace_ms)
        at_ms = case((row.settled_at_ms < row.deadline_ms, row.settled_at_ms), else_=row.deadline_ms)
        kept = and_(row.settled_at_ms.is_not(None), row.settled_at_ms <= row.deadline_ms + grace_ms)
        day = (at_ms // DAY_MS).label("day")
        counted = (
            select(day, func.sum(case((kept, 1), else_=0)), func.sum(case((missed, 1), else_=0)))
            .where(at_ms >= since_ms, row.deadline_ms >= since_ms)
            .group_by(day)
            .order_by(day)
        )
        if topic is not None:
            counted = counted.where(row.topic == topic)
        with self._database.reading() as session:
            days = session.execute(counted)
            return [DeadlineDay(number * DAY_MS, int(kept), int(late)) for number, kept, late in days]

    def list_missed(self, since_ms: int, now_ms: int, *, grace_ms: int, limit: int) -> list[MissedDeadline]:
        """List missed deadlines since ``since_ms``: those that still wait first, and within that the oldest."""
        row = DeadlineTable
        statement = (
            select(row.topic, row.partition, row.deadline_ms, row.settled_at_ms)
            .where(row.deadline_ms >= since_ms, _is_missed(now_ms, grace_ms))
            .order_by(row.settled_at_ms.is_not(None), row.deadline_ms, row.topic, row.partition)
            .limit(limit)
        )
        with self._database.reading() as session:
            return [MissedDeadline(*missed) for missed in session.execute(statement)]


_IS_PAUSED: Final = exists().where(
    tables.Paused.topic == DeadlineTable.topic, tables.Paused.partition == DeadlineTable.partition
)


def _is_missed(now_ms: int, grace_ms: int) -> ColumnElement[bool]:
    row = DeadlineTable
    waits = and_(row.settled_at_ms.is_(None), row.deadline_ms + grace_ms < now_ms, ~_IS_PAUSED)
    return or_(waits, row.settled_at_ms > row.deadline_ms + grace_ms)
