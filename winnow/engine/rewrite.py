"""Compacts one topic partition: picks winners and copies the surviving records into new segments.

Runs inside a Spark task (or in process, in tests): the task itself reads and writes the data files, so no record passes
through the JVM. Order and offsets do not change; segments that lose no records are kept by reference.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from winnow.engine.damage import CopyCountError
from winnow.engine.read_ranges import SegmentSurvivors, group_segments, split_into_read_ranges
from winnow.engine.survivors import build_survivors_sql
from winnow.engine.task_resources import ConnectionPool, TaskBudget, Throttle, ThrottleMeter, open_connection
from winnow.engine.winners import KeyShare, WinnerCounts, build_share_condition, merge_counts, pick_winners
from winnow.errors import WinnowError
from winnow.files import storage
from winnow.files.duckdb_connection import quote_file_list
from winnow.files.fingerprint import CONTENT_HASH, EMPTY_FINGERPRINT, RunningFingerprint, combine_fingerprints
from winnow.files.page_checksums import check_pages
from winnow.files.partitioner import choose_partitions
from winnow.files.quarantine_files import (
    QUARANTINE_SCHEMA,
    QuarantineWriter,
    locate_keyless_move_file,
    make_keyless_move_id,
)
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter, cast_to_segment_schema
from winnow.values.model import PartitionPlan, Plan, Segment
from winnow.values.results import PartitionFacts, Rewrite, StagedPartition, extract_figures

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb


KEYLESS_BATCH_ROWS = 16_384

_KEYLESS_COLUMNS = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def copy_keyless_records(
    connection: duckdb.DuckDBPyConnection,
    plan: Plan,
    partition: PartitionPlan,
    attempt: str,
    folder: str,
    *,
    on_write: Callable[[int], None] = lambda _: None,
) -> tuple[str, ...]:
    """Copy the readable keyless records of the planned segments; return the URIs of the files, if any.

    The rows carry the attempt, which the staging manifest names; the files are in ``folder``, since a retried task of
    the same attempt writes its own. Only segments with keyless records in their manifest entry are read. ``on_write``
    gets the bytes of each batch.

    Raises:
        WinnowError: there are keyless records and the plan names no quarantine.
    """
    holding = [segment for segment in partition.segments if segment.keyless]
    if not holding:
        return ()
    location = plan.quarantine_location
    if location is None:
        raise WinnowError(
            f"{plan.topic}-{partition.partition} holds records without a key, and plan {plan.plan_id} names no "
            "quarantine for them.",
            left="Nothing was dropped or published.",
            next="Run it again: the next plan names one.",
        )
    columns = ", ".join(f'"{name}"' for name in _KEYLESS_COLUMNS)
    relation = connection.sql(
        f"""
        SELECT {columns} FROM read_parquet({quote_file_list(segment.path for segment in holding)})
        WHERE key IS NULL AND "offset" >= {partition.log_start_offset}
          AND "offset" < {partition.next_first_dirty_offset}
        """
    )

    def name(number: int) -> str:
        return locate_keyless_move_file(location, plan.plan_id, folder, partition.partition, number)

    with QuarantineWriter(file_bytes=plan.segment_bytes, name=name, below=plan.quarantine_location) as writer:
        for batch in relation.to_arrow_reader(KEYLESS_BATCH_ROWS):
            rows = _build_quarantine_rows(batch, make_keyless_move_id(plan.plan_id, attempt))
            on_write(rows.nbytes)
            writer.write(rows)
        return writer.finish()


def _build_quarantine_rows(batch: pa.RecordBatch, ingest_id: str) -> pa.RecordBatch:
    count = batch.num_rows
    columns = [
        pa.array([ingest_id] * count, pa.string()),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.int64()),
        *(batch.column(name).cast(QUARANTINE_SCHEMA.field(name).type) for name in _KEYLESS_COLUMNS),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=QUARANTINE_SCHEMA)


KEY_BATCH_ROWS = 65_536


def count_misplaced_keys(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, partitions: int, share: KeyShare | None = None
) -> int:
    """Count the surviving keys of ``share`` that Kafka's default partitioner would put in another partition.

    ``partitions``: the topic's number of partitions. Reads key and offset of all segments once more. For producers with
    their own partitioner the count means nothing.
    """
    if not plan.segments:
        return 0
    uris = [segment.path for segment in plan.segments]
    survivors = build_survivors_sql(connection, uris, plan.log_start_offset, plan.segments[-1].last_offset)
    relation = connection.sql(f"SELECT key {survivors} WHERE key IS NOT NULL{build_share_condition(share)}")
    found = 0
    for batch in relation.to_arrow_reader(KEY_BATCH_ROWS):
        if batch.num_rows:
            found += int(np.count_nonzero(choose_partitions(batch.column("key"), partitions) != plan.partition))
    return found


MAXIMUM_BATCH_ROWS = 16_384

MAXIMUM_BATCH_BYTES = 4 << 20
"""Maximum bytes in the file of the records in a batch; decoded they take a few times as many."""

ENGINE_NAME = "duckdb"

MAXIMUM_OVERHEAD_BYTES = 320 << 20
"""Maximum memory of a task's process beyond its limit: interpreter, libraries, row groups being read and written.
Measured up to 254 MiB: 24 million records of 12 million keys, limits of 64 and 256 MiB, without Spark."""


@dataclass(frozen=True, slots=True)
class PartitionWinners:
    """Findings about a partition, or a share of its keys, before anything is copied."""

    counts: WinnerCounts
    keyless_files: tuple[str, ...] = ()
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """Neighbouring segments rewritten together; the ``number``-th group of its partition, from 0."""

    number: int
    members: tuple[SegmentSurvivors, ...]

    @property
    def first_offset(self) -> int:
        """The lowest offset of its segments."""
        return self.members[0].segment.first_offset

    @property
    def last_offset(self) -> int:
        """The highest offset of its segments."""
        return self.members[-1].segment.last_offset

    @property
    def size_bytes(self) -> int:
        """Total bytes of its segments."""
        return sum(member.segment.size_bytes for member in self.members)


@dataclass(frozen=True, slots=True)
class CopiedGroup:
    """A rewritten group. ``content_fingerprint`` is over the copied records."""

    rewrite: Rewrite
    content_fingerprint: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def compact_partition(
    plan: Plan,
    partition: PartitionPlan,
    *,
    attempt: str,
    budget: TaskBudget,
    throttle: Throttle | None = None,
    folder: str | None = None,
    connections: ConnectionPool | None = None,
) -> StagedPartition:
    """Compact one partition of ``plan`` into new files below ``<data>/<plan id>/<folder>/``.

    ``folder`` defaults to ``attempt``; tasks that may run at once in one attempt have a folder each. Keyless records go
    into quarantine files. A partition without segments (retention only) has zero facts. Readers see nothing: the files
    are listed in the staging manifest, which is written last. Two runs under two attempts write two sets of files, one
    of which is used.

    ``throttle`` waits whenever bytes are read or written; default: one with the budget's rate. ``connections``: those
    of the task; default: a new DuckDB.
    """
    started = time.monotonic()
    folder = folder or attempt
    throttle = throttle or Throttle(budget.bytes_per_second)
    opened = (
        open_connection(budget, partition.segments) if connections is None else connections.open(partition.segments)
    )
    with opened as connection:
        winners = find_partition_winners(connection, plan, partition, attempt=attempt, folder=folder, throttle=throttle)
        copied = [
            copy_group(connection, plan, partition, group, folder=folder, throttle=throttle)
            for group in build_segment_groups(partition, winners.counts, plan.segment_bytes)
        ]
    return build_staged_partition(partition, winners, copied, seconds=time.monotonic() - started)


def find_partition_winners(
    connection: duckdb.DuckDBPyConnection,
    plan: Plan,
    partition: PartitionPlan,
    *,
    attempt: str,
    folder: str,
    throttle: Throttle,
    share: KeyShare | None = None,
) -> PartitionWinners:
    """Fill the table ``survivors`` of ``connection``, copy keyless records to quarantine, count misplaced keys.

    ``share``: only for the keys of one share; the keyless records belong to share 0.
    """
    started, cpu_started = time.monotonic(), time.process_time()
    throttle.take(partition.size_bytes)
    counts = pick_winners(connection, partition, plan.strategy, plan.strategy_header, share=share)
    keyless_files: tuple[str, ...] = ()
    if counts.figures.records_keyless:
        throttle.take(sum(segment.size_bytes for segment in partition.segments if segment.keyless))
        keyless_files = copy_keyless_records(connection, plan, partition, attempt, folder, on_write=throttle.take)
    if plan.partition_count is not None:
        throttle.take(partition.size_bytes)
        misplaced = count_misplaced_keys(connection, partition, plan.partition_count, share)
        counts = replace(counts, figures=replace(counts.figures, keys_elsewhere=misplaced))
    return PartitionWinners(
        counts, keyless_files, time.monotonic() - started, cpu_seconds=time.process_time() - cpu_started
    )


def merge_winners(found: Sequence[PartitionWinners]) -> PartitionWinners:
    """Merge the findings about all shares of a partition's keys."""
    return PartitionWinners(
        merge_counts([each.counts for each in found]),
        tuple(path for each in found for path in each.keyless_files),
        sum(each.seconds for each in found),
        cpu_seconds=sum(each.cpu_seconds for each in found),
    )


