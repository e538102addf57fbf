"""When runs changed their state, how far their Spark applications are, and a state of its own for a failed one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is known of earlier runs, but which of them failed in Spark: no verdict speaks against those."""
    op.create_table(
        "winnow_run_transition",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "at_ms", "state", name=op.f("pk_winnow_run_transition")),
    )
    op.create_table(
        "winnow_spark_job",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("map_index", sa.Integer(), nullable=True),
        sa.Column("try_number", sa.Integer(), nullable=True),
        sa.Column("submitted_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("application_id", sa.Text(), nullable=True),
        sa.Column("ui_url", sa.Text(), nullable=True),
        sa.Column("event_log", sa.Text(), nullable=True),
        sa.Column("driver_log", sa.Text(), nullable=True),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("partitions_done", sa.Integer(), nullable=False),
        sa.Column("partitions_failed", sa.Integer(), nullable=False),
        sa.Column("bytes_total", sa.BigInteger(), nullable=False),
        sa.Column("bytes_read", sa.BigInteger(), nullable=False),
        sa.Column("bytes_written", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_winnow_spark_job")),
    )
    op.create_table(
        "winnow_spark_job_plan",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("partitions_done", sa.Integer(), nullable=False),
        sa.Column("partitions_failed", sa.Integer(), nullable=False),
        sa.Column("bytes_total", sa.BigInteger(), nullable=False),
        sa.Column("bytes_read", sa.BigInteger(), nullable=False),
        sa.Column("bytes_written", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "plan_id", name=op.f("pk_winnow_spark_job_plan")),
    )
    op.create_index(op.f("ix_winnow_spark_job_plan_plan_id"), "winnow_spark_job_plan", ["plan_id"])
    op.execute(
        "UPDATE winnow_run SET status = 'spark_failed' WHERE status = 'invalid' AND NOT EXISTS "
        "(SELECT 1 FROM winnow_verdict WHERE winnow_verdict.plan_id = winnow_run.plan_id AND NOT winnow_verdict.passed)"
    )


def downgrade() -> None:
    """An older Winnow called such runs invalid; the progress of runs is lost."""
    op.execute("UPDATE winnow_run SET status = 'invalid' WHERE status = 'spark_failed'")
    op.drop_index(op.f("ix_winnow_spark_job_plan_plan_id"), table_name="winnow_spark_job_plan")
    op.drop_table("winnow_spark_job_plan")
    op.drop_table("winnow_spark_job")
    op.drop_table("winnow_run_transition")
