"""The progress of runs: their transitions, and the Spark applications that carry out their plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from sqlalchemy import Executable, Index, Text, delete, exists, select
from sqlalchemy.orm import Session, mapped_column

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.row_values import read_value

PLANNING: Final = "planning"
"""The word for the time before a run's first state, in which its topic is planned."""


@dataclass(frozen=True, slots=True)
class Transition:
    """When a run entered ``state``: a :class:`winnow.store.RunState`, or :data:`PLANNING`."""

    state: str
    at_ms: int
    attempt: str


class RunTransition(tables.Base, of=Transition, key=["plan_id", "at_ms", "state"]):
    """History: when a run entered a state; removed with its run. ``state`` planning: when planning began."""

    __tablename__ = "winnow_run_transition"

    plan_id = mapped_column(Text, nullable=False)


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A Spark application of a compaction, written by the process that submitted it, while it runs.

    ``started_at_ms``: when the driver first reported. ``ended_at_ms`` None: it runs, or its submitter died.
    ``dag_id`` to ``try_number``: the Airflow task that submitted it, None for a shell.
    """

    job_id: str
    attempt: str
    holder: str
    submitted_at_ms: int
    updated_at_ms: int
    partitions: int
    bytes_total: int
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    try_number: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    application_id: str | None = None
    ui_url: str | None = None
    event_log: str | None = None
    driver_log: str | None = None
    partitions_done: int = 0
    partitions_failed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    error: str | None = None


class SparkJobTable(tables.Base, of=SparkJob, key=["job_id"]):
    """History: one row per Spark application."""

    __tablename__ = "winnow_spark_job"


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """What a Spark application has done of one plan. ``error``: the first reason why it failed."""

    plan_id: str
    topic: str
    partitions: int
    bytes_total: int
    partitions_done: int = 0
    partitions_failed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    error: str | None = None


class SparkJobPlan(tables.Base, of=PlanProgress, key=["job_id", "plan_id"]):
    """History: what a Spark application has done of one plan."""

    __tablename__ = "winnow_spark_job_plan"
    __table_args__ = (Index(None, "plan_id"),)

    job_id = mapped_column(Text, nullable=False)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far one run is.

    ``transitions``: in order. ``job``: the Spark application that was submitted last, None if none was; ``own``: what
    it has done of this run's plan. ``topics``: those of all plans that the application carries out.
    """

    transitions: tuple[Transition, ...]
    job: SparkJob | None
    own: PlanProgress | None
    topics: tuple[str, ...]


class SparkJobs(StorePart):
    """Transitions of runs, which :class:`winnow.store.runs.Runs` writes, and their Spark applications."""

    def record(self, job: SparkJob, plans: Iterable[PlanProgress]) -> None:
        """Record how far ``job`` is, and those of its ``plans`` that moved."""
        rows = [SparkJobPlan.make_row(plan, job_id=job.job_id) for plan in plans]
        with self._database.writing() as session:
            bulk_statements.upsert(session, SparkJobTable, [SparkJobTable.make_row(job)])
            bulk_statements.upsert(session, SparkJobPlan, rows)

    def find(self, plan_id: str) -> RunProgress:
        """Find the progress of a run."""
        moved, job, part = RunTransition, SparkJobTable, SparkJobPlan
        newest = (
            select(job, part)
            .join(part, part.job_id == job.job_id)
            .where(part.plan_id == plan_id)
            .order_by(job.submitted_at_ms.desc(), job.job_id)
            .limit(1)
        )
        with self._database.reading() as session:
            rows = session.scalars(select(moved).where(moved.plan_id == plan_id).order_by(moved.at_ms))
            transitions = tuple(read_value(Transition, row) for row in rows)
            latest = session.execute(newest).one_or_none()
            if latest is None:
                return RunProgress(transitions, None, None, ())
            topics = session.scalars(select(part.topic).where(part.job_id == latest[0].job_id).order_by(part.topic))
            return RunProgress(
                transitions, read_value(SparkJob, latest[0]), read_value(PlanProgress, latest[1]), tuple(topics)
            )


@cache
def _insert_transition(dialect: str) -> Executable:
    # Several per run: building the statement each time would cost more than running it.
    return bulk_statements.build_insert_missing(dialect, RunTransition)


def note_transition(session: Session, plan_id: str, state: str, at_ms: int, attempt: str) -> None:
    """Note that a run entered ``state``, in the transaction that changes the run."""
    row = {"plan_id": plan_id, "at_ms": at_ms, "state": state, "attempt": attempt}
    session.connection().execute(_insert_transition(session.get_bind().dialect.name), row)


def remove_progress(session: Session, plan_ids: Sequence[str]) -> None:
    """Remove the progress of runs that are removed, and Spark applications that no run names any more."""
    if not plan_ids:
        return
    moved, job, part = RunTransition, SparkJobTable, SparkJobPlan
    session.execute(delete(moved).where(moved.plan_id.in_(plan_ids)))
    gone = delete(part).where(part.plan_id.in_(plan_ids)).returning(part.job_id)
    job_ids = set(session.scalars(gone, execution_options={"synchronize_session": False}))
    for share in bulk_statements.split_chunks(sorted(job_ids)):
        session.execute(delete(job).where(job.job_id.in_(share), ~exists().where(part.job_id == job.job_id)))
