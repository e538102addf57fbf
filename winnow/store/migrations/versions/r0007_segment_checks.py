"""When each file of a topic was last read in full and checked, and what was found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing was checked yet."""
    op.create_table(
        "winnow_segment_check",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("checked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("finding", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("since_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "path", name=op.f("pk_winnow_segment_check")),
    )
    op.create_index(op.f("ix_winnow_segment_check_checked_at_ms"), "winnow_segment_check", ["checked_at_ms"])


def downgrade() -> None:
    """When files were checked is forgotten; the next scrub begins with all of them."""
    op.drop_index(op.f("ix_winnow_segment_check_checked_at_ms"), table_name="winnow_segment_check")
    op.drop_table("winnow_segment_check")
