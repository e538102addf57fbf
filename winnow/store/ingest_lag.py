"""How far logs are behind the Kafka topics that they follow, as the last look at the brokers found it.

Whoever shows a lag reads it here and asks no broker: a row says when the brokers were asked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Index, func, select, update
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.row_values import read_value


@dataclass(frozen=True, slots=True)
class IngestLag:
    """The lag of one topic partition at one look.

    Args:
        topic: Winnow's topic.
        partition: its partition.
        looked_at_ms: when the brokers were asked.
        records_behind: offsets from the end of the log to the brokers' last stable offset, after what the call
            ingested: Kafka's measure of a consumer's lag, which counts markers and aborted records too.
        complete_until_ms: the time up to which the log has everything: that of the look if nothing was missing, else
            the timestamp of the first record that is missing, be it committed or of an open transaction.
        deadline_ms: when a record that is missing must have been ingested and compacted at the earliest:
            ``complete_until_ms`` and max.compaction.lag.ms of that time; None without one.
        records_uncommitted: offsets from the brokers' last stable offset to their high watermark: records of open
            transactions and whatever follows them, which no reader of committed records gets yet.
        open_since_ms: the timestamp of the first of them, with which the oldest open transaction began in this
            partition; None if there is none, or the look did not learn it.
    """

    topic: str
    partition: int
    looked_at_ms: int
    records_behind: int
    complete_until_ms: int
    deadline_ms: int | None
    records_uncommitted: int = 0
    open_since_ms: int | None = None

    @property
    def is_missing(self) -> bool:
        """Whether records were missing at the look, be they committed or not."""
        return self.records_behind > 0 or self.records_uncommitted > 0


class IngestLagTable(tables.Base, of=IngestLag, key=tables.PARTITION, filled=["records_uncommitted"]):
    """One row per topic partition that was ingested from brokers."""

    __tablename__ = "winnow_ingest_lag"
    __table_args__ = (Index(None, "deadline_ms"),)


@dataclass(frozen=True, slots=True)
class CompleteTopic:
    """A log that had everything of its Kafka topic.

    A row holds for good: at that head of the log, with the topic as the brokers described it, nothing is missing.

    Args:
        topic: Winnow's topic.
        metadata_location: the head: the table's metadata file, which no other commit names.
        brokers_digest: of what the brokers said: topic id, partitions and offsets.
    """

    topic: str
    metadata_location: str
    brokers_digest: str


class CompleteTopicTable(tables.Base, of=CompleteTopic, key=["topic"]):
    """One row per topic that had everything when the brokers were asked last."""

    __tablename__ = "winnow_complete_topic"


@dataclass(frozen=True, slots=True)
class TopicLag:
    """The lag of a topic: the sum of its partitions' records, the earliest of their times."""

    partitions: int
    looked_at_ms: int
    records_behind: int
    complete_until_ms: int
    deadline_ms: int | None
    records_uncommitted: int = 0
    open_since_ms: int | None = None


class IngestLags(StorePart):
    """One row per topic partition that was ingested from brokers; none for those of files alone."""

    def record(self, rows: Sequence[IngestLag]) -> None:
        """Replace what is known of the topics in ``rows``, which have a row for each partition.

        An older look never replaces a newer one.
        """
        with self._database.writing() as session:
            bulk_statements.upsert(
                session,
                IngestLagTable,
                [IngestLagTable.make_row(row) for row in rows],
                when=lambda new: IngestLagTable.looked_at_ms <= new.looked_at_ms,
            )

    def find(self, topic: str) -> dict[int, IngestLag]:
        """Find the lag of every partition of ``topic``, by partition; empty if it was not ingested from brokers."""
        row = IngestLagTable
        with self._database.reading() as session:
            return {
                lag.partition: read_value(IngestLag, lag)
                for lag in session.scalars(select(row).where(row.topic == topic))
            }

    def find_many(self, topics: Sequence[str]) -> dict[tuple[str, int], IngestLag]:
        """Find the lag of every partition of ``topics``, with one query for some hundred of them."""
        row, lags = IngestLagTable, dict[tuple[str, int], IngestLag]()
        with self._database.reading() as session:
            for some in bulk_statements.split_chunks(topics):
                for lag in session.scalars(select(row).where(row.topic.in_(some))):
                    lags[lag.topic, lag.partition] = read_value(IngestLag, lag)
        return lags

    def summarize(self, topic: str) -> TopicLag | None:
        """Summarize the lag of ``topic``; None if it was not ingested from brokers."""
        row = IngestLagTable
        statement = select(
            func.count(),
            func.min(row.looked_at_ms),
            func.coalesce(func.sum(row.records_behind), 0),
            func.min(row.complete_until_ms),
            func.min(row.deadline_ms),
            func.coalesce(func.sum(row.records_uncommitted), 0),
            func.min(row.open_since_ms),
        ).where(row.topic == topic)
        with self._database.reading() as session:
            partitions, looked_at_ms, behind, until_ms, deadline_ms, held, since_ms = session.execute(statement).one()
        if not partitions:
            return None
        return TopicLag(partitions, looked_at_ms, int(behind), until_ms, deadline_ms, int(held), since_ms)

    def list_topics_due_by(self, ms: int) -> dict[str, bool]:
        """List the topics of which a record that is missing may have its deadline at or before ``ms``.

        The value says whether records were missing at the last look; else they can only have come since.
        """
        row = IngestLagTable
        missing = func.max(row.records_behind + row.records_uncommitted)
        statement = select(row.topic, missing).where(row.deadline_ms <= ms).group_by(row.topic).order_by(row.topic)
        with self._database.reading() as session:
            return {topic: records > 0 for topic, records in session.execute(statement)}

    def record_complete(self, topics: Sequence[CompleteTopic]) -> None:
        """Replace what is known of ``topics``."""
        with self._database.writing() as session:
            bulk_statements.upsert(
                session, CompleteTopicTable, [CompleteTopicTable.make_row(topic) for topic in topics]
            )

    def find_complete(self, topics: Sequence[str]) -> dict[str, CompleteTopic]:
        """Find at which heads and offsets ``topics`` were complete, with one query for some hundred of them."""
        row, complete = CompleteTopicTable, dict[str, CompleteTopic]()
        with self._database.reading() as session:
            for some in bulk_statements.split_chunks(topics):
                for topic in session.scalars(select(row).where(row.topic.in_(some))):
                    complete[topic.topic] = read_value(CompleteTopic, topic)
        return complete

    def confirm_complete(self, topics: Collection[str], looked_at_ms: int) -> None:
        """Record that nothing of ``topics`` was missing at ``looked_at_ms``, for those that have rows already."""
        with self._database.writing() as session:
            for some in bulk_statements.split_chunks(sorted(topics)):
                _confirm(session, some, looked_at_ms)


def _confirm(session: Session, topics: Sequence[str], looked_at_ms: int) -> None:
    row = IngestLagTable
    session.execute(
        update(row)
        .where(row.topic.in_(topics), row.looked_at_ms <= looked_at_ms)
        .values(
            looked_at_ms=looked_at_ms,
            records_behind=0,
            deadline_ms=row.deadline_ms + (looked_at_ms - row.complete_until_ms),
            complete_until_ms=looked_at_ms,
            records_uncommitted=0,
            open_since_ms=None,
        )
    )
