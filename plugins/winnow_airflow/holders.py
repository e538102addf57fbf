"""Says who is at work on a topic: the person or schedule behind the lease, and the run that is not closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winnow.values.model import AIRFLOW_HOLDER

if TYPE_CHECKING:
    from winnow.store import Store

LATEST_ENTRIES: Final = 50
"""How many of the newest requests in the audit log are looked through for the one that a DAG run was triggered by."""


@dataclass(frozen=True, slots=True)
class TopicHolder:
    """Who works on a topic.

    ``actor``: a user, a DAG run of the schedule, or a process. ``plan_id`` None: it has no open compaction run.
    """

    actor: str
    plan_id: str | None


def find_holder(store: Store, topic: str, *, now_ms: int) -> TopicHolder | None:
    """Find who holds ``topic`` at ``now_ms``; None: nobody."""
    lease = store.leases.find(topic)
    if lease is None or lease.expires_ms <= now_ms:
        return None
    plans = [run.plan_id for run in store.runs.list_open(topic) if run.holder == lease.holder]
    return TopicHolder(_name_actor(store, lease.holder), plans[0] if plans else None)


def _name_actor(store: Store, holder: str) -> str:
    from winnow.store.audit import AuditAction
    from winnow.store.rows import Window

    if not holder.startswith(AIRFLOW_HOLDER):
        return f"process {holder}"
    entries = store.audit.list_entries(Window(1, LATEST_ENTRIES), action=AuditAction.COMPACT.value).rows
    actor = next((entry.actor for entry in entries if entry.origin == holder), None)
    dag_id, _, run_id = holder.removeprefix(AIRFLOW_HOLDER).partition(":")
    return actor or f"DAG run {run_id} of {dag_id}"
