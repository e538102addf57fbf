"""Removes history older than its retention: runs, verdicts, assessments, samples, deadlines, audit entries and more.

Receipts, checkpoints and marks are not history: they are a projection of the table and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from sqlalchemy import ColumnElement, Table, and_, delete, exists, func, literal, select, tuple_
from sqlalchemy.orm import Session, aliased

from winnow.clock import DAY_MS
from winnow.store import bulk_statements, tables
from winnow.store.alert_events import AlertEventTable
from winnow.store.audit_chain import remove_oldest
from winnow.store.database import StorePart
from winnow.store.deadlines import DeadlineTable
from winnow.store.erase_requests import MAXIMUM_REQUEST_AGE_MS, EraseRequestTable
from winnow.store.rows import RunState
from winnow.store.run_progress import remove_progress
from winnow.store.samples import ALL_TOPICS, HOURLY_MS, SampleTable
from winnow.values.documents import load_json
from winnow.values.results import Verdict

ROWS_AT_ONCE: Final = 1_000
"""Maximum rows that one transaction removes: the only writer of a SQLite file must not keep others waiting."""
_OPEN: Final = sorted(state.value for state in RunState if not state.is_closed)
_CLOSED: Final = sorted(state.value for state in RunState if state.is_closed)


@dataclass(frozen=True, slots=True)
class Pruned:
    """Rows that one transaction removed. ``pages``: URLs of the Data Docs pages of removed verdicts."""

    rows: int
    pages: tuple[str, ...] = ()


Prune = Callable[[Session, ColumnElement[bool], int], Pruned]
"""Removes the rows for which the condition holds, at most so many."""


class History(StorePart):
    """Removes old rows that are needed only for questions about the distant past."""

    def prune(self, topic: str, before_ms: int, *, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[Pruned]:
        """Remove the history of ``topic`` from before ``before_ms``, one transaction for each value that is yielded.

        Kept regardless of age: the assessment of each partition that was recorded last; runs that are open, whose
        folder was not found empty twice, or that a mark of an uncleanable partition names; verdicts of open runs;
        files that still have their bytes. The attempts, the progress and the verdicts of a removed run go with
        it. Audit entries and events of alerts go by their age alone, those of other topics too: of a deleted topic,
        who deleted it stays known for as long. Audit entries go from the first one on, so that the chain holds.

        Samples of all topics together go with those of any topic.

        Nothing is yielded when there is nothing to remove; that costs one statement.
        """
        parts: tuple[tuple[ColumnElement[bool], Prune], ...] = (
            (_old_runs(topic, before_ms), _prune_runs),
            (_old_verdicts(topic, before_ms), _prune_verdicts),
            (_old_assessments(topic, before_ms), partial(_prune_rows, tables.AssessmentTable)),
            (_old_ledger(topic, before_ms), partial(_prune_rows, tables.RetiredFileTable)),
            (_old_samples(topic, before_ms), lambda *prune: Pruned(_remove_samples(*prune))),
            (_old_deadlines(topic, before_ms), partial(_prune_rows, DeadlineTable)),
            (_old_requests(topic, before_ms), partial(_prune_rows, EraseRequestTable)),
            (_old_audit(before_ms), lambda session, _, most: Pruned(remove_oldest(session, before_ms, most))),
            (AlertEventTable.at_ms < before_ms, _prune_events),
        )
        with self._database.reading() as session:
            due = session.execute(select(*(exists(select(literal(1)).where(old)) for old, _ in parts))).one()
        for is_due, (old, prune) in zip(due, parts, strict=True):
            full = bool(is_due)
            while full:
                with self._database.writing() as session:
                    pruned = prune(session, old, rows_at_once)
                if pruned.rows:
                    yield pruned
                full = pruned.rows >= rows_at_once

    def thin_samples(self, topic: str, now_ms: int, *, rows_at_once: int = ROWS_AT_ONCE) -> int:
        """Remove samples of ``topic`` older than two weeks but the last one of each day; return how many.

        Samples of all topics together are thinned along with those of any topic.
        """
        old = _thinned_samples(topic, now_ms - HOURLY_MS)
        with self._database.reading() as session:
            is_due = session.scalar(select(exists(select(literal(1)).where(old))))
        removed, full = 0, bool(is_due)
        while full:
            with self._database.writing() as session:
                rows = _remove_samples(session, old, rows_at_once)
            removed += rows
            full = rows >= rows_at_once
        return removed


def _old_runs(topic: str, before_ms: int) -> ColumnElement[bool]:
    row, mark = tables.RunTable, tables.UncleanableTable
    return and_(
        row.topic == topic,
        row.updated_at_ms < before_ms,
        row.status.in_(_CLOSED),
        row.swept_at_ms.is_not(None),
        ~exists().where(mark.topic == row.topic, mark.plan_id == row.plan_id),
    )


def _old_verdicts(topic: str, before_ms: int) -> ColumnElement[bool]:
    row, run = tables.VerdictTable, tables.RunTable
    return and_(
        row.topic == topic,
        row.checked_at_ms < before_ms,
        ~exists().where(run.plan_id == row.plan_id, run.status.in_(_OPEN)),
    )


def _old_assessments(topic: str, before_ms: int) -> ColumnElement[bool]:
    row, latest = tables.AssessmentTable, tables.LatestAssessment
    return and_(
        row.topic == topic,
        row.recorded_at_ms < before_ms,
        # Removing it would remove the overview of its partition.
        ~exists().where(latest.topic == row.topic, latest.partition == row.partition, latest.as_of_ms == row.as_of_ms),
    )


def _old_ledger(topic: str, before_ms: int) -> ColumnElement[bool]:
    row = tables.RetiredFileTable
    return and_(row.topic == topic, row.deleted_at_ms < before_ms)


def _old_samples(topic: str, before_ms: int) -> ColumnElement[bool]:
    return and_(SampleTable.topic.in_((topic, ALL_TOPICS)), SampleTable.at_ms < before_ms)


def _thinned_samples(topic: str, before_ms: int) -> ColumnElement[bool]:
    row, later = SampleTable, aliased(SampleTable)
    next_day_ms = (row.at_ms // DAY_MS + 1) * DAY_MS
    has_later = exists().where(later.topic == row.topic, later.at_ms > row.at_ms, later.at_ms < next_day_ms)
    return and_(_old_samples(topic, before_ms // DAY_MS * DAY_MS), has_later)


def _old_deadlines(topic: str, before_ms: int) -> ColumnElement[bool]:
    row = DeadlineTable
    return and_(row.topic == topic, row.deadline_ms < before_ms, row.settled_at_ms.is_not(None))


def _old_requests(topic: str, before_ms: int) -> ColumnElement[bool]:
    # Whatever its state: long before this no request is worth anything any more.
    row = EraseRequestTable
    return and_(row.topic == topic, row.requested_at_ms < before_ms - MAXIMUM_REQUEST_AGE_MS)


# Each statement checks again that a row is old: between choosing and removing, a run may be opened again.


def _prune_runs(session: Session, old: ColumnElement[bool], most: int) -> Pruned:
    row = tables.RunTable
    chosen = select(row.plan_id).where(old).order_by(row.updated_at_ms).limit(most).scalar_subquery()
    removed = delete(row).where(row.plan_id.in_(chosen), old).returning(row.plan_id)
    plan_ids = list(session.scalars(removed, execution_options={"synchronize_session": False}))
    attempts, verdicts = tables.Attempt, tables.VerdictTable
    _execute(session, attempts.plan_id.in_(plan_ids), attempts)
    remove_progress(session, plan_ids)
    return Pruned(len(plan_ids), _remove_verdicts(session, verdicts.plan_id.in_(plan_ids))[1])


def _prune_verdicts(session: Session, old: ColumnElement[bool], most: int) -> Pruned:
    row = tables.VerdictTable
    chosen = select(row.plan_id, row.attempt).where(old).order_by(row.checked_at_ms).limit(most)
    return Pruned(*_remove_verdicts(session, and_(tuple_(row.plan_id, row.attempt).in_(chosen), old)))


def _prune_rows(model: type[tables.Base], session: Session, old: ColumnElement[bool], most: int) -> Pruned:
    keys = cast(Table, model.__table__).primary_key.columns
    chosen = select(*keys).where(old).limit(most)
    return Pruned(_execute(session, and_(tuple_(*keys).in_(chosen), old), model))


def _prune_events(session: Session, old: ColumnElement[bool], most: int) -> Pruned:
    row = AlertEventTable
    chosen = select(row.event_id).where(old).order_by(row.at_ms).limit(most).scalar_subquery()
    return Pruned(_execute(session, row.event_id.in_(chosen), row))


def _remove_samples(session: Session, old: ColumnElement[bool], most: int) -> int:
    row = SampleTable
    chosen = session.execute(select(row.topic, row.at_ms).where(old).order_by(row.at_ms).limit(most))
    keys = tuple_(row.topic, row.at_ms)
    return sum(
        _execute(session, keys.in_(some), row) for some in bulk_statements.split_chunks([tuple(key) for key in chosen])
    )


def _old_audit(before_ms: int) -> ColumnElement[bool]:
    # The oldest entries are removed first, so that what is left follows from one digest.
    row = tables.AuditTable
    return and_(row.at_ms < before_ms, row.number == select(func.min(row.number)).scalar_subquery())


def _remove_verdicts(session: Session, which: ColumnElement[bool]) -> tuple[int, tuple[str, ...]]:
    row = tables.VerdictTable
    removed = delete(row).where(which).returning(row.document)
    documents = list(session.scalars(removed, execution_options={"synchronize_session": False}))
    pages = (load_json(Verdict, document.encode()).data_docs for document in documents)
    return len(documents), tuple(page for page in pages if page is not None)


def _execute(session: Session, which: ColumnElement[bool], model: type[tables.Base]) -> int:
    statement = delete(model).where(which).execution_options(synchronize_session=False)
    return bulk_statements.execute_change(session, statement)
