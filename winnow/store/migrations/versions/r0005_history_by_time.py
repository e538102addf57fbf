"""History by time alone: the quality page asks about all topics at once."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What was there stays."""
    op.create_index(op.f("ix_winnow_verdict_checked_at_ms"), "winnow_verdict", ["checked_at_ms"])
    op.create_index(op.f("ix_winnow_run_updated_at_ms"), "winnow_run", ["updated_at_ms"])


def downgrade() -> None:
    """Nothing is lost."""
    op.drop_index(op.f("ix_winnow_run_updated_at_ms"), table_name="winnow_run")
    op.drop_index(op.f("ix_winnow_verdict_checked_at_ms"), table_name="winnow_verdict")
