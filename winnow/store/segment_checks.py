"""Records when each file was last read in full, and the damage found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import Index, delete, func, select

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import read_value
from winnow.store.topic_rows import is_former_life


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The last check of one file. ``finding`` and ``text`` None: no damage.

    ``kind``: ``segment``, ``quarantine`` or ``document``. ``partition`` None: the file belongs to no single partition.
    ``since_ms``: time of the first check with this finding.
    """

    topic: str
    path: str
    kind: str
    partition: int | None
    size_bytes: int
    checked_at_ms: int
    finding: str | None = None
    text: str | None = None
    since_ms: int | None = None


class SegmentCheck(tables.Base, of=FileCheck, key=["topic", "path"]):
    """When a file of a topic was last read in full and checked; files that left the topic have no row."""

    __tablename__ = "winnow_segment_check"
    __table_args__ = (Index(None, "checked_at_ms"),)


@dataclass(frozen=True, slots=True)
class TopicChecks:
    """The checks of one topic, with the times of the newest and the oldest one."""

    files: int
    last_checked_ms: int
    oldest_checked_ms: int
    findings: int


class SegmentChecks(StorePart):
    """One row per topic and file. An interrupted scrub continues with the file whose check is oldest."""

    def list_checks(self, topic: str) -> dict[str, FileCheck]:
        """List the last check of each file of ``topic``, by path."""
        row = SegmentCheck
        with self._database.reading() as session:
            rows = session.scalars(select(row).where(row.topic == topic))
            return {check.path: read_value(FileCheck, check) for check in rows}

    def list_damaged(self, topic: str, partition: int | None) -> list[str]:
        """List the paths of the segments of a partition (None: of ``topic``) in which the last check found damage."""
        row = SegmentCheck
        statement = select(row.path).where(row.topic == topic, row.kind == "segment", row.finding.is_not(None))
        if partition is not None:
            statement = statement.where(row.partition == partition)
        with self._database.reading() as session:
            return list(session.scalars(statement.order_by(row.path)))

    def summarize(self, topic: str) -> TopicChecks | None:
        """Summarize the checks of ``topic``; None if nothing of it was ever checked."""
        row = SegmentCheck
        figures = select(
            func.count(), func.max(row.checked_at_ms), func.min(row.checked_at_ms), func.count(row.finding)
        ).where(row.topic == topic)
        with self._database.reading() as session:
            files, last_ms, oldest_ms, findings = session.execute(figures).one()
        return TopicChecks(files, last_ms, oldest_ms, findings) if files else None

    def record(self, checks: Sequence[FileCheck], lives: Mapping[str, str] = MappingProxyType({})) -> None:
        """Record ``checks``; a file has one row, the latest.

        ``lives``: per topic the life that was checked; of one that has ended nothing is recorded.
        """
        rows = [SegmentCheck.make_row(check) for check in checks]
        if rows:
            with self._database.writing() as session:
                topics = sorted({check.topic for check in checks})
                for topic in topics:
                    lock_topic_rows(session, topic)
                former = {topic for topic in topics if is_former_life(session, topic, lives.get(topic))}
                bulk_statements.upsert(session, SegmentCheck, [r for r in rows if r["topic"] not in former])

    def forget(self, topic: str, paths: Collection[str]) -> None:
        """Remove files that left the topic."""
        row = SegmentCheck
        if paths:
            with self._database.writing() as session:
                for some in bulk_statements.split_chunks(sorted(paths)):
                    bulk_statements.execute_change(session, delete(row).where(row.topic == topic, row.path.in_(some)))

    def list_sizes_since(self, after_ms: int) -> list[tuple[int, int]]:
        """List when files of any topic were checked after ``after_ms`` and their bytes, oldest first."""
        row = SegmentCheck
        statement = (
            select(row.checked_at_ms, func.sum(row.size_bytes))
            .where(row.checked_at_ms > after_ms)
            .group_by(row.checked_at_ms)
            .order_by(row.checked_at_ms)
        )
        with self._database.reading() as session:
            return [(int(at_ms), int(size_bytes)) for at_ms, size_bytes in session.execute(statement)]
