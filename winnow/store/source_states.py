"""What became of the Kafka topics that logs follow: which are gone, not followed any more, or diverge from their logs.

A projection: the brokers say whether a topic is there, and the log's own configuration whether it is followed. Rows
spare a call that follows a thousand topics to open those logs again, and tell page and commands without a broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import BigInteger, Integer, Text, delete, select
from sqlalchemy.orm import mapped_column

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.row_values import read_value


class SourceKind(StrEnum):
    """What became of the topic at Kafka. A topic that is there and followed has no row.

    ``GONE``: it was ingested from the brokers, which say that they do not have it. ``UNFOLLOWED``: the log does not
    follow it. ``ABSENT``: the brokers do not have it, and the log never was its copy.
    """

    GONE = "gone"
    UNFOLLOWED = "unfollowed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class SourceState:
    """What became of the Kafka topic of a log.

    Args:
        topic: Winnow's topic.
        kind: what became of its Kafka topic; the value of a :class:`SourceKind`.
        since_ms: when that was seen first, in ms since the epoch.
        metadata_location: the head of the log at which it was seen last: the table's metadata file.
    """

    topic: str
    kind: SourceKind
    since_ms: int
    metadata_location: str


class SourceStateTable(tables.Base, of=SourceState, key=["topic"]):
    """One row per topic whose Kafka topic is not simply there."""

    __tablename__ = "winnow_source_state"


class SourceStates(StorePart):
    """One row per topic whose Kafka topic is gone or not followed."""

    def record(self, states: Sequence[SourceState]) -> None:
        """Replace what is known of the topics of ``states``."""
        with self._database.writing() as session:
            bulk_statements.upsert(session, SourceStateTable, [SourceStateTable.make_row(state) for state in states])

    def forget(self, topics: Collection[str]) -> None:
        """Record that the Kafka topics of ``topics`` are there, and followed."""
        row = SourceStateTable
        with self._database.writing() as session:
            for some in bulk_statements.split_chunks(sorted(topics)):
                session.execute(delete(row).where(row.topic.in_(some)))

    def find(self, topic: str) -> SourceState | None:
        """Find what became of the Kafka topic of ``topic``; None: as far as is known it is there, and followed."""
        with self._database.reading() as session:
            row = session.get(SourceStateTable, topic)
            return None if row is None else read_value(SourceState, row)

    def list_all(self) -> dict[str, SourceState]:
        """List every topic whose Kafka topic is gone or not followed, by topic."""
        with self._database.reading() as session:
            return {row.topic: read_value(SourceState, row) for row in session.scalars(select(SourceStateTable))}


class DivergenceTable(tables.Base, key=tables.PARTITION):
    """A partition of which the brokers were found to have other records than its log, from one of their offsets on."""

    __tablename__ = "winnow_divergence"

    topic = mapped_column(Text, nullable=False)
    partition = mapped_column(Integer, nullable=False, autoincrement=False)
    first_offset = mapped_column(BigInteger, nullable=False)


class Divergences(StorePart):
    """One row per partition of which the brokers were found to have other records, until a call succeeds.

    A guess, where the next call begins to search: whoever reads a row compares the records around its offset before
    anything is said of it.
    """

    def record(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Replace what is known of ``topic``: per partition, the offset at the brokers from which on nothing agrees."""
        row = DivergenceTable
        rows = [
            {"topic": topic, "partition": number, "first_offset": place} for number, place in sorted(offsets.items())
        ]
        with self._database.writing() as session:
            session.execute(delete(row).where(row.topic == topic, row.partition.not_in(sorted(offsets))))
            bulk_statements.upsert(session, row, rows)

    def find(self, topic: str) -> dict[int, int]:
        """Find the offsets that are known of ``topic``, by partition."""
        row = DivergenceTable
        with self._database.reading() as session:
            rows = session.scalars(select(row).where(row.topic == topic))
            return {divergence.partition: divergence.first_offset for divergence in rows}

    def list_topics(self) -> set[str]:
        """List the topics of which a divergence is known."""
        with self._database.reading() as session:
            return set(session.scalars(select(DivergenceTable.topic).distinct()))

    def forget(self, topics: Collection[str]) -> None:
        """Forget what is known of ``topics``."""
        row = DivergenceTable
        with self._database.writing() as session:
            for some in bulk_statements.split_chunks(sorted(topics)):
                session.execute(delete(row).where(row.topic.in_(some)))
