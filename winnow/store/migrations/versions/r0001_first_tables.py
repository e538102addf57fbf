"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The first tables."""
    op.create_table(
        "winnow_alert",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("sent_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_winnow_alert")),
    )
    op.create_table(
        "winnow_assessment",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("eligible", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("log_start_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_dirty_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_uncleanable_offset", sa.BigInteger(), nullable=False),
        sa.Column("log_end_offset", sa.BigInteger(), nullable=False),
        sa.Column("dirty_ratio", sa.Double(), nullable=False),
        sa.Column("clean_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cleanable_bytes", sa.BigInteger(), nullable=False),
        sa.Column("max_compaction_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "partition", "as_of_ms", name=op.f("pk_winnow_assessment")),
    )
    op.create_table(
        "winnow_checkpoint",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_dirty_offset", sa.BigInteger(), nullable=True),
        sa.Column("log_start_offset", sa.BigInteger(), nullable=False),
        sa.Column("log_end_offset", sa.BigInteger(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=True),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_checkpoint")),
    )
    op.create_table(
        "winnow_lease",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_lease")),
    )
    op.create_table(
        "winnow_receipt",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("finished_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", name=op.f("pk_winnow_receipt")),
    )
    op.create_index(op.f("ix_winnow_receipt_topic_finished_at_ms"), "winnow_receipt", ["topic", "finished_at_ms"])
    op.create_table(
        "winnow_retired_file",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("retired_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "path", name=op.f("pk_winnow_retired_file")),
    )
    op.create_table(
        "winnow_run",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), nullable=False),
        sa.Column("plan_uri", sa.Text(), nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("plan_id", name=op.f("pk_winnow_run")),
    )
    op.create_index(op.f("ix_winnow_run_topic_updated_at_ms"), "winnow_run", ["topic", "updated_at_ms"])
    op.create_table(
        "winnow_verdict",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("broken", sa.Boolean(), nullable=False),
        sa.Column("checked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "attempt", name=op.f("pk_winnow_verdict")),
    )
    op.create_index(op.f("ix_winnow_verdict_topic_checked_at_ms"), "winnow_verdict", ["topic", "checked_at_ms"])
    op.create_table(
        "winnow_cleaning",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("end_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cleaning_time_ms", sa.BigInteger(), nullable=True),
        sa.Column("delete_horizon_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["topic", "partition"],
            ["winnow_checkpoint.topic", "winnow_checkpoint.partition"],
            name=op.f("fk_winnow_cleaning_winnow_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", "end_offset", name=op.f("pk_winnow_cleaning")),
    )
    op.create_table(
        "winnow_latest_assessment",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["topic", "partition", "as_of_ms"],
            ["winnow_assessment.topic", "winnow_assessment.partition", "winnow_assessment.as_of_ms"],
            name=op.f("fk_winnow_latest_assessment_winnow_assessment"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_latest_assessment")),
    )
    op.create_table(
        "winnow_paused",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["topic", "partition"],
            ["winnow_checkpoint.topic", "winnow_checkpoint.partition"],
            name=op.f("fk_winnow_paused_winnow_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_paused")),
    )
    op.create_table(
        "winnow_uncleanable",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["topic", "partition"],
            ["winnow_checkpoint.topic", "winnow_checkpoint.partition"],
            name=op.f("fk_winnow_uncleanable_winnow_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_uncleanable")),
    )


def downgrade() -> None:
    """Back to an empty database."""
    for table in (
        "winnow_uncleanable",
        "winnow_paused",
        "winnow_latest_assessment",
        "winnow_cleaning",
        "winnow_verdict",
        "winnow_run",
        "winnow_retired_file",
        "winnow_receipt",
        "winnow_lease",
        "winnow_checkpoint",
        "winnow_assessment",
        "winnow_alert",
    ):
        op.drop_table(table)
