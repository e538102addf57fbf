"""Who did what to which topic, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is known of what was done before."""
    op.create_table(
        "winnow_audit",
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", name=op.f("pk_winnow_audit")),
    )
    op.create_index(op.f("ix_winnow_audit_topic_at_ms"), "winnow_audit", ["topic", "at_ms"])
    op.create_index(op.f("ix_winnow_audit_at_ms"), "winnow_audit", ["at_ms"])


def downgrade() -> None:
    """What was done is forgotten."""
    op.drop_index(op.f("ix_winnow_audit_at_ms"), table_name="winnow_audit")
    op.drop_index(op.f("ix_winnow_audit_topic_at_ms"), table_name="winnow_audit")
    op.drop_table("winnow_audit")