def build_segment_groups(partition: PartitionPlan, counts: WinnerCounts, segment_bytes: int) -> list[SegmentGroup]:
    """Return the groups of segments to rewrite, in offset order; segments in none are kept by reference."""
    surviving = [
        SegmentSurvivors(segment, records)
        for segment, records in zip(partition.segments, counts.survivors, strict=True)
    ]
    return [SegmentGroup(number, members) for number, members in enumerate(group_segments(surviving, segment_bytes))]


def copy_group(
    connection: duckdb.DuckDBPyConnection,
    plan: Plan,
    partition: PartitionPlan,
    group: SegmentGroup,
    *,
    folder: str,
    throttle: Throttle,
) -> CopiedGroup:
    """Copy the survivors of a group into new segments below ``<data>/<plan id>/<folder>/``.

    The table ``survivors`` of ``connection`` must have at least the survivors within the group's offsets.
    """
    started, cpu_started = time.monotonic(), time.process_time()
    inputs = tuple(member.segment.path for member in group.members)
    if not any(member.records for member in group.members):
        return CopiedGroup(Rewrite(inputs, ()), EMPTY_FINGERPRINT, time.monotonic() - started)
    outputs, content = _copy_survivors(connection, group, plan, partition, folder, throttle)
    seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
    return CopiedGroup(Rewrite(inputs, outputs), content, seconds, cpu_seconds)


