"""The audit log: who did what to which topic, when and why. Entries hold names, offsets, reasons; never user bytes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from winnow.store import tables
from winnow.store.audit_chain import AuditChainReport, append_entry, check_chain, lock_chain
from winnow.store.database import StorePart
from winnow.store.row_values import list_fields, list_window, match_given, read_value
from winnow.store.rows import AuditEntry, Listed, Window

MAXIMUM_TEXT_CHARACTERS: Final = 1_000
"""Maximum characters of a reason, and of a detail that names no topics; longer ones are cut."""
MAXIMUM_NAMED_TOPICS: Final = 2_000
"""Maximum topics that an entry about several names."""
_NAMED: Final = " topics: "
"""Stands in the detail of an entry about several topics after their number, and before their names."""


class AuditAction(StrEnum):
    """What people do, in words of Winnow's commands."""

    PAUSE = "pause"
    RESUME = "resume"
    RELEASE = "release"
    CREATE = "create"
    ALTER = "alter"
    HOLD_CONFIGURATION = "hold_configuration"
    """A change at Kafka that would remove records waits for a person, or waits no more."""
    CHANGE_REQUEST = "change_request"
    """Somebody asked for a change of a topic that takes two persons."""
    CHANGE_REJECT = "change_reject"
    ADD_PARTITIONS = "add_partitions"
    DELETE = "delete"
    RESTORE = "restore"
    DELETE_RECORDS = "delete_records"
    IMPORT_CHECKPOINT = "import_checkpoint"
    INGEST = "ingest"
    UNDO_INGEST = "undo_ingest"
    UNDO = "undo"
    """A compaction, a retention run or a deletion of records was taken back."""
    ERASE = "erase"
    """Keys were erased, or an erasure was lifted."""
    ERASE_REQUEST = "erase_request"
    """Somebody asked for an erasure that takes two persons."""
    ERASE_APPROVE = "erase_approve"
    ERASE_REJECT = "erase_reject"
    RESTORE_RECORDS = "restore_records"
    """Records were written back into a Kafka topic."""
    ADOPT = "adopt"
    RECOVER = "recover"
    ACCEPT_OLDER_HEAD = "accept_older_head"
    TAKE_OVER = "take_over"
    """The store took over the id of the warehouse's installation, or got a new one."""
    BACK_UP = "back_up"
    DELETE_BACKUP = "delete_backup"
    """A backup with records of erased keys was deleted."""
    RESTORE_BACKUP = "restore_backup"
    COMPACT = "compact"
    FOLLOW = "follow"
    UNFOLLOW = "unfollow"
    NEW_EPOCH = "new_epoch"
    """A topic that was created again at Kafka goes on at the end of the log."""
    TAKE_DIVERGED = "take_diverged"
    """Records that Kafka had lost left the log, for those in their place."""
    SWEEP = "sweep"
    SCRUB = "scrub"
    RECORDS_READ = "records_read"
    ALERT_ACKNOWLEDGE = "alert_acknowledge"
    ALERT_MUTE = "alert_mute"
    ALERT_UNMUTE = "alert_unmute"


_SAME: Final = tuple(name for name in list_fields(AuditEntry) if name not in {"at_ms", "entry_id", "config_changes"})
ANOTHER: Final = "#"
"""Stands in an entry's id before its number among those that were to have the same id."""


def name_topics(topics: Sequence[str]) -> str:
    """Name several topics in a detail, at its end: how many, and which; an entry about them is found by each."""
    more = len(topics) - MAXIMUM_NAMED_TOPICS
    named = [*topics[:MAXIMUM_NAMED_TOPICS], *([f"and {more:,} more"] if more > 0 else [])]
    return f"{len(topics):,}{_NAMED}{', '.join(named)}"


def _cut_detail(entry: AuditEntry) -> str:
    what, named, names = entry.detail.partition(_NAMED)
    return entry.detail[:MAXIMUM_TEXT_CHARACTERS] if entry.topic else f"{what[:MAXIMUM_TEXT_CHARACTERS]}{named}{names}"


