"""How many files the last sweep of a topic came across that nothing names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Zero until the next sweep of the topic."""
    op.add_column("winnow_topic_sweep", sa.Column("unnamed_files", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """The next sweep reports them again."""
    op.drop_column("winnow_topic_sweep", "unnamed_files")
