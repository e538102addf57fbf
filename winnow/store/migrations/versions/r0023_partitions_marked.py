"""How many partitions a run marked as uncleanable."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of runs from before it, the marks that are still there are known."""
    op.add_column("winnow_run", sa.Column("partitions_marked", sa.BigInteger(), nullable=True))
    run = sa.table("winnow_run", sa.column("plan_id"), sa.column("partitions_marked"))
    mark = sa.table("winnow_uncleanable", sa.column("plan_id"))
    marked = sa.select(sa.func.count()).select_from(mark).where(mark.c.plan_id == run.c.plan_id).scalar_subquery()
    op.execute(run.update().values(partitions_marked=sa.func.nullif(marked, 0)))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("winnow_run", "partitions_marked")
