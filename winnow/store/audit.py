"""The audit log: who did what to which topic, when and why. Entries hold names, offsets, reasons; never user bytes."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Final

from sqlalchemy import func, select

from winnow.store import tables
from winnow.store.database import StorePart
from winnow.store.values import Listed, Window

MAXIMUM_TEXT_CHARACTERS: Final = 1_000
"""Maximum characters of a reason or a detail; longer ones are cut."""


class AuditAction(StrEnum):
    """What people do, in words of Winnow's commands."""

    PAUSE = "pause"
    RESUME = "resume"
    RELEASE = "release"
    CREATE = "create"
    ALTER = "alter"
    ADD_PARTITIONS = "add_partitions"
    DELETE = "delete"
    RESTORE = "restore"
    DELETE_RECORDS = "delete_records"
    IMPORT_CHECKPOINT = "import_checkpoint"
    UNDO_INGEST = "undo_ingest"
    COMPACT = "compact"
    SWEEP = "sweep"
    SCRUB = "scrub"
    RECORDS_READ = "records_read"
    BACKUP_CREATE = "backup_create"
    BACKUP_RESTORE = "backup_restore"
    ALERT_ACKNOWLEDGE = "alert_acknowledge"
    ALERT_MUTE = "alert_mute"
    ALERT_UNMUTE = "alert_unmute"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing that somebody did; the columns of ``winnow_audit``.

    Args:
        at_ms: when, in ms since the epoch.
        actor: who: a user of Airflow, or ``user@host`` of a shell.
        action: what; the value of an :class:`AuditAction`.
        topic: the topic; empty: not about a single one.
        reason: why, in the actor's words; empty if none was given.
        origin: how: ``page``, ``shell``, or the DAG run as leases name it, ``airflow:DAG:RUN``.
        detail: what exactly: partitions, offsets, keys of the configuration. Never a record's bytes.
        entry_id: tells the entry from others; writing the same entry again changes nothing.
    """

    at_ms: int
    actor: str
    action: str
    topic: str = ""
    reason: str = ""
    origin: str = ""
    detail: str = ""
    entry_id: str = field(default_factory=lambda: uuid.uuid4().hex)


_COLUMNS: Final = tuple(each.name for each in fields(AuditEntry))


class AuditLog(StorePart):
    """One row per thing that somebody did, the newest first."""

    def record(self, entry: AuditEntry) -> None:
        """Write an entry. Writing it again, after an error of unknown outcome, changes nothing."""
        row = asdict(entry)
        row["reason"] = entry.reason[:MAXIMUM_TEXT_CHARACTERS]
        row["detail"] = entry.detail[:MAXIMUM_TEXT_CHARACTERS]
        with self._database.writing() as session:
            session.merge(tables.AuditTable(**row))

    def list_entries(
        self, window: Window, *, topic: str | None = None, actor: str | None = None, action: str | None = None
    ) -> Listed[AuditEntry]:
        """List one page of the entries of a topic, an actor or an action, the newest first; None: any."""
        row = tables.AuditTable
        found = select(row)
        for column, wanted in ((row.topic, topic), (row.actor, actor), (row.action, action)):
            if wanted is not None:
                found = found.where(column == wanted)
        page = found.order_by(row.at_ms.desc(), row.entry_id).offset(window.offset).limit(window.size)
        with self._database.reading() as session:
            total = session.scalar(select(func.count()).select_from(found.subquery())) or 0
            rows = tuple(
                AuditEntry(**{name: getattr(each, name) for name in _COLUMNS}) for each in session.scalars(page)
            )
        return Listed(total, rows)
