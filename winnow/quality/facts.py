"""The fact table: one row a topic partition, both computations side by side and columns that are zero when all is well.

Rows hold figures and fingerprints only, never a key, a value or a header.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from winnow.model import PartitionFacts, PartitionPlan, Plan, Reason, StagedPartition, StagingManifest
from winnow.quality.recomputation import IndependentFacts, connected, recompute, recompute_on

__all__ = ["FactRow", "IndependentFacts", "fact_row", "fact_table", "recompute"]

FactRow = dict[str, int | str]
PER_MILLION = 1_000_000
SHARE_FROM_RECORDS = 1_000
"""Below this many records the share that compaction removed says nothing, and is given as 0."""

BOTH = (
    "records_in",
    "records_kept",
    "records_keyless",
    "bytes_in",
    "bytes_out",
    "winners_fingerprint",
    "content_fingerprint",
    "headers_missing",
    "headers_malformed",
)
"""Figures of both computations: ``rewrite_<name>`` and ``recomputed_<name>``."""

FOUND = (
    "keyless_kept",
    "keyless_not_aside",
    "duplicate_keys",
    "stale_winners",
    "offset_order_violations",
    "offsets_not_in_input",
    "touched_above_end",
    "wrong_partition",
    "unreadable_files",
    "mismatched_files",
    "unreadable_inputs",
    "unplanned_inputs",
)
"""Columns taken from the recomputation as they are, zero in a sound result."""


def fact_row(plan: Plan, partition: PartitionPlan, staged: StagedPartition, independent: IndependentFacts) -> FactRow:
    """One row of the fact table.

    ``unaccounted_records``: records in that are neither kept (by recount) nor reported as superseded, expired or
    keyless.
    ``lost_keys``: keys without a survivor beyond those whose winner was an expired tombstone.
    """
    rewrite = staged.facts
    row: FactRow = {"partition": partition.partition}
    for name in BOTH:
        row[f"rewrite_{name}"] = getattr(rewrite, name)
        row[f"recomputed_{name}"] = getattr(independent, name)
    for name in FOUND:
        row[name] = getattr(independent, name)
    gone = rewrite.records_superseded + rewrite.tombstones_expired + rewrite.records_keyless
    reported = (rewrite.records_kept, rewrite.records_superseded, rewrite.tombstones_expired, rewrite.records_keyless)
    return row | {
        "records_superseded": rewrite.records_superseded,
        "tombstones_expired": rewrite.tombstones_expired,
        "unaccounted_records": independent.records_in - independent.records_kept - gone,
        "lost_keys": independent.keys_in - independent.keys_kept - rewrite.tombstones_expired,
        "tombstones_expired_too_many": max(0, rewrite.tombstones_expired - independent.most_tombstones_expired),
        "negative_counts": sum(1 for count in reported if count < 0),
        "not_planned": int(all(planned.partition != partition.partition for planned in plan.partitions)),
        "times_staged": 1,
        "removed_per_million": _removed_per_million(independent),
    }


def fact_table(
    plan: Plan,
    manifest: StagingManifest,
    *,
    memory_limit_bytes: int,
    threads: int,
    spill_folder: str,
    workers: int = 1,
) -> list[FactRow]:
    """The fact table of one attempt: a row for every partition that was planned or staged, in partition order.

    ``workers`` partitions are recomputed at a time, each within the memory limit and with ``threads`` threads.

    Raises:
        ServiceError: the object store cannot be reached.
        ValidationBrokenError: the recomputation itself failed.
    """
    planned = {partition.partition: partition for partition in plan.partitions}
    staged = {partition.partition: partition for partition in manifest.partitions}
    times_staged = Counter(partition.partition for partition in manifest.partitions)
    numbers = sorted(planned.keys() | staged.keys())

    def some(share: Sequence[int]) -> list[tuple[int, FactRow]]:
        rows = []
        with connected(memory_limit_bytes=memory_limit_bytes, threads=threads, spill_folder=spill_folder) as connection:
            for number in share:
                partition = planned.get(number, _nothing_planned(number))
                result = staged.get(number, _nothing_staged(number))
                independent = recompute_on(
                    connection, plan, partition, result, attempt=manifest.attempt, threads=threads
                )
                row = fact_row(plan, partition, result, independent) | {"times_staged": times_staged[number]}
                rows.append((number, row))
        return rows

    shares = [share for worker in range(workers) if (share := numbers[worker::workers])]
    with ThreadPoolExecutor(max_workers=max(1, workers), thread_name_prefix="facts") as pool:
        found = dict(numbered for rows in pool.map(some, shares) for numbered in rows)
    return [found[number] for number in numbers]


def _removed_per_million(independent: IndependentFacts) -> int:
    if independent.records_in < SHARE_FROM_RECORDS:
        return 0
    return (independent.records_in - independent.records_kept) * PER_MILLION // independent.records_in


def _nothing_planned(number: int) -> PartitionPlan:
    return PartitionPlan(
        partition=number,
        reason=Reason.CLEAN,
        log_start_offset=0,
        first_dirty_offset=0,
        next_first_dirty_offset=0,
        log_end_offset=0,
        segments=(),
    )


def _nothing_staged(number: int) -> StagedPartition:
    nothing = PartitionFacts(0, 0, 0, 0, 0, 0, 0, "0:0:0", "0:0:0")
    return StagedPartition(partition=number, facts=nothing, rewrites=())
