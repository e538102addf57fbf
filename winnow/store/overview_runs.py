"""Runs for the page: filtered and paged, each with what its receipt says; and verdicts, paged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.orm import Session

from winnow.documents import load_json
from winnow.model import Receipt, Severity, Verdict
from winnow.store import tables
from winnow.store.database import StorePart
from winnow.store.overview_values import Listed, RunView, Window
from winnow.store.runs import make_run
from winnow.store.values import Run, RunState

AIRFLOW: Final = "airflow:"
"""How the holder of a DAG run begins; its DAG's id follows, a colon, and its own id."""


class RunHistory(StorePart):
    """Runs with receipts, and verdicts, the newest first."""

    def list_runs(
        self,
        window: Window,
        *,
        topic: str | None = None,
        status: RunState | None = None,
        dag_id: str | None = None,
        dag_run_id: str | None = None,
    ) -> Listed[RunView]:
        """One page of the runs of a topic, in a state, or planned by a DAG or a DAG run; None: whichever."""
        run = tables.RunTable
        wanted: list[ColumnElement[bool]] = [*_planned_by(dag_id, dag_run_id)]
        if topic is not None:
            wanted.append(run.topic == topic)
        if status is not None:
            wanted.append(run.status == status.value)
        newest = select(run).where(*wanted).order_by(run.updated_at_ms.desc(), run.opened_at_ms.desc(), run.plan_id)
        with self._database.reading() as session:
            total = session.scalar(select(func.count()).select_from(run).where(*wanted)) or 0
            page = session.scalars(newest.offset(window.offset).limit(window.size))
            return Listed(total, _with_receipts(session, [make_run(row) for row in page]))

    def find_run(self, plan_id: str) -> RunView | None:
        """One run with its receipt."""
        with self._database.reading() as session:
            row = session.get(tables.RunTable, plan_id)
            return None if row is None else _with_receipts(session, [make_run(row)])[0]

    def list_verdicts_of_plan(self, plan_id: str) -> tuple[Verdict, ...]:
        """What validation said of each attempt at a plan, the newest first."""
        row = tables.VerdictTable
        with self._database.reading() as session:
            return _verdicts(session, select(row).where(row.plan_id == plan_id))

    def list_verdicts(self, topic: str, window: Window) -> Listed[Verdict]:
        """One page of the verdicts of ``topic``."""
        row = tables.VerdictTable
        found = select(row).where(row.topic == topic)
        with self._database.reading() as session:
            total = session.scalar(select(func.count()).select_from(row).where(row.topic == topic)) or 0
            return Listed(total, _verdicts(session, found.offset(window.offset).limit(window.size)))

    def list_failing_expectations(self, topic: str, since_ms: int) -> int:
        """How many expectations did not hold in verdicts of ``topic`` from ``since_ms`` on and voided a plan."""
        row = tables.VerdictTable
        found = select(row).where(row.topic == topic, row.checked_at_ms >= since_ms, row.passed.is_(False))
        with self._database.reading() as session:
            return sum(
                failure.severity is Severity.FAIL
                for verdict in _verdicts(session, found)
                for failure in verdict.failures
            )


def _planned_by(dag_id: str | None, dag_run_id: str | None) -> tuple[ColumnElement[bool], ...]:
    # A DAG's id holds no colon; a run's may.
    holder = tables.RunTable.holder
    if dag_id is not None and dag_run_id is not None:
        return (holder == f"{AIRFLOW}{dag_id}:{dag_run_id}",)
    if dag_id is not None:
        return (holder.startswith(f"{AIRFLOW}{dag_id}:", autoescape=True),)
    if dag_run_id is not None:
        return (and_(holder.startswith(AIRFLOW), holder.endswith(f":{dag_run_id}", autoescape=True)),)
    return ()


def _with_receipts(session: Session, runs: Sequence[Run]) -> tuple[RunView, ...]:
    # Not joined: sorting would drag the documents of all receipts along.
    row = tables.ReceiptTable
    found = select(row.plan_id, row.document).where(row.plan_id.in_([run.plan_id for run in runs]))
    receipts = {each[0]: load_json(Receipt, each[1].encode()) for each in session.execute(found)}
    return tuple(RunView(run, receipts.get(run.plan_id)) for run in runs)


def _verdicts(session: Session, found: Select[tables.VerdictTable]) -> tuple[Verdict, ...]:
    row = tables.VerdictTable
    newest = found.order_by(row.checked_at_ms.desc(), row.plan_id, row.attempt)
    return tuple(load_json(Verdict, each.document.encode()) for each in session.scalars(newest))
