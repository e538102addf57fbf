"""Requests for erasures that take two persons."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

TABLE = "winnow_erase_request"


def upgrade() -> None:
    """Make the table; before it one person was enough."""
    op.create_table(
        TABLE,
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("request_id", "topic", "table_uuid", "requested_by", "binding", "plan_sha256", "plan", "state")
        ),
        sa.Column("requested_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("decided_why", sa.Text(), nullable=True),
        sa.Column("erasure_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("request_id", name=f"pk_{TABLE}"),
    )
    op.create_index(f"ix_{TABLE}_topic_requested_at_ms", TABLE, ["topic", "requested_at_ms"])


def downgrade() -> None:
    """Remove the table; what was not carried out has to be asked for again."""
    op.drop_table(TABLE)
