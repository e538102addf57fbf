"""The health of topics' tables: files by size, manifests, snapshots, retired bytes, and what the last sweep left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import read_value
from winnow.store.topic_rows import is_former_life


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The files of one size class. ``below_bytes``: larger files are of the next class; None: of the last one."""

    below_bytes: int | None
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TableHealth:
    """The files of a topic's table.

    ``manifests`` None: nothing counted them. ``metadata_files``: earlier metadata files that the table still names.
    ``condemned``: retired files that a sweep has begun to delete.
    """

    topic: str
    recorded_at_ms: int
    segment_bytes: int
    files: int
    size_bytes: int
    small_files: int
    small_bytes: int
    largest_bytes: int
    file_sizes: tuple[SizeClass, ...]
    manifests: int | None
    snapshots: int
    oldest_snapshot_ms: int | None
    metadata_files: int
    retired_files: int
    retired_bytes: int
    oldest_retired_ms: int | None
    condemned_files: int
    condemned_bytes: int


@dataclass(frozen=True, slots=True)
class TopicSweep:
    """The last sweep of a topic.

    ``orphaned``: files of dead runs and ingests that it may not delete yet. ``unnamed``: files and links that no record
    names, which no sweep will delete.
    """

    topic: str
    swept_at_ms: int
    files_deleted: int
    bytes_deleted: int
    snapshots_expired: int
    orphaned_files: int
    orphaned_bytes: int
    unnamed_files: int = 0


class TableHealthTable(tables.Base, of=TableHealth, key=["topic"]):
    """One row per topic, written with its overview. ``file_sizes``: files and bytes by size class, as JSON."""

    __tablename__ = "winnow_table_health"


class TopicSweepTable(tables.Base, of=TopicSweep, key=["topic"], filled=["unnamed_files"]):
    """The last sweep of a topic: what it deleted, and the leftovers of dead runs and ingests that it had to leave."""

    __tablename__ = "winnow_topic_sweep"


def write_table_health(session: Session, healths: Sequence[TableHealth]) -> None:
    """Replace the health of tables; the number of manifests stays where nobody counted them now."""
    rows = [_make_row(health) for health in healths]
    counted = [row for row in rows if row["manifests"] is not None]
    others = [{name: row[name] for name in row if name != "manifests"} for row in rows if row["manifests"] is None]
    bulk_statements.upsert(session, TableHealthTable, counted)
    bulk_statements.upsert(session, TableHealthTable, others)


def _make_row(health: TableHealth) -> dict[str, Any]:
    classes = [[size_class.below_bytes, size_class.files, size_class.size_bytes] for size_class in health.file_sizes]
    return TableHealthTable.make_row(health, file_sizes=json.dumps(classes))


class TablesHealth(StorePart):
    """One row per topic, written with its overview; and one per topic of its last sweep."""

    def find(self, topic: str) -> TableHealth | None:
        """Find the health of the table of ``topic``; None if no overview was recorded yet."""
        with self._database.reading() as session:
            row = session.get(TableHealthTable, topic)
            if row is None:
                return None
            classes = tuple(SizeClass(*size_class) for size_class in json.loads(row.file_sizes))
            return read_value(TableHealth, row, file_sizes=classes)

    def find_sweep(self, topic: str) -> TopicSweep | None:
        """Find the last sweep of ``topic``; None if there was none."""
        with self._database.reading() as session:
            row = session.get(TopicSweepTable, topic)
            return None if row is None else read_value(TopicSweep, row)

    def list_unnamed(self) -> dict[str, int]:
        """List by topic how many files and links that nothing names its last sweep came across, where it did."""
        row = TopicSweepTable
        with self._database.reading() as session:
            sweeps = session.execute(
                select(row.topic, row.unnamed_files).where(row.unnamed_files > 0).order_by(row.topic)
            )
            return {sweep.topic: sweep.unnamed_files for sweep in sweeps}

    def record_sweep(self, sweep: TopicSweep, *, table_uuid: str | None = None) -> None:
        """Replace the last sweep of a topic."""
        with self._database.writing() as session:
            lock_topic_rows(session, sweep.topic)
            if not is_former_life(session, sweep.topic, table_uuid):
                bulk_statements.upsert(session, TopicSweepTable, [TopicSweepTable.make_row(sweep)])