class AuditLog(StorePart):
    """One row per thing that somebody did, the newest first. Entries are only ever added, each chained to the last."""

    def record(self, entry: AuditEntry) -> None:
        """Add an entry to the end of the chain; one that is there already stays, and is not added again.

        It is the same if all but its time and the values that it found is the same: a task that is tried again, or an
        error of unknown outcome. An entry of another content with the same id is added too, under an id of its own.
        """
        cut = {"reason": entry.reason[:MAXIMUM_TEXT_CHARACTERS], "detail": _cut_detail(entry)}
        row = tables.AuditTable.make_row(entry, **cut)
        with self._database.writing() as session:
            chain = lock_chain(session)
            known = _list_with_id(session, entry.entry_id)
            if any(all(getattr(entry_row, name) == row[name] for name in _SAME) for entry_row in known):
                return
            if known:
                row["entry_id"] = f"{entry.entry_id}{ANOTHER}{len(known) + 1}"
            append_entry(session, chain, tables.AuditTable(**row))

    def verify_chain(self, expected: str | None = None) -> AuditChainReport:
        """Check that every entry is as it was written, and none is missing.

        Args:
            expected: the digest of an entry that was written down elsewhere, which has to be in the chain.
        """
        with self._database.reading() as session:
            return check_chain(session, expected)

    def list_entries(
        self,
        window: Window,
        *,
        topic: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        entry_id: str | None = None,
    ) -> Listed[AuditEntry]:
        """List one page of the entries of a topic, an actor or an action, the newest first; None: any.

        Entries about several topics that name ``topic`` are among its own. ``entry_id``: the entry that has it.
        """
        row = tables.AuditTable
        wanted = match_given((row.actor, actor), (row.action, action), (row.entry_id, entry_id))
        if topic is not None:
            wanted.append(_is_about(topic))
        newest = select(row).where(*wanted).order_by(row.at_ms.desc(), row.entry_id)
        with self._database.reading() as session:
            return list_window(session, newest, window, partial(read_value, AuditEntry))

    def find_entries(self, beginning: str, *, most: int = 2) -> list[AuditEntry]:
        """Find the entry whose id is ``beginning``; else at most ``most`` entries whose ids begin so."""
        row = tables.AuditTable
        is_meant = [row.entry_id == beginning, row.entry_id.startswith(beginning, autoescape=True)]
        with self._database.reading() as session:
            for condition in is_meant:
                if rows := session.scalars(select(row).where(condition).order_by(row.number).limit(most)).all():
                    return [read_value(AuditEntry, each) for each in rows]
        return []

    def list_later_changes(self, entry_id: str, topic: str) -> list[AuditEntry]:
        """List the entries after this one that changed the configuration of ``topic`` or created it, oldest first.

        Entries follow one another by their numbers: clocks differ.
        """
        row = tables.AuditTable
        number = select(row.number).where(row.entry_id == entry_id).scalar_subquery()
        sets_keys = or_(row.config_changes.is_not(None), row.action == AuditAction.CREATE.value)
        later = select(row).where(row.number > number, _is_about(topic), sets_keys).order_by(row.number)
        with self._database.reading() as session:
            return [read_value(AuditEntry, each) for each in session.scalars(later)]


def _is_about(topic: str) -> ColumnElement[bool]:
    """Make the condition that an entry is about ``topic``, alone or among those that it names."""
    row = tables.AuditTable
    # Names hold neither blanks nor commas. LIKE would not tell upper from lower case in SQLite.
    listed = row.detail.concat(",")
    is_named = and_(row.detail.contains(_NAMED), listed != func.replace(listed, f" {topic},", ""))
    condition: ColumnElement[bool] = or_(row.topic == topic, and_(row.topic == "", is_named))
    return condition


def _list_with_id(session: Session, entry_id: str) -> list[tables.AuditTable]:
    """List the entry with this id, and others that were to have it."""
    row = tables.AuditTable
    numbered = row.entry_id.startswith(f"{entry_id}{ANOTHER}", autoescape=True)
    return list(session.scalars(select(row).where(or_(row.entry_id == entry_id, numbered))))