def build_staged_partition(
    partition: PartitionPlan, winners: PartitionWinners, copied: Sequence[CopiedGroup], *, seconds: float
) -> StagedPartition:
    """Build the facts of a partition; ``copied`` in group order, ``seconds`` the total time."""
    counts = winners.counts
    rewrites = tuple(each.rewrite for each in copied)
    rewritten = {path for rewrite in rewrites for path in rewrite.inputs}
    kept_bytes = sum(s.size_bytes for s in partition.segments if s.path not in rewritten)
    bytes_out = kept_bytes + sum(s.size_bytes for rewrite in rewrites for s in rewrite.outputs)
    facts = PartitionFacts(
        **extract_figures(replace(counts.figures, bytes_in=partition.size_bytes, bytes_out=bytes_out)),
        winners_fingerprint=counts.winners_fingerprint,
        content_fingerprint=combine_fingerprints([each.content_fingerprint for each in copied]),
        extended=counts.extended,
    )
    return StagedPartition(
        partition.partition,
        facts,
        rewrites,
        seconds=seconds,
        keyless_files=winners.keyless_files,
        winners_seconds=winners.seconds,
        rewrite_seconds=sum(each.seconds for each in copied),
        cpu_seconds=winners.cpu_seconds + sum(each.cpu_seconds for each in copied),
    )


def _copy_survivors(
    connection: duckdb.DuckDBPyConnection,
    group: SegmentGroup,
    plan: Plan,
    partition: PartitionPlan,
    folder: str,
    throttle: Throttle,
) -> tuple[tuple[Segment, ...], str]:
    columns = ", ".join(f'"{name}"' for name in ARROW_SCHEMA.names)
    read = [member for member in group.members if member.records]
    # The files must stream past the survivors in offset order: with one thread the probe side keeps its order, so the
    # optimizer must not swap the sides of the join, and the join must not spill. The writer rejects another order.
    connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
    connection.execute("SET threads = 1")

    def name(part: int) -> str:
        return storage.join(
            plan.data_location,
            plan.plan_id,
            folder,
            f"{partition.partition:05d}-{group.first_offset:020d}-{group.number:05d}-{part:03d}.parquet",
        )

    read_bytes = sum(member.segment.size_bytes for member in read)
    write_bytes = sum(member.segment.size_bytes * member.records // member.segment.records for member in read)
    content = RunningFingerprint()
    copied = 0
    meter = ThrottleMeter(throttle, read_bytes + write_bytes, sum(member.records for member in read))
    with SegmentWriter(
        partition=partition.partition, segment_bytes=plan.segment_bytes, name=name, below=plan.table_location
    ) as writer:
        checked: set[str] = set()
        for offsets in split_into_read_ranges(connection, read, partition.log_start_offset):
            for uri in offsets.uris:
                # On an object store pages are checked while they are read (winnow.files.checked_filesystem).
                if uri not in checked and storage.is_local(uri):
                    check_pages(uri, throttle.take)
                    checked.add(uri)
            survivors = build_survivors_sql(connection, offsets.uris, offsets.first_offset, offsets.last_offset)
            relation = connection.sql(f"SELECT {columns}, {CONTENT_HASH} AS fingerprint {survivors}")
            for batch in relation.to_arrow_reader(_compute_batch_rows(read)):
                copied += batch.num_rows
                meter.throttle(batch.num_rows)
                content.add(batch.column(len(ARROW_SCHEMA)).to_numpy(zero_copy_only=True))
                writer.write(cast_to_segment_schema(batch.select(ARROW_SCHEMA.names)))
        outputs = writer.finish()
    if copied != sum(member.records for member in read):
        raise CopyCountError(
            f"of offsets {group.first_offset} to {group.last_offset} "
            f"{sum(member.records for member in read):,} records survive, but {copied:,} were copied. Nothing was "
            "published; the next sweep removes the new files. Run it again, and keep the log's files for analysis"
        )
    meter.finish(read_bytes + sum(segment.size_bytes for segment in outputs))
    return outputs, str(content)


def _compute_batch_rows(members: Sequence[SegmentSurvivors]) -> int:
    """Return the records per batch: fewer if they are large, so that a batch is a few MiB."""
    largest_bytes = max(member.segment.size_bytes // max(1, member.segment.records) for member in members)
    return max(1, min(MAXIMUM_BATCH_ROWS, MAXIMUM_BATCH_BYTES // max(1, largest_bytes)))
