"""How many records of each partition open transactions hold back at the brokers, and since when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Zero until the next look at the brokers."""
    op.add_column(
        "winnow_ingest_lag", sa.Column("records_uncommitted", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("winnow_ingest_lag", sa.Column("open_since_ms", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """The next look at the brokers finds them again."""
    op.drop_column("winnow_ingest_lag", "open_since_ms")
    op.drop_column("winnow_ingest_lag", "records_uncommitted")
