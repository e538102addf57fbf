"""The page's history: runs with their receipts, verdicts by day, failed expectations, open alerts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sqlalchemy import ColumnElement, Integer, Select, and_, case, func, or_, select
from sqlalchemy.orm import Session

from winnow.clock import DAY_MS
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.row_values import list_window, read_value
from winnow.store.rows import (
    AlertView,
    DayView,
    ExpectationView,
    Listed,
    MarkView,
    QualityView,
    Run,
    RunState,
    RunView,
    Window,
)
from winnow.values.documents import load_json
from winnow.values.model import AIRFLOW_HOLDER, Severity
from winnow.values.results import Receipt, Verdict

KEYS_AT_ONCE: Final = 10_000
"""Keys of runs that are read in one statement: no index has their order, so that each sorts all that match."""


class RunHistory(StorePart):
    """Runs with receipts, and verdicts, the newest first."""

    def list_runs(
        self,
        window: Window,
        *,
        topic: str | None = None,
        search: str = "",
        status: RunState | None = None,
        dag_id: str | None = None,
        dag_run_id: str | None = None,
    ) -> Listed[RunView]:
        """List one page of the runs of a topic, in a state, or planned by a DAG or a DAG run; None: any.

        ``search``: part of the topic's name, in any case.
        """
        run = tables.RunTable
        wanted = _list_conditions(topic, search, status, dag_id, dag_run_id)
        newest = select(run).where(*wanted).order_by(run.updated_at_ms.desc(), run.opened_at_ms.desc(), run.plan_id)
        with self._database.reading() as session:
            total = session.scalar(select(func.count()).select_from(run).where(*wanted)) or 0
            page = session.scalars(newest.offset(window.offset).limit(window.size))
            return Listed(total, _add_receipts(session, [read_value(Run, row) for row in page]))

    def stream_runs(
        self,
        *,
        topic: str | None = None,
        search: str = "",
        status: RunState | None = None,
        dag_id: str | None = None,
        dag_run_id: str | None = None,
        keys_at_once: int = KEYS_AT_ONCE,
    ) -> Iterator[RunView]:
        """Read all runs that match, the one planned last first: each once, whatever is planned or moves meanwhile.

        When a run was planned never changes, so the place after the last one that was read stays where it is. A run
        that is removed, or matches no more when its turn comes, is left out.
        """
        wanted = _list_conditions(topic, search, status, dag_id, dag_run_id)
        after: tuple[int, str] | None = None
        while keys := self._list_keys(wanted, after, keys_at_once):
            for some in bulk_statements.split_chunks([plan_id for _, plan_id in keys]):
                yield from self._find_runs(wanted, some)
            after = keys[-1]

    def _list_keys(
        self, wanted: Sequence[ColumnElement[bool]], after: tuple[int, str] | None, limit: int
    ) -> list[tuple[int, str]]:
        run = tables.RunTable
        keys = select(run.opened_at_ms, run.plan_id).where(*wanted)
        if after is not None:
            opened_at_ms, plan_id = after
            same = and_(run.opened_at_ms == opened_at_ms, run.plan_id > plan_id)
            keys = keys.where(or_(run.opened_at_ms < opened_at_ms, same))
        with self._database.reading() as session:
            ordered = keys.order_by(run.opened_at_ms.desc(), run.plan_id).limit(limit)
            return [(row[0], row[1]) for row in session.execute(ordered)]

    def _find_runs(self, wanted: Sequence[ColumnElement[bool]], plan_ids: Sequence[str]) -> tuple[RunView, ...]:
        run = tables.RunTable
        matching = select(run).where(run.plan_id.in_(plan_ids), *wanted)
        with self._database.reading() as session:
            ordered = session.scalars(matching.order_by(run.opened_at_ms.desc(), run.plan_id))
            return _add_receipts(session, [read_value(Run, row) for row in ordered])

    def find_run(self, plan_id: str) -> RunView | None:
        """Find one run with its receipt."""
        with self._database.reading() as session:
            row = session.get(tables.RunTable, plan_id)
            return None if row is None else _add_receipts(session, [read_value(Run, row)])[0]

    def list_verdicts_of_plan(self, plan_id: str) -> tuple[Verdict, ...]:
        """List the verdicts on each attempt at a plan, newest first."""
        row = tables.VerdictTable
        with self._database.reading() as session:
            return _list_verdicts(session, select(row).where(row.plan_id == plan_id))

    def list_verdicts(self, topic: str, window: Window) -> Listed[Verdict]:
        """List one page of the verdicts of ``topic``."""
        row = tables.VerdictTable
        verdicts = select(row).where(row.topic == topic)
        with self._database.reading() as session:
            total = session.scalar(select(func.count()).select_from(row).where(row.topic == topic)) or 0
            return Listed(total, _list_verdicts(session, verdicts.offset(window.offset).limit(window.size)))

    def list_failing_expectations(self, topic: str, since_ms: int) -> int:
        """Count failed expectations in verdicts of ``topic`` from ``since_ms`` on that voided a plan."""
        row = tables.VerdictTable
        failed = select(row).where(row.topic == topic, row.checked_at_ms >= since_ms, row.passed.is_(False))
        with self._database.reading() as session:
            return sum(
                failure.severity is Severity.FAIL
                for verdict in _list_verdicts(session, failed)
                for failure in verdict.failures
            )


def _list_conditions(
    topic: str | None, search: str, status: RunState | None, dag_id: str | None, dag_run_id: str | None
) -> list[ColumnElement[bool]]:
    run = tables.RunTable
    wanted: list[ColumnElement[bool]] = [*_match_planned_by(dag_id, dag_run_id)]
    if topic is not None:
        wanted.append(run.topic == topic)
    if search:
        wanted.append(func.lower(run.topic).contains(search.lower(), autoescape=True))
    if status is not None:
        wanted.append(run.status == status.value)
    return wanted


def _match_planned_by(dag_id: str | None, dag_run_id: str | None) -> tuple[ColumnElement[bool], ...]:
    # A DAG's id holds no colon; a run's id may.
    holder = tables.RunTable.holder
    if dag_id is not None and dag_run_id is not None:
        return (holder == f"{AIRFLOW_HOLDER}{dag_id}:{dag_run_id}",)
    if dag_id is not None:
        return (holder.startswith(f"{AIRFLOW_HOLDER}{dag_id}:", autoescape=True),)
    if dag_run_id is not None:
        return (and_(holder.startswith(AIRFLOW_HOLDER), holder.endswith(f":{dag_run_id}", autoescape=True)),)
    return ()


def _add_receipts(session: Session, runs: Sequence[Run]) -> tuple[RunView, ...]:
    # Not joined: sorting would load the documents of all receipts.
    row = tables.ReceiptTable
    statement = select(row.plan_id, row.document).where(row.plan_id.in_([run.plan_id for run in runs]))
    receipts = {document[0]: load_json(Receipt, document[1].encode()) for document in session.execute(statement)}
    return tuple(RunView(run, receipts.get(run.plan_id)) for run in runs)


def _list_verdicts(session: Session, verdicts: Select[tables.VerdictTable]) -> tuple[Verdict, ...]:
    row = tables.VerdictTable
    newest = verdicts.order_by(row.checked_at_ms.desc(), row.plan_id, row.attempt)
    return tuple(load_json(Verdict, verdict.document.encode()) for verdict in session.scalars(newest))


_SOME_FAILURES: Final = '"failures":[{'
"""Part of a verdict's document with a failed expectation: inside a text its quotes would be escaped."""


