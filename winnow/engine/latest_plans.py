"""What an update of the side table of the latest state is to do, and what it did, as documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from winnow.engine.key_changes import LogExtent
from winnow.engine.latest_rows import find_root
from winnow.engine.strategy_diff import RecordOrder
from winnow.files import storage
from winnow.values.model import PartitionPlan, Segment
from winnow.values.row_shape import TypedRows

LATEST_JOB: Final = "latest"
"""The program, below jobs/, that carries out updates; its tasks' lists of offsets lie beside its plans."""


@dataclass(frozen=True, slots=True)
class PartitionUpdate:
    """What changes in one partition of the side table: files in and out, and the rows of keys that changed."""

    added: tuple[Segment, ...] = ()
    removed: tuple[Segment, ...] = ()
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


@dataclass(frozen=True, slots=True)
class PartitionUpdatePlan:
    """What one partition of the table is to show: the latest state of ``log``.

    ``rows``: the table's files. ``before``: what of the log they show; None: all rows are written anew.
    """

    log: PartitionPlan
    rows: tuple[Segment, ...] = ()
    before: LogExtent | None = None

    @property
    def partition(self) -> int:
        """The partition."""
        return self.log.partition

    @property
    def after(self) -> LogExtent:
        """What of the log the rows are to show."""
        return LogExtent(self.log.segments, self.log.log_start_offset, self.log.log_end_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments whose records may be new to the table."""
        known = set() if self.before is None else {segment.path for segment in self.before.list_readable()}
        return sum(segment.size_bytes for segment in self.after.list_readable() if segment.path not in known)


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """An update for tasks. New files go below ``folder``.

    ``order``: of winners. ``typed``: how rows are made; None: they are the records. ``learns``: no file is written, and
    what comes back are the types of rows. ``max_undecoded_ratio``: the share of rows that may be undecoded.
    """

    plan_id: str
    topic: str
    folder: str
    order: RecordOrder
    parts: tuple[PartitionUpdatePlan, ...]
    typed: TypedRows | None = None
    learns: bool = False
    max_undecoded_ratio: float = 0.0
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class PartitionUpdateResult:
    """What a task did for one partition.

    ``update``: None if nothing was written, because rows need other columns; then ``types`` are theirs, encoded.
    ``facts``: what the judge found of the rows that readers would see.
    """

    partition: int
    update: PartitionUpdate | None = None
    rows_not_decoded: int = 0
    facts: dict[str, int | str] | None = None
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What one application did."""

    plan_id: str
    parts: tuple[PartitionUpdateResult, ...]
    format_version: int = 1


def remove_written(folder: str, results: Iterable[PartitionUpdateResult]) -> None:
    """Remove the files that tasks wrote below ``folder``, if nothing is to come of them."""
    updates = [result.update for result in results if result.update is not None]
    storage.delete_unreferenced(
        (segment.path for update in updates for segment in update.added), below=find_root(folder)
    )
