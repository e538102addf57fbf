"""What a restore is asked to do, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from winnow.pipeline.restore.offset_translation import GroupFile
from winnow.pipeline.restore.source_log import RestoreBound


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What to restore, and how. ``snapshot_id`` None: the newest, or the one that a resumed restore began with.

    ``shares``: how many processes write, at most one a partition; None: one, or what a resumed restore began with.
    """

    topic: str
    target_topic: str
    offsets_file: Path = Path("offsets.parquet")
    bound: RestoreBound = field(default_factory=RestoreBound)
    snapshot_id: int | None = None
    groups: GroupFile | None = None
    bytes_per_second: float | None = None
    replication_factor: int | None = None
    drops_timestamps: bool = False
    shares: int | None = None


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """One partition of a finished restore. Ends are exclusive; ``records_written``: by this call."""

    partition: int
    end_offset: int
    target_start: int
    target_end: int
    records: int
    records_written: int
    tombstones: int


@dataclass(frozen=True, slots=True)
class TranslatedGroup:
    """Offsets that were committed for a consumer group in the target, by partition."""

    group: str
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did. ``was_complete``: it had been finished before, and nothing was done now."""

    topic: str
    target_topic: str
    snapshot_id: int | None
    bound: str
    was_complete: bool
    partitions: tuple[RestoredPartition, ...] = ()
    groups: tuple[TranslatedGroup, ...] = ()
    offsets_file: str | None = None
    notices: tuple[str, ...] = ()
    duration_ms: int = 0

    @property
    def records(self) -> int:
        """Records in the target."""
        return sum(each.records for each in self.partitions)
