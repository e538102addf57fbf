"""Compacting one topic partition: pick winners, stream the segments that lose something through the survivor filter.

Runs inside a Spark task (or in process, in tests): the task opens and writes the data files itself, so no record passes
through the JVM. Order and offsets are untouched; segments that lose nothing are kept by reference.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from winnow.engine.aside import copy_keyless
from winnow.engine.elsewhere import count_elsewhere
from winnow.engine.grouping import Surviving, groups
from winnow.engine.throttle import Meter, Throttle
from winnow.engine.winners import pick_winners
from winnow.files import duck, storage
from winnow.files.fingerprint import CONTENT_HASH
from winnow.files.schema import ARROW_SCHEMA
from winnow.files.segments import SegmentWriter, conform
from winnow.model import PartitionFacts, PartitionPlan, Plan, Rewrite, Segment, StagedPartition

if TYPE_CHECKING:
    import duckdb

BATCH_ROWS = 16_384
ENGINE = "duckdb"


@dataclass(frozen=True, slots=True)
class Budget:
    """What one task may use. ``bytes_per_second``: reads and writes together; None: no limit."""

    memory_limit_bytes: int
    threads: int
    spill_folder: str
    bytes_per_second: float | None = None


class ContentFingerprint:
    """The running ``count:sum:xor`` of 64-bit record hashes, as :mod:`winnow.files.fingerprint` writes it."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0
        self._xor = 0

    def add(self, hashes: pa.Array) -> None:
        """Take in a column of UBIGINT hashes."""
        values = hashes.to_numpy(zero_copy_only=True)
        self._count += len(values)
        # Two halves, so that no partial sum of a batch can overflow 64 bits.
        self._sum += (int((values >> np.uint64(32)).sum()) << 32) + int((values & np.uint64(0xFFFFFFFF)).sum())
        self._xor ^= int(np.bitwise_xor.reduce(values)) if len(values) else 0

    def __str__(self) -> str:
        return f"{self._count}:{self._sum}:{self._xor}"


def compact_partition(
    plan: Plan,
    partition: PartitionPlan,
    *,
    attempt: str,
    budget: Budget,
    throttle: Throttle | None = None,
    folder: str | None = None,
) -> StagedPartition:
    """Compact one partition of ``plan`` into new files below ``<data>/<plan id>/<folder>/``.

    ``folder`` is ``attempt`` when left out; tasks that may meet in one attempt have a folder each. Keyless records go
    into files of the quarantine. A partition without segments (retention only) has zero facts.
    Nothing is visible to a reader: the files are listed in the staging manifest, which is written last. Running it
    twice under two attempts writes two sets of files, of which one is used.

    ``throttle`` waits wherever bytes are read or written; one with the budget's rate when left out.
    """
    started = time.monotonic()
    folder = folder or attempt
    throttle = throttle or Throttle(budget.bytes_per_second)
    uris = [segment.path for segment in partition.segments]
    connection = duck.connect(
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        uris=uris,
    )
    try:
        throttle.take(partition.size_bytes)
        counts = pick_winners(connection, partition, plan.strategy, plan.strategy_header)
        keyless_files: tuple[str, ...] = ()
        if counts.records_keyless:
            throttle.take(sum(segment.size_bytes for segment in partition.segments if segment.keyless))
            keyless_files = copy_keyless(connection, plan, partition, attempt, folder, written=throttle.take)
        elsewhere = 0
        if plan.partition_count is not None:
            throttle.take(partition.size_bytes)
            elsewhere = count_elsewhere(connection, partition.segments, partition.partition, plan.partition_count)
        surviving = [
            Surviving(segment, records) for segment, records in zip(partition.segments, counts.survivors, strict=True)
        ]
        content = ContentFingerprint()
        rewrites = [
            _rewrite(connection, group, number, plan, partition.partition, folder, content, throttle=throttle)
            for number, group in enumerate(groups(surviving, plan.segment_bytes))
        ]
    finally:
        connection.close()
    rewritten = {path for rewrite in rewrites for path in rewrite.inputs}
    kept_bytes = sum(s.size_bytes for s in partition.segments if s.path not in rewritten)
    facts = PartitionFacts(
        records_in=counts.records_in,
        records_kept=counts.records_kept,
        records_superseded=counts.records_in - counts.records_keyless - counts.distinct_keys,
        tombstones_expired=counts.tombstones_expired,
        records_keyless=counts.records_keyless,
        bytes_in=partition.size_bytes,
        bytes_out=kept_bytes + sum(s.size_bytes for rewrite in rewrites for s in rewrite.outputs),
        winners_fingerprint=counts.winners_fingerprint,
        content_fingerprint=str(content),
        headers_missing=counts.headers_missing,
        headers_malformed=counts.headers_malformed,
        malformed_offsets=counts.malformed_offsets,
        keys_elsewhere=elsewhere,
    )
    return StagedPartition(
        partition.partition,
        facts,
        tuple(rewrites),
        seconds=time.monotonic() - started,
        keyless_files=keyless_files,
    )


def _rewrite(
    connection: duckdb.DuckDBPyConnection,
    group: Sequence[Surviving],
    number: int,
    plan: Plan,
    partition: int,
    folder: str,
    content: ContentFingerprint,
    *,
    throttle: Throttle,
) -> Rewrite:
    inputs = tuple(member.segment.path for member in group)
    if not any(member.records for member in group):
        return Rewrite(inputs, ())
    outputs = _copy_survivors(connection, group, number, plan, partition, folder, content, throttle=throttle)
    return Rewrite(inputs, outputs)


def _copy_survivors(
    connection: duckdb.DuckDBPyConnection,
    group: Sequence[Surviving],
    number: int,
    plan: Plan,
    partition: int,
    folder: str,
    content: ContentFingerprint,
    *,
    throttle: Throttle,
) -> tuple[Segment, ...]:
    first = group[0].segment.first_offset
    last = group[-1].segment.last_offset
    columns = ", ".join(f'"{name}"' for name in ARROW_SCHEMA.names)
    read = [member for member in group if member.records]
    files = duck.file_list(member.segment.path for member in read)
    # The files must stream past the survivors in offset order: with one thread the probe side keeps its order, so the
    # optimizer may not swap the sides of the join. The writer refuses offsets that do not increase.
    connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
    connection.execute("SET threads = 1")
    relation = connection.sql(
        f"""
        SELECT {columns}, {CONTENT_HASH} AS fingerprint
        FROM read_parquet({files}) AS log
        WHERE "offset" IN (SELECT "offset" FROM survivors WHERE "offset" BETWEEN {first} AND {last})
        """
    )

    def name(part: int) -> str:
        return storage.join(
            plan.data_location, plan.plan_id, folder, f"{partition:05d}-{first:020d}-{number:05d}-{part:03d}.parquet"
        )

    read_bytes = sum(member.segment.size_bytes for member in read)
    write_bytes = sum(member.segment.size_bytes * member.records // member.segment.records for member in read)
    meter = Meter(throttle, read_bytes + write_bytes, sum(member.records for member in read))
    with SegmentWriter(partition=partition, segment_bytes=plan.segment_bytes, name=name) as writer:
        for batch in relation.to_arrow_reader(BATCH_ROWS):
            meter.passed(batch.num_rows)
            content.add(batch.column(len(ARROW_SCHEMA)))
            writer.write(conform(batch.select(ARROW_SCHEMA.names)))
        outputs = writer.finish()
    meter.finish(read_bytes + sum(segment.size_bytes for segment in outputs))
    return outputs
