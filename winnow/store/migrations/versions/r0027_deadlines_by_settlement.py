"""The history of deadlines by when they were settled: what waits is found at once, a count reads the index alone."""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

TABLE = "winnow_deadline"
BEFORE = f"ix_{TABLE}_deadline_ms"
AFTER = f"ix_{TABLE}_settled_at_ms_deadline_ms"


def upgrade() -> None:
    """Replace the index."""
    op.create_index(AFTER, TABLE, ["settled_at_ms", "deadline_ms"])
    op.drop_index(BEFORE, TABLE)


def downgrade() -> None:
    """Replace it by the one of before."""
    op.create_index(BEFORE, TABLE, ["deadline_ms"])
    op.drop_index(AFTER, TABLE)
