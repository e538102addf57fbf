"""Open ingest calls: which may still commit, and whose files a sweep may delete."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, func, select, update

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import read_value
from winnow.store.rows import OpenIngest


class Ingests(StorePart):
    """One row per ingest call, from before its first file until nothing of it is left to sweep."""

    def open(self, ingest_id: str, topic: str, *, least_number: int, holder: str, now_ms: int) -> OpenIngest:
        """Record an ingest call before it writes its first file.

        Args:
            ingest_id: a new one.
            topic: the topic that it appends to.
            least_number: minimum of its number, so that the topic's state does not count it as void.
            holder: the ingesting process, as leases name it.
            now_ms: the present.
        """
        row = tables.Ingest
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            highest = session.scalar(select(func.max(row.number)).where(row.topic == topic))
            number = max(least_number, -1 if highest is None else highest + 1)
            opened = OpenIngest(ingest_id, topic, number, holder, now_ms, now_ms)
            bulk_statements.insert(session, row, [row.make_row(opened)])
            return opened

    def renew(self, ingest_id: str, now_ms: int) -> None:
        """Record that an ingest call is still at work."""
        row = tables.Ingest
        with self._database.writing() as session:
            bulk_statements.execute_change(
                session, update(row).where(row.ingest_id == ingest_id).values(renewed_at_ms=now_ms)
            )

    def reopen(self, ingest_id: str, topic: str, *, now_ms: int) -> None:
        """Record a committed call again whose commit is lost, so that its files are swept after a grace."""
        again = OpenIngest(ingest_id, topic, 0, "", now_ms, now_ms)
        with self._database.writing() as session:
            bulk_statements.insert_missing(session, tables.Ingest, [tables.Ingest.make_row(again)])

    def renew_open(self, topic: str, now_ms: int) -> None:
        """Let the grace of every open call of ``topic`` begin again."""
        row = tables.Ingest
        with self._database.writing() as session:
            bulk_statements.execute_change(
                session, update(row).where(row.topic == topic).values(renewed_at_ms=now_ms, voided_at_ms=None)
            )

    def note_voided(self, ingest_ids: Collection[str], now_ms: int) -> None:
        """Record that a commit has voided these ingest calls; the first time counts."""
        row = tables.Ingest
        with self._database.writing() as session:
            for some in bulk_statements.split_chunks(sorted(ingest_ids)):
                bulk_statements.execute_change(
                    session,
                    update(row).where(row.ingest_id.in_(some), row.voided_at_ms.is_(None)).values(voided_at_ms=now_ms),
                )

    def note_empty(self, ingest_id: str, now_ms: int | None) -> None:
        """Record when nothing was left of a voided ingest call; None: something was found again."""
        row = tables.Ingest
        with self._database.writing() as session:
            bulk_statements.execute_change(
                session, update(row).where(row.ingest_id == ingest_id).values(found_empty_at_ms=now_ms)
            )

    def close(self, ingest_ids: Collection[str]) -> None:
        """Delete the rows of ingest calls of which nothing is left: committed, or removed with all their files."""
        row = tables.Ingest
        with self._database.writing() as session:
            for some in bulk_statements.split_chunks(sorted(ingest_ids)):
                bulk_statements.execute_change(session, delete(row).where(row.ingest_id.in_(some)))

    def list_idle_topics(self, before_ms: int) -> list[str]:
        """List the topics that have an open call which has not reported since ``before_ms``."""
        row = tables.Ingest
        statement = select(row.topic).where(row.renewed_at_ms <= before_ms).distinct().order_by(row.topic)
        with self._database.reading() as session:
            return list(session.scalars(statement))

    def list_open(self, topic: str) -> list[OpenIngest]:
        """List ingest calls of ``topic`` whose end is not recorded, in the order of opening."""
        row = tables.Ingest
        statement = select(row).where(row.topic == topic).order_by(row.number, row.ingest_id)
        with self._database.reading() as session:
            return [read_value(OpenIngest, ingest) for ingest in session.scalars(statement)]

    def list_at_work(self, *, opened_before_ms: int, renewed_after_ms: int) -> list[OpenIngest]:
        """List calls on all topics that were opened before an instant and have reported since another one."""
        row = tables.Ingest
        statement = select(row).where(row.opened_at_ms < opened_before_ms, row.renewed_at_ms > renewed_after_ms)
        with self._database.reading() as session:
            ordered = statement.order_by(row.topic, row.number, row.ingest_id)
            return [read_value(OpenIngest, ingest) for ingest in session.scalars(ordered)]
