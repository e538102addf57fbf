"""Where partitions were found to diverge from their Kafka topics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """None is known: the next call finds it."""
    op.create_table(
        "winnow_divergence",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_divergence")),
    )


def downgrade() -> None:
    """Nothing is lost: the next call finds it again."""
    op.drop_table("winnow_divergence")
