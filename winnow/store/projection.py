"""The projection of table and state: receipts, checkpoints, marks. What is here can be rebuilt from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from winnow.documents import dump_json, load_json
from winnow.errors import WinnowError
from winnow.model import PartitionState, Receipt, RetiredFile, TopicPartition, Uncleanable
from winnow.store import bulk, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.retired import insert_retired
from winnow.store.states import read_checkpoints, read_marks, read_paused, read_paused_by, write_states
from winnow.store.values import CheckpointRow


class Projection(StorePart):
    """Written from receipts and states only, a topic at a time, each change in one transaction."""

    def record_publication(
        self,
        receipt: Receipt,
        states: Mapping[int, PartitionState],
        retired: Sequence[RetiredFile],
        now_ms: int,
    ) -> None:
        """Step 6: the receipt, the checkpoints that follow from it, the files it retired. Repeating changes nothing.

        Raises:
            WinnowError: the receipt has no plan id, so nothing was published.
        """
        with self._database.writing() as session:
            lock_topic_rows(session, receipt.topic)
            _write_receipts(session, [receipt])
            write_states(session, receipt.topic, states, now_ms)
            insert_retired(session, receipt.topic, retired, "data")

    def record_states(self, topic: str, states: Mapping[int, PartitionState], now_ms: int) -> None:
        """Checkpoints and marks after a change of state without a receipt. Partitions not in ``states`` stay."""
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            write_states(session, topic, states, now_ms)

    def replace(
        self,
        topic: str,
        states: Mapping[int, PartitionState],
        receipts: Sequence[Receipt],
        retired: Sequence[RetiredFile],
        now_ms: int,
    ) -> None:
        """Rebuild: checkpoints, marks, receipts and pending data files of ``topic`` become exactly these.

        Assessments, runs and verdicts are history and stay. So do ledger rows of deleted files, and pending rows of
        other kinds: the state does not name those files, and dropping the row would leave their bytes for ever.
        """
        ledger = tables.RetiredFileTable
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            _drop(session, topic)
            session.execute(
                delete(ledger).where(ledger.topic == topic, ledger.kind == "data", ledger.deleted_at_ms.is_(None))
            )
            _write_receipts(session, receipts)
            write_states(session, topic, states, now_ms)
            insert_retired(session, topic, retired, "data")

    def forget_topic(self, topic: str) -> None:
        """Remove every row of ``topic``, history included. Its lease stays, so that fencing tokens go on rising."""
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            _drop(session, topic)
            for model in (
                *(tables.RetiredFileTable, tables.AssessmentTable, tables.RunTable, tables.Ingest, tables.VerdictTable),
                *(tables.TopicOverviewTable, tables.PartitionOverviewTable, tables.AlertTable),
            ):
                session.execute(delete(model).where(model.topic == topic))

    def find_receipt(self, plan_id: str) -> Receipt | None:
        """The receipt of a published plan."""
        with self._database.reading() as session:
            row = session.get(tables.ReceiptTable, plan_id)
            return None if row is None else load_json(Receipt, row.document.encode())

    def list_receipts(self, topic: str | None = None, limit: int | None = None) -> list[Receipt]:
        """Receipts of ``topic`` (None = all), newest first; at most ``limit``."""
        row = tables.ReceiptTable
        statement = select(row).order_by(row.finished_at_ms.desc(), row.plan_id).limit(limit)
        if topic is not None:
            statement = statement.where(row.topic == topic)
        with self._database.reading() as session:
            return [load_json(Receipt, found.document.encode()) for found in session.scalars(statement)]

    def list_checkpoints(self, topics: Sequence[str] = ()) -> list[CheckpointRow]:
        """Cleaner checkpoints of ``topics`` (none = all), in the order of topic and partition."""
        with self._database.reading() as session:
            return read_checkpoints(session, topics)

    def list_uncleanable(self, topics: Sequence[str] = ()) -> dict[TopicPartition, Uncleanable]:
        """Uncleanable partitions of ``topics`` (none = all)."""
        with self._database.reading() as session:
            return read_marks(session, topics)

    def list_paused_by(self, topic: str) -> dict[int, tuple[str, ...]]:
        """Who paused the partitions of ``topic``, in the order in which they did."""
        with self._database.reading() as session:
            return read_paused_by(session, topic)

    def list_paused(self, topics: Sequence[str] = ()) -> dict[TopicPartition, int]:
        """Paused partitions of ``topics`` (none = all), and since when (ms)."""
        with self._database.reading() as session:
            return read_paused(session, topics)


def _drop(session: Session, topic: str) -> None:
    for model in (tables.Checkpoint, tables.ReceiptTable):
        session.execute(delete(model).where(model.topic == topic))


def _write_receipts(session: Session, receipts: Sequence[Receipt]) -> None:
    for receipt in receipts:
        if receipt.plan_id is None:
            raise WinnowError(
                f"A receipt of topic {receipt.topic} has no plan id, so nothing was published and no checkpoint moves. "
                "The metadata store is as before."
            )
    bulk.upsert(
        session,
        tables.ReceiptTable,
        [
            {
                "plan_id": receipt.plan_id,
                "topic": receipt.topic,
                "status": receipt.status.value,
                "snapshot_id": receipt.snapshot_id,
                "finished_at_ms": receipt.finished_at_ms,
                "document": dump_json(receipt).decode(),
            }
            for receipt in receipts
        ],
    )
