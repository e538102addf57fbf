"""The history of compaction deadlines: which were kept, which were missed, and by how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from sqlalchemy import ColumnElement, Index, and_, case, delete, exists, func, literal, select, tuple_
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
    # The history is read by when its deadlines were settled, and what waits at once.
    __table_args__ = (Index(None, "settled_at_ms", "deadline_ms"),)


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
        at_ms = case((row.settled_at_ms < row.deadline_ms, row.settled_at_ms), else_=row.deadline_ms)
        is_kept = row.settled_at_ms <= row.deadline_ms + grace_ms
        settled = (
            select((at_ms // DAY_MS).label("day"), func.sum(case((is_kept, 1), else_=0)), func.count())
            # The first says nothing that the others do not; the index begins with it.
            .where(row.settled_at_ms >= since_ms, at_ms >= since_ms, row.deadline_ms >= since_ms)
            .group_by("day")
        )
        waiting = select((row.deadline_ms // DAY_MS).label("day"), literal(0), func.count()).group_by("day")
        waiting = waiting.where(row.deadline_ms >= since_ms, _is_missed_and_waits(now_ms, grace_ms))
        if topic is not None:
            settled, waiting = settled.where(row.topic == topic), waiting.where(row.topic == topic)
        kept: Counter[int] = Counter()
        missed: Counter[int] = Counter()
        with self._database.reading() as session:
            for day, of_kept, all_of_day in chain(session.execute(settled), session.execute(waiting)):
                kept[day] += int(of_kept)
                missed[day] += int(all_of_day) - int(of_kept)
        return [DeadlineDay(day * DAY_MS, kept[day], missed[day]) for day in sorted(missed)]

    def list_missed(self, since_ms: int, now_ms: int, *, grace_ms: int, limit: int) -> list[MissedDeadline]:
        """List missed deadlines since ``since_ms``: those that still wait first, and within that the oldest."""
        row = DeadlineTable
        listed = select(row.topic, row.partition, row.deadline_ms, row.settled_at_ms).where(row.deadline_ms >= since_ms)
        listed = listed.order_by(row.deadline_ms, row.topic, row.partition)
        late = and_(row.settled_at_ms >= since_ms, row.settled_at_ms > row.deadline_ms + grace_ms)
        with self._database.reading() as session:
            missed = session.execute(listed.where(_is_missed_and_waits(now_ms, grace_ms)).limit(limit)).all()
            if len(missed) < limit:
                missed = [*missed, *session.execute(listed.where(late).limit(limit - len(missed)))]
        return [MissedDeadline(*each) for each in missed]


_IS_PAUSED: Final = exists().where(
    tables.Paused.topic == DeadlineTable.topic, tables.Paused.partition == DeadlineTable.partition
)


def _is_missed_and_waits(now_ms: int, grace_ms: int) -> ColumnElement[bool]:
    row = DeadlineTable
    return and_(row.settled_at_ms.is_(None), row.deadline_ms < now_ms - grace_ms, ~_IS_PAUSED)
