"""Sums over history, for metrics: how many runs stand how, how many bytes sweeps have freed."""

from __future__ import annotations

from sqlalchemy import func, select

from winnow.store import tables
from winnow.store.database import Room
from winnow.store.values import RunState


class Tallies(Room):
    """Counted by the database; no row travels."""

    def run_tally(self, topic: str) -> dict[RunState, int]:
        """Runs of ``topic`` by the state they are in; states without a run are left out."""
        row = tables.Run
        statement = select(row.status, func.count()).where(row.topic == topic).group_by(row.status)
        with self._database.reading() as session:
            return {RunState(status): count for status, count in session.execute(statement)}

    def swept_bytes(self, topic: str) -> int:
        """Bytes of the files of ``topic`` that were recorded as retired and are deleted by now."""
        row = tables.RetiredFile
        statement = select(func.sum(row.size_bytes)).where(row.topic == topic, row.deleted_at_ms.is_not(None))
        with self._database.reading() as session:
            return int(session.scalar(statement) or 0)
