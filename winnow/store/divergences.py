"""Where partitions were found to diverge from their Kafka topics, so that the next call begins to search there.

A guess: whoever reads a row compares the records around its offset before anything is said of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import BigInteger, Integer, Text, delete, select
from sqlalchemy.orm import mapped_column

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart


class DivergenceTable(tables.Base, key=tables.PARTITION):
    """A partition of which the brokers were found to have other records than its log, from one of their offsets on."""

    __tablename__ = "winnow_divergence"

    topic = mapped_column(Text, nullable=False)
    partition = mapped_column(Integer, nullable=False, autoincrement=False)
    first_offset = mapped_column(BigInteger, nullable=False)


class Divergences(StorePart):
    """One row per partition of which the brokers were found to have other records, until a call succeeds."""

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
