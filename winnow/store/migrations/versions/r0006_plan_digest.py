"""The digest of a run's plan: whoever reads the plan compares its bytes with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs that are there have none; their plans are known by their ids."""
    op.add_column("winnow_run", sa.Column("plan_sha256", sa.Text(), nullable=True))


def downgrade() -> None:
    """The digests are lost; plans are known by their ids."""
    op.drop_column("winnow_run", "plan_sha256")
