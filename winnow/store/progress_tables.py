"""The tables of a run's progress: its transitions, and the Spark applications that carry out its plan."""

# Annotations are no text here: SQLAlchemy would evaluate each on its own, a fifth of the time of importing tables.
from sqlalchemy import Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from winnow.store.tables import Base


class RunTransition(Base):
    """History: when a run entered a state; removed with its run. ``state`` planning: when planning began."""

    __tablename__ = "winnow_run_transition"

    plan_id: Mapped[str] = mapped_column(primary_key=True)
    at_ms: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[str]


class SparkJobTable(Base):
    """History: a Spark application of a compaction, written by the process that submitted it, while it runs.

    ``started_at_ms``: when the driver first reported. ``ended_at_ms`` null: it runs, or its submitter died.
    ``dag_id`` to ``try_number``: the Airflow task that submitted it, null for a shell.
    """

    __tablename__ = "winnow_spark_job"

    job_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[str]
    holder: Mapped[str]
    dag_id: Mapped[str | None]
    run_id: Mapped[str | None]
    task_id: Mapped[str | None]
    map_index: Mapped[int | None] = mapped_column(Integer)
    try_number: Mapped[int | None] = mapped_column(Integer)
    submitted_at_ms: Mapped[int]
    started_at_ms: Mapped[int | None]
    updated_at_ms: Mapped[int]
    ended_at_ms: Mapped[int | None]
    application_id: Mapped[str | None]
    ui_url: Mapped[str | None]
    event_log: Mapped[str | None]
    driver_log: Mapped[str | None]
    partitions: Mapped[int] = mapped_column(Integer)
    partitions_done: Mapped[int] = mapped_column(Integer)
    partitions_failed: Mapped[int] = mapped_column(Integer)
    bytes_total: Mapped[int]
    bytes_read: Mapped[int]
    bytes_written: Mapped[int]
    error: Mapped[str | None]


class SparkJobPlan(Base):
    """History: what a Spark application has done of one plan."""

    __tablename__ = "winnow_spark_job_plan"
    __table_args__ = (Index(None, "plan_id"),)

    job_id: Mapped[str] = mapped_column(primary_key=True)
    plan_id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    partitions: Mapped[int] = mapped_column(Integer)
    partitions_done: Mapped[int] = mapped_column(Integer)
    partitions_failed: Mapped[int] = mapped_column(Integer)
    bytes_total: Mapped[int]
    bytes_read: Mapped[int]
    bytes_written: Mapped[int]
    error: Mapped[str | None]
