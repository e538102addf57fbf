"""The id of the installation that the store belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """An older store has no id yet: the next command that writes makes one, or takes over the warehouse's."""
    op.create_table(
        "winnow_installation",
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("installation_id", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("only", name=op.f("pk_winnow_installation")),
    )


def downgrade() -> None:
    """The id is lost here; it is taken over again from the warehouse."""
    op.drop_table("winnow_installation")
