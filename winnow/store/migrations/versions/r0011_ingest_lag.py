"""How far logs are behind the Kafka topics that they follow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is known of any topic: the next ingest looks."""
    op.create_table(
        "winnow_ingest_lag",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("looked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("records_behind", sa.BigInteger(), nullable=False),
        sa.Column("complete_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_ingest_lag")),
    )
    op.create_table(
        "winnow_complete_topic",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("brokers_digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_complete_topic")),
    )
    op.create_index(op.f("ix_winnow_ingest_lag_deadline_ms"), "winnow_ingest_lag", ["deadline_ms"])


def downgrade() -> None:
    """Nothing is lost: the next ingest looks again."""
    op.drop_index(op.f("ix_winnow_ingest_lag_deadline_ms"), table_name="winnow_ingest_lag")
    op.drop_table("winnow_complete_topic")
    op.drop_table("winnow_ingest_lag")
