"""The projection of table and state (receipts, checkpoints, marks); can be rebuilt from the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from winnow.errors import WinnowError
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.receipt_figures import ReceiptFiguresTable, sum_receipt
from winnow.store.retired_files import insert_retired
from winnow.store.row_values import read_value
from winnow.store.rows import CheckpointRow
from winnow.store.table_health import TableHealthTable
from winnow.store.topic_rows import is_former_life, remove_rows
from winnow.values.documents import dump_json, load_json
from winnow.values.model import TopicPartition
from winnow.values.results import Receipt
from winnow.values.topic_state import Cleaning, PartitionState, RetiredFile, Uncleanable


def read_checkpoints(session: Session, topics: Sequence[str]) -> list[CheckpointRow]:
    """Read checkpoints of ``topics`` (none = all) with their histories, in the order of topic and partition."""
    row, entry = tables.Checkpoint, tables.CleaningTable
    checkpoints = select(row).order_by(row.topic, row.partition)
    cleanings = select(entry).order_by(entry.topic, entry.partition, entry.end_offset)
    if topics:
        checkpoints = checkpoints.where(row.topic.in_(topics))
        cleanings = cleanings.where(entry.topic.in_(topics))
    history: dict[tuple[str, int], list[Cleaning]] = defaultdict(list)
    for cleaning in session.scalars(cleanings):
        history[cleaning.topic, cleaning.partition].append(read_value(Cleaning, cleaning))
    return [
        read_value(CheckpointRow, checkpoint, history=tuple(history[checkpoint.topic, checkpoint.partition]))
        for checkpoint in session.scalars(checkpoints)
    ]


def read_marks(session: Session, topics: Sequence[str]) -> dict[TopicPartition, Uncleanable]:
    """Read the uncleanable partitions of ``topics`` (none = all), in order."""
    row = tables.UncleanableTable
    statement = select(row).order_by(row.topic, row.partition)
    if topics:
        statement = statement.where(row.topic.in_(topics))
    return {
        TopicPartition(marked.topic, marked.partition): read_value(Uncleanable, marked)
        for marked in session.scalars(statement)
    }


def read_paused(session: Session, topics: Sequence[str]) -> dict[TopicPartition, int]:
    """Read the paused partitions of ``topics`` (none = all) and since when (ms), in order."""
    row = tables.Paused
    statement = select(row).order_by(row.topic, row.partition)
    if topics:
        statement = statement.where(row.topic.in_(topics))
    return {
        TopicPartition(partition.topic, partition.partition): partition.since_ms
        for partition in session.scalars(statement)
    }


def read_paused_by(session: Session, topic: str) -> dict[int, tuple[str, ...]]:
    """Read under which names the partitions of ``topic`` are paused, in the order of pausing."""
    row = tables.PausedBy
    names: dict[int, list[str]] = defaultdict(list)
    for pausing in session.scalars(select(row).where(row.topic == topic).order_by(row.partition, row.number)):
        names[pausing.partition].append(pausing.name)
    return {number: tuple(listed) for number, listed in names.items()}


def read_states(session: Session, topic: str) -> dict[int, PartitionState]:
    """Read the states of ``topic`` as far as they are projected: without appends."""
    marks, paused = read_marks(session, [topic]), read_paused(session, [topic])
    paused_by = read_paused_by(session, topic)
    return {
        checkpoint.partition: PartitionState(
            log_start_offset=checkpoint.log_start_offset,
            log_end_offset=checkpoint.log_end_offset,
            first_dirty_offset=checkpoint.first_dirty_offset,
            strategy=checkpoint.strategy,
            history=checkpoint.history,
            uncleanable=marks.get(TopicPartition(topic, checkpoint.partition)),
            paused_since_ms=paused.get(TopicPartition(topic, checkpoint.partition)),
            paused_by=paused_by.get(checkpoint.partition, ()),
        )
        for checkpoint in read_checkpoints(session, [topic])
    }


def write_states(session: Session, topic: str, states: Mapping[int, PartitionState], now_ms: int) -> None:
    """Replace the projection of the partitions in ``states``; unchanged ones are not written."""
    known = read_states(session, topic)
    changed = {
        number: state for number, state in sorted(states.items()) if known.get(number) != replace(state, appends=())
    }
    for some in bulk_statements.split_chunks(sorted(changed.keys() & known.keys())):
        # History and marks reference the checkpoint and are deleted with it.
        session.execute(
            delete(tables.Checkpoint).where(tables.Checkpoint.topic == topic, tables.Checkpoint.partition.in_(some))
        )
    _insert(session, topic, changed, now_ms)


def _insert(session: Session, topic: str, states: Mapping[int, PartitionState], now_ms: int) -> None:
    of = {number: {"topic": topic, "partition": number} for number in states}
    rows: dict[type[tables.Base], list[dict[str, Any]]] = {
        tables.Checkpoint: [
            tables.Checkpoint.make_row(state, **of[number], updated_at_ms=now_ms) for number, state in states.items()
        ],
        tables.CleaningTable: [
            tables.CleaningTable.make_row(entry, **of[number])
            for number, state in states.items()
            for entry in state.history
        ],
        tables.UncleanableTable: [
            tables.UncleanableTable.make_row(state.uncleanable, **of[number])
            for number, state in states.items()
            if state.uncleanable is not None
        ],
        tables.Paused: [
            {**of[number], "since_ms": state.paused_since_ms}
            for number, state in states.items()
            if state.paused_since_ms is not None
        ],
        tables.PausedBy: [
            {**of[number], "number": place, "name": name}
            for number, state in states.items()
            for place, name in enumerate(state.paused_by)
        ],
    }
    for table, some in rows.items():
        bulk_statements.insert(session, table, some)


class Projection(StorePart):
    """Written from receipts and states only, a topic at a time, each change in one transaction."""

    def record_publication(
        self,
        receipt: Receipt,
        states: Mapping[int, PartitionState],
        retired: Sequence[RetiredFile],
        now_ms: int,
        *,
        table_uuid: str | None = None,
    ) -> None:
        """Record a publish: the receipt, its checkpoints, the files it retired. Repeating it changes nothing.

        ``table_uuid``: the life of the topic that it was published to; of one that has ended nothing is recorded.

        Raises:
            WinnowError: the receipt has no plan id, so nothing was published.
        """
        with self._database.writing() as session:
            lock_topic_rows(session, receipt.topic)
            if is_former_life(session, receipt.topic, table_uuid):
                return
            _write_receipts(session, [receipt])
            write_states(session, receipt.topic, states, now_ms)
            insert_retired(session, receipt.topic, retired, "data")

    def record_states(
        self, topic: str, states: Mapping[int, PartitionState], now_ms: int, *, table_uuid: str | None = None
    ) -> None:
        """Record checkpoints and marks after a change of state without a receipt. Partitions not in ``states`` stay.

        ``table_uuid``: as :meth:`record_publication`.
        """
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            if not is_former_life(session, topic, table_uuid):
                write_states(session, topic, states, now_ms)

    def replace(
        self,
        topic: str,
        states: Mapping[int, PartitionState],
        receipts: Sequence[Receipt],
        retired: Sequence[RetiredFile],
        now_ms: int,
        *,
        table_uuid: str | None = None,
    ) -> None:
        """Rebuild ``topic``: replace its checkpoints, marks, receipts and pending data files by exactly these.

        Assessments, runs and verdicts are history and stay. So do ledger rows of deleted files, and pending rows of
        other kinds: the state does not name those files, and dropping the row would leave their bytes for ever.

        ``table_uuid``: as :meth:`record_publication`.
        """
        ledger = tables.RetiredFileTable
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            if is_former_life(session, topic, table_uuid):
                return
            _drop(session, topic)
            session.execute(
                delete(ledger).where(ledger.topic == topic, ledger.kind == "data", ledger.deleted_at_ms.is_(None))
            )
            _write_receipts(session, receipts)
            write_states(session, topic, states, now_ms)
            insert_retired(session, topic, retired, "data")

    def forget_topic(self, topic: str, *, table_uuid: str | None = None) -> None:
        """Remove every row of ``topic``, history included, but those of :data:`winnow.store.topic_rows.KEPT`.

        ``table_uuid``: the life that has ended; if another one has begun, all rows are that one's, and stay.
        """
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            if not is_former_life(session, topic, table_uuid):
                remove_rows(session, topic)

    def forget_overview(self, topic: str) -> None:
        """Remove the overview of ``topic``, so that the page shows it no more; its history stays."""
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            for model in (tables.TopicOverviewTable, tables.PartitionOverviewTable, TableHealthTable):
                session.execute(delete(model).where(model.topic == topic))

    def find_receipt(self, plan_id: str) -> Receipt | None:
        """Find the receipt of a published plan."""
        with self._database.reading() as session:
            row = session.get(tables.ReceiptTable, plan_id)
            return None if row is None else load_json(Receipt, row.document.encode())

    def find_published(self, prefix: str) -> dict[str, str]:
        """Find the published plans whose ids begin with ``prefix``, and their topics."""
        table = tables.ReceiptTable
        begins = table.plan_id.startswith(prefix, autoescape=True)
        statement = select(table.plan_id, table.topic).where(begins).limit(2)
        with self._database.reading() as session:
            return {row.plan_id: row.topic for row in session.execute(statement)}

    def list_receipts(self, topic: str | None = None, limit: int | None = None) -> list[Receipt]:
        """List receipts of ``topic`` (None = all), newest first; at most ``limit``."""
        row = tables.ReceiptTable
        statement = select(row).order_by(row.finished_at_ms.desc(), row.plan_id).limit(limit)
        if topic is not None:
            statement = statement.where(row.topic == topic)
        with self._database.reading() as session:
            return [load_json(Receipt, receipt.document.encode()) for receipt in session.scalars(statement)]

    def list_checkpoints(self, topics: Sequence[str] = ()) -> list[CheckpointRow]:
        """List cleaner checkpoints of ``topics`` (none = all), in the order of topic and partition."""
        with self._database.reading() as session:
            return read_checkpoints(session, topics)

    def list_states(self, topic: str) -> dict[int, PartitionState]:
        """List the states of the partitions of ``topic`` as far as they are projected: without appends."""
        with self._database.reading() as session:
            return read_states(session, topic)

    def list_uncleanable(self, topics: Sequence[str] = ()) -> dict[TopicPartition, Uncleanable]:
        """List uncleanable partitions of ``topics`` (none = all)."""
        with self._database.reading() as session:
            return read_marks(session, topics)

    def list_paused_by(self, topic: str) -> dict[int, tuple[str, ...]]:
        """List under which names the partitions of ``topic`` are paused, in the order of pausing."""
        with self._database.reading() as session:
            return read_paused_by(session, topic)

    def list_paused(self, topics: Sequence[str] = ()) -> dict[TopicPartition, int]:
        """List paused partitions of ``topics`` (none = all), and since when (ms)."""
        with self._database.reading() as session:
            return read_paused(session, topics)


def _drop(session: Session, topic: str) -> None:
    for model in (tables.Checkpoint, tables.ReceiptTable, ReceiptFiguresTable):
        session.execute(delete(model).where(model.topic == topic))


def _write_receipts(session: Session, receipts: Sequence[Receipt]) -> None:
    for receipt in receipts:
        if receipt.plan_id is None:
            raise WinnowError(
                f"A receipt of topic {receipt.topic} has no plan id, so nothing was published and no checkpoint moves.",
                left="The metadata store is as before.",
            )
    bulk_statements.upsert(
        session,
        tables.ReceiptTable,
        [tables.ReceiptTable.make_row(receipt, document=dump_json(receipt).decode()) for receipt in receipts],
    )
    bulk_statements.upsert(
        session, ReceiptFiguresTable, [ReceiptFiguresTable.make_row(sum_receipt(receipt)) for receipt in receipts]
    )
