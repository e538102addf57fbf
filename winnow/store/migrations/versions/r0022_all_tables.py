"""All tables, as they were before the first release."""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables. Later columns come in revisions of their own."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    double, sorted_text = ("DOUBLE", "TEXT") if is_sqlite else ("DOUBLE PRECISION", 'TEXT COLLATE "C"')
    for statement in _TABLES.format(double=double, sorted_text=sorted_text).split(";"):
        op.execute(statement.strip())
    chain = sa.table(
        "winnow_audit_chain", *map(sa.column, ("name", "number", "digest", "removed_number", "removed_digest"))
    )
    op.execute(chain.insert().values(name="audit", number=0, digest="", removed_number=0, removed_digest=""))


def downgrade() -> None:
    """Remove the tables; what a table of the log knows can be rebuilt."""
    for name in reversed(re.findall(r"CREATE TABLE (\w+)", _TABLES)):
        op.drop_table(name)


_TABLES = """
CREATE TABLE winnow_alert (
    "key" TEXT NOT NULL, sent_at_ms BIGINT NOT NULL, kind TEXT, topic TEXT, partition INTEGER, message TEXT,
    since_ms BIGINT, released TEXT, safe TEXT, next TEXT, plan_id TEXT, acknowledged_by TEXT, acknowledged_why TEXT,
    acknowledged_at_ms BIGINT, muted_by TEXT, muted_why TEXT, muted_until_ms BIGINT,
    CONSTRAINT pk_winnow_alert PRIMARY KEY ("key")
);
CREATE TABLE winnow_alert_delivery (
    "key" TEXT NOT NULL, channel TEXT NOT NULL, created_at_ms BIGINT NOT NULL, claimed_until_ms BIGINT NOT NULL,
    document TEXT NOT NULL,
    CONSTRAINT pk_winnow_alert_delivery PRIMARY KEY ("key")
);
CREATE INDEX ix_winnow_alert_delivery_channel_key ON winnow_alert_delivery (channel, "key");
CREATE TABLE winnow_alert_event (
    event_id TEXT NOT NULL, at_ms BIGINT NOT NULL, event TEXT NOT NULL, kind TEXT NOT NULL, topic TEXT NOT NULL,
    partition INTEGER, actor TEXT NOT NULL, text TEXT NOT NULL,
    CONSTRAINT pk_winnow_alert_event PRIMARY KEY (event_id)
);
CREATE INDEX ix_winnow_alert_event_at_ms ON winnow_alert_event (at_ms);
CREATE INDEX ix_winnow_alert_event_topic_at_ms ON winnow_alert_event (topic, at_ms);
CREATE TABLE winnow_assessment (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, as_of_ms BIGINT NOT NULL, recorded_at_ms BIGINT NOT NULL,
    eligible BOOLEAN NOT NULL, reason TEXT NOT NULL, log_start_offset BIGINT NOT NULL,
    first_dirty_offset BIGINT NOT NULL, first_uncleanable_offset BIGINT NOT NULL, log_end_offset BIGINT NOT NULL,
    dirty_ratio {double} NOT NULL, clean_bytes BIGINT NOT NULL, cleanable_bytes BIGINT NOT NULL,
    max_compaction_delay_ms BIGINT NOT NULL, deadline_ms BIGINT,
    CONSTRAINT pk_winnow_assessment PRIMARY KEY (topic, partition, as_of_ms)
);
CREATE INDEX ix_winnow_assessment_topic_recorded_at_ms ON winnow_assessment (topic, recorded_at_ms);
CREATE TABLE winnow_attempt (
    plan_id TEXT NOT NULL, attempt TEXT NOT NULL, fence BIGINT NOT NULL, opened_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_winnow_attempt PRIMARY KEY (plan_id, attempt)
);
CREATE TABLE winnow_audit (
    entry_id TEXT NOT NULL, at_ms BIGINT NOT NULL, topic TEXT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
    reason TEXT NOT NULL, origin TEXT NOT NULL, detail TEXT NOT NULL, number BIGINT DEFAULT '0' NOT NULL,
    digest TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_winnow_audit PRIMARY KEY (entry_id)
);
CREATE INDEX ix_winnow_audit_at_ms ON winnow_audit (at_ms);
CREATE UNIQUE INDEX ix_winnow_audit_number ON winnow_audit (number);
CREATE INDEX ix_winnow_audit_topic_at_ms ON winnow_audit (topic, at_ms);
CREATE TABLE winnow_audit_chain (
    name TEXT NOT NULL, number BIGINT NOT NULL, digest TEXT NOT NULL, removed_number BIGINT NOT NULL,
    removed_digest TEXT NOT NULL,
    CONSTRAINT pk_winnow_audit_chain PRIMARY KEY (name)
);
CREATE TABLE winnow_checkpoint (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, first_dirty_offset BIGINT, log_start_offset BIGINT NOT NULL,
    log_end_offset BIGINT NOT NULL, strategy TEXT, updated_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_winnow_checkpoint PRIMARY KEY (topic, partition)
);
CREATE TABLE winnow_complete_topic (
    topic TEXT NOT NULL, metadata_location TEXT NOT NULL, brokers_digest TEXT NOT NULL,
    CONSTRAINT pk_winnow_complete_topic PRIMARY KEY (topic)
);
CREATE TABLE winnow_deadline (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, deadline_ms BIGINT NOT NULL, settled_at_ms BIGINT,
    CONSTRAINT pk_winnow_deadline PRIMARY KEY (topic, partition, deadline_ms)
);
CREATE INDEX ix_winnow_deadline_deadline_ms ON winnow_deadline (deadline_ms);
CREATE TABLE winnow_divergence (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, first_offset BIGINT NOT NULL,
    CONSTRAINT pk_winnow_divergence PRIMARY KEY (topic, partition)
);
CREATE TABLE winnow_idle_topic (
    topic TEXT NOT NULL, metadata_location TEXT NOT NULL, rules_digest TEXT NOT NULL, from_ms BIGINT NOT NULL,
    until_ms BIGINT, reasons TEXT NOT NULL,
    CONSTRAINT pk_winnow_idle_topic PRIMARY KEY (topic)
);
CREATE TABLE winnow_ingest (
    ingest_id TEXT NOT NULL, topic TEXT NOT NULL, number BIGINT NOT NULL, holder TEXT NOT NULL,
    opened_at_ms BIGINT NOT NULL, renewed_at_ms BIGINT NOT NULL, voided_at_ms BIGINT, found_empty_at_ms BIGINT,
    CONSTRAINT pk_winnow_ingest PRIMARY KEY (ingest_id)
);
CREATE INDEX ix_winnow_ingest_topic_number ON winnow_ingest (topic, number);
CREATE TABLE winnow_ingest_lag (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, looked_at_ms BIGINT NOT NULL, records_behind BIGINT NOT NULL,
    complete_until_ms BIGINT NOT NULL, deadline_ms BIGINT, records_uncommitted BIGINT DEFAULT '0' NOT NULL,
    open_since_ms BIGINT,
    CONSTRAINT pk_winnow_ingest_lag PRIMARY KEY (topic, partition)
);
CREATE INDEX ix_winnow_ingest_lag_deadline_ms ON winnow_ingest_lag (deadline_ms);
CREATE TABLE winnow_installation (
    "only" INTEGER NOT NULL, installation_id TEXT NOT NULL, created_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_winnow_installation PRIMARY KEY ("only")
);
CREATE TABLE winnow_lease (
    topic TEXT NOT NULL, holder TEXT, token BIGINT NOT NULL, expires_ms BIGINT NOT NULL,
    CONSTRAINT pk_winnow_lease PRIMARY KEY (topic)
);
CREATE TABLE winnow_partition_overview (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, eligible BOOLEAN NOT NULL, reason TEXT NOT NULL,
    log_start_offset BIGINT NOT NULL, first_dirty_offset BIGINT NOT NULL, first_uncleanable_offset BIGINT NOT NULL,
    active_offset BIGINT, log_end_offset BIGINT NOT NULL, dirty_ratio {double} NOT NULL, clean_bytes BIGINT NOT NULL,
    cleanable_bytes BIGINT NOT NULL, size_bytes BIGINT NOT NULL, max_compaction_delay_ms BIGINT NOT NULL,
    deadline_ms BIGINT, reclaimable_bytes BIGINT, records BIGINT DEFAULT '0' NOT NULL,
    files BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_winnow_partition_overview PRIMARY KEY (topic, partition)
);
CREATE TABLE winnow_receipt (
    plan_id TEXT NOT NULL, topic TEXT NOT NULL, status TEXT NOT NULL, snapshot_id BIGINT,
    finished_at_ms BIGINT NOT NULL, document TEXT NOT NULL,
    CONSTRAINT pk_winnow_receipt PRIMARY KEY (plan_id)
);
CREATE INDEX ix_winnow_receipt_topic_finished_at_ms ON winnow_receipt (topic, finished_at_ms);
CREATE TABLE winnow_receipt_figures (
    plan_id TEXT NOT NULL, topic TEXT NOT NULL, finished_at_ms BIGINT NOT NULL, partitions INTEGER NOT NULL,
    records_in BIGINT NOT NULL, records_kept BIGINT NOT NULL, records_retired BIGINT NOT NULL,
    bytes_in BIGINT NOT NULL, bytes_out BIGINT NOT NULL, bytes_retired BIGINT NOT NULL, seconds {double} NOT NULL,
    cpu_seconds {double}, bytes_written BIGINT,
    CONSTRAINT pk_winnow_receipt_figures PRIMARY KEY (plan_id)
);
CREATE INDEX ix_winnow_receipt_figures_finished_at_ms ON winnow_receipt_figures (finished_at_ms);
CREATE INDEX ix_winnow_receipt_figures_topic_finished_at_ms ON winnow_receipt_figures (topic, finished_at_ms);
CREATE TABLE winnow_retired_file (
    topic TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, size_bytes BIGINT NOT NULL,
    retired_at_ms BIGINT NOT NULL, plan_id TEXT NOT NULL, deleted_at_ms BIGINT,
    CONSTRAINT pk_winnow_retired_file PRIMARY KEY (topic, path)
);
CREATE INDEX ix_winnow_retired_file_topic_deleted_at_ms ON winnow_retired_file (topic, deleted_at_ms);
CREATE TABLE winnow_run (
    plan_id TEXT NOT NULL, topic TEXT NOT NULL, attempt TEXT NOT NULL, status TEXT NOT NULL, as_of_ms BIGINT NOT NULL,
    plan_uri TEXT NOT NULL, opened_at_ms BIGINT NOT NULL, updated_at_ms BIGINT NOT NULL, message TEXT NOT NULL,
    snapshot_id BIGINT, holder TEXT, plan_sha256 TEXT, fence BIGINT DEFAULT '0' NOT NULL, found_empty_at_ms BIGINT,
    swept_at_ms BIGINT,
    CONSTRAINT pk_winnow_run PRIMARY KEY (plan_id)
);
CREATE INDEX ix_winnow_run_holder ON winnow_run (holder);
CREATE INDEX ix_winnow_run_status_topic ON winnow_run (status, topic);
CREATE INDEX ix_winnow_run_topic_updated_at_ms ON winnow_run (topic, updated_at_ms);
CREATE INDEX ix_winnow_run_updated_at_ms ON winnow_run (updated_at_ms);
CREATE TABLE winnow_run_transition (
    plan_id TEXT NOT NULL, at_ms BIGINT NOT NULL, state TEXT NOT NULL, attempt TEXT NOT NULL,
    CONSTRAINT pk_winnow_run_transition PRIMARY KEY (plan_id, at_ms, state)
);
CREATE TABLE winnow_sample (
    topic TEXT NOT NULL, at_ms BIGINT NOT NULL, recorded_at_ms BIGINT NOT NULL, topics INTEGER NOT NULL,
    partitions INTEGER NOT NULL, records BIGINT NOT NULL, files BIGINT NOT NULL, size_bytes BIGINT NOT NULL,
    clean_bytes BIGINT NOT NULL, cleanable_bytes BIGINT NOT NULL, dirty_ratio {double} NOT NULL,
    reclaimable_bytes BIGINT, retired_bytes BIGINT NOT NULL, end_offsets BIGINT NOT NULL, deadline_ms BIGINT,
    CONSTRAINT pk_winnow_sample PRIMARY KEY (topic, at_ms)
);
CREATE TABLE winnow_segment_check (
    topic TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, partition INTEGER, size_bytes BIGINT NOT NULL,
    checked_at_ms BIGINT NOT NULL, finding TEXT, text TEXT, since_ms BIGINT,
    CONSTRAINT pk_winnow_segment_check PRIMARY KEY (topic, path)
);
CREATE INDEX ix_winnow_segment_check_checked_at_ms ON winnow_segment_check (checked_at_ms);
CREATE TABLE winnow_source_state (
    topic TEXT NOT NULL, kind TEXT NOT NULL, since_ms BIGINT NOT NULL, metadata_location TEXT NOT NULL,
    CONSTRAINT pk_winnow_source_state PRIMARY KEY (topic)
);
CREATE TABLE winnow_spark_job (
    job_id TEXT NOT NULL, attempt TEXT NOT NULL, holder TEXT NOT NULL, dag_id TEXT, run_id TEXT, task_id TEXT,
    map_index INTEGER, try_number INTEGER, submitted_at_ms BIGINT NOT NULL, started_at_ms BIGINT,
    updated_at_ms BIGINT NOT NULL, ended_at_ms BIGINT, application_id TEXT, ui_url TEXT, event_log TEXT,
    driver_log TEXT, partitions INTEGER NOT NULL, partitions_done INTEGER NOT NULL,
    partitions_failed INTEGER NOT NULL, bytes_total BIGINT NOT NULL, bytes_read BIGINT NOT NULL,
    bytes_written BIGINT NOT NULL, error TEXT,
    CONSTRAINT pk_winnow_spark_job PRIMARY KEY (job_id)
);
CREATE TABLE winnow_spark_job_plan (
    job_id TEXT NOT NULL, plan_id TEXT NOT NULL, topic TEXT NOT NULL, partitions INTEGER NOT NULL,
    partitions_done INTEGER NOT NULL, partitions_failed INTEGER NOT NULL, bytes_total BIGINT NOT NULL,
    bytes_read BIGINT NOT NULL, bytes_written BIGINT NOT NULL, error TEXT,
    CONSTRAINT pk_winnow_spark_job_plan PRIMARY KEY (job_id, plan_id)
);
CREATE INDEX ix_winnow_spark_job_plan_plan_id ON winnow_spark_job_plan (plan_id);
CREATE TABLE winnow_table_health (
    topic TEXT NOT NULL, recorded_at_ms BIGINT NOT NULL, segment_bytes BIGINT NOT NULL, files BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL, small_files BIGINT NOT NULL, small_bytes BIGINT NOT NULL,
    largest_bytes BIGINT NOT NULL, file_sizes TEXT NOT NULL, manifests BIGINT, snapshots BIGINT NOT NULL,
    oldest_snapshot_ms BIGINT, metadata_files BIGINT NOT NULL, retired_files BIGINT NOT NULL,
    retired_bytes BIGINT NOT NULL, oldest_retired_ms BIGINT, condemned_files BIGINT NOT NULL,
    condemned_bytes BIGINT NOT NULL,
    CONSTRAINT pk_winnow_table_health PRIMARY KEY (topic)
);
CREATE TABLE winnow_topic_head (
    topic TEXT NOT NULL, table_uuid TEXT NOT NULL, life INTEGER NOT NULL, metadata_location TEXT NOT NULL,
    last_sequence_number BIGINT NOT NULL, fence BIGINT NOT NULL, snapshot_id BIGINT, ingest_number BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL, recorded_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_winnow_topic_head PRIMARY KEY (topic, table_uuid)
);
CREATE TABLE winnow_topic_overview (
    topic TEXT NOT NULL, as_of_ms BIGINT NOT NULL, recorded_at_ms BIGINT NOT NULL, partitions INTEGER NOT NULL,
    eligible INTEGER NOT NULL, dirty_ratio {double} NOT NULL, threshold {double} NOT NULL, compacts BOOLEAN NOT NULL,
    policy TEXT NOT NULL, strategy TEXT NOT NULL, deadline_ms BIGINT, size_bytes BIGINT NOT NULL,
    reclaimable_bytes BIGINT, retired_bytes BIGINT NOT NULL, configuration TEXT NOT NULL, table_name TEXT NOT NULL,
    location TEXT NOT NULL, sort_key {sorted_text} DEFAULT '' NOT NULL, owner TEXT DEFAULT '' NOT NULL,
    tags TEXT DEFAULT '' NOT NULL, records BIGINT DEFAULT '0' NOT NULL, files BIGINT DEFAULT '0' NOT NULL,
    clean_bytes BIGINT DEFAULT '0' NOT NULL, cleanable_bytes BIGINT DEFAULT '0' NOT NULL,
    end_offsets BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_winnow_topic_overview PRIMARY KEY (topic)
);
CREATE TABLE winnow_topic_sweep (
    topic TEXT NOT NULL, swept_at_ms BIGINT NOT NULL, files_deleted BIGINT NOT NULL, bytes_deleted BIGINT NOT NULL,
    snapshots_expired BIGINT NOT NULL, orphaned_files BIGINT NOT NULL, orphaned_bytes BIGINT NOT NULL,
    unnamed_files BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_winnow_topic_sweep PRIMARY KEY (topic)
);
CREATE TABLE winnow_verdict (
    plan_id TEXT NOT NULL, attempt TEXT NOT NULL, topic TEXT NOT NULL, passed BOOLEAN NOT NULL,
    broken BOOLEAN NOT NULL, checked_at_ms BIGINT NOT NULL, document TEXT NOT NULL,
    CONSTRAINT pk_winnow_verdict PRIMARY KEY (plan_id, attempt)
);
CREATE INDEX ix_winnow_verdict_checked_at_ms ON winnow_verdict (checked_at_ms);
CREATE INDEX ix_winnow_verdict_topic_checked_at_ms ON winnow_verdict (topic, checked_at_ms);
CREATE TABLE winnow_cleaning (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, end_offset BIGINT NOT NULL, cleaning_time_ms BIGINT,
    delete_horizon_ms BIGINT,
    CONSTRAINT pk_winnow_cleaning PRIMARY KEY (topic, partition, end_offset),
    CONSTRAINT fk_winnow_cleaning_winnow_checkpoint FOREIGN KEY(topic, partition)
        REFERENCES winnow_checkpoint (topic, partition) ON DELETE CASCADE
);
CREATE TABLE winnow_latest_assessment (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, as_of_ms BIGINT NOT NULL, recorded_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_winnow_latest_assessment PRIMARY KEY (topic, partition),
    CONSTRAINT fk_winnow_latest_assessment_winnow_assessment FOREIGN KEY(topic, partition, as_of_ms)
        REFERENCES winnow_assessment (topic, partition, as_of_ms) ON DELETE CASCADE
);
CREATE TABLE winnow_paused (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, since_ms BIGINT NOT NULL,
    CONSTRAINT pk_winnow_paused PRIMARY KEY (topic, partition),
    CONSTRAINT fk_winnow_paused_winnow_checkpoint FOREIGN KEY(topic, partition)
        REFERENCES winnow_checkpoint (topic, partition) ON DELETE CASCADE
);
CREATE TABLE winnow_paused_by (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL,
    CONSTRAINT pk_winnow_paused_by PRIMARY KEY (topic, partition, number),
    CONSTRAINT fk_winnow_paused_by_winnow_checkpoint FOREIGN KEY(topic, partition)
        REFERENCES winnow_checkpoint (topic, partition) ON DELETE CASCADE
);
CREATE TABLE winnow_uncleanable (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, reason TEXT NOT NULL, since_ms BIGINT NOT NULL, plan_id TEXT,
    attempts INTEGER NOT NULL, next_attempt_ms BIGINT,
    CONSTRAINT pk_winnow_uncleanable PRIMARY KEY (topic, partition),
    CONSTRAINT fk_winnow_uncleanable_winnow_checkpoint FOREIGN KEY(topic, partition)
        REFERENCES winnow_checkpoint (topic, partition) ON DELETE CASCADE
)
"""
