"""Tables that only the page reads: samples over time, figures of receipts, deadlines, and the health of tables."""

# Annotations are no text here: SQLAlchemy would evaluate each on its own, a fifth of the time of importing tables.
from sqlalchemy import Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from winnow.store.tables import Base


class SampleTable(Base):
    """How large and how dirty a topic was, once an hour, later once a day. ``topic`` empty: all topics together.

    ``at_ms``: when the hour begins of which this is the last state. ``end_offsets``: the sum of the log ends.
    """

    __tablename__ = "winnow_sample"

    topic: Mapped[str] = mapped_column(primary_key=True)
    at_ms: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    recorded_at_ms: Mapped[int]
    topics: Mapped[int] = mapped_column(Integer)
    partitions: Mapped[int] = mapped_column(Integer)
    records: Mapped[int]
    files: Mapped[int]
    size_bytes: Mapped[int]
    clean_bytes: Mapped[int]
    cleanable_bytes: Mapped[int]
    dirty_ratio: Mapped[float]
    reclaimable_bytes: Mapped[int | None]
    retired_bytes: Mapped[int]
    end_offsets: Mapped[int]
    deadline_ms: Mapped[int | None]


class ReceiptFiguresTable(Base):
    """Projection: the figures of a receipt, summed up over its partitions, so that SQL can add them.

    ``seconds``: of all tasks together. ``cpu_seconds`` and ``bytes_written`` None: the receipt is older than these.
    """

    __tablename__ = "winnow_receipt_figures"
    __table_args__ = (Index(None, "topic", "finished_at_ms"), Index(None, "finished_at_ms"))

    plan_id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    finished_at_ms: Mapped[int]
    partitions: Mapped[int] = mapped_column(Integer)
    records_in: Mapped[int]
    records_kept: Mapped[int]
    records_retired: Mapped[int]
    bytes_in: Mapped[int]
    bytes_out: Mapped[int]
    bytes_retired: Mapped[int]
    seconds: Mapped[float]
    cpu_seconds: Mapped[float | None]
    bytes_written: Mapped[int | None]


class DeadlineTable(Base):
    """History: one row per compaction deadline of a topic partition that was kept or has passed.

    ``settled_at_ms``: when it was first seen to be compacted; None: it has passed and is still due.
    """

    __tablename__ = "winnow_deadline"
    __table_args__ = (Index(None, "deadline_ms"),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    deadline_ms: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    settled_at_ms: Mapped[int | None]


class TableHealthTable(Base):
    """The files of a topic's table: one row per topic, written with its overview.

    ``file_sizes``: files and bytes by size class, as JSON. ``manifests`` None: not known, because nothing read them.
    ``metadata_files``: earlier metadata files that the catalog still names.
    """

    __tablename__ = "winnow_table_health"

    topic: Mapped[str] = mapped_column(primary_key=True)
    recorded_at_ms: Mapped[int]
    segment_bytes: Mapped[int]
    files: Mapped[int]
    size_bytes: Mapped[int]
    small_files: Mapped[int]
    small_bytes: Mapped[int]
    largest_bytes: Mapped[int]
    file_sizes: Mapped[str]
    manifests: Mapped[int | None]
    snapshots: Mapped[int]
    oldest_snapshot_ms: Mapped[int | None]
    metadata_files: Mapped[int]
    retired_files: Mapped[int]
    retired_bytes: Mapped[int]
    oldest_retired_ms: Mapped[int | None]
    condemned_files: Mapped[int]
    condemned_bytes: Mapped[int]


class TopicSweepTable(Base):
    """The last sweep of a topic: what it deleted, and the leftovers of dead runs and ingests that it had to leave."""

    __tablename__ = "winnow_topic_sweep"

    topic: Mapped[str] = mapped_column(primary_key=True)
    swept_at_ms: Mapped[int]
    files_deleted: Mapped[int]
    bytes_deleted: Mapped[int]
    snapshots_expired: Mapped[int]
    orphaned_files: Mapped[int]
    orphaned_bytes: Mapped[int]
    unnamed_files: Mapped[int] = mapped_column(server_default="0")
