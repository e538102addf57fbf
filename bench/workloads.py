"""Defines sizes and workloads.

A workload is a realistic log: how often keys repeat, how large values are, how the records spread over topic
partitions. ``12m`` is the size at which the targets are stated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BASE_MS = 1_700_000_000_000
"""Timestamp of the first record (ms): long past, so that every segment is closed."""
MIB = 1 << 20
HEADER = "version"
"""Header that strategy ``header`` compares."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size: ``records`` and ``partitions`` of the workload uniform; the others follow from it."""

    name: str
    records: int
    partitions: int

    def scaled(self, share: float) -> int:
        """Return that share of the records, at least 100."""
        return max(100, int(self.records * share))


SMALL = Size("small", 6_000, 2)
TWELVE = Size("12m", 12_000_000, 4)
LARGE = Size("large", 48_000_000, 8)
SIZES = {size.name: size for size in (SMALL, TWELVE, LARGE)}


@dataclass(frozen=True, slots=True)
class Incremental:
    """New records behind a compacted log.

    ``share``: number of new records, as a share of the records of the compacted log. ``spread``: they update keys from
    all of it, else only keys of the last segment of each topic partition.
    """

    base: str
    share: float
    spread: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """One log.

    Attributes:
        name: name, also on disk.
        meaning: description in one line.
        keys: ``uniform``, ``zipf`` or ``unique``.
        keys_share: distinct keys as a share of the records; for ``zipf`` the number of keys drawn from.
        records_share: records as a share of the size's.
        partitions: topic partitions at 12m and above; None: those of the size.
        small_partitions: the same at size small.
        segments: segments per topic partition, one per ingest call.
        value_bytes: length of a value.
        tombstones: share of records that are tombstones.
        headers: every record carries the header :data:`HEADER`.
        config: topic configuration beside the defaults, in force when the measured compaction runs.
        incremental: made from another workload's compacted log.
    """

    name: str
    meaning: str
    keys: str = "uniform"
    keys_share: float = 0.1
    records_share: float = 1.0
    partitions: int | None = None
    small_partitions: int | None = None
    segments: int = 6
    value_bytes: int = 200
    tombstones: float = 0.0
    headers: bool = False
    config: dict[str, str] = field(default_factory=dict)
    incremental: Incremental | None = None

    def records(self, size: Size) -> int:
        """Return the number of records of the log at ``size``, a multiple of partitions and segments."""
        unit = self.partition_count(size) * self.segments
        return max(unit, size.scaled(self.records_share) // unit * unit)

    def partition_count(self, size: Size) -> int:
        """Return the number of topic partitions at ``size``."""
        if size is SMALL and self.small_partitions is not None:
            return self.small_partitions
        return self.partitions or size.partitions


_SEGMENT = {"segment.bytes": str(128 * MIB), "min.cleanable.dirty.ratio": "0"}
_FEW = {**_SEGMENT, "segment.bytes": str(8 * MIB)}

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("uniform", "every key ten times, evenly: 10 % survive", config=_SEGMENT),
        Workload("zipf", "a few hot keys have most of the records", keys="zipf", keys_share=0.5, config=_SEGMENT),
        Workload("unique", "every key once: all survive", keys="unique", keys_share=1.0, config=_SEGMENT),
        Workload(
            "one-partition",
            "every key once, all in one topic partition",
            keys="unique",
            keys_share=1.0,
            partitions=1,
            small_partitions=1,
            segments=12,
            config=_SEGMENT,
        ),
        Workload(
            "many-small",
            "1,000 topic partitions of 10,000 records",
            records_share=10 / 12,
            partitions=1000,
            small_partitions=20,
            segments=1,
            config=_SEGMENT,
        ),
        Workload("wide", "values of 10 kB", records_share=0.01, value_bytes=10_000, config=_SEGMENT),
        Workload(
            "tombstones",
            "half of the records delete their key",
            tombstones=0.5,
            config={**_SEGMENT, "delete.retention.ms": "0"},
        ),
        Workload(
            "timestamp",
            "strategy timestamp on uniform; records arrive up to a minute late",
            config={**_SEGMENT, "compaction.strategy": "timestamp"},
        ),
        Workload("headers", "uniform, with a version header in every record", headers=True, config=_SEGMENT),
        Workload(
            "header",
            "strategy header on the log of headers",
            headers=True,
            config={**_SEGMENT, "compaction.strategy": "header", "compaction.strategy.header": HEADER},
        ),
        Workload(
            "incremental-1",
            "uniform compacted, then 1 % new records that touch few segments",
            config=_FEW,
            incremental=Incremental("uniform", 0.01, spread=False),
        ),
        Workload(
            "incremental-1-spread",
            "uniform compacted, then 1 % new records from all over",
            config=_FEW,
            incremental=Incremental("uniform", 0.01, spread=True),
        ),
        Workload(
            "incremental-10-spread",
            "uniform compacted, then 10 % new records from all over",
            config=_FEW,
            incremental=Incremental("uniform", 0.10, spread=True),
        ),
        Workload(
            "clean-1",
            "a clean log as large as uniform (unique, compacted), then 1 % new records that touch few segments",
            keys="unique",
            keys_share=1.0,
            config=_SEGMENT,
            incremental=Incremental("unique", 0.01, spread=False),
        ),
    )
}
"""Workloads by name. ``timestamp`` and ``header`` share the files of ``uniform`` and ``headers``."""

SAME_FILES = {"timestamp": "uniform", "header": "headers"}
"""Workloads that differ from another only in their topic's configuration, and the workload whose files they use."""
