"""What became of the Kafka topics that logs follow: which are gone, and which logs do not follow theirs.

A projection: the brokers say whether a topic is there, and the log's own configuration whether it is followed. Rows
spare a call that follows a thousand topics to open those logs again, and tell page and commands without a broker.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import delete, select

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
