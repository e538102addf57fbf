"""Samples of topics over time: the last overview of each hour, later of each day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Double, case, cast, func, or_, select
from sqlalchemy.orm import Session

from winnow.clock import DAY_MS, HOUR_MS
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.row_values import list_fields, read_value
from winnow.store.rows import TopicOverview

ALL_TOPICS: Final = ""
"""The name under which the samples of all topics together are kept."""

MAXIMUM_TOTAL_AGE_MS: Final = 60_000
"""How old the newest sample of all topics together may be before a writer of overviews renews it."""

HOURLY_MS: Final = 14 * DAY_MS
"""How long samples stay hourly; of older ones the last of each day stays."""

MAXIMUM_BIGINT: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Sample:
    """How large and how dirty a topic was in one hour, of older ones in one day.

    ``topic`` empty: all topics together. ``at_ms``: when the hour begins. ``recorded_at_ms``: of the last
    overview in it. ``end_offsets``: the sum of the log ends.
    """

    topic: str
    at_ms: int
    recorded_at_ms: int
    topics: int
    partitions: int
    records: int
    files: int
    size_bytes: int
    clean_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    reclaimable_bytes: int | None
    retired_bytes: int
    end_offsets: int
    deadline_ms: int | None


class SampleTable(tables.Base, of=Sample, key=["topic", "at_ms"]):
    """One row per topic and hour, later per day."""

    __tablename__ = "winnow_sample"


_SUMMED: Final = ("records", "size_bytes", "clean_bytes", "cleanable_bytes", "retired_bytes", "end_offsets")


def write_samples(session: Session, pictures: Sequence[TopicOverview], now_ms: int) -> None:
    """Write the samples of topics with new overviews, and, at most once a minute, that of all topics together."""
    rows = [
        SampleTable.make_row(picture, at_ms=picture.recorded_at_ms // HOUR_MS * HOUR_MS, topics=1)
        for picture in pictures
    ]
    bulk_statements.upsert(session, SampleTable, rows)
    write_total(session, now_ms)


def write_total(session: Session, now_ms: int) -> None:
    """Write the sample of all topics together, unless that was done within the last minute.

    It is the last row that a transaction locks, so writers of different topics cannot block one another mutually.
    """
    at_ms = now_ms // HOUR_MS * HOUR_MS
    known = session.get(SampleTable, (ALL_TOPICS, at_ms))
    if known is not None and 0 <= now_ms - known.recorded_at_ms < MAXIMUM_TOTAL_AGE_MS:
        return
    total = sum_overviews(session)
    if total["topics"]:
        ratio = total["cleanable_bytes"] / max(1, total["clean_bytes"] + total["cleanable_bytes"])
        row = {**total, "topic": ALL_TOPICS, "at_ms": at_ms, "recorded_at_ms": now_ms, "dirty_ratio": ratio}
        bulk_statements.upsert(session, SampleTable, [row])


def sum_overviews(session: Session) -> dict[str, Any]:
    """Sum up the overviews of all topics. ``reclaimable_bytes``: of the topics of which it is known."""
    topic = tables.TopicOverviewTable
    counted: dict[str, ColumnElement[Any]] = {
        "topics": func.count(),
        "partitions": _sum(topic.partitions),
        "files": _sum(topic.files),
        **{name: _sum(getattr(topic, name)) for name in _SUMMED},
        "reclaimable_bytes": cast(func.sum(topic.reclaimable_bytes), BigInteger),
        "deadline_ms": func.min(topic.deadline_ms),
    }
    sums = session.execute(select(*(column.label(name) for name, column in counted.items()))).mappings().one()
    return dict(sums)


def _sum(column: Any) -> ColumnElement[int]:
    # Offsets have 64 bits each, so a sum in integers could overflow.
    total = func.coalesce(func.sum(cast(column, Double)), 0.0)
    largest = float(2**63 - 1024)
    return cast(case((total > largest, largest), else_=total), BigInteger)


class Samples(StorePart):
    """One row per topic and hour in which its overview was recorded; the topic ``""`` is all of them together."""

    def list_samples(self, topic: str, since_ms: int) -> list[Sample]:
        """List the samples of ``topic`` since ``since_ms``, oldest first, and the last one before."""
        row = SampleTable
        first = select(func.max(row.at_ms)).where(row.topic == topic, row.at_ms <= since_ms).scalar_subquery()
        later = or_(row.at_ms > since_ms, row.at_ms == first)
        statement = (
            select(*(getattr(row, name) for name in list_fields(Sample)))
            .where(row.topic == topic, later)
            .order_by(row.at_ms)
        )
        with self._database.reading() as session:
            return [read_value(Sample, sample) for sample in session.execute(statement).mappings()]

    def record(self, samples: Sequence[Sample]) -> None:
        """Record ``samples`` as they are; of one topic and hour the last one counts."""
        with self._database.writing() as session:
            bulk_statements.upsert(session, SampleTable, [SampleTable.make_row(sample) for sample in samples])
