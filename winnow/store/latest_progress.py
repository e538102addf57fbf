"""How far the tables of topics' latest states are behind their logs: which record waits longest to be shown.

A tick reads here which of them are late or have to be brought up to date, and opens no table for that. A row never
hides that a record waits. It may say so of one that is shown meanwhile, so whoever alerts looks at the table first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Index, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import read_value
from winnow.store.topic_rows import is_former_life


@dataclass(frozen=True, slots=True)
class LatestLimits:
    """What a topic's configuration asks of its table of the latest state; None: nothing.

    ``max_age_ms``: how long a record may wait. ``update_ms``: how long after an update the next one is due.
    """

    max_age_ms: int | None = None
    update_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LatestProgress:
    """What one topic's table of the latest state shows of its log.

    Sequence numbers are those of the log's snapshots, in the order of its commits.

    Args:
        topic: the topic.
        table_uuid: its life: the uuid of the log's table.
        shown_sequence: of the log's snapshot that the table shows; 0: none that is known.
        seen_sequence: the highest one that is accounted for here, with all before it.
        seen_end_offsets: the sum of the partitions' log ends at it.
        missing_since_ms: a time at or before that of every record that the table does not show; None: it shows all.
        updated_at_ms: when an update succeeded last, also without a change; None: none is known.
        tried_at_ms: when one began last, as far as ticks did it, or ended; 0: never.
        max_age_ms: see :class:`LatestLimits`.
        update_ms: see :class:`LatestLimits`.
        deadline_ms: ``missing_since_ms`` and ``max_age_ms``; None without one of them.
        due_ms: when the next update is due; None: nothing is missing, or no tick brings the table up to date.
    """

    topic: str
    table_uuid: str
    shown_sequence: int
    seen_sequence: int
    seen_end_offsets: int
    missing_since_ms: int | None
    updated_at_ms: int | None
    tried_at_ms: int
    max_age_ms: int | None
    update_ms: int | None
    deadline_ms: int | None = None
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogState:
    """A log at one of its commits, as its table of the latest state has to follow it.

    ``limits`` None: the topic keeps no such table. ``end_offsets``: the sum of the partitions' log ends.
    ``appended``: by how much the commit raised it; None: the commit is any one. ``oldest_ms``: a time at or before that
    of every record that was appended, or of the log; None: there are none.
    """

    topic: str
    table_uuid: str
    sequence: int
    limits: LatestLimits | None
    end_offsets: int
    oldest_ms: int | None
    appended: int | None = None


class LatestProgressTable(tables.Base, of=LatestProgress, key=["topic"]):
    """One row per topic that keeps a table of its latest state."""

    __tablename__ = "winnow_latest_progress"
    __table_args__ = (Index(None, "deadline_ms"), Index(None, "due_ms"))


def write_log_states(session: Session, states: Sequence[LogState]) -> None:
    """Record logs; the caller has locked the topics' rows."""
    keeping = {state.topic: state for state in states if state.limits is not None}
    for some in bulk_statements.split_chunks([state.topic for state in states if state.limits is None]):
        session.execute(delete(LatestProgressTable).where(LatestProgressTable.topic.in_(some)))
    known = _read_rows(session, list(keeping))
    rows = [_advance(known.get(topic), state) for topic, state in keeping.items()]
    changed = [row for row in rows if known.get(row.topic) != row]
    bulk_statements.upsert(session, LatestProgressTable, [LatestProgressTable.make_row(row) for row in changed])


def _read_rows(session: Session, topics: Sequence[str]) -> dict[str, LatestProgress]:
    row, known = LatestProgressTable, dict[str, LatestProgress]()
    for some in bulk_statements.split_chunks(topics):
        for progress in session.scalars(select(row).where(row.topic.in_(some))):
            known[progress.topic] = read_value(LatestProgress, progress)
    return known


def _begin(state: LogState) -> LatestProgress:
    return LatestProgress(state.topic, state.table_uuid, 0, 0, 0, None, None, 0, None, None)


def _advance(known: LatestProgress | None, state: LogState) -> LatestProgress:
    """Account for ``state``, of which another process may have recorded a later one already."""
    limits = state.limits or LatestLimits()
    if known is None or known.table_uuid != state.table_uuid:
        known = _begin(state)
    known = replace(known, max_age_ms=limits.max_age_ms, update_ms=limits.update_ms)
    shows_nothing = known.shown_sequence == 0
    if shows_nothing if state.appended is None else state.sequence > known.shown_sequence:
        times = [ms for ms in (known.missing_since_ms, state.oldest_ms) if ms is not None]
        known = replace(known, missing_since_ms=min(times, default=None))
    # A commit after one that nobody noted (its process died) does not count: the table itself has to be looked at.
    before = state.end_offsets - (state.appended or 0)
    follows = before == known.seen_end_offsets or (shows_nothing and state.appended is None)
    if follows and state.sequence > known.seen_sequence:
        known = replace(known, seen_sequence=state.sequence, seen_end_offsets=state.end_offsets)
    return _set_times(known)


