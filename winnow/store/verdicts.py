"""History: what validation said of each attempt."""

from __future__ import annotations

from sqlalchemy import select

from winnow.documents import dump_json, load_json
from winnow.model import Verdict
from winnow.store import bulk, tables
from winnow.store.database import StorePart


class Verdicts(StorePart):
    """One row per plan and attempt."""

    def record(self, verdict: Verdict) -> None:
        """Write down ``verdict``; a second one of the same attempt replaces it."""
        row = {
            "plan_id": verdict.plan_id,
            "attempt": verdict.attempt,
            "topic": verdict.topic,
            "passed": verdict.passed,
            "broken": verdict.broken,
            "checked_at_ms": verdict.checked_at_ms,
            "document": dump_json(verdict).decode(),
        }
        with self._database.writing() as session:
            bulk.upsert(session, tables.VerdictTable, [row])

    def find(self, plan_id: str, attempt: str) -> Verdict | None:
        """The verdict of one attempt at a plan."""
        with self._database.reading() as session:
            row = session.get(tables.VerdictTable, (plan_id, attempt))
            return None if row is None else load_json(Verdict, row.document.encode())

    def list_verdicts(self, topic: str | None = None, limit: int | None = None) -> list[Verdict]:
        """Verdicts of ``topic`` (None = all), newest first; at most ``limit``."""
        row = tables.VerdictTable
        statement = select(row).order_by(row.checked_at_ms.desc(), row.plan_id, row.attempt).limit(limit)
        if topic is not None:
            statement = statement.where(row.topic == topic)
        with self._database.reading() as session:
            return [load_json(Verdict, found.document.encode()) for found in session.scalars(statement)]
