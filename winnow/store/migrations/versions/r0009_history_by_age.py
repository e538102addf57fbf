"""Whether a topic has history beyond its retention is one look into an index."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What was there stays, until a sweep finds that it is older than the retention."""
    op.create_index(op.f("ix_winnow_assessment_topic_recorded_at_ms"), "winnow_assessment", ["topic", "recorded_at_ms"])
    op.create_index(
        op.f("ix_winnow_retired_file_topic_deleted_at_ms"), "winnow_retired_file", ["topic", "deleted_at_ms"]
    )


def downgrade() -> None:
    """Nothing is lost."""
    op.drop_index(op.f("ix_winnow_retired_file_topic_deleted_at_ms"), table_name="winnow_retired_file")
    op.drop_index(op.f("ix_winnow_assessment_topic_recorded_at_ms"), table_name="winnow_assessment")
