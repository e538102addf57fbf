"""The values of the log model: configuration, assessment, data files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.values.model import Reason, Record
from winnow.values.strategies import Strategy

NO_MAX_LAG_MS = 2**63 - 1
"""Kafka's default of max.compaction.lag.ms: no limit."""

_DAY_MS = 86_400_000

_RECORD_OVERHEAD_BYTES = 32

# When a log is eligible for compaction


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The topic configuration that the model needs, with Winnow's defaults. ``compacts``: the policy has compact."""

    compacts: bool = True
    strategy: Strategy = Strategy.OFFSET
    header: str | None = None
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_MAX_LAG_MS
    segment_bytes: int = 2**30
    segment_ms: int = 7 * _DAY_MS
    delete_retention_ms: int = _DAY_MS
    late_arrival_ms: int = 7 * _DAY_MS
    deletes: bool = False
    retention_ms: int = -1
    retention_bytes: int = -1
    protects_latest: bool = False

    @property
    def max_segment_ms(self) -> int:
        """The age (ms) at which the clock closes the open segment (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def order(self) -> tuple[Strategy, str | None]:
        """The order of versions; changing it between cleanings makes the whole log dirty."""
        return (self.strategy, self.header if self.strategy is Strategy.HEADER else None)


@dataclass(frozen=True, slots=True)
class ModelAssessment:
    """The figures and the decision for one log.

    ``deadline_ms`` None: no limit, or nothing dirty has a time. ``compacts`` False: idle, or retention only.
    """

    eligible: bool
    reason: Reason
    first_dirty_offset: int
    first_uncleanable_offset: int
    dirty_ratio: float
    clean_bytes: int
    cleanable_bytes: int
    max_compaction_delay_ms: int
    deadline_ms: int | None
    compacts: bool = True


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A data file: at least one record, in offset order.

    ``as_of_ms``: its append's, where timestamps are missing; None once a cleaning has covered it.
    """

    records: tuple[Record, ...]
    size_bytes: int
    as_of_ms: int | None
    appended_ms: int | None = None
    """Latest time at which it was appended: the earlier of as-of and the present then; None like ``as_of_ms``."""

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.records[-1].offset

    @property
    def timestamps_ms(self) -> list[int]:
        """The timestamps (ms) of those records that have one."""
        return [record.timestamp_ms for record in self.records if record.timestamp_ms is not None]

    @property
    def oldest_ms(self) -> int | None:
        """Its smallest timestamp (ms), or its append's as-of."""
        return min(self.timestamps_ms, default=self.as_of_ms)

    @property
    def youngest_ms(self) -> int | None:
        """Its largest timestamp (ms), or its append's as-of."""
        return max(self.timestamps_ms, default=self.as_of_ms)

    @property
    def has_null_values(self) -> bool:
        """Whether any record has a null value: all that a manifest says about tombstones."""
        return any(record.value is None for record in self.records)


def count_record_bytes(records: Sequence[Record]) -> int:
    """Return the default size of a file in bytes: keys and values, and a constant for each record."""
    return sum(len(r.key or b"") + len(r.value or b"") + _RECORD_OVERHEAD_BYTES for r in records)
