"""Since when something is so, who released it, and the messages that a channel has not taken yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What was sent under an older key could never recover, so it goes: what is still so is told once more."""
    op.add_column("winnow_alert", sa.Column("since_ms", sa.BigInteger(), nullable=True))
    op.add_column("winnow_alert", sa.Column("released", sa.Text(), nullable=True))
    op.execute("DELETE FROM winnow_alert")
    op.create_table(
        "winnow_alert_delivery",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("claimed_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_winnow_alert_delivery")),
    )
    op.create_index(op.f("ix_winnow_alert_delivery_channel_key"), "winnow_alert_delivery", ["channel", "key"])


def downgrade() -> None:
    """What waits to be delivered is lost."""
    op.drop_index(op.f("ix_winnow_alert_delivery_channel_key"), table_name="winnow_alert_delivery")
    op.drop_table("winnow_alert_delivery")
    op.drop_column("winnow_alert", "released")
    op.drop_column("winnow_alert", "since_ms")
