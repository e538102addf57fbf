"""Open alerts, and messages that a channel has not delivered yet.

Messages are written in the transaction that opens or closes the alerts, so a crash loses none:
the next delivery finds it. A channel's messages go out in their order, one sender at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, tables
from winnow.store.alert_events import AlertEventKind, make_ordered_key, note_events
from winnow.store.database import StorePart
from winnow.store.row_values import read_value
from winnow.values.results import Delivery, OpenAlert

Compose = Callable[[Sequence[OpenAlert]], Sequence[tuple[str, str]]]
"""Composes messages (channel and document) from the alerts that a call opened or closed (at least one)."""

_UNSYNCHRONISED: Final = {"synchronize_session": False}


class SentAlerts(StorePart):
    """One row per alert that has not recovered, and one per message and channel that is not delivered."""

    def remember(
        self, key: str, now_ms: int, *, kind: str = "", topic: str = "", partition: int | None = None, message: str = ""
    ) -> bool:
        """Return True the first time, for exactly one of several callers at once; False until it is forgotten."""
        with self._database.writing() as session:
            return _remember(session, OpenAlert(kind, topic, partition, now_ms, message), key, now_ms)

    def forget(self, key: str) -> bool:
        """Return True if the alert was remembered; it may be sent again."""
        with self._database.writing() as session:
            return (
                bulk_statements.execute_change(session, delete(tables.AlertTable).where(tables.AlertTable.key == key))
                > 0
            )

    def list_open(self, kinds: Collection[str] = (), topic: str | None = None) -> list[OpenAlert]:
        """List open alerts of ``kinds`` (none = all) and ``topic`` (None = all), in the order of topics."""
        row = tables.AlertTable
        statement = select(row).order_by(row.topic, row.kind, row.partition)
        if kinds:
            statement = statement.where(row.kind.in_(sorted(kinds)))
        if topic is not None:
            statement = statement.where(row.topic == topic)
        with self._database.reading() as session:
            return [read_value(OpenAlert, alert) for alert in session.scalars(statement)]

    def remember_all(self, alerts: Sequence[OpenAlert], now_ms: int, compose: Compose) -> list[OpenAlert]:
        """Open ``alerts``; return those that were not open or were released, to exactly one of several callers.

        A muted one, which was released and has happened again, gets no message before its mute ends.
        """
        with self._database.writing() as session:
            fresh = [alert for alert in alerts if _remember(session, alert, alert.key, now_ms)]
            note_events(session, AlertEventKind.RAISED, fresh, now_ms)
            muted = _find_muted(session, [alert.key for alert in fresh], now_ms)
            _enqueue(session, [alert for alert in fresh if alert.key not in muted], now_ms, compose)
            return fresh

    def forget_all(
        self,
        topic: str,
        kinds: Collection[str],
        partitions: Collection[int] | None,
        now_ms: int,
        compose: Compose,
        *,
        recovered: bool = True,
        how: str = "",
    ) -> list[OpenAlert]:
        """Close and return the alerts of ``kinds`` about ``partitions`` (None = all) and about the whole topic.

        Muted ones too, and their mutes end: what happens after a recovery is news. ``recovered`` False: another alert
        covers them, or their topic is gone.
        """
        event = AlertEventKind.RECOVERED if recovered else AlertEventKind.CLOSED
        with self._database.writing() as session:
            of = _match_partitions(topic, kinds, partitions)
            rows = session.scalars(delete(tables.AlertTable).where(of).returning(tables.AlertTable))
            closed = [read_value(OpenAlert, row) for row in rows]
            closed.sort(key=lambda alert: (alert.kind, -1 if alert.partition is None else alert.partition))
            note_events(session, event, closed, now_ms, text=how)
            _enqueue(session, closed, now_ms, compose)
            return closed

    def release(self, topic: str, kinds: Collection[str], partitions: Collection[int], why: str, now_ms: int) -> None:
        """Release alerts that a person works on: they stay open, and are sent again if it happens again."""
        row = tables.AlertTable
        statement = update(row).where(_match_partitions(topic, kinds, partitions)).values(released=why).returning(row)
        with self._database.writing() as session:
            released = [
                read_value(OpenAlert, altered)
                for altered in session.scalars(statement, execution_options=_UNSYNCHRONISED)
            ]
            note_events(session, AlertEventKind.RELEASED, released, now_ms, text=why)

    def end_mutes(self, now_ms: int, compose: Compose) -> list[OpenAlert]:
        """End the mutes whose time has come; write messages about those alerts, which are still open, once."""
        row = tables.AlertTable
        over = row.muted_until_ms <= now_ms
        with self._database.reading() as session:
            if session.scalar(select(row.key).where(over).limit(1)) is None:
                return []
        unmuted = {"muted_until_ms": None, "muted_by": None, "muted_why": None}
        ended = update(row).where(over).values(unmuted).returning(row)
        with self._database.writing() as session:
            unmuted_rows = session.scalars(ended, execution_options=_UNSYNCHRONISED)
            alerts = sorted((read_value(OpenAlert, row) for row in unmuted_rows), key=lambda alert: alert.key)
            note_events(session, AlertEventKind.MUTE_ENDED, alerts, now_ms, text="")
            _enqueue(session, alerts, now_ms, compose)
            return alerts

    def are_muted(self, keys: Collection[str], now_ms: int) -> bool:
        """Check whether all of these alerts are open and muted."""
        with self._database.reading() as session:
            return len(_find_muted(session, keys, now_ms)) == len(keys)

    def claim_delivery(self, channel: str, now_ms: int, until_ms: int, *, stale_before_ms: int = 0) -> Delivery | None:
        """Claim the oldest message that ``channel`` has not delivered; no other caller gets it before ``until_ms``.

        None: there is none, or another caller has it, or it has just failed; later messages wait for it, unless it was
        written before ``stale_before_ms``: one message that cannot be delivered must not hold up all others.
        """
        row = tables.AlertDelivery
        waiting = or_(row.created_at_ms >= stale_before_ms, row.claimed_until_ms <= now_ms)
        oldest = select(row).where(row.channel == channel, waiting).order_by(row.key).limit(1)
        with self._database.writing() as session:
            delivery = session.scalar(oldest)
            if delivery is None or delivery.claimed_until_ms > now_ms:
                return None
            statement = update(row).where(row.key == delivery.key, row.claimed_until_ms == delivery.claimed_until_ms)
            claimed = read_value(Delivery, delivery)
            return (
                claimed
                if bulk_statements.execute_change(session, statement.values(claimed_until_ms=until_ms))
                else None
            )

    def postpone_delivery(self, key: str, until_ms: int) -> None:
        """Record that the delivery failed; it may be tried again from ``until_ms`` on."""
        row = tables.AlertDelivery
        with self._database.writing() as session:
            bulk_statements.execute_change(session, update(row).where(row.key == key).values(claimed_until_ms=until_ms))

    def finish_delivery(self, key: str) -> None:
        """Record that the channel has delivered the message."""
        with self._database.writing() as session:
            bulk_statements.execute_change(session, delete(tables.AlertDelivery).where(tables.AlertDelivery.key == key))

    def drop_deliveries(self, before_ms: int) -> int:
        """Drop messages that no channel delivered since ``before_ms``; return their number."""
        row = tables.AlertDelivery
        with self._database.writing() as session:
            return bulk_statements.execute_change(session, delete(row).where(row.created_at_ms < before_ms))


def _remember(session: Session, alert: OpenAlert, key: str, now_ms: int) -> bool:
    row = tables.AlertTable.make_row(
        alert,
        key=key,
        sent_at_ms=now_ms,
        released=None,
        acknowledged_by=None,
        acknowledged_why=None,
        acknowledged_at_ms=None,
    )
    if bulk_statements.insert_missing(session, tables.AlertTable, [row]):
        return True
    again = update(tables.AlertTable).where(tables.AlertTable.key == key, tables.AlertTable.released.is_not(None))
    if not bulk_statements.execute_change(session, again.values({name: row[name] for name in row if name != "key"})):
        return False
    # It is sent now, so the end of a mute that is over must not send it a second time.
    over = update(tables.AlertTable).where(tables.AlertTable.key == key, tables.AlertTable.muted_until_ms <= now_ms)
    session.execute(over.values(muted_until_ms=None, muted_by=None, muted_why=None))
    return True


def _find_muted(session: Session, keys: Collection[str], now_ms: int) -> set[str]:
    row = tables.AlertTable
    muted: set[str] = set()
    for share in bulk_statements.split_chunks(sorted(keys)):
        muted.update(session.scalars(select(row.key).where(row.key.in_(share), row.muted_until_ms > now_ms)))
    return muted


def _match_partitions(topic: str, kinds: Collection[str], partitions: Collection[int] | None) -> ColumnElement[bool]:
    row = tables.AlertTable
    of: ColumnElement[bool] = (row.topic == topic) & row.kind.in_(sorted(kinds))
    return of if partitions is None else of & or_(row.partition.is_(None), row.partition.in_(sorted(partitions)))


def _enqueue(session: Session, alerts: Sequence[OpenAlert], now_ms: int, compose: Compose) -> None:
    rows = [
        tables.AlertDelivery.make_row(
            Delivery(make_ordered_key(now_ms), channel, document, created_at_ms=now_ms), claimed_until_ms=0
        )
        for channel, document in (compose(alerts) if alerts else ())
    ]
    bulk_statements.insert(session, tables.AlertDelivery, rows)
