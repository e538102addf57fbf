"""How far tables of the latest state are behind their logs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

TABLE = "winnow_latest_progress"


def upgrade() -> None:
    """Make the table; rows come with the next check or ingest of each topic."""
    op.create_table(
        TABLE,
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("table_uuid", sa.Text(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("shown_sequence", "seen_sequence", "seen_end_offsets")
        ),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in ("missing_since_ms", "updated_at_ms")),
        sa.Column("tried_at_ms", sa.BigInteger(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=True)
            for name in ("max_age_ms", "update_ms", "deadline_ms", "due_ms")
        ),
        sa.PrimaryKeyConstraint("topic", name=f"pk_{TABLE}"),
    )
    for column in ("deadline_ms", "due_ms"):
        op.create_index(f"ix_{TABLE}_{column}", TABLE, [column])


def downgrade() -> None:
    """Remove the table; what it says can be found out again."""
    op.drop_table(TABLE)
