"""At which head a topic was found idle, and until when the clock alone does not change that."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is known of any topic: the next check looks at each of them."""
    op.create_table(
        "winnow_idle_topic",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("rules_digest", sa.Text(), nullable=False),
        sa.Column("from_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=True),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_idle_topic")),
    )
    # Which topics have an open run is asked by every check.
    op.create_index(op.f("ix_winnow_run_status_topic"), "winnow_run", ["status", "topic"])


def downgrade() -> None:
    """Nothing is lost: every check looks at every topic."""
    op.drop_index(op.f("ix_winnow_run_status_topic"), table_name="winnow_run")
    op.drop_table("winnow_idle_topic")
