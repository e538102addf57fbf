"""Leases on topics with fencing tokens, taken by compare-and-swap."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.orm import Session

from winnow.clock import format_ms
from winnow.errors import TopicBusyError
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.row_values import read_value
from winnow.store.rows import Lease
from winnow.values.model import AIRFLOW_HOLDER


class Leases(StorePart):
    """Leases: at most one holder per topic. Callers pass the time; leases save work, the commit loop keeps it safe."""

    def acquire(self, topic: str, holder: str, now_ms: int, ttl_ms: int) -> Lease:
        """Take the lease of ``topic`` until ``now_ms + ttl_ms`` if it is free, expired or held by ``holder``.

        Raises:
            TopicBusyError: another holder has it.
            ServiceError: see :meth:`winnow.store.database.Database.writing`; so for every method of the store.
        """
        free = {"topic": topic, "holder": None, "token": 0, "expires_ms": 0}
        lease = tables.LeaseTable
        with self._database.writing() as session:
            bulk_statements.insert_missing(session, lease, [free])
            won = bulk_statements.execute_change(
                session,
                update(lease)
                .where(
                    lease.topic == topic,
                    or_(lease.holder.is_(None), lease.holder == holder, lease.expires_ms <= now_ms),
                )
                .values(holder=holder, token=lease.token + 1, expires_ms=now_ms + ttl_ms),
            )
            current = _find_lease(session, topic)
            if not won or current is None:
                raise _make_busy_error(topic, current, now_ms, ttl_ms)
            return current

    def renew(self, lease: Lease, now_ms: int, ttl_ms: int) -> Lease:
        """Renew ``lease`` until ``now_ms + ttl_ms``, even an expired one, unless another holder took it over.

        Raises:
            TopicBusyError: the lease was released or taken over.
        """
        with self._database.writing() as session:
            renewed = bulk_statements.execute_change(
                session,
                update(tables.LeaseTable).where(_is_held(lease)).values(expires_ms=now_ms + ttl_ms),
            )
            if not renewed:
                raise _make_busy_error(lease.topic, _find_lease(session, lease.topic), now_ms, ttl_ms)
        return Lease(lease.topic, lease.holder, lease.token, now_ms + ttl_ms)

    def release(self, lease: Lease) -> bool:
        """Release ``lease``. Return False, without a change, if it was released or taken over before."""
        with self._database.writing() as session:
            statement = update(tables.LeaseTable).where(_is_held(lease)).values(holder=None, expires_ms=0)
            return bulk_statements.execute_change(session, statement) > 0

    def find(self, topic: str) -> Lease | None:
        """Find the lease of ``topic``, which may have expired. None: it has no holder."""
        with self._database.reading() as session:
            return _find_lease(session, topic)

    def find_many(self, topics: Sequence[str]) -> dict[str, Lease]:
        """Find the leases of ``topics`` that have a holder, expired ones included."""
        row, leases = tables.LeaseTable, dict[str, Lease]()
        with self._database.reading() as session:
            for some in bulk_statements.split_chunks(topics):
                for lease in session.scalars(select(row).where(row.topic.in_(some), row.holder.is_not(None))):
                    leases[lease.topic] = read_value(Lease, lease)
        return leases


def _is_held(lease: Lease) -> ColumnElement[bool]:
    row = tables.LeaseTable
    return and_(row.topic == lease.topic, row.holder == lease.holder, row.token == lease.token)


def _find_lease(session: Session, topic: str) -> Lease | None:
    row = session.scalar(select(tables.LeaseTable).where(tables.LeaseTable.topic == topic))
    return None if row is None or row.holder is None else read_value(Lease, row)


def describe_holder(lease: Lease, now_ms: int, ttl_ms: int) -> str:
    """Describe who holds ``lease`` until when, and for how long nobody has renewed it, if that is long."""
    text = f"held by {lease.holder} until {format_ms(lease.expires_ms)}"
    minutes = (now_ms - lease.expires_ms + ttl_ms) // 60_000
    return f"{text} (not renewed for {minutes} minutes)" if _is_left_alone(lease, now_ms, ttl_ms) else text


def _is_left_alone(lease: Lease, now_ms: int, ttl_ms: int) -> bool:
    """Check whether nobody renewed ``lease`` for half of ``ttl_ms``; a live process renews three times in it."""
    return now_ms - (lease.expires_ms - ttl_ms) >= ttl_ms / 2


def _make_busy_error(topic: str, current: Lease | None, now_ms: int, ttl_ms: int) -> TopicBusyError:
    if current is None:
        return TopicBusyError(
            f"The lease of topic {topic} was released meanwhile, so this run no longer holds the topic.",
            left="Nothing was changed.",
            next="Run it again.",
        )
    cause = ""
    if _is_left_alone(current, now_ms, ttl_ms):
        # A DAG run keeps its leases between its tasks, and so it does when its Airflow was killed.
        cause = (
            "No task of that DAG run is at work; if its Airflow was killed, start it again, and the run goes on. "
            if current.holder.startswith(AIRFLOW_HOLDER)
            else "Its process may be dead. "
        )
    return TopicBusyError(
        f"Topic {topic} is {describe_holder(current, now_ms, ttl_ms)}.",
        left="Nothing was changed.",
        next=f"{cause}Run it again when that run has ended; after that time its lease may be taken over.",
    )
