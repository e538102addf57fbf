"""The tables of the metadata store. All names begin with ``winnow_``, so a database may be shared with others.

A table's columns are the fields of its value, a frozen dataclass, and are declared nowhere else: see :class:`Base`.
"""

# Annotations are no text here: SQLAlchemy would evaluate each on its own, a fifth of the time of importing tables.
from collections.abc import Collection
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Text,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.orm.decl_api import DeclarativeAttributeIntercept
from sqlalchemy.types import TypeEngine

from winnow.store.rows import (
    AuditEntry,
    CheckpointRow,
    HandledAlert,
    Lease,
    MarkView,
    OpenIngest,
    PartitionOverview,
    RetiredRow,
    Run,
    TopicOverview,
)
from winnow.values.model import Assessment, InstallationIdentity
from winnow.values.results import Delivery
from winnow.values.topic_state import Cleaning, TopicHead

_TYPES: Final[dict[str, type[TypeEngine[Any]]]] = {"int": BigInteger, "float": Double, "bool": Boolean}
"""The type of a column by its field's; what is not here (members of enumerations, JSON) is text."""

_SMALL: Final = frozenset(
    {"attempts", "eligible", "life", "map_index", "partition", "partitions", "topics", "try_number"}
    | {"partitions_done", "partitions_failed"}
)
"""Whole numbers that have 32 bits; offsets, sizes and times have 64."""


class _Columns(DeclarativeAttributeIntercept):
    """The columns of a table by their names, as the type checker sees them."""

    if TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any: ...  # noqa: N805 - of a metaclass


class Base(DeclarativeBase, metaclass=_Columns):
    """Base of all tables. Offsets, sizes and times are 64-bit; text has no length.

    A subclass says of which value its rows are (``of``) and what the primary key is (``key``). Its own columns are
    those that the value has not, and those whose type is not that of the field. ``optional``: columns that may be null
    though their fields may not. ``filled``: columns with a default in the database, because they came later.
    ``without``: fields that are no columns.
    """

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

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: object) -> None: ...

    def __init_subclass__(
        cls,
        *,
        key: Collection[str],
        of: type | None = None,
        optional: Collection[str] = (),
        filled: Collection[str] = (),
        without: Collection[str] = (),
    ) -> None:
        described: Any = of
        for field in () if of is None else fields(described):
            if field.name not in without and field.name not in cls.__dict__ and field.name not in cls.__annotations__:
                kind, _, null = str(field.type).partition(" | ")
                column = mapped_column(
                    Integer if field.name in _SMALL and kind == "int" else _TYPES.get(kind, Text),
                    autoincrement=False,
                    nullable=null == "None" or field.name in optional,
                    server_default=("0" if kind == "int" else text("''")) if field.name in filled else None,
                    sort_order=-1,
                )
                setattr(cls, field.name, column)
        cls.__table_args__ = (PrimaryKeyConstraint(*key), *getattr(cls, "__table_args__", ()))
        super().__init_subclass__()

    @classmethod
    def make_row(cls, value: Any, **others: object) -> dict[str, Any]:
        """Make the row of ``value``, a dataclass: those of its fields that are columns, and ``others``.

        ``asdict`` copies frozen values again, which takes longer than the database.
        """
        kind: Any = type(value)
        row: dict[str, Any] = {}
        for name in _list_shared(cls, kind):
            if name not in others:
                member = getattr(value, name)
                row[name] = member.value if isinstance(member, Enum) else member
        return row | others


@cache
def _list_shared(table: Any, kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name in table.__table__.c)


SORTED_BY_BYTES: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that both databases compare byte by byte; PostgreSQL's own order may ignore punctuation."""

PARTITION: Final = ("topic", "partition")
"""The primary key of tables with a row per topic partition."""


class InstallationTable(Base, of=InstallationIdentity, key=["only"]):
    """The installation that the store belongs to. ``only``: 1, the key of the only row."""

    __tablename__ = "winnow_installation"

    only: Mapped[int] = mapped_column(Integer, autoincrement=False)


class LeaseTable(Base, of=Lease, key=["topic"], optional=["holder"]):
    """One row per topic, for ever: a released lease keeps its token. ``holder`` None: the topic is free."""

    __tablename__ = "winnow_lease"


