"""The history of alerts: when each was raised, acknowledged, muted or released, and when it recovered."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import count

from sqlalchemy import Index, Text, select
from sqlalchemy.orm import Session, mapped_column

from winnow.store import bulk_statements
from winnow.store.database import StorePart
from winnow.store.row_values import list_window, match_given, read_value
from winnow.store.rows import Listed, Window
from winnow.store.tables import Base
from winnow.values.results import OpenAlert

_number = count()
"""Keeps keys that one process writes within a millisecond distinct and ordered."""


class AlertEventKind(StrEnum):
    """What can happen to an alert."""

    RAISED = "raised"
    ACKNOWLEDGED = "acknowledged"
    MUTED = "muted"
    UNMUTED = "unmuted"
    MUTE_ENDED = "mute_ended"
    RELEASED = "released"
    RECOVERED = "recovered"
    CLOSED = "closed"
    """Another alert covers it now, or its topic is gone."""


@dataclass(frozen=True, slots=True)
class AlertEvent:
    """One thing that happened to an alert. ``actor`` empty: the pipeline itself. ``text``: why, or what was found."""

    at_ms: int
    event: str
    kind: str
    topic: str
    partition: int | None
    actor: str
    text: str


class AlertEventTable(Base, of=AlertEvent, key=["event_id"]):
    """History: what happened to an alert."""

    __tablename__ = "winnow_alert_event"
    __table_args__ = (Index(None, "topic", "at_ms"), Index(None, "at_ms"))

    event_id = mapped_column(Text, nullable=False)


class AlertHistory(StorePart):
    """One row per thing that happened to an alert, the newest first."""

    def list_events(
        self, window: Window, *, topic: str | None = None, kind: str | None = None, event: str | None = None
    ) -> Listed[AlertEvent]:
        """List one page of what happened to the alerts of a topic or a kind, the newest first; None: any."""
        row = AlertEventTable
        wanted = match_given((row.topic, topic), (row.kind, kind), (row.event, event))
        newest = select(row).where(*wanted).order_by(row.event_id.desc())
        with self._database.reading() as session:
            return list_window(session, newest, window, partial(read_value, AlertEvent))


def make_ordered_key(now_ms: int) -> str:
    """Make a key that is unique, and greater than those made before."""
    return f"{now_ms:015d}-{next(_number):09d}-{uuid.uuid4().hex[:8]}"


def note_events(
    session: Session,
    event: AlertEventKind,
    alerts: Iterable[OpenAlert],
    now_ms: int,
    *,
    actor: str = "",
    text: str | None = None,
) -> None:
    """Note what happened to ``alerts``, in the transaction that does it. ``text`` None: each alert's own message."""
    rows = [
        AlertEventTable.make_row(
            alert,
            event_id=make_ordered_key(now_ms),
            at_ms=now_ms,
            event=event.value,
            actor=actor,
            text=alert.message if text is None else text,
        )
        for alert in alerts
    ]
    bulk_statements.insert(session, AlertEventTable, rows)
