"""What people do about open alerts: acknowledge them, mute them until an instant, and look at them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from winnow.store import bulk_statements, tables
from winnow.store.alert_events import AlertEventKind, note_events
from winnow.store.database import StorePart
from winnow.store.row_values import list_window, match_given, read_value
from winnow.store.rows import HandledAlert, Listed, Window
from winnow.values.results import OpenAlert

MAXIMUM_REASON_CHARACTERS = 1_000
"""Maximum characters of a reason; longer ones are cut."""


class AlertState(StrEnum):
    """Which open alerts a list has."""

    NEW = "new"
    """Nobody has acknowledged or muted it."""
    ACKNOWLEDGED = "acknowledged"
    MUTED = "muted"


@dataclass(frozen=True, slots=True)
class AlertCounts:
    """Numbers of open alerts; ``new``: neither acknowledged nor muted."""

    open: int
    new: int
    muted: int


class AlertHandling(StorePart):
    """Changes that people make to open alerts. Each is written together with its entry in the alerts' history."""

    def acknowledge(self, keys: Collection[str], now_ms: int, *, by: str, why: str) -> list[OpenAlert]:
        """Note that somebody deals with these alerts; return those that are open."""
        changed = {"acknowledged_by": by, "acknowledged_why": _cut(why), "acknowledged_at_ms": now_ms}
        return self._change(keys, changed, AlertEventKind.ACKNOWLEDGED, now_ms, by, _cut(why))

    def mute(self, keys: Collection[str], until_ms: int, now_ms: int, *, by: str, why: str) -> list[OpenAlert]:
        """Keep these alerts from every channel until ``until_ms``; return those that are open.

        They are sent once when that time has come, if they are still open. A recovery is sent at any time.
        """
        changed = {"muted_by": by, "muted_why": _cut(why), "muted_until_ms": until_ms}
        return self._change(keys, changed, AlertEventKind.MUTED, now_ms, by, _cut(why))

    def unmute(self, keys: Collection[str], now_ms: int, *, by: str, why: str) -> list[OpenAlert]:
        """End the mutes of these alerts now; the next watch sends those that are still open."""
        muted = tables.AlertTable.muted_until_ms > now_ms
        changed = {"muted_until_ms": now_ms}
        return self._change(keys, changed, AlertEventKind.UNMUTED, now_ms, by, _cut(why), only=muted)

    def list_alerts(
        self,
        window: Window,
        now_ms: int,
        *,
        topic: str | None = None,
        kind: str | None = None,
        state: AlertState | None = None,
    ) -> Listed[HandledAlert]:
        """List one page of the open alerts of a topic, a kind or a state, the newest first; None: any."""
        row = tables.AlertTable
        wanted = match_given((row.topic, topic), (row.kind, kind))
        if state is not None:
            wanted.append(_match_state(now_ms)[state])
        newest = select(row).where(*wanted).order_by(row.sent_at_ms.desc(), row.key)
        with self._database.reading() as session:
            return list_window(session, newest, window, partial(_make_handled, now_ms=now_ms))

    def count(self, now_ms: int) -> AlertCounts:
        """Count the open alerts."""
        states = _match_state(now_ms)
        new, muted = (func.count().filter(states[state]) for state in (AlertState.NEW, AlertState.MUTED))
        with self._database.reading() as session:
            counted = session.execute(select(func.count(), new, muted).select_from(tables.AlertTable)).one()
        return AlertCounts(open=counted[0], new=counted[1], muted=counted[2])

    def _change(
        self,
        keys: Collection[str],
        changed: Mapping[str, object],
        event: AlertEventKind,
        now_ms: int,
        by: str,
        why: str,
        *,
        only: ColumnElement[bool] | None = None,
    ) -> list[OpenAlert]:
        row = tables.AlertTable
        done: list[OpenAlert] = []
        with self._database.writing() as session:
            for share in bulk_statements.split_chunks(sorted(set(keys))):
                statement = update(row).where(row.key.in_(share)).values(changed).returning(row)
                if only is not None:
                    statement = statement.where(only)
                altered = session.scalars(statement, execution_options={"synchronize_session": False})
                done.extend(read_value(OpenAlert, alert) for alert in altered)
            note_events(session, event, done, now_ms, actor=by, text=why)
        return done


def _match_state(now_ms: int) -> dict[AlertState, ColumnElement[bool]]:
    row = tables.AlertTable
    muted = and_(row.muted_until_ms.is_not(None), row.muted_until_ms > now_ms)
    return {
        AlertState.NEW: and_(
            row.acknowledged_at_ms.is_(None), or_(row.muted_until_ms.is_(None), row.muted_until_ms <= now_ms)
        ),
        AlertState.ACKNOWLEDGED: row.acknowledged_at_ms.is_not(None),
        AlertState.MUTED: muted,
    }


def _make_handled(row: tables.AlertTable, now_ms: int) -> HandledAlert:
    alert = read_value(HandledAlert, row)
    if alert.muted_until_ms is not None and alert.muted_until_ms > now_ms:
        return alert
    return replace(alert, muted_by=None, muted_why=None, muted_until_ms=None)


def _cut(why: str) -> str:
    return why[:MAXIMUM_REASON_CHARACTERS]
