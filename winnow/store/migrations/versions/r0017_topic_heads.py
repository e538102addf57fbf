"""The newest head of every topic, by which a catalog that is older than the warehouse is noticed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No head is known yet: the first command that writes to a topic looks into its folder, and records it."""
    op.create_table(
        "winnow_topic_head",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("table_uuid", sa.Text(), nullable=False),
        sa.Column("life", sa.Integer(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("last_sequence_number", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("ingest_number", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "table_uuid", name=op.f("pk_winnow_topic_head")),
    )


def downgrade() -> None:
    """An older catalog is not noticed any more."""
    op.drop_table("winnow_topic_head")