class AssessmentTable(Base, of=Assessment, key=[*PARTITION, "as_of_ms"], without=["active_closes_ms"]):
    """History: one row per topic partition and as-of."""

    __tablename__ = "winnow_assessment"
    __table_args__ = (Index(None, "topic", "recorded_at_ms"),)

    as_of_ms: Mapped[int] = mapped_column(autoincrement=False)
    recorded_at_ms: Mapped[int]


class LatestAssessment(Base, key=PARTITION):
    """Which assessment of a topic partition was recorded last, so that finding it does not read the history."""

    __tablename__ = "winnow_latest_assessment"
    __table_args__ = (
        ForeignKeyConstraint(
            ["topic", "partition", "as_of_ms"],
            ["winnow_assessment.topic", "winnow_assessment.partition", "winnow_assessment.as_of_ms"],
            ondelete="CASCADE",
        ),
    )

    topic: Mapped[str]
    partition: Mapped[int] = mapped_column(Integer, autoincrement=False)
    as_of_ms: Mapped[int]
    recorded_at_ms: Mapped[int]


class TopicOverviewTable(
    Base,
    of=TopicOverview,
    key=["topic"],
    filled=["owner", "tags", "records", "files", "clean_bytes", "cleanable_bytes", "end_offsets"],
):
    """The overview of a topic on the page: one row per topic, as of its last assessment.

    Marks and pauses are separate rows that reference the checkpoint. ``sort_key``: orders names as people do.
    """

    __tablename__ = "winnow_topic_overview"

    sort_key: Mapped[str] = mapped_column(SORTED_BY_BYTES, server_default=text("''"))


class PartitionOverviewTable(Base, of=PartitionOverview, key=PARTITION, filled=["records", "files"]):
    """The overview of a topic partition: its log from start to end, as of its last assessment."""

    __tablename__ = "winnow_partition_overview"


class TopicHeadTable(Base, of=TopicHead, key=["topic", "table_uuid"]):
    """The newest head per life of a topic, as of the last commit of Winnow's: what an older catalog is noticed by.

    ``table_uuid`` is the id of the life, and ``life`` its number: a topic that was removed and created again has
    another. Rows stay when the topic is removed: a catalog from before may come back.
    """

    __tablename__ = "winnow_topic_head"

    life: Mapped[int] = mapped_column(Integer)


class RunTable(Base, of=Run, key=["plan_id"], filled=["fence"]):
    """History: one row per plan. ``swept_at_ms``: when a sweep found its folder empty for the second time."""

    __tablename__ = "winnow_run"
    __table_args__ = (
        Index(None, "topic", "updated_at_ms"),
        Index(None, "updated_at_ms"),
        Index(None, "holder"),
        Index(None, "status", "topic"),
    )

    swept_at_ms: Mapped[int | None]


class Attempt(Base, key=["plan_id", "attempt"]):
    """One row per attempt at a plan, written before its first file. ``fence``: the highest it was ever opened with."""

    __tablename__ = "winnow_attempt"

    plan_id: Mapped[str]
    attempt: Mapped[str]
    fence: Mapped[int]
    opened_at_ms: Mapped[int]


class Ingest(Base, of=OpenIngest, key=["ingest_id"]):
    """One row per ingest call that has not ended, written before its first file; gone once nothing of it is left."""

    __tablename__ = "winnow_ingest"
    __table_args__ = (Index(None, "topic", "number"),)


class VerdictTable(Base, key=["plan_id", "attempt"]):
    """History: one row per attempt. ``document`` is the verdict as canonical JSON; the columns are for filtering."""

    __tablename__ = "winnow_verdict"
    __table_args__ = (Index(None, "topic", "checked_at_ms"), Index(None, "checked_at_ms"))

    plan_id: Mapped[str]
    attempt: Mapped[str]
    topic: Mapped[str]
    passed: Mapped[bool]
    broken: Mapped[bool]
    checked_at_ms: Mapped[int]
    document: Mapped[str]


