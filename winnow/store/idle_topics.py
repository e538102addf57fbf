"""Topics that a check found idle, so that later checks need not look at them again.

A row holds for good: at that head, under those rules, nothing of the topic is due from one instant until another. It is
of no use any more once the head is another one, and is replaced by the next check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.row_values import read_value
from winnow.store.samples import write_total


@dataclass(frozen=True, slots=True)
class IdleTopic:
    """A topic of which nothing is due at one head of its log.

    Args:
        topic: its name.
        metadata_location: the head: the table's metadata file, which no other commit names.
        rules_digest: of everything but the log that decides: the installation's defaults and Winnow's version.
        from_ms: the earlier of as-of and present of the look.
        until_ms: the first instant at which the clock alone may change the answer; None: never.
        reasons: the number of partitions per reason, as JSON.
    """

    topic: str
    metadata_location: str
    rules_digest: str
    from_ms: int
    until_ms: int | None
    reasons: str

    def covers(self, earliest_ms: int, latest_ms: int) -> bool:
        """Check whether the answer holds for every as-of and present between these instants."""
        return self.from_ms <= earliest_ms and (self.until_ms is None or latest_ms < self.until_ms)


class IdleTopicTable(tables.Base, of=IdleTopic, key=["topic"]):
    """One row per topic that was idle when it was checked last."""

    __tablename__ = "winnow_idle_topic"


def write_idle_topics(session: Session, topics: Sequence[IdleTopic]) -> None:
    """Replace what is known of ``topics``."""
    bulk_statements.upsert(session, IdleTopicTable, [IdleTopicTable.make_row(topic) for topic in topics])


class IdleTopics(StorePart):
    """One row per topic that was idle when it was checked last."""

    def find_many(self, topics: Sequence[str]) -> dict[str, IdleTopic]:
        """Find what is known of ``topics``, with one query for some hundred of them."""
        row, idle = IdleTopicTable, dict[str, IdleTopic]()
        with self._database.reading() as session:
            for some in bulk_statements.split_chunks(topics):
                for topic in session.scalars(select(row).where(row.topic.in_(some))):
                    idle[topic.topic] = read_value(IdleTopic, topic)
        return idle

    def confirm(self, topics: Sequence[str], at_ms: int) -> None:
        """Record that the overviews of ``topics`` were found to hold still at ``at_ms``."""
        overview = tables.TopicOverviewTable
        with self._database.writing() as session:
            for some in bulk_statements.split_chunks(topics):
                older = select(overview.topic).where(overview.topic.in_(some), overview.recorded_at_ms < at_ms)
                # What another transaction writes at this moment is newer; waiting for it could end in a deadlock.
                free = list(session.scalars(older.with_for_update(skip_locked=True)))
                session.execute(
                    update(overview).where(overview.topic.in_(free)).values(recorded_at_ms=at_ms, as_of_ms=at_ms)
                )
            if topics:
                write_total(session, at_ms)
