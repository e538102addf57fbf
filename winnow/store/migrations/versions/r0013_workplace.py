"""Trends, deadlines, table health, owners and tags for the page; figures of receipts as columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 500

_SORTED_BY_BYTES = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Samples, deadlines and table health begin now; figures are those of the receipts that are there."""
    for name, kind in (("sort_key", _SORTED_BY_BYTES), ("owner", sa.Text()), ("tags", sa.Text())):
        column = sa.Column(name, kind, nullable=False, server_default=sa.text("''"))
        op.add_column("winnow_topic_overview", column)
    for name in ("records", "files", "clean_bytes", "cleanable_bytes", "end_offsets"):
        op.add_column("winnow_topic_overview", _add_number(name))
    for name in ("records", "files"):
        op.add_column("winnow_partition_overview", _add_number(name))
    _create_samples()
    op.create_table(
        "winnow_receipt_figures",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("records_in", sa.BigInteger(), nullable=False),
        sa.Column("records_kept", sa.BigInteger(), nullable=False),
        sa.Column("records_retired", sa.BigInteger(), nullable=False),
        sa.Column("bytes_in", sa.BigInteger(), nullable=False),
        sa.Column("bytes_out", sa.BigInteger(), nullable=False),
        sa.Column("bytes_retired", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("cpu_seconds", sa.Double(), nullable=True),
        sa.Column("bytes_written", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("plan_id", name=op.f("pk_winnow_receipt_figures")),
    )
    op.create_index(
        op.f("ix_winnow_receipt_figures_topic_finished_at_ms"), "winnow_receipt_figures", ["topic", "finished_at_ms"]
    )
    op.create_index(op.f("ix_winnow_receipt_figures_finished_at_ms"), "winnow_receipt_figures", ["finished_at_ms"])
    op.create_table(
        "winnow_deadline",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("settled_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "partition", "deadline_ms", name=op.f("pk_winnow_deadline")),
    )
    op.create_index(op.f("ix_winnow_deadline_deadline_ms"), "winnow_deadline", ["deadline_ms"])
    _create_health()
    _fill_sort_keys(op.get_bind())
    _fill_figures(op.get_bind())


def downgrade() -> None:
    """Trends and deadlines are forgotten; receipts, which everything else is about, stay."""
    op.drop_table("winnow_topic_sweep")
    op.drop_table("winnow_table_health")
    op.drop_index(op.f("ix_winnow_deadline_deadline_ms"), table_name="winnow_deadline")
    op.drop_table("winnow_deadline")
    op.drop_index(op.f("ix_winnow_receipt_figures_finished_at_ms"), table_name="winnow_receipt_figures")
    op.drop_index(op.f("ix_winnow_receipt_figures_topic_finished_at_ms"), table_name="winnow_receipt_figures")
    op.drop_table("winnow_receipt_figures")
    op.drop_table("winnow_sample")
    for name in ("files", "records"):
        op.drop_column("winnow_partition_overview", name)
    for name in ("end_offsets", "cleanable_bytes", "clean_bytes", "files", "records", "tags", "owner", "sort_key"):
        op.drop_column("winnow_topic_overview", name)


def _add_number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")


def _create_samples() -> None:
    op.create_table(
        "winnow_sample",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("topics", sa.Integer(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("clean_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cleanable_bytes", sa.BigInteger(), nullable=False),
        sa.Column("dirty_ratio", sa.Double(), nullable=False),
        sa.Column("reclaimable_bytes", sa.BigInteger(), nullable=True),
        sa.Column("retired_bytes", sa.BigInteger(), nullable=False),
        sa.Column("end_offsets", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "at_ms", name=op.f("pk_winnow_sample")),
    )


def _create_health() -> None:
    op.create_table(
        "winnow_table_health",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("segment_bytes", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("small_files", sa.BigInteger(), nullable=False),
        sa.Column("small_bytes", sa.BigInteger(), nullable=False),
        sa.Column("largest_bytes", sa.BigInteger(), nullable=False),
        sa.Column("file_sizes", sa.Text(), nullable=False),
        sa.Column("manifests", sa.BigInteger(), nullable=True),
        sa.Column("snapshots", sa.BigInteger(), nullable=False),
        sa.Column("oldest_snapshot_ms", sa.BigInteger(), nullable=True),
        sa.Column("metadata_files", sa.BigInteger(), nullable=False),
        sa.Column("retired_files", sa.BigInteger(), nullable=False),
        sa.Column("retired_bytes", sa.BigInteger(), nullable=False),
        sa.Column("oldest_retired_ms", sa.BigInteger(), nullable=True),
        sa.Column("condemned_files", sa.BigInteger(), nullable=False),
        sa.Column("condemned_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_table_health")),
    )
    op.create_table(
        "winnow_topic_sweep",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("swept_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("files_deleted", sa.BigInteger(), nullable=False),
        sa.Column("bytes_deleted", sa.BigInteger(), nullable=False),
        sa.Column("snapshots_expired", sa.BigInteger(), nullable=False),
        sa.Column("orphaned_files", sa.BigInteger(), nullable=False),
        sa.Column("orphaned_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_topic_sweep")),
    )


def _fill_sort_keys(connection: sa.Connection) -> None:
    topics = list(connection.scalars(sa.text("SELECT topic FROM winnow_topic_overview")))
    if topics:
        statement = sa.text("UPDATE winnow_topic_overview SET sort_key = :sort_key WHERE topic = :topic")
        connection.execute(statement, [{"topic": each, "sort_key": _make_sort_key(each)} for each in topics])


def _make_sort_key(topic: str) -> str:
    """The key as of this revision: digits by their value, letters without case."""
    return re.sub(r"[0-9]+", lambda found: f"{len(found[0].lstrip('0')):03d}{found[0].lstrip('0')}", topic.lower())


def _fill_figures(connection: sa.Connection) -> None:
    figures = sa.table(
        "winnow_receipt_figures",
        *(sa.column(name) for name in ("plan_id", "topic", "finished_at_ms", "partitions", *_SUMS, "seconds")),
    )
    for rows in _list_receipts(connection):
        connection.execute(sa.insert(figures), [_sum_receipt(*row) for row in rows])


_SUMS = ("records_in", "records_kept", "records_retired", "bytes_in", "bytes_out", "bytes_retired")


def _list_receipts(connection: sa.Connection) -> Iterator[list[Any]]:
    statement = sa.text(
        "SELECT plan_id, topic, finished_at_ms, document FROM winnow_receipt WHERE plan_id > :after "
        "ORDER BY plan_id LIMIT :most"
    )
    after = ""
    while rows := list(connection.execute(statement, {"after": after, "most": _ROWS_AT_ONCE})):
        yield rows
        after = rows[-1][0]


def _sum_receipt(plan_id: str, topic: str, finished_at_ms: int, document: str) -> dict[str, Any]:
    parts = json.loads(document).get("partitions", [])
    return {
        "plan_id": plan_id,
        "topic": topic,
        "finished_at_ms": finished_at_ms,
        "partitions": len(parts),
        **{name: sum(int(part.get(name, 0)) for part in parts) for name in _SUMS},
        "seconds": sum(float(part.get("seconds", 0.0)) for part in parts),
    }
