"""Figures of receipts, summed up and ranked: what compaction saved and what it cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Index, Select, func, literal, select
from sqlalchemy.orm import Session

from winnow.clock import DAY_MS
from winnow.store import tables
from winnow.store.database import StorePart
from winnow.store.run_progress import SparkJobPlan, SparkJobTable
from winnow.values.results import Receipt


class RunRank(StrEnum):
    """Orders of runs: by the time from planning to publishing, or by the time that their Spark tasks worked."""

    LONGEST = "longest"
    DEAREST = "dearest"


@dataclass(frozen=True, slots=True)
class DayFigures:
    """What the runs of one day in UTC did. ``day_ms``: when it begins. ``bytes_saved``: input minus output.

    ``task_seconds``: of all Spark tasks together. ``cpu_seconds``: of the runs that measured it.
    """

    day_ms: int
    runs: int
    records_removed: int
    bytes_read: int
    bytes_written: int
    bytes_saved: int
    task_seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class RankedRun:
    """One published run. ``duration_ms``: from planning to publishing, waits included; None: it is not known.

    ``runs``: of the same Spark application, where one stands for all of them; else 1.
    """

    plan_id: str
    topic: str
    finished_at_ms: int
    duration_ms: int | None
    partitions: int
    bytes_in: int
    bytes_saved: int
    task_seconds: float
    cpu_seconds: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class ReceiptSums:
    """The figures of a receipt, summed up over its partitions, so that SQL can add them.

    ``seconds``: of all tasks together. ``cpu_seconds`` and ``bytes_written`` None: the receipt is older than these.
    """

    plan_id: str
    topic: str
    finished_at_ms: int
    partitions: int
    records_in: int
    records_kept: int
    records_retired: int
    bytes_in: int
    bytes_out: int
    bytes_retired: int
    seconds: float
    cpu_seconds: float | None
    bytes_written: int | None


class ReceiptFiguresTable(tables.Base, of=ReceiptSums, key=["plan_id"]):
    """Projection: one row per receipt."""

    __tablename__ = "winnow_receipt_figures"
    __table_args__ = (Index(None, "topic", "finished_at_ms"), Index(None, "finished_at_ms"))


def sum_receipt(receipt: Receipt) -> ReceiptSums:
    """Sum up the figures of ``receipt``, which was published, over its partitions."""
    parts = receipt.partitions
    cpu_seconds = math.fsum(part.cpu_seconds for part in parts)
    return ReceiptSums(
        plan_id=receipt.plan_id or "",
        topic=receipt.topic,
        finished_at_ms=receipt.finished_at_ms,
        partitions=len(parts),
        **{name: sum(getattr(part, name) for part in parts) for name in _SUMMED},
        seconds=math.fsum(part.seconds for part in parts),
        cpu_seconds=cpu_seconds or None,
        bytes_written=sum(part.bytes_written for part in parts) if cpu_seconds else None,
    )


_SUMMED: Final = (
    *("records_in", "records_kept", "records_retired"),
    *("bytes_in", "bytes_out", "bytes_retired"),
)

_ROW: Final = ReceiptFiguresTable

_SAVED: Final = _ROW.bytes_in - _ROW.bytes_out + _ROW.bytes_retired


def sum_saved_bytes(session: Session, topic: str | None = None) -> int:
    """Sum up the bytes that all runs saved, of one topic or of all."""
    statement = select(func.sum(_SAVED))
    return int(session.scalar(statement if topic is None else statement.where(_ROW.topic == topic)) or 0)


class ReceiptFigures(StorePart):
    """One row per published run."""

    def sum_by_day(self, since_ms: int, topic: str | None = None) -> list[DayFigures]:
        """Sum up the runs since ``since_ms``, of one topic or of all, by day; days without runs are left out."""
        day = (_ROW.finished_at_ms // DAY_MS).label("day")
        removed = _ROW.records_in - _ROW.records_kept + _ROW.records_retired
        sums: list[ColumnElement[Any]] = [
            func.count(),
            func.sum(removed),
            func.sum(_ROW.bytes_in),
            func.sum(func.coalesce(_ROW.bytes_written, _ROW.bytes_out)),
            func.sum(_SAVED),
            func.sum(_ROW.seconds),
            func.sum(func.coalesce(_ROW.cpu_seconds, 0.0)),
        ]
        statement = select(day, *sums).where(_ROW.finished_at_ms >= since_ms).group_by(day).order_by(day)
        if topic is not None:
            statement = statement.where(_ROW.topic == topic)
        with self._database.reading() as session:
            return [_make_day(tuple(figures)) for figures in session.execute(statement)]

    def sum_saved_bytes(self, topic: str | None = None) -> int:
        """Sum up the bytes that all runs saved, of one topic or of all."""
        with self._database.reading() as session:
            return sum_saved_bytes(session, topic)

    def list_ranked(self, rank: RunRank, since_ms: int, limit: int) -> list[RankedRun]:
        """List the runs published since ``since_ms`` that took the most, by ``rank``.

        The runs of one Spark application take the same time, so that the longest of them stands for all.
        """
        statement = _select_longest(since_ms) if rank is RunRank.LONGEST else _select_dearest(since_ms)
        with self._database.reading() as session:
            return [RankedRun(*figures) for figures in session.execute(statement.limit(limit))]


_DURATION_MS: Final = _ROW.finished_at_ms - tables.RunTable.opened_at_ms

_SHOWN: Final = (
    *(_ROW.plan_id, _ROW.topic, _ROW.finished_at_ms, _DURATION_MS.label("duration_ms"), _ROW.partitions),
    *(_ROW.bytes_in, _SAVED.label("bytes_saved"), _ROW.seconds, _ROW.cpu_seconds),
)
"""The fields of a :class:`RankedRun` but the last."""


def _select_dearest(since_ms: int) -> Select[Any]:
    cost = func.coalesce(_ROW.cpu_seconds, _ROW.seconds)
    return (
        select(*_SHOWN, literal(1))
        .outerjoin(tables.RunTable, tables.RunTable.plan_id == _ROW.plan_id)
        .where(_ROW.finished_at_ms >= since_ms)
        .order_by(cost.desc(), _ROW.finished_at_ms.desc(), _ROW.plan_id)
    )


def _select_longest(since_ms: int) -> Select[Any]:
    """Of each Spark application the run that took longest, with the number of its runs."""
    run, plan, job = tables.RunTable, SparkJobPlan, SparkJobTable
    # Looked up for each run that is listed: a join would read the whole history of applications.
    wrote = (
        select(func.max(plan.job_id))
        .join(job, job.job_id == plan.job_id)
        .where(plan.plan_id == _ROW.plan_id, job.attempt == run.attempt)
        .correlate(_ROW, run)
        .scalar_subquery()
    )
    listed = (
        select(*_SHOWN, func.coalesce(wrote, _ROW.plan_id).label("application"))
        .outerjoin(run, run.plan_id == _ROW.plan_id)
        .where(_ROW.finished_at_ms >= since_ms)
        .subquery()
    )
    *shown, application = listed.c
    worst = (func.coalesce(listed.c.duration_ms, -1).desc(), listed.c.finished_at_ms.desc(), listed.c.plan_id)
    runs = func.count().over(partition_by=application).label("runs")
    place = func.row_number().over(partition_by=application, order_by=worst).label("place")
    ranked = select(*shown, runs, place).subquery()
    order = (func.coalesce(ranked.c.duration_ms, -1).desc(), ranked.c.finished_at_ms.desc(), ranked.c.plan_id)
    return select(*list(ranked.c)[:-1]).where(ranked.c.place == 1).order_by(*order)


def _make_day(row: tuple[Any, ...]) -> DayFigures:
    day, runs, removed, read, written, saved, task_seconds, cpu_seconds = row
    return DayFigures(
        int(day) * DAY_MS,
        runs,
        int(removed),
        int(read),
        int(written),
        int(saved),
        round(task_seconds, 3),
        round(cpu_seconds, 3),
    )
