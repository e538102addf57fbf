"""The progress of runs: their transitions, and the Spark applications that carry out their plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Final

from sqlalchemy import Executable, delete, exists, select
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, progress_tables
from winnow.store.database import StorePart

PLANNING: Final = "planning"
"""The word for the time before a run's first state, in which its topic is planned."""


@dataclass(frozen=True, slots=True)
class Transition:
    """When a run entered ``state``: a :class:`winnow.store.RunState`, or :data:`PLANNING`."""

    state: str
    at_ms: int
    attempt: str


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A Spark application of a compaction; the columns of ``winnow_spark_job``."""

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
        rows = [{"job_id": job.job_id, **asdict(each)} for each in plans]
        with self._database.writing() as session:
            bulk_statements.upsert(session, progress_tables.SparkJobTable, [asdict(job)])
            bulk_statements.upsert(session, progress_tables.SparkJobPlan, rows)

    def find(self, plan_id: str) -> RunProgress:
        """Find the progress of a run."""
        moved, job, part = progress_tables.RunTransition, progress_tables.SparkJobTable, progress_tables.SparkJobPlan
        newest = (
            select(job, part)
            .join(part, part.job_id == job.job_id)
            .where(part.plan_id == plan_id)
            .order_by(job.submitted_at_ms.desc(), job.job_id)
            .limit(1)
        )
        with self._database.reading() as session:
            rows = session.scalars(select(moved).where(moved.plan_id == plan_id).order_by(moved.at_ms))
            transitions = tuple(Transition(row.state, row.at_ms, row.attempt) for row in rows)
            found = session.execute(newest).one_or_none()
            if found is None:
                return RunProgress(transitions, None, None, ())
            topics = session.scalars(select(part.topic).where(part.job_id == found[0].job_id).order_by(part.topic))
            return RunProgress(transitions, _make_job(found[0]), _make_plan_progress(found[1]), tuple(topics))


def _make_job(row: progress_tables.SparkJobTable) -> SparkJob:
    return SparkJob(**{each.name: getattr(row, each.name) for each in fields(SparkJob)})


def _make_plan_progress(row: progress_tables.SparkJobPlan) -> PlanProgress:
    return PlanProgress(**{each.name: getattr(row, each.name) for each in fields(PlanProgress)})


@cache
def _insert_transition(dialect: str) -> Executable:
    # Several per run: building the statement each time would cost more than running it.
    return bulk_statements.build_insert_missing(dialect, progress_tables.RunTransition)


def note_transition(session: Session, plan_id: str, state: str, at_ms: int, attempt: str) -> None:
    """Note that a run entered ``state``, in the transaction that changes the run."""
    row = {"plan_id": plan_id, "at_ms": at_ms, "state": state, "attempt": attempt}
    session.connection().execute(_insert_transition(session.get_bind().dialect.name), row)


def remove_progress(session: Session, plan_ids: Sequence[str]) -> None:
    """Remove the progress of runs that are removed, and Spark applications that no run names any more."""
    if not plan_ids:
        return
    moved, job, part = progress_tables.RunTransition, progress_tables.SparkJobTable, progress_tables.SparkJobPlan
    session.execute(delete(moved).where(moved.plan_id.in_(plan_ids)))
    gone = delete(part).where(part.plan_id.in_(plan_ids)).returning(part.job_id)
    job_ids = set(session.scalars(gone, execution_options={"synchronize_session": False}))
    for share in bulk_statements.split_chunks(sorted(job_ids)):
        session.execute(delete(job).where(job.job_id.in_(share), ~exists().where(part.job_id == job.job_id)))
