"""All tables, as they were before the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = None
branch_labels = None
depends_on = None

_SORTED_BY_BYTES = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:  # noqa: PLR0915 - one statement a table
    """Make the tables. Later columns come in revisions of their own."""
    op.create_table(
        "winnow_alert",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("sent_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("partition", sa.Integer(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("since_ms", sa.BigInteger(), nullable=True),
        sa.Column("released", sa.Text(), nullable=True),
        sa.Column("safe", sa.Text(), nullable=True),
        sa.Column("next", sa.Text(), nullable=True),
        sa.Column("plan_id", sa.Text(), nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("acknowledged_why", sa.Text(), nullable=True),
        sa.Column("acknowledged_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("muted_by", sa.Text(), nullable=True),
        sa.Column("muted_why", sa.Text(), nullable=True),
        sa.Column("muted_until_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_winnow_alert")),
    )
    op.create_table(
        "winnow_alert_delivery",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("claimed_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_winnow_alert_delivery")),
    )
    op.create_index(
        op.f("ix_winnow_alert_delivery_channel_key"), "winnow_alert_delivery", ["channel", "key"], unique=False
    )
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
    op.create_index(op.f("ix_winnow_alert_event_at_ms"), "winnow_alert_event", ["at_ms"], unique=False)
    op.create_index(op.f("ix_winnow_alert_event_topic_at_ms"), "winnow_alert_event", ["topic", "at_ms"], unique=False)
    op.create_table(
        "winnow_assessment",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("eligible", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("log_start_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_dirty_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_uncleanable_offset", sa.BigInteger(), nullable=False),
        sa.Column("log_end_offset", sa.BigInteger(), nullable=False),
        sa.Column("dirty_ratio", sa.Double(), nullable=False),
        sa.Column("clean_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cleanable_bytes", sa.BigInteger(), nullable=False),
        sa.Column("max_compaction_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "partition", "as_of_ms", name=op.f("pk_winnow_assessment")),
    )
    op.create_index(
        op.f("ix_winnow_assessment_topic_recorded_at_ms"),
        "winnow_assessment",
        ["topic", "recorded_at_ms"],
        unique=False,
    )
    op.create_table(
        "winnow_attempt",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "attempt", name=op.f("pk_winnow_attempt")),
    )
    op.create_table(
        "winnow_audit",
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("digest", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", name=op.f("pk_winnow_audit")),
    )
    op.create_index(op.f("ix_winnow_audit_at_ms"), "winnow_audit", ["at_ms"], unique=False)
    op.create_index(op.f("ix_winnow_audit_number"), "winnow_audit", ["number"], unique=True)
    op.create_index(op.f("ix_winnow_audit_topic_at_ms"), "winnow_audit", ["topic", "at_ms"], unique=False)
    op.create_table(
        "winnow_audit_chain",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("removed_number", sa.BigInteger(), nullable=False),
        sa.Column("removed_digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_winnow_audit_chain")),
    )
    op.create_table(
        "winnow_checkpoint",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_dirty_offset", sa.BigInteger(), nullable=True),
        sa.Column("log_start_offset", sa.BigInteger(), nullable=False),
        sa.Column("log_end_offset", sa.BigInteger(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=True),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_checkpoint")),
    )
    op.create_table(
        "winnow_complete_topic",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("brokers_digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_complete_topic")),
    )
    op.create_table(
        "winnow_deadline",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("settled_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "partition", "deadline_ms", name=op.f("pk_winnow_deadline")),
    )
    op.create_index(op.f("ix_winnow_deadline_deadline_ms"), "winnow_deadline", ["deadline_ms"], unique=False)
    op.create_table(
        "winnow_divergence",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_divergence")),
    )
    op.create_table(
        "winnow_idle_topic",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("rules_digest", sa.Text(), nullable=False),
        sa.Column("from_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=True),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_idle_topic")),
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
    op.create_index(op.f("ix_winnow_ingest_topic_number"), "winnow_ingest", ["topic", "number"], unique=False)
    op.create_table(
        "winnow_ingest_lag",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("looked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("records_behind", sa.BigInteger(), nullable=False),
        sa.Column("complete_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.Column("records_uncommitted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("open_since_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_ingest_lag")),
    )
    op.create_index(op.f("ix_winnow_ingest_lag_deadline_ms"), "winnow_ingest_lag", ["deadline_ms"], unique=False)
    op.create_table(
        "winnow_installation",
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("installation_id", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("only", name=op.f("pk_winnow_installation")),
    )
    op.create_table(
        "winnow_lease",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_lease")),
    )
    op.create_table(
        "winnow_partition_overview",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("eligible", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("log_start_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_dirty_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_uncleanable_offset", sa.BigInteger(), nullable=False),
        sa.Column("active_offset", sa.BigInteger(), nullable=True),
        sa.Column("log_end_offset", sa.BigInteger(), nullable=False),
        sa.Column("dirty_ratio", sa.Double(), nullable=False),
        sa.Column("clean_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cleanable_bytes", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("max_compaction_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.Column("reclaimable_bytes", sa.BigInteger(), nullable=True),
        sa.Column("records", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("files", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_partition_overview")),
    )
    op.create_table(
        "winnow_receipt",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("finished_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", name=op.f("pk_winnow_receipt")),
    )
    op.create_index(
        op.f("ix_winnow_receipt_topic_finished_at_ms"), "winnow_receipt", ["topic", "finished_at_ms"], unique=False
    )
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
        op.f("ix_winnow_receipt_figures_finished_at_ms"), "winnow_receipt_figures", ["finished_at_ms"], unique=False
    )
    op.create_index(
        op.f("ix_winnow_receipt_figures_topic_finished_at_ms"),
        "winnow_receipt_figures",
        ["topic", "finished_at_ms"],
        unique=False,
    )
    op.create_table(
        "winnow_retired_file",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("retired_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "path", name=op.f("pk_winnow_retired_file")),
    )
    op.create_index(
        op.f("ix_winnow_retired_file_topic_deleted_at_ms"),
        "winnow_retired_file",
        ["topic", "deleted_at_ms"],
        unique=False,
    )
    op.create_table(
        "winnow_run",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), nullable=False),
        sa.Column("plan_uri", sa.Text(), nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("plan_sha256", sa.Text(), nullable=True),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("found_empty_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("swept_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("plan_id", name=op.f("pk_winnow_run")),
    )
    op.create_index(op.f("ix_winnow_run_holder"), "winnow_run", ["holder"], unique=False)
    op.create_index(op.f("ix_winnow_run_status_topic"), "winnow_run", ["status", "topic"], unique=False)
    op.create_index(op.f("ix_winnow_run_topic_updated_at_ms"), "winnow_run", ["topic", "updated_at_ms"], unique=False)
    op.create_index(op.f("ix_winnow_run_updated_at_ms"), "winnow_run", ["updated_at_ms"], unique=False)
    op.create_table(
        "winnow_run_transition",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "at_ms", "state", name=op.f("pk_winnow_run_transition")),
    )
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
    op.create_table(
        "winnow_segment_check",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("checked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("finding", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("since_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "path", name=op.f("pk_winnow_segment_check")),
    )
    op.create_index(
        op.f("ix_winnow_segment_check_checked_at_ms"), "winnow_segment_check", ["checked_at_ms"], unique=False
    )
    op.create_table(
        "winnow_source_state",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_source_state")),
    )
    op.create_table(
        "winnow_spark_job",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("map_index", sa.Integer(), nullable=True),
        sa.Column("try_number", sa.Integer(), nullable=True),
        sa.Column("submitted_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("application_id", sa.Text(), nullable=True),
        sa.Column("ui_url", sa.Text(), nullable=True),
        sa.Column("event_log", sa.Text(), nullable=True),
        sa.Column("driver_log", sa.Text(), nullable=True),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("partitions_done", sa.Integer(), nullable=False),
        sa.Column("partitions_failed", sa.Integer(), nullable=False),
        sa.Column("bytes_total", sa.BigInteger(), nullable=False),
        sa.Column("bytes_read", sa.BigInteger(), nullable=False),
        sa.Column("bytes_written", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_winnow_spark_job")),
    )
    op.create_table(
        "winnow_spark_job_plan",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("partitions_done", sa.Integer(), nullable=False),
        sa.Column("partitions_failed", sa.Integer(), nullable=False),
        sa.Column("bytes_total", sa.BigInteger(), nullable=False),
        sa.Column("bytes_read", sa.BigInteger(), nullable=False),
        sa.Column("bytes_written", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "plan_id", name=op.f("pk_winnow_spark_job_plan")),
    )
    op.create_index(op.f("ix_winnow_spark_job_plan_plan_id"), "winnow_spark_job_plan", ["plan_id"], unique=False)
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
        "winnow_topic_head",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("table_uuid", sa.Text(), nullable=False),
        sa.Column("life", sa.Integer(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("last_sequence_number", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("ingest_number", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "table_uuid", name=op.f("pk_winnow_topic_head")),
    )
    op.create_table(
        "winnow_topic_overview",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("eligible", sa.Integer(), nullable=False),
        sa.Column("dirty_ratio", sa.Double(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("compacts", sa.Boolean(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("reclaimable_bytes", sa.BigInteger(), nullable=True),
        sa.Column("retired_bytes", sa.BigInteger(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("sort_key", _SORTED_BY_BYTES, server_default=sa.text("''"), nullable=False),
        sa.Column("owner", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("tags", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("records", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("files", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("clean_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cleanable_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("end_offsets", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_topic_overview")),
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
        sa.Column("unnamed_files", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_winnow_topic_sweep")),
    )
    op.create_table(
        "winnow_verdict",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("broken", sa.Boolean(), nullable=False),
        sa.Column("checked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "attempt", name=op.f("pk_winnow_verdict")),
    )
    op.create_index(op.f("ix_winnow_verdict_checked_at_ms"), "winnow_verdict", ["checked_at_ms"], unique=False)
    op.create_index(
        op.f("ix_winnow_verdict_topic_checked_at_ms"), "winnow_verdict", ["topic", "checked_at_ms"], unique=False
    )
    op.create_table(
        "winnow_cleaning",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("end_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cleaning_time_ms", sa.BigInteger(), nullable=True),
        sa.Column("delete_horizon_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["topic", "partition"],
            ["winnow_checkpoint.topic", "winnow_checkpoint.partition"],
            name=op.f("fk_winnow_cleaning_winnow_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", "end_offset", name=op.f("pk_winnow_cleaning")),
    )
    op.create_table(
        "winnow_latest_assessment",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["topic", "partition", "as_of_ms"],
            ["winnow_assessment.topic", "winnow_assessment.partition", "winnow_assessment.as_of_ms"],
            name=op.f("fk_winnow_latest_assessment_winnow_assessment"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_latest_assessment")),
    )
    op.create_table(
        "winnow_paused",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["topic", "partition"],
            ["winnow_checkpoint.topic", "winnow_checkpoint.partition"],
            name=op.f("fk_winnow_paused_winnow_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_paused")),
    )
    op.create_table(
        "winnow_paused_by",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["topic", "partition"],
            ["winnow_checkpoint.topic", "winnow_checkpoint.partition"],
            name=op.f("fk_winnow_paused_by_winnow_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", "number", name=op.f("pk_winnow_paused_by")),
    )
    op.create_table(
        "winnow_uncleanable",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["topic", "partition"],
            ["winnow_checkpoint.topic", "winnow_checkpoint.partition"],
            name=op.f("fk_winnow_uncleanable_winnow_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_winnow_uncleanable")),
    )
    chain = sa.table(
        "winnow_audit_chain", *map(sa.column, ("name", "number", "digest", "removed_number", "removed_digest"))
    )
    op.execute(chain.insert().values(name="audit", number=0, digest="", removed_number=0, removed_digest=""))


def downgrade() -> None:
    """Remove the tables; what a table of the log knows can be rebuilt."""
    op.drop_table("winnow_uncleanable")
    op.drop_table("winnow_paused_by")
    op.drop_table("winnow_paused")
    op.drop_table("winnow_latest_assessment")
    op.drop_table("winnow_cleaning")
    op.drop_table("winnow_verdict")
    op.drop_table("winnow_topic_sweep")
    op.drop_table("winnow_topic_overview")
    op.drop_table("winnow_topic_head")
    op.drop_table("winnow_table_health")
    op.drop_table("winnow_spark_job_plan")
    op.drop_table("winnow_spark_job")
    op.drop_table("winnow_source_state")
    op.drop_table("winnow_segment_check")
    op.drop_table("winnow_sample")
    op.drop_table("winnow_run_transition")
    op.drop_table("winnow_run")
    op.drop_table("winnow_retired_file")
    op.drop_table("winnow_receipt_figures")
    op.drop_table("winnow_receipt")
    op.drop_table("winnow_partition_overview")
    op.drop_table("winnow_lease")
    op.drop_table("winnow_installation")
    op.drop_table("winnow_ingest_lag")
    op.drop_table("winnow_ingest")
    op.drop_table("winnow_idle_topic")
    op.drop_table("winnow_divergence")
    op.drop_table("winnow_deadline")
    op.drop_table("winnow_complete_topic")
    op.drop_table("winnow_checkpoint")
    op.drop_table("winnow_audit_chain")
    op.drop_table("winnow_audit")
    op.drop_table("winnow_attempt")
    op.drop_table("winnow_assessment")
    op.drop_table("winnow_alert_event")
    op.drop_table("winnow_alert_delivery")
    op.drop_table("winnow_alert")