class ReceiptTable(Base, key=["plan_id"]):
    """Projection: one row per published plan. ``document`` is the receipt as canonical JSON."""

    __tablename__ = "winnow_receipt"
    __table_args__ = (Index(None, "topic", "finished_at_ms"),)

    plan_id: Mapped[str]
    topic: Mapped[str]
    status: Mapped[str]
    snapshot_id: Mapped[int | None]
    finished_at_ms: Mapped[int]
    document: Mapped[str]


class Checkpoint(Base, of=CheckpointRow, key=PARTITION, without=["history"]):
    """Projection: one row per topic partition. Cleaning history and marks reference it and are deleted with it."""

    __tablename__ = "winnow_checkpoint"


def _make_checkpoint_key() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(PARTITION, [f"winnow_checkpoint.{name}" for name in PARTITION], ondelete="CASCADE")


class CleaningTable(Base, of=Cleaning, key=[*PARTITION, "end_offset"]):
    """Projection: the cleaning history of a topic partition."""

    __tablename__ = "winnow_cleaning"
    __table_args__ = (_make_checkpoint_key(),)

    topic: Mapped[str]
    partition: Mapped[int] = mapped_column(Integer, autoincrement=False)


class UncleanableTable(Base, of=MarkView, key=PARTITION):
    """Projection: topic partitions that are not cleaned because something failed."""

    __tablename__ = "winnow_uncleanable"
    __table_args__ = (_make_checkpoint_key(),)


class Paused(Base, key=PARTITION):
    """Projection: paused topic partitions."""

    __tablename__ = "winnow_paused"
    __table_args__ = (_make_checkpoint_key(),)

    topic: Mapped[str]
    partition: Mapped[int] = mapped_column(Integer, autoincrement=False)
    since_ms: Mapped[int]


class PausedBy(Base, key=[*PARTITION, "number"]):
    """Projection: the names under which a topic partition is paused, in the order of pausing."""

    __tablename__ = "winnow_paused_by"
    __table_args__ = (_make_checkpoint_key(),)

    topic: Mapped[str]
    partition: Mapped[int] = mapped_column(Integer, autoincrement=False)
    number: Mapped[int] = mapped_column(Integer, autoincrement=False)
    name: Mapped[str]


class RetiredFileTable(Base, of=RetiredRow, key=["topic", "path"]):
    """The ledger of files that left the table. Rows of deleted files are history: bytes freed and when."""

    __tablename__ = "winnow_retired_file"
    __table_args__ = (Index(None, "topic", "deleted_at_ms"),)


class AlertTable(Base, of=HandledAlert, key=["key"], optional=["kind", "topic", "message", "since_ms", "safe", "next"]):
    """Alerts that have not recovered. ``muted_until_ms``: no channel gets it before; null: it is not muted."""

    __tablename__ = "winnow_alert"


class AlertDelivery(Base, of=Delivery, key=["key"]):
    """One message that one channel has not delivered yet. Keys rise in the order of writing.

    ``claimed_until_ms``: no other process delivers it before; one is delivering it, or it has just failed.
    """

    __tablename__ = "winnow_alert_delivery"
    __table_args__ = (Index(None, "channel", "key"),)

    claimed_until_ms: Mapped[int]


class AuditTable(Base, of=AuditEntry, key=["entry_id"]):
    """History: what people did, and why.

    ``number``: rises by one with each entry. ``digest``: over the entry and the digest of the one before.
    """

    __tablename__ = "winnow_audit"
    __table_args__ = (Index(None, "topic", "at_ms"), Index(None, "at_ms"), Index(None, "number", unique=True))

    number: Mapped[int] = mapped_column(server_default="0")
    digest: Mapped[str] = mapped_column(server_default=text("''"))


class AuditChainTable(Base, key=["name"]):
    """The end of the audit log's chain: its only row keeps writers one after the other.

    ``number`` and ``digest``: of the newest entry. ``removed_number`` and ``removed_digest``: of the newest entry that
    retention has removed.
    """

    __tablename__ = "winnow_audit_chain"

    name: Mapped[str]
    number: Mapped[int]
    digest: Mapped[str]
    removed_number: Mapped[int]
    removed_digest: Mapped[str]
