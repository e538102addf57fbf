"""The fence of each attempt, open ingest calls, and when the folder of a run was found empty."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs that are there carry fence 0: no attempt of theirs looked at one."""
    op.add_column("winnow_run", sa.Column("fence", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("winnow_run", sa.Column("found_empty_at_ms", sa.BigInteger(), nullable=True))
    op.add_column("winnow_run", sa.Column("swept_at_ms", sa.BigInteger(), nullable=True))
    op.create_table(
        "winnow_attempt",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "attempt", name=op.f("pk_winnow_attempt")),
    )
    op.create_table(
        "winnow_ingest",
        sa.Column("ingest_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("renewed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("voided_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("found_empty_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("ingest_id", name=op.f("pk_winnow_ingest")),
    )
    op.create_index(op.f("ix_winnow_ingest_topic_number"), "winnow_ingest", ["topic", "number"])


def downgrade() -> None:
    """Which ingest calls are open is forgotten; their files stay."""
    op.drop_table("winnow_ingest")
    op.drop_table("winnow_attempt")
    with op.batch_alter_table("winnow_run") as run:
        run.drop_column("swept_at_ms")
        run.drop_column("found_empty_at_ms")
        run.drop_column("fence")
