"""Entries of the audit log follow from one another by digest."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

ROWS_AT_ONCE = 1_000
ENTRY = sa.table(
    "winnow_audit",
    *(sa.column(name, sa.Text()) for name in ("entry_id", "topic", "actor", "action", "reason", "origin", "detail")),
    *(sa.column(name, sa.BigInteger()) for name in ("at_ms", "number")),
    sa.column("digest", sa.Text()),
)
CHAIN = sa.table(
    "winnow_audit_chain",
    *(sa.column(name, sa.Text()) for name in ("name", "digest", "removed_digest")),
    *(sa.column(name, sa.BigInteger()) for name in ("number", "removed_number")),
)


def upgrade() -> None:
    """Entries that are there are chained in the order of their times: from now on they cannot change unnoticed."""
    op.add_column("winnow_audit", sa.Column("number", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("winnow_audit", sa.Column("digest", sa.Text(), nullable=False, server_default=sa.text("''")))
    op.create_table(
        "winnow_audit_chain",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("removed_number", sa.BigInteger(), nullable=False),
        sa.Column("removed_digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_winnow_audit_chain")),
    )
    number, digest = _chain_entries(op.get_bind())
    op.execute(CHAIN.insert().values(name="audit", number=number, digest=digest, removed_number=0, removed_digest=""))
    op.create_index(op.f("ix_winnow_audit_number"), "winnow_audit", ["number"], unique=True)


def _chain_entries(connection: sa.Connection) -> tuple[int, str]:
    """Number all entries and write their digests; return the last number and the last digest."""
    of = ENTRY.c
    content = (of.entry_id, of.at_ms, of.topic, of.actor, of.action, of.reason, of.origin, of.detail)
    oldest_first = sa.select(*content).order_by(of.at_ms, of.entry_id).limit(ROWS_AT_ONCE)
    change = sa.update(ENTRY).where(of.entry_id == sa.bindparam("wanted"))
    change = change.values(number=sa.bindparam("new_number"), digest=sa.bindparam("new_digest"))
    number, digest = 0, ""
    rows = connection.execute(oldest_first).all()
    while rows:
        changes = []
        for row in rows:
            number += 1
            line = json.dumps([digest, number, *row], separators=(",", ":"))
            digest = hashlib.sha256(line.encode("ascii")).hexdigest()
            changes.append({"wanted": row.entry_id, "new_number": number, "new_digest": digest})
        connection.execute(change, changes)
        last = rows[-1]
        after = sa.or_(of.at_ms > last.at_ms, sa.and_(of.at_ms == last.at_ms, of.entry_id > last.entry_id))
        rows = connection.execute(oldest_first.where(after)).all()
    return number, digest


def downgrade() -> None:
    """The entries stay, and what they follow from is forgotten."""
    op.drop_index(op.f("ix_winnow_audit_number"), table_name="winnow_audit")
    op.drop_table("winnow_audit_chain")
    op.drop_column("winnow_audit", "digest")
    op.drop_column("winnow_audit", "number")
