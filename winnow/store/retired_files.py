"""The ledger of retired files: removed from the table, deleted, and overdue for deletion."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from winnow.errors import WinnowError
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import read_value
from winnow.store.rows import RETIRED_KINDS, RetiredRow
from winnow.store.topic_rows import is_former_life
from winnow.values.topic_state import RetiredFile


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """Retired files of one topic that are not deleted yet. ``oldest_ms``: when the first of them was retired."""

    topic: str
    files: int
    size_bytes: int
    oldest_ms: int


class RetiredFiles(StorePart):
    """One row per topic and path. A deleted file never becomes pending again; one that an undo took back does."""

    def record(self, topic: str, files: Sequence[RetiredFile], kind: str, *, table_uuid: str | None = None) -> None:
        """Record files that nothing refers to any more. Files already in the ledger stay as they are.

        Args:
            topic: the topic of the files.
            files: the retired files.
            kind: one of ``data``, ``manifest``, ``manifest_list``, ``state``, ``metadata``, ``attempts``.
            table_uuid: the life of the topic; of one that has ended nothing is recorded.
        """
        if kind not in RETIRED_KINDS:
            raise WinnowError(
                f"Retired files of topic {topic} have no kind {kind!r}.",
                left="Nothing was written.",
                next=f"The kinds are {', '.join(sorted(RETIRED_KINDS))}.",
            )
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            if not is_former_life(session, topic, table_uuid):
                insert_retired(session, topic, files, kind)

    def record_erased(self, topic: str, files: Sequence[RetiredFile], *, table_uuid: str | None = None) -> None:
        """Record data files that erasures condemned; those in the ledger already get the erasure as their plan.

        Args:
            topic: the topic of the files.
            files: with the erasure of each as its plan.
            table_uuid: the life of the topic; of one that has ended nothing is recorded.
        """
        row = tables.RetiredFileTable
        of_erasures: dict[str, list[str]] = {}
        for file in files:
            of_erasures.setdefault(file.plan_id, []).append(file.path)
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            if is_former_life(session, topic, table_uuid):
                return
            for plan_id, paths in of_erasures.items():
                for some in bulk_statements.split_chunks(sorted(paths)):
                    bulk_statements.execute_change(
                        session, update(row).where(row.topic == topic, row.path.in_(some)).values(plan_id=plan_id)
                    )
            insert_retired(session, topic, files, "data")

    def take_back(self, topic: str, live: Collection[str], *, table_uuid: str | None = None) -> None:
        """Remove data files that are in the log again, and so wait for nothing.

        Args:
            topic: the topic of the files.
            live: paths of all segments of its log.
            table_uuid: the life of the topic; of one that has ended nothing is changed.
        """
        row, present = tables.RetiredFileTable, frozenset(live)
        pending = (row.topic == topic, row.kind == "data", row.deleted_at_ms.is_(None))
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            if is_former_life(session, topic, table_uuid):
                return
            back = [path for path in session.scalars(select(row.path).where(*pending)) if path in present]
            for some in bulk_statements.split_chunks(sorted(back)):
                session.execute(delete(row).where(*pending, row.path.in_(some)))

    def list_retired(self, topic: str, pending_only: bool = True) -> list[RetiredRow]:
        """List the ledger of ``topic``, oldest first; with ``pending_only`` only files that are not deleted yet."""
        row = tables.RetiredFileTable
        statement = select(row).where(row.topic == topic).order_by(row.retired_at_ms, row.path)
        if pending_only:
            statement = statement.where(row.deleted_at_ms.is_(None))
        with self._database.reading() as session:
            return [read_value(RetiredRow, file) for file in session.scalars(statement)]

    def mark_deleted(self, topic: str, paths: Sequence[str], now_ms: int) -> None:
        """Mark ``paths`` as deleted. Paths that are marked already or not in the ledger change nothing."""
        row = tables.RetiredFileTable
        with self._database.writing() as session:
            for some in bulk_statements.split_chunks(sorted(paths)):
                bulk_statements.execute_change(
                    session,
                    update(row)
                    .where(row.topic == topic, row.path.in_(some), row.deleted_at_ms.is_(None))
                    .values(deleted_at_ms=now_ms),
                )

    def sum_deleted_bytes(self, topic: str) -> int:
        """Sum the bytes of the files of ``topic`` that were recorded as retired and are now deleted."""
        row = tables.RetiredFileTable
        statement = select(func.sum(row.size_bytes)).where(row.topic == topic, row.deleted_at_ms.is_not(None))
        with self._database.reading() as session:
            return int(session.scalar(statement) or 0)

    def list_waiting(
        self, retired_by_ms: int, topic: str | None = None, *, plan_prefix: str = ""
    ) -> list[WaitingFiles]:
        """List files of every topic (or of one) retired at or before ``retired_by_ms`` and not deleted.

        ``plan_prefix``: only those retired by a plan whose id begins with it.
        """
        row = tables.RetiredFileTable
        sums = (func.count(), func.sum(row.size_bytes), func.min(row.retired_at_ms))
        statement = select(row.topic, *sums).where(
            row.deleted_at_ms.is_(None), row.kind != "attempts", row.retired_at_ms <= retired_by_ms
        )
        if topic is not None:
            statement = statement.where(row.topic == topic)
        if plan_prefix:
            statement = statement.where(row.plan_id.startswith(plan_prefix, autoescape=True))
        with self._database.reading() as session:
            rows = session.execute(statement.group_by(row.topic).order_by(row.topic))
            return [WaitingFiles(name, files, int(size), oldest) for name, files, size, oldest in rows]


def insert_retired(session: Session, topic: str, files: Sequence[RetiredFile], kind: str) -> None:
    """Add ``files`` to the ledger unless they are in it."""
    table, ordered = tables.RetiredFileTable, sorted(files, key=attrgetter("path"))
    rows = [table.make_row(file, topic=topic, kind=kind, deleted_at_ms=None) for file in ordered]
    bulk_statements.insert_missing(session, table, rows)
