"""The tables of the metadata store. All names begin with ``winnow_``, so a database may be shared with others."""

# Annotations are no text here: SQLAlchemy would evaluate each on its own, a fifth of the time of importing tables.
from typing import Any, ClassVar, Final

from sqlalchemy import BigInteger, Double, ForeignKeyConstraint, Index, Integer, MetaData, Text, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeEngine


class Base(DeclarativeBase):
    """Base of all tables. Offsets, sizes and times are 64-bit; text has no length."""

    metadata: ClassVar[MetaData] = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[type, type[TypeEngine[Any]]]] = {
        int: BigInteger,
        str: Text,
        float: Double,
    }


SORTED_BY_BYTES: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that both databases compare byte by byte; PostgreSQL's own order may ignore punctuation."""


class InstallationTable(Base):
    """The installation that the store belongs to. ``only``: 1, the key of the only row."""

    __tablename__ = "winnow_installation"

    only: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    installation_id: Mapped[str]
    created_at_ms: Mapped[int]


class LeaseTable(Base):
    """One row per topic, for ever: a released lease keeps its token. ``holder`` None: the topic is free."""

    __tablename__ = "winnow_lease"

    topic: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str | None]
    token: Mapped[int]
    expires_ms: Mapped[int]


class AssessmentTable(Base):
    """History: one row per topic partition and as-of."""

    __tablename__ = "winnow_assessment"
    __table_args__ = (Index(None, "topic", "recorded_at_ms"),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    as_of_ms: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    recorded_at_ms: Mapped[int]
    eligible: Mapped[bool]
    reason: Mapped[str]
    log_start_offset: Mapped[int]
    first_dirty_offset: Mapped[int]
    first_uncleanable_offset: Mapped[int]
    log_end_offset: Mapped[int]
    dirty_ratio: Mapped[float]
    clean_bytes: Mapped[int]
    cleanable_bytes: Mapped[int]
    max_compaction_delay_ms: Mapped[int]
    deadline_ms: Mapped[int | None]


class LatestAssessment(Base):
    """Which assessment of a topic partition was recorded last, so that finding it does not read the history."""

    __tablename__ = "winnow_latest_assessment"
    __table_args__ = (
        ForeignKeyConstraint(
            ["topic", "partition", "as_of_ms"],
            ["winnow_assessment.topic", "winnow_assessment.partition", "winnow_assessment.as_of_ms"],
            ondelete="CASCADE",
        ),
    )

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    as_of_ms: Mapped[int]
    recorded_at_ms: Mapped[int]


class IdleTopicTable(Base):
    """A topic that was found idle: at which head, and from when until when. ``until_ms`` null: the clock ends it never.

    ``reasons``: the number of partitions per reason, as JSON.
    """

    __tablename__ = "winnow_idle_topic"

    topic: Mapped[str] = mapped_column(primary_key=True)
    metadata_location: Mapped[str]
    rules_digest: Mapped[str]
    from_ms: Mapped[int]
    until_ms: Mapped[int | None]
    reasons: Mapped[str]


class IngestLagTable(Base):
    """How far a topic partition's log was behind its Kafka topic when the brokers were asked last."""

    __tablename__ = "winnow_ingest_lag"
    __table_args__ = (Index(None, "deadline_ms"),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    looked_at_ms: Mapped[int]
    records_behind: Mapped[int]
    complete_until_ms: Mapped[int]
    deadline_ms: Mapped[int | None]
    records_uncommitted: Mapped[int] = mapped_column(server_default="0")
    open_since_ms: Mapped[int | None]


class CompleteTopicTable(Base):
    """A log that had everything of its Kafka topic: at which head, and as the brokers described the topic then."""

    __tablename__ = "winnow_complete_topic"

    topic: Mapped[str] = mapped_column(primary_key=True)
    metadata_location: Mapped[str]
    brokers_digest: Mapped[str]


class SourceStateTable(Base):
    """What became of the Kafka topic that a log follows, where it is not simply there: gone, or not followed."""

    __tablename__ = "winnow_source_state"

    topic: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    since_ms: Mapped[int]
    metadata_location: Mapped[str]


class DivergenceTable(Base):
    """A partition of which the brokers were found to have other records than its log, from one of their offsets on."""

    __tablename__ = "winnow_divergence"

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    first_offset: Mapped[int]


class TopicOverviewTable(Base):
    """The overview of a topic on the page: one row per topic, as of its last assessment.

    ``configuration``: the values in force, as JSON. Marks and pauses are separate rows that reference the checkpoint.
    ``sort_key``: orders names as people do. ``tags``: separated by commas. ``end_offsets``: the sum of the log ends.
    """

    __tablename__ = "winnow_topic_overview"

    topic: Mapped[str] = mapped_column(primary_key=True)
    as_of_ms: Mapped[int]
    recorded_at_ms: Mapped[int]
    partitions: Mapped[int] = mapped_column(Integer)
    eligible: Mapped[int] = mapped_column(Integer)
    dirty_ratio: Mapped[float]
    threshold: Mapped[float]
    compacts: Mapped[bool]
    policy: Mapped[str]
    strategy: Mapped[str]
    deadline_ms: Mapped[int | None]
    size_bytes: Mapped[int]
    reclaimable_bytes: Mapped[int | None]
    retired_bytes: Mapped[int]
    configuration: Mapped[str]
    table_name: Mapped[str]
    location: Mapped[str]
    sort_key: Mapped[str] = mapped_column(SORTED_BY_BYTES, server_default=text("''"))
    owner: Mapped[str] = mapped_column(server_default=text("''"))
    tags: Mapped[str] = mapped_column(server_default=text("''"))
    records: Mapped[int] = mapped_column(server_default="0")
    files: Mapped[int] = mapped_column(server_default="0")
    clean_bytes: Mapped[int] = mapped_column(server_default="0")
    cleanable_bytes: Mapped[int] = mapped_column(server_default="0")
    end_offsets: Mapped[int] = mapped_column(server_default="0")


class PartitionOverviewTable(Base):
    """The overview of a topic partition: its log from start to end, as of its last assessment.

    ``active_offset``: where the active segment begins; None: there is none.
    """

    __tablename__ = "winnow_partition_overview"

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    eligible: Mapped[bool]
    reason: Mapped[str]
    log_start_offset: Mapped[int]
    first_dirty_offset: Mapped[int]
    first_uncleanable_offset: Mapped[int]
    active_offset: Mapped[int | None]
    log_end_offset: Mapped[int]
    dirty_ratio: Mapped[float]
    clean_bytes: Mapped[int]
    cleanable_bytes: Mapped[int]
    size_bytes: Mapped[int]
    max_compaction_delay_ms: Mapped[int]
    deadline_ms: Mapped[int | None]
    reclaimable_bytes: Mapped[int | None]
    records: Mapped[int] = mapped_column(server_default="0")
    files: Mapped[int] = mapped_column(server_default="0")


class TopicHeadTable(Base):
    """The newest head per life of a topic, as of the last commit of Winnow's: what an older catalog is noticed by.

    ``table_uuid`` is the id of the life, and ``life`` its number: a topic that was removed and created again has
    another. Rows stay when the topic is removed: a catalog from before may come back. The other columns are those of
    :class:`winnow.values.model.TopicHead`.
    """

    __tablename__ = "winnow_topic_head"

    topic: Mapped[str] = mapped_column(primary_key=True)
    table_uuid: Mapped[str] = mapped_column(primary_key=True)
    life: Mapped[int] = mapped_column(Integer)
    metadata_location: Mapped[str]
    last_sequence_number: Mapped[int]
    fence: Mapped[int]
    snapshot_id: Mapped[int | None]
    ingest_number: Mapped[int]
    updated_at_ms: Mapped[int]
    recorded_at_ms: Mapped[int]


class RunTable(Base):
    """History: one row per plan. ``holder``: the last planner, a DAG run or a process.

    ``plan_sha256``: of the plan's bytes at ``plan_uri``; null in rows from before it was noted.
    ``fence``: the topic's fence when the run was opened last. ``found_empty_at_ms``, ``swept_at_ms``: when a sweep
    found nothing left to delete in the folder of the plan for the first and for the second time.
    """

    __tablename__ = "winnow_run"
    __table_args__ = (
        Index(None, "topic", "updated_at_ms"),
        Index(None, "updated_at_ms"),
        Index(None, "holder"),
        Index(None, "status", "topic"),
    )

    plan_id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    attempt: Mapped[str]
    status: Mapped[str]
    as_of_ms: Mapped[int]
    plan_uri: Mapped[str]
    opened_at_ms: Mapped[int]
    updated_at_ms: Mapped[int]
    message: Mapped[str]
    snapshot_id: Mapped[int | None]
    holder: Mapped[str | None]
    plan_sha256: Mapped[str | None]
    fence: Mapped[int] = mapped_column(server_default="0")
    found_empty_at_ms: Mapped[int | None]
    swept_at_ms: Mapped[int | None]


class Attempt(Base):
    """One row per attempt at a plan, written before its first file. ``fence``: the highest it was ever opened with."""

    __tablename__ = "winnow_attempt"

    plan_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[str] = mapped_column(primary_key=True)
    fence: Mapped[int]
    opened_at_ms: Mapped[int]


class Ingest(Base):
    """One row per ingest call that has not ended, written before its first file; gone once nothing of it is left.

    ``number``: rises in the order of opening, per topic. ``renewed_at_ms``: when it last reported that it is at work.
    """

    __tablename__ = "winnow_ingest"
    __table_args__ = (Index(None, "topic", "number"),)

    ingest_id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    number: Mapped[int]
    holder: Mapped[str]
    opened_at_ms: Mapped[int]
    renewed_at_ms: Mapped[int]
    voided_at_ms: Mapped[int | None]
    found_empty_at_ms: Mapped[int | None]


class VerdictTable(Base):
    """History: one row per attempt. ``document`` is the verdict as canonical JSON; the columns are for filtering."""

    __tablename__ = "winnow_verdict"
    __table_args__ = (Index(None, "topic", "checked_at_ms"), Index(None, "checked_at_ms"))

    plan_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    passed: Mapped[bool]
    broken: Mapped[bool]
    checked_at_ms: Mapped[int]
    document: Mapped[str]


class ReceiptTable(Base):
    """Projection: one row per published plan. ``document`` is the receipt as canonical JSON."""

    __tablename__ = "winnow_receipt"
    __table_args__ = (Index(None, "topic", "finished_at_ms"),)

    plan_id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    status: Mapped[str]
    snapshot_id: Mapped[int | None]
    finished_at_ms: Mapped[int]
    document: Mapped[str]


class Checkpoint(Base):
    """Projection: one row per topic partition. Cleaning history and marks reference it and are deleted with it."""

    __tablename__ = "winnow_checkpoint"

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    first_dirty_offset: Mapped[int | None]
    log_start_offset: Mapped[int]
    log_end_offset: Mapped[int]
    strategy: Mapped[str | None]
    updated_at_ms: Mapped[int]


def _make_checkpoint_key() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["topic", "partition"], ["winnow_checkpoint.topic", "winnow_checkpoint.partition"], ondelete="CASCADE"
    )


class CleaningTable(Base):
    """Projection: the cleaning history of a topic partition."""

    __tablename__ = "winnow_cleaning"
    __table_args__ = (_make_checkpoint_key(),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    end_offset: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    cleaning_time_ms: Mapped[int | None]
    delete_horizon_ms: Mapped[int | None]


class UncleanableTable(Base):
    """Projection: topic partitions that are not cleaned because something failed."""

    __tablename__ = "winnow_uncleanable"
    __table_args__ = (_make_checkpoint_key(),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    reason: Mapped[str]
    since_ms: Mapped[int]
    plan_id: Mapped[str | None]
    attempts: Mapped[int] = mapped_column(Integer)
    next_attempt_ms: Mapped[int | None]


class Paused(Base):
    """Projection: paused topic partitions."""

    __tablename__ = "winnow_paused"
    __table_args__ = (_make_checkpoint_key(),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    since_ms: Mapped[int]


class PausedBy(Base):
    """Projection: the names under which a topic partition is paused, in the order of pausing."""

    __tablename__ = "winnow_paused_by"
    __table_args__ = (_make_checkpoint_key(),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    name: Mapped[str]


class RetiredFileTable(Base):
    """The ledger of files that left the table. Rows of deleted files are history: bytes freed and when."""

    __tablename__ = "winnow_retired_file"
    __table_args__ = (Index(None, "topic", "deleted_at_ms"),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    path: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    size_bytes: Mapped[int]
    retired_at_ms: Mapped[int]
    plan_id: Mapped[str]
    deleted_at_ms: Mapped[int | None]


class SegmentCheck(Base):
    """When a file of a topic was last read in full and checked; files that left the topic have no row.

    ``kind``: one of ``segment``, ``quarantine``, ``document``. ``partition`` None: no single partition. ``finding`` and
    ``text``: the damage, None if there is none; ``since_ms``: since when.
    """

    __tablename__ = "winnow_segment_check"
    __table_args__ = (Index(None, "checked_at_ms"),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    path: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    partition: Mapped[int | None] = mapped_column(Integer)
    size_bytes: Mapped[int]
    checked_at_ms: Mapped[int]
    finding: Mapped[str | None]
    text: Mapped[str | None]
    since_ms: Mapped[int | None]


class AlertTable(Base):
    """Alerts that have not recovered. ``released``: by whom or why an alert was released by hand.

    ``muted_until_ms``: no channel gets it before; null: it is not muted.
    """

    __tablename__ = "winnow_alert"

    key: Mapped[str] = mapped_column(primary_key=True)
    sent_at_ms: Mapped[int]
    kind: Mapped[str | None]
    topic: Mapped[str | None]
    partition: Mapped[int | None] = mapped_column(Integer)
    message: Mapped[str | None]
    since_ms: Mapped[int | None]
    released: Mapped[str | None]
    safe: Mapped[str | None]
    next: Mapped[str | None]
    plan_id: Mapped[str | None]
    acknowledged_by: Mapped[str | None]
    acknowledged_why: Mapped[str | None]
    acknowledged_at_ms: Mapped[int | None]
    muted_by: Mapped[str | None]
    muted_why: Mapped[str | None]
    muted_until_ms: Mapped[int | None]


class AlertDelivery(Base):
    """One message that one channel has not delivered yet. Keys rise in the order of writing.

    ``claimed_until_ms``: no other process delivers it before; one is delivering it, or it has just failed.
    """

    __tablename__ = "winnow_alert_delivery"
    __table_args__ = (Index(None, "channel", "key"),)

    key: Mapped[str] = mapped_column(primary_key=True)
    channel: Mapped[str]
    created_at_ms: Mapped[int]
    claimed_until_ms: Mapped[int]
    document: Mapped[str]


class AuditTable(Base):
    """History: what people did, and why. ``topic`` empty: not about a single one.

    ``number``: rises by one with each entry. ``digest``: over the entry and the digest of the one before.
    """

    __tablename__ = "winnow_audit"
    __table_args__ = (Index(None, "topic", "at_ms"), Index(None, "at_ms"), Index(None, "number", unique=True))

    entry_id: Mapped[str] = mapped_column(primary_key=True)
    at_ms: Mapped[int]
    topic: Mapped[str]
    actor: Mapped[str]
    action: Mapped[str]
    reason: Mapped[str]
    origin: Mapped[str]
    detail: Mapped[str]
    number: Mapped[int] = mapped_column(server_default="0")
    digest: Mapped[str] = mapped_column(server_default=text("''"))


class AuditChainTable(Base):
    """The end of the audit log's chain: its only row keeps writers one after the other.

    ``number`` and ``digest``: of the newest entry. ``removed_number`` and ``removed_digest``: of the newest entry that
    retention has removed.
    """

    __tablename__ = "winnow_audit_chain"

    name: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int]
    digest: Mapped[str]
    removed_number: Mapped[int]
    removed_digest: Mapped[str]