def _set_times(progress: LatestProgress) -> LatestProgress:
    since_ms, max_age_ms, update_ms = progress.missing_since_ms, progress.max_age_ms, progress.update_ms
    waits = since_ms is not None
    return replace(
        progress,
        deadline_ms=None if since_ms is None or max_age_ms is None else min(since_ms + max_age_ms, 2**63 - 1),
        due_ms=progress.tried_at_ms + update_ms if waits and update_ms is not None else None,
    )


class LatestTables(StorePart):
    """One row per topic that keeps a table of its latest state."""

    def record_log(self, state: LogState) -> None:
        """Account for a commit to a log."""
        with self._database.writing() as session:
            lock_topic_rows(session, state.topic)
            if not is_former_life(session, state.topic, state.table_uuid):
                write_log_states(session, [state])

    def record_shown(
        self, state: LogState, shown_sequence: int, missing_since_ms: int | None, *, updated_at_ms: int | None
    ) -> bool:
        """Record what the table shows, where ``state`` is the newest commit to its log.

        ``updated_at_ms``: when an update ended just now; None: the table was looked at only.

        Returns:
            False, without a change, if a later commit was accounted for meanwhile: the caller looks again.
        """
        with self._database.writing() as session:
            lock_topic_rows(session, state.topic)
            if is_former_life(session, state.topic, state.table_uuid):
                return True
            known = _read_rows(session, [state.topic]).get(state.topic) or _begin(state)
            if known.table_uuid != state.table_uuid:
                known = _begin(state)
            if known.seen_sequence > state.sequence:
                return False
            limits = state.limits or LatestLimits()
            known = replace(
                known,
                shown_sequence=shown_sequence,
                seen_sequence=state.sequence,
                seen_end_offsets=state.end_offsets,
                missing_since_ms=missing_since_ms,
                max_age_ms=limits.max_age_ms,
                update_ms=limits.update_ms,
            )
            if updated_at_ms is not None:
                known = replace(known, updated_at_ms=updated_at_ms, tried_at_ms=max(updated_at_ms, known.tried_at_ms))
            bulk_statements.upsert(session, LatestProgressTable, [LatestProgressTable.make_row(_set_times(known))])
            return True

    def find(self, topic: str) -> LatestProgress | None:
        """Find what the table of ``topic`` shows; None: it keeps none, or nothing is known yet."""
        with self._database.reading() as session:
            return _read_rows(session, [topic]).get(topic)

    def list_late(self, by_ms: int) -> list[LatestProgress]:
        """List the tables of which a record that is not shown may have its deadline at or before ``by_ms``."""
        return self._list_by(LatestProgressTable.deadline_ms, by_ms)

    def list_due(self, now_ms: int) -> list[LatestProgress]:
        """List the tables that a tick has to bring up to date, those that are due longest first."""
        return self._list_by(LatestProgressTable.due_ms, now_ms)

    def list_unaccounted(self) -> list[str]:
        """List the topics with limits of whose log a later commit is known than is accounted for here."""
        row, head = LatestProgressTable, tables.TopicHeadTable
        statement = (
            select(row.topic)
            .join(head, and_(head.topic == row.topic, head.table_uuid == row.table_uuid))
            .where(
                head.last_sequence_number > row.seen_sequence,
                or_(row.max_age_ms.is_not(None), row.update_ms.is_not(None)),
            )
            .order_by(row.topic)
        )
        with self._database.reading() as session:
            return list(session.scalars(statement))

    def _list_by(self, time: Any, ms: int) -> list[LatestProgress]:
        statement = select(LatestProgressTable).where(time <= ms).order_by(time, LatestProgressTable.topic)
        with self._database.reading() as session:
            return [read_value(LatestProgress, row) for row in session.scalars(statement)]

    def claim(self, due: LatestProgress, now_ms: int) -> bool:
        """Take the update of a table that is due; False: another process took it, or brought it up to date."""
        row = LatestProgressTable
        with self._database.writing() as session:
            taken = update(row).where(row.topic == due.topic, row.due_ms == due.due_ms)
            return bool(
                bulk_statements.execute_change(
                    session, taken.values(tried_at_ms=now_ms, due_ms=now_ms + (due.update_ms or 0))
                )
            )
