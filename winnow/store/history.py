"""Removes history older than its retention: assessments, runs, verdicts, deleted files.

Receipts, checkpoints and marks are not history: they are a projection of the table and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, exists, literal, select, tuple_
from sqlalchemy.orm import Session

from winnow.documents import load_json
from winnow.results import Verdict
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.values import RunState

ROWS_AT_ONCE: Final = 1_000
"""Maximum rows that one transaction removes: the only writer of a SQLite file must not keep others waiting."""
_OPEN: Final = sorted(state.value for state in RunState if not state.is_closed)
_CLOSED: Final = sorted(state.value for state in RunState if state.is_closed)


@dataclass(frozen=True, slots=True)
class Pruned:
    """Rows that one transaction removed. ``pages``: URLs of the Data Docs pages of removed verdicts."""

    rows: int
    pages: tuple[str, ...] = ()


class History(StorePart):
    """Removes old rows that are needed only for questions about the distant past."""

    def prune(self, topic: str, before_ms: int, *, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[Pruned]:
        """Remove the history of ``topic`` from before ``before_ms``, one transaction for each value that is yielded.

        Kept regardless of age: the assessment of each partition that was recorded last; runs that are open, whose
        folder was not found empty twice, or that a mark of an uncleanable partition names; verdicts of open runs;
        files that still have their bytes. The attempts and verdicts of a removed run go with it.

        Nothing is yielded when there is nothing to remove; that costs one statement.
        """
        parts: tuple[tuple[ColumnElement[bool], Callable[[Session], Pruned]], ...] = (
            (_old_runs(topic, before_ms), lambda session: _prune_runs(session, topic, before_ms, rows_at_once)),
            (_old_verdicts(topic, before_ms), lambda session: _prune_verdicts(session, topic, before_ms, rows_at_once)),
            (
                _old_assessments(topic, before_ms),
                lambda session: _prune_assessments(session, topic, before_ms, rows_at_once),
            ),
            (_old_ledger(topic, before_ms), lambda session: _prune_ledger(session, topic, before_ms, rows_at_once)),
        )
        with self._database.reading() as session:
            due = session.execute(select(*(exists(select(literal(1)).where(old)) for old, _ in parts))).one()
        for is_due, (_, prune) in zip(due, parts, strict=True):
            full = bool(is_due)
            while full:
                with self._database.writing() as session:
                    pruned = prune(session)
                if pruned.rows:
                    yield pruned
                full = pruned.rows >= rows_at_once


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


# Each statement checks again that a row is old: between choosing and removing, a run may be opened again.


def _prune_runs(session: Session, topic: str, before_ms: int, most: int) -> Pruned:
    row, old = tables.RunTable, _old_runs(topic, before_ms)
    chosen = select(row.plan_id).where(old).order_by(row.updated_at_ms).limit(most).scalar_subquery()
    removed = delete(row).where(row.plan_id.in_(chosen), old).returning(row.plan_id)
    plan_ids = list(session.scalars(removed, execution_options={"synchronize_session": False}))
    attempts, verdicts = tables.Attempt, tables.VerdictTable
    _execute(session, attempts.plan_id.in_(plan_ids), attempts)
    return Pruned(len(plan_ids), _remove_verdicts(session, verdicts.plan_id.in_(plan_ids))[1])


def _prune_verdicts(session: Session, topic: str, before_ms: int, most: int) -> Pruned:
    row, old = tables.VerdictTable, _old_verdicts(topic, before_ms)
    chosen = select(row.plan_id, row.attempt).where(old).order_by(row.checked_at_ms).limit(most)
    return Pruned(*_remove_verdicts(session, and_(tuple_(row.plan_id, row.attempt).in_(chosen), old)))


def _prune_assessments(session: Session, topic: str, before_ms: int, most: int) -> Pruned:
    row, old = tables.AssessmentTable, _old_assessments(topic, before_ms)
    chosen = select(row.topic, row.partition, row.as_of_ms).where(old).limit(most)
    return Pruned(_execute(session, and_(tuple_(row.topic, row.partition, row.as_of_ms).in_(chosen), old), row))


def _prune_ledger(session: Session, topic: str, before_ms: int, most: int) -> Pruned:
    row, old = tables.RetiredFileTable, _old_ledger(topic, before_ms)
    chosen = select(row.topic, row.path).where(old).limit(most)
    return Pruned(_execute(session, and_(tuple_(row.topic, row.path).in_(chosen), old), row))


def _remove_verdicts(session: Session, which: ColumnElement[bool]) -> tuple[int, tuple[str, ...]]:
    row = tables.VerdictTable
    removed = delete(row).where(which).returning(row.document)
    documents = list(session.scalars(removed, execution_options={"synchronize_session": False}))
    pages = (load_json(Verdict, document.encode()).data_docs for document in documents)
    return len(documents), tuple(page for page in pages if page is not None)


def _execute(session: Session, which: ColumnElement[bool], model: type[tables.Base]) -> int:
    statement = delete(model).where(which).execution_options(synchronize_session=False)
    return bulk_statements.execute_change(session, statement)
