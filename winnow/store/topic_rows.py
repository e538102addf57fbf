"""Which rows of the store are about one topic, found in the tables' own columns; and whose they are.

A topic that was removed and created again has a life with another id, the uuid of its table
(:mod:`winnow.store.topic_heads`). Nothing of a former life appears on the new one: its rows are removed when the new
life is seen first, and a process that was paused over that writes nothing.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, cast

from sqlalchemy import Table, delete, select
from sqlalchemy.orm import Session

from winnow.errors import PlanVoidError
from winnow.store import tables

KEPT: Final = {
    "winnow_lease": "fencing tokens keep rising from one life of a topic to the next",
    "winnow_audit": "who did what stays known until its retention, also who deleted the topic",
    "winnow_topic_head": "a catalog from before the removal may come back, and is noticed by it",
}
"""Tables with a topic whose rows stay when it is removed, and why."""

OF_NO_TOPIC: Final = {
    "winnow_audit_chain": "the end of the audit log as a whole",
    "winnow_alert_delivery": "messages on their way to a channel: what they say was true when it was said",
    "winnow_spark_job": "an application may have worked on several topics; its rows go with its last plan",
    "winnow_installation": "the installation as a whole",
}
"""Tables that are about no single topic, and why their rows stay."""


@cache
def list_tables() -> tuple[Table, ...]:
    """List all tables of the store, those that refer to others first."""
    from winnow.store.store import PARTS

    for module, _ in PARTS.values():  # each declares its tables when it is imported
        import_module(f"winnow.store.{module}")
    return tuple(reversed(tables.Base.metadata.sorted_tables))


def list_tables_by_topic() -> tuple[Table, ...]:
    """List the tables whose rows name a topic and go with it."""
    return tuple(table for table in list_tables() if "topic" in table.c and table.name not in KEPT)


def list_tables_by_plan() -> tuple[Table, ...]:
    """List the tables whose rows name no topic but a plan, and go with its run."""
    return tuple(table for table in list_tables() if "plan_id" in table.c and "topic" not in table.c)


def remove_rows(session: Session, topic: str) -> None:
    """Remove every row of ``topic``, history included, but those of the tables in :data:`KEPT`."""
    runs = cast(Table, tables.RunTable.__table__).c
    plans = select(runs.plan_id).where(runs.topic == topic)
    for table in list_tables_by_plan():
        session.execute(delete(table).where(table.c.plan_id.in_(plans)))
    for table in list_tables_by_topic():
        session.execute(delete(table).where(table.c.topic == topic))


def is_former_life(session: Session, topic: str, table_uuid: str | None) -> bool:
    """Check whether ``table_uuid`` is a life of ``topic`` that has ended; None and unknown ones count as the present.

    The caller has locked the topic's rows.
    """
    if table_uuid is None:
        return False
    row = tables.TopicHeadTable
    lives = list(session.scalars(select(row.table_uuid).where(row.topic == topic).order_by(row.life)))
    return table_uuid in lives and lives[-1] != table_uuid


def require_same_life(session: Session, topic: str, table_uuid: str | None) -> None:
    """Refuse to begin something for a life of ``topic`` that has ended.

    Raises:
        PlanVoidError: the topic was removed and created again.
    """
    if is_former_life(session, topic, table_uuid):
        raise PlanVoidError(
            f"Topic {topic} was removed and created again meanwhile, so what was planned for it is void.",
            left="Nothing was changed.",
            next="Run it again: it starts from the topic as it is.",
        )
