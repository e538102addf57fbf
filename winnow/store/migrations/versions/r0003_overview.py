"""The picture of topics and partitions, who planned a run, and what an alert said."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Pictures fill with the next assessment; runs and alerts from before do not know what they were not told."""
    op.create_table(
        "winnow_topic_overview",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("eligible", sa.Integer(), nullable=False),
        sa.Column("dirty_ratio", sa.Double(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("compacts", sa.Boolean(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("reclaimable_bytes", sa.BigInteger(), nullable=True),
        sa.Column("retired_bytes", sa.BigInteger(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_topic_overview")),
    )
    op.create_table(
        "winnow_partition_overview",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("eligible", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("log_start_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_dirty_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_uncleanable_offset", sa.BigInteger(), nullable=False),
        sa.Column("active_offset", sa.BigInteger(), nullable=True),
        sa.Column("log_end_offset", sa.BigInteger(), nullable=False),
        sa.Column("dirty_ratio", sa.Double(), nullable=False),
        sa.Column("clean_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cleanable_bytes", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("max_compaction_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.Column("reclaimable_bytes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_partition_overview")),
    )
    op.add_column("winnow_run", sa.Column("holder", sa.Text(), nullable=True))
    op.create_index(op.f("ix_winnow_run_holder"), "winnow_run", ["holder"])
    for name in ("kind", "topic", "message"):
        op.add_column("winnow_alert", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("winnow_alert", sa.Column("partition", sa.Integer(), nullable=True))


def downgrade() -> None:
    """What was sent stays sent; the pictures go."""
    for name in ("partition", "message", "topic", "kind"):
        op.drop_column("winnow_alert", name)
    op.drop_index(op.f("ix_winnow_run_holder"), table_name="winnow_run")
    op.drop_column("winnow_run", "holder")
    op.drop_table("winnow_partition_overview")
    op.drop_table("winnow_topic_overview")
