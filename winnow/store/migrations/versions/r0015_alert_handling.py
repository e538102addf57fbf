"""Alerts that people acknowledge or mute, what to do about each, and the history of alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TEXTS = ("safe", "next", "plan_id", "acknowledged_by", "acknowledged_why", "muted_by", "muted_why")
TIMES = ("acknowledged_at_ms", "muted_until_ms")


def upgrade() -> None:
    """Nobody has acknowledged or muted anything yet; the history begins now."""
    for name in TEXTS:
        op.add_column("winnow_alert", sa.Column(name, sa.Text(), nullable=True))
    for name in TIMES:
        op.add_column("winnow_alert", sa.Column(name, sa.BigInteger(), nullable=True))
    op.create_table(
        "winnow_alert_event",
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_winnow_alert_event")),
    )
    op.create_index(op.f("ix_winnow_alert_event_topic_at_ms"), "winnow_alert_event", ["topic", "at_ms"])
    op.create_index(op.f("ix_winnow_alert_event_at_ms"), "winnow_alert_event", ["at_ms"])


def downgrade() -> None:
    """The history of alerts is lost, and mutes end."""
    op.drop_index(op.f("ix_winnow_alert_event_at_ms"), table_name="winnow_alert_event")
    op.drop_index(op.f("ix_winnow_alert_event_topic_at_ms"), table_name="winnow_alert_event")
    op.drop_table("winnow_alert_event")
    for name in (*TIMES, *TEXTS):
        op.drop_column("winnow_alert", name)
