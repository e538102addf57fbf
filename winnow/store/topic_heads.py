"""The newest head of every topic, recorded after each commit: an older catalog is noticed by it.

The catalog alone says which metadata file of a table is the newest. If it is restored from a backup, or fails over to
a replica that lags behind, what was committed since is gone from it, and nothing in it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import and_, bindparam, case, func, or_, select, update

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import list_fields, read_value
from winnow.store.rows import RunState
from winnow.store.topic_rows import remove_rows
from winnow.values.topic_state import TopicHead

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert

_BOUND = "head_"
"""Begins the names of the statement's values: SQLAlchemy keeps the columns' own names for itself."""


class TopicHeads(StorePart):
    """One row per life of a topic: the id of a life is the uuid of its table."""

    def record(self, head: TopicHead) -> None:
        """Record ``head``, of the topic's newest life unless that life has a row; an older head changes nothing.

        Fence and number of ingest calls never get lower. A process that was paused for any time after its commit
        changes nothing that later ones recorded.

        A life that is seen for the first time begins without any row of the one before it.
        """
        with self._database.writing() as session:
            lock_topic_rows(session, head.topic)
            row = tables.TopicHeadTable
            lives = set(session.scalars(select(row.table_uuid).where(row.topic == head.topic)))
            if lives and head.table_uuid not in lives:
                remove_rows(session, head.topic)
            session.execute(
                _make_statement(session.get_bind().dialect.name),
                {f"{_BOUND}{name}": value for name, value in row.make_row(head).items()},
            )

    def begin_life(self, topic: str, table_uuid: str) -> None:
        """Make the life of ``topic`` with this id its newest one: its table is the topic's again."""
        row = tables.TopicHeadTable
        newest = select(func.max(row.life)).where(row.topic == topic, row.table_uuid != table_uuid).scalar_subquery()
        ended = (row.topic == topic, row.table_uuid == table_uuid, row.life <= newest)
        with self._database.writing() as session:
            bulk_statements.execute_change(session, update(row).where(*ended).values(life=newest + 1))

    def list_lives(self, topic: str) -> list[TopicHead]:
        """List the heads recorded of ``topic``, one per life, the newest life last."""
        row = tables.TopicHeadTable
        with self._database.reading() as session:
            heads = session.scalars(select(row).where(row.topic == topic).order_by(row.life, row.recorded_at_ms))
            return [read_value(TopicHead, head) for head in heads]

    def list_lives_of(self, topics: Sequence[str]) -> dict[str, list[TopicHead]]:
        """List the heads recorded of each of ``topics``, with one query for some hundred of them."""
        row = tables.TopicHeadTable
        lives: dict[str, list[TopicHead]] = {}
        with self._database.reading() as session:
            for some in bulk_statements.split_chunks(topics):
                statement = select(row).where(row.topic.in_(some)).order_by(row.life, row.recorded_at_ms)
                for head in session.scalars(statement):
                    lives.setdefault(head.topic, []).append(read_value(TopicHead, head))
        return lives

    def list_log_ends(self, topic: str) -> dict[int, int]:
        """List the log end of each partition of ``topic`` as it was recorded last."""
        row = tables.Checkpoint
        with self._database.reading() as session:
            rows = session.execute(select(row.partition, row.log_end_offset).where(row.topic == topic))
            return {checkpoint.partition: checkpoint.log_end_offset for checkpoint in rows}

    def list_published(self, topic: str) -> dict[str, int]:
        """List the plans of ``topic`` that the store calls published, and when each was (ms)."""
        run, receipt = tables.RunTable, tables.ReceiptTable
        with self._database.reading() as session:
            runs = session.execute(
                select(run.plan_id, run.updated_at_ms).where(run.topic == topic, run.status == RunState.PUBLISHED.value)
            )
            receipts = session.execute(select(receipt.plan_id, receipt.finished_at_ms).where(receipt.topic == topic))
            return {
                **{plan.plan_id: plan.updated_at_ms for plan in runs},
                **{plan.plan_id: plan.finished_at_ms for plan in receipts},
            }


@cache
def _make_statement(dialect: str) -> Insert:
    """Make the statement of :meth:`TopicHeads.record`; making it takes longer than running it."""
    row = tables.TopicHeadTable
    table = row.__table__
    life = select(func.coalesce(func.max(row.life), 0) + 1).where(row.topic == bindparam(f"{_BOUND}topic"))
    values = {name: bindparam(f"{_BOUND}{name}", type_=table.c[name].type) for name in list_fields(TopicHead)}
    statement = bulk_statements.build_insert(dialect, row).values(life=life.scalar_subquery(), **values)
    new, old = statement.excluded, table.c
    is_later = new.last_sequence_number > old.last_sequence_number
    return statement.on_conflict_do_update(
        index_elements=["topic", "table_uuid"],
        set_={
            **{name: new[name] for name in ("metadata_location", "last_sequence_number")},
            **{name: new[name] for name in ("updated_at_ms", "recorded_at_ms")},
            **{name: case((new[name] > old[name], new[name]), else_=old[name]) for name in ("fence", "ingest_number")},
            "snapshot_id": case((is_later, new.snapshot_id), else_=func.coalesce(new.snapshot_id, old.snapshot_id)),
        },
        where=or_(
            is_later,
            and_(new.last_sequence_number == old.last_sequence_number, new.updated_at_ms >= old.updated_at_ms),
        ),
    )
