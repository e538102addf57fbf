"""Which alerts were sent, so that each is sent once until it recovers."""

from __future__ import annotations

from sqlalchemy import delete

from winnow.store import bulk, tables
from winnow.store.database import Room


class SentAlerts(Room):
    """One row per alert that has not recovered."""

    def remember_alert(
        self, key: str, now_ms: int, *, kind: str = "", topic: str = "", partition: int | None = None, message: str = ""
    ) -> bool:
        """True the first time, for exactly one of any number of callers at once; False until it is forgotten."""
        row = {
            "key": key,
            "sent_at_ms": now_ms,
            "kind": kind,
            "topic": topic,
            "partition": partition,
            "message": message,
        }
        with self._database.writing() as session:
            return bulk.insert_missing(session, tables.Alert, [row]) > 0

    def forget_alert(self, key: str) -> bool:
        """True when the alert was remembered; it may be sent again."""
        with self._database.writing() as session:
            return bulk.changed(session, delete(tables.Alert).where(tables.Alert.key == key)) > 0
