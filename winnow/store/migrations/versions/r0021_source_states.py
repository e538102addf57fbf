"""Kafka topics that are gone, or whose logs do not follow them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is known of any topic: the next look at the brokers tells."""
    op.create_table(
        "winnow_source_state",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_source_state")),
    )


def downgrade() -> None:
    """Nothing is lost but since when: the next look at the brokers tells again."""
    op.drop_table("winnow_source_state")
