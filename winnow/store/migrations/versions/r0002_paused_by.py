"""Who paused a topic partition."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A table of names: a partition goes on when the last of them has resumed it."""
    op.create_table(
        "winnow_paused_by",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["topic", "partition"],
            ["winnow_checkpoint.topic", "winnow_checkpoint.partition"],
            name=op.f("fk_winnow_paused_by_winnow_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", "number", name=op.f("pk_winnow_paused_by")),
    )


def downgrade() -> None:
    """Pauses stay, without the names."""
    op.drop_table("winnow_paused_by")