class Quality(StorePart):
    """Summaries of validation for operators."""

    def summarize(self, now_ms: int, days: int) -> QualityView:
        """Summarize the verdicts of the last ``days`` days (UTC, today is the last), with every failed expectation.

        Warnings count too: an expectation of severity ``warn`` fails in verdicts that pass. Most failures come first.
        """
        row = tables.VerdictTable
        first_day = now_ms // DAY_MS - days + 1
        since = (row.checked_at_ms >= first_day * DAY_MS, row.checked_at_ms < (first_day + days) * DAY_MS)
        day = (row.checked_at_ms // DAY_MS).label("day")

        failed = case((row.passed.is_(False) & row.broken.is_(False), 1), else_=0)
        counted = select(
            day,
            func.count(),
            func.sum(failed).cast(Integer),
            func.sum(case((row.broken, 1), else_=0)).cast(Integer),
        )
        with self._database.reading() as session:
            by_day = {day_counts[0]: day_counts for day_counts in session.execute(counted.where(*since).group_by(day))}
            failing = select(row.document).where(
                *since, or_(row.passed.is_(False), row.document.contains(_SOME_FAILURES, autoescape=True))
            )
            verdicts = [load_json(Verdict, document.encode()) for document in session.scalars(failing)]
        series = []
        for number in range(first_day, first_day + days):
            _, verdicts_count, failed_count, broken_count = by_day.get(number, (number, 0, 0, 0))
            series.append(DayView(number * DAY_MS, verdicts_count, failed_count, broken_count))
        return QualityView(tuple(series), _count_expectations(verdicts, first_day, days))

    def list_uncleanable(self, window: Window, *, search: str = "") -> Listed[MarkView]:
        """List one page of uncleanable partitions whose topic's name holds ``search``, latest mark first."""
        row = tables.UncleanableTable
        newest = select(row).order_by(row.since_ms.desc(), row.topic, row.partition)
        if search:
            newest = newest.where(func.lower(row.topic).contains(search.lower(), autoescape=True))
        with self._database.reading() as session:
            return list_window(session, newest, window, partial(read_value, MarkView))

    def list_alerts(self, window: Window) -> Listed[AlertView]:
        """List one page of the alerts that have not recovered, newest first."""
        row = tables.AlertTable
        newest = select(row).order_by(row.sent_at_ms.desc(), row.key)
        with self._database.reading() as session:
            return list_window(session, newest, window, partial(read_value, AlertView))


@dataclass(slots=True)
class _Failing:
    """One failed expectation, summed up."""

    days: int
    failures: int = 0
    last_ms: int = 0
    topics: set[str] = field(default_factory=set)
    by_day: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.by_day = [0] * self.days

    def add(self, verdict: Verdict, day: int) -> None:
        """Add one failure."""
        self.failures += 1
        self.last_ms = max(self.last_ms, verdict.checked_at_ms)
        self.topics.add(verdict.topic)
        self.by_day[day] += 1


def _count_expectations(verdicts: Iterable[Verdict], first_day: int, days: int) -> tuple[ExpectationView, ...]:
    failing_by_name: dict[str, _Failing] = {}
    for verdict in verdicts:
        for failure in verdict.failures:
            failing = failing_by_name.setdefault(failure.expectation, _Failing(days))
            failing.add(verdict, verdict.checked_at_ms // DAY_MS - first_day)
    return tuple(_sort_most_first([_make_view(name, summed) for name, summed in failing_by_name.items()]))


def _make_view(name: str, failing: _Failing) -> ExpectationView:
    return ExpectationView(name, failing.failures, len(failing.topics), failing.last_ms, tuple(failing.by_day))


def _sort_most_first(views: Sequence[ExpectationView]) -> list[ExpectationView]:
    return sorted(views, key=lambda view: (-view.failures, -view.last_ms, view.expectation))
