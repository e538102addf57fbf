"""What a change of configuration changed, in its entry of the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; entries from before it do not say what was before them, and keep their digests."""
    op.add_column("winnow_audit", sa.Column("config_changes", sa.Text(), nullable=True))


def downgrade() -> None:
    """Remove the column; the digests of entries that fill it do not hold without it."""
    op.drop_column("winnow_audit", "config_changes")
