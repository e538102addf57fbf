"""Requests for erasures that take two persons, and what the other person said to them.

A row has the plan that the other person sees, and is decided by its digest. Whether an approval was used is decided by
the log, whose erasures name their requests; a row only repeats it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from sqlalchemy import Index, select, update

from winnow.clock import DAY_MS
from winnow.errors import EraseRefusedError
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import list_window, match_given, read_value
from winnow.store.rows import Listed, Window
from winnow.store.topic_rows import require_same_life

MAXIMUM_REQUEST_AGE_MS: Final = 7 * DAY_MS
"""How old a request may be when its erasure is committed: later nobody remembers what was approved."""
_NOTHING: Final = "Nothing was changed."


class RequestState(StrEnum):
    """What became of a request. ``REJECTED`` also: an approval that was taken back before it was used."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    USED = "used"


@dataclass(frozen=True, slots=True)
class RequestedErasure:
    """A request for an erasure.

    Args:
        request_id: a new one.
        topic: whose keys are to be erased.
        table_uuid: the topic's life.
        requested_by: who asked: a user of Airflow, or ``user@host``.
        requested_at_ms: when.
        binding: what the approval is for: a keyed digest of keys, life and options
            (:func:`winnow.values.erasures.compute_binding`).
        plan: an :class:`winnow.values.erasures.ErasurePlan` as canonical JSON.
        plan_sha256: its digest, by which it is decided.
        state: the value of a :class:`RequestState`.
        decided_by: who approved or rejected it; None: nobody yet.
        decided_at_ms: when.
        decided_why: why.
        erasure_id: what it was used for.
    """

    request_id: str
    topic: str
    table_uuid: str
    requested_by: str
    requested_at_ms: int
    binding: str
    plan: str
    plan_sha256: str
    state: RequestState = RequestState.PENDING
    decided_by: str | None = None
    decided_at_ms: int | None = None
    decided_why: str | None = None
    erasure_id: str | None = None

    def is_expired(self, now_ms: int) -> bool:
        """Check whether it is too old to be approved or used."""
        return now_ms - self.requested_at_ms > MAXIMUM_REQUEST_AGE_MS


class EraseRequestTable(tables.Base, of=RequestedErasure, key=["request_id"]):
    """One row per request; it goes with the topic's life, and with its history."""

    __tablename__ = "winnow_erase_request"
    __table_args__ = (Index(None, "topic", "requested_at_ms"),)


class EraseRequests(StorePart):
    """Requests for erasures. No user byte is in them."""

    def open(self, request: RequestedErasure) -> None:
        """Record a request.

        Raises:
            PlanVoidError: the topic was removed and created again meanwhile.
        """
        with self._database.writing() as session:
            lock_topic_rows(session, request.topic)
            require_same_life(session, request.topic, request.table_uuid)
            bulk_statements.insert(session, EraseRequestTable, [EraseRequestTable.make_row(request)])

    def find(self, request_id: str) -> RequestedErasure | None:
        """Find a request; None: there is none, or it went with its topic."""
        with self._database.reading() as session:
            row = session.get(EraseRequestTable, request_id)
            return None if row is None else read_value(RequestedErasure, row)

    def list_requests(
        self, window: Window, *, topic: str | None = None, binding: str | None = None
    ) -> Listed[RequestedErasure]:
        """List requests, the newest first; None: of any topic, for anything."""
        row = EraseRequestTable
        wanted = match_given((row.topic, topic), (row.binding, binding))
        newest = select(row).where(*wanted).order_by(row.requested_at_ms.desc(), row.request_id)
        with self._database.reading() as session:
            return list_window(session, newest, window, partial(read_value, RequestedErasure))

    def decide(
        self, request_id: str, plan_sha256: str, *, approves: bool, by: str, why: str, now_ms: int
    ) -> RequestedErasure:
        """Approve a request, or reject it, as long as nothing was erased for it; the same again changes nothing.

        Args:
            request_id: which.
            plan_sha256: of the plan that the person saw.
            approves: else it is rejected, which also takes an approval back.
            by: who decides; whoever asked may only reject.
            why: for the audit log.
            now_ms: the present.

        Raises:
            EraseRefusedError: it may not be decided so. Nothing was changed.
        """
        row = EraseRequestTable
        wanted = RequestState.APPROVED if approves else RequestState.REJECTED
        with self._database.writing() as session:
            known = session.get(row, request_id)
            found = None if known is None else read_value(RequestedErasure, known)
            if found is None or found.plan_sha256 != plan_sha256:
                raise _make_refusal(f"There is no such request {request_id}, or its topic was created again.")
            if found.state is wanted and found.decided_by == by:
                return found
            if approves:
                _require_approvable(found, by, now_ms)
            elif found.state not in {RequestState.PENDING, RequestState.APPROVED}:
                raise _make_refusal(f"Request {request_id} is {found.state} already.")
            decided = {"state": wanted.value, "decided_by": by, "decided_at_ms": now_ms, "decided_why": why}
            changed = bulk_statements.execute_change(
                session,
                # Somebody else may have decided since it was read.
                update(row).where(row.request_id == request_id, row.state == found.state.value).values(**decided),
            )
            if not changed:
                raise _make_refusal(f"Somebody else decided about request {request_id} at this very moment.")
            session.expire_all()
            return read_value(RequestedErasure, session.get_one(row, request_id))

    def note_used(self, request_id: str, erasure_id: str) -> None:
        """Record the erasure that the log has for a request."""
        row = EraseRequestTable
        used = {"state": RequestState.USED.value, "erasure_id": erasure_id}
        with self._database.writing() as session:
            bulk_statements.execute_change(session, update(row).where(row.request_id == request_id).values(**used))


def _require_approvable(found: RequestedErasure, by: str, now_ms: int) -> None:
    if found.state is not RequestState.PENDING:
        raise _make_refusal(f"Request {found.request_id} is {found.state} already.")
    if found.is_expired(now_ms):
        raise _make_refusal(f"Request {found.request_id} is more than {MAXIMUM_REQUEST_AGE_MS // DAY_MS} days old.")
    if is_same_person(found.requested_by, by):
        raise EraseRefusedError(
            f"{by} asked for this erasure ({found.requested_by}), and may not approve it.",
            left=_NOTHING,
            next="Have another person approve it.",
        )


def _make_refusal(what: str) -> EraseRefusedError:
    return EraseRefusedError(
        what, left=_NOTHING, next="winnow erase requests lists them; the same erasure again makes a new one."
    )


def name_state(requested: RequestedErasure, now_ms: int) -> str:
    """Name the state of a request; ``expired``: too old to be approved or used."""
    is_open = requested.state in {RequestState.PENDING, RequestState.APPROVED}
    return "expired" if is_open and requested.is_expired(now_ms) else requested.state.value


def describe_request(requested: RequestedErasure, now_ms: int) -> dict[str, Any]:
    """Make the JSON document of a request: its plan, and what became of it. No user byte is in it."""
    return {
        **json.loads(requested.plan),
        "plan_sha256": requested.plan_sha256,
        "state": name_state(requested, now_ms),
        "decided_by": requested.decided_by,
        "decided_at_ms": requested.decided_at_ms,
        "decided_why": requested.decided_why,
        "erasure_id": requested.erasure_id,
    }


def is_same_person(one: str, other: str) -> bool:
    """Check whether two names may be one person's: ``anna@host`` at a shell is ``anna`` in Airflow."""
    return _get_person(one) == _get_person(other)


def _get_person(name: str) -> str:
    return name.strip().casefold().partition("@")[0]
