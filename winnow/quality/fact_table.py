"""Builds the fact table: one row per partition with the figures of both computations; also as Spark tasks.

Rows hold figures and fingerprints only, no key, value or header.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Protocol, Self

from winnow.errors import ValidationBrokenError, WinnowError
from winnow.files import duckdb_connection
from winnow.quality.recomputation import IndependentFacts, recompute_facts, recompute_facts_with
from winnow.values import documents
from winnow.values.model import PartitionPlan, Plan, Reason
from winnow.values.results import PartitionFacts, StagedPartition, StagingManifest

if TYPE_CHECKING:
    import duckdb

Figures = dict[str, int | str]


class TaskBudget(Protocol):
    """The resources that one task may use."""

    @property
    def memory_limit_bytes(self) -> int:
        """Memory in bytes before the task spills."""

    @property
    def threads(self) -> int:
        """Number of threads."""

    @property
    def spill_folder(self) -> str | None:
        """Folder for spilling; None: Spark's local folders, or the system's temporary folder."""


def compute_figures(
    plan: Plan, partition: PartitionPlan, staged: StagedPartition, attempt: str, budget: TaskBudget
) -> Figures:
    """Run :func:`winnow.quality.recomputation.recompute_facts` and return plain figures.

    Raises:
        ServiceError, ValidationBrokenError: as there.
    """
    facts = recompute_facts(
        plan,
        partition,
        staged,
        attempt=attempt,
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
    )
    return asdict(facts)


def parse_figures(figures: Figures) -> IndependentFacts:
    """Parse the facts from ``figures``.

    Raises:
        ValidationBrokenError: some are missing or no figures: another version of Winnow computed them.
    """
    try:
        return documents.load_json(IndependentFacts, documents.dump_json(figures))
    except WinnowError as problem:
        raise ValidationBrokenError(
            "The facts that the Spark application computed are those of another version of Winnow.",
            left="Nothing was published and no partition was marked.",
            next="Install one version of Winnow everywhere, then validate again.",
        ) from problem


__all__ = [
    "FactRow",
    "FactWorkers",
    "IndependentFacts",
    "compute_fact_table",
    "estimate_bytes_to_read",
    "make_fact_row",
    "make_fact_rows",
    "pair_partitions",
    "recompute_facts",
]

FactRow = dict[str, int | str]

PER_MILLION = 1_000_000

SHARE_FROM_RECORDS = 1_000
"""Below this many records the share that compaction removed is given as 0."""

_REWRITE_COLUMNS = frozenset(each.name for each in fields(PartitionFacts))

COMPARED_COLUMNS = tuple(each.name for each in fields(IndependentFacts) if each.name in _REWRITE_COLUMNS)
"""Figures of both computations: ``rewrite_<name>`` and ``recomputed_<name>``."""

_INTERMEDIATE_COLUMNS = frozenset({"keys_in", "keys_kept", "most_tombstones_expired"})
"""Figures of the recomputation that other columns are computed from."""

FINDING_COLUMNS = tuple(
    each.name
    for each in fields(IndependentFacts)
    if each.name not in _REWRITE_COLUMNS and each.name not in _INTERMEDIATE_COLUMNS
)
"""Columns taken unchanged from the recomputation; zero in a sound result."""


def make_fact_row(
    plan: Plan, partition: PartitionPlan, staged: StagedPartition, independent: IndependentFacts
) -> FactRow:
    """Build one row of the fact table.

    ``unaccounted_records``: input records that are neither kept (by recount) nor reported as superseded, expired or
    keyless. ``lost_keys``: keys without a survivor beyond those whose winner was an expired tombstone.
    """
    rewrite = staged.facts
    row: FactRow = {"partition": partition.partition}
    for name in COMPARED_COLUMNS:
        row[f"rewrite_{name}"] = getattr(rewrite, name)
        row[f"recomputed_{name}"] = getattr(independent, name)
    for name in FINDING_COLUMNS:
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
        "removed_per_million": _compute_removed_per_million(independent),
    }


class FactWorkers:
    """Threads that recompute partitions in parallel, each with its own DuckDB connection and memory limit.

    Arrow, DuckDB and NumPy release the interpreter's lock while they read, hash and look up, and processes would import
    them again. Use as a context manager; leaving it cancels what has not begun.
    """

    def __init__(self, workers: int, *, memory_limit_bytes: int, threads: int, spill_folder: str | None) -> None:
        self._memory_limit_bytes = memory_limit_bytes
        self._threads = threads
        self._spill_folder = spill_folder
        self._own = threading.local()
        self._connections = ExitStack()
        self._connecting = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=max(1, workers), thread_name_prefix="facts")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._connections.close()

    def begin(self, plan: Plan, manifest: StagingManifest) -> dict[int, Future[IndependentFacts]]:
        """Start recomputing all planned or staged partitions, the largest first; return their facts by partition."""
        pairs = {pair[0].partition: pair for pair in pair_partitions(plan, manifest)}
        largest_first = sorted(pairs, key=lambda number: (-pairs[number][0].size_bytes, number))
        return {
            number: self._pool.submit(self._compute, plan, *pairs[number], manifest.attempt) for number in largest_first
        }

    def _compute(self, plan: Plan, partition: PartitionPlan, staged: StagedPartition, attempt: str) -> IndependentFacts:
        return recompute_facts_with(
            self._get_connection(),
            plan,
            partition,
            staged,
            attempt=attempt,
            threads=self._threads,
            memory_limit_bytes=self._memory_limit_bytes,
        )

    def _get_connection(self) -> duckdb.DuckDBPyConnection:
        if not hasattr(self._own, "connection"):
            made = duckdb_connection.open_connection(
                memory_limit_bytes=self._memory_limit_bytes, threads=self._threads, spill_folder=self._spill_folder
            )
            with self._connecting:
                self._own.connection = self._connections.enter_context(made)
        connection: duckdb.DuckDBPyConnection = self._own.connection
        return connection


def pair_partitions(plan: Plan, manifest: StagingManifest) -> list[tuple[PartitionPlan, StagedPartition]]:
    """Return the planned and the staged side of every partition that is in either, in partition order."""
    planned = {partition.partition: partition for partition in plan.partitions}
    staged = {partition.partition: partition for partition in manifest.partitions}
    return [
        (planned.get(number, _make_empty_plan(number)), staged.get(number, _make_empty_staged(number)))
        for number in sorted(planned.keys() | staged.keys())
    ]


def estimate_bytes_to_read(plan: Plan, manifest: StagingManifest) -> int:
    """Return the maximum bytes that the recomputation reads: the planned segments and the new files."""
    return sum(partition.size_bytes for partition in plan.partitions) + sum(
        segment.size_bytes
        for staged in manifest.partitions
        for rewrite in staged.rewrites
        for segment in rewrite.outputs
    )


def make_fact_rows(plan: Plan, manifest: StagingManifest, independent: Mapping[int, IndependentFacts]) -> list[FactRow]:
    """Build the fact table of one attempt from recomputed facts, in partition order."""
    times_staged = Counter(partition.partition for partition in manifest.partitions)
    return [
        make_fact_row(plan, partition, staged, independent[partition.partition])
        | {"times_staged": times_staged[partition.partition]}
        for partition, staged in pair_partitions(plan, manifest)
    ]


def compute_fact_table(
    plan: Plan,
    manifest: StagingManifest,
    *,
    memory_limit_bytes: int,
    threads: int,
    spill_folder: str | None,
    workers: int = 1,
) -> list[FactRow]:
    """Build the fact table of one attempt: a row per planned or staged partition, in partition order.

    ``workers`` partitions are recomputed at a time, each within the memory limit and with ``threads`` threads.

    Raises:
        ServiceError: the object store cannot be reached.
        ValidationBrokenError: the recomputation failed.
    """
    with FactWorkers(
        workers, memory_limit_bytes=memory_limit_bytes, threads=threads, spill_folder=spill_folder
    ) as pool:
        found = {number: future.result() for number, future in pool.begin(plan, manifest).items()}
    return make_fact_rows(plan, manifest, found)


def _compute_removed_per_million(independent: IndependentFacts) -> int:
    if independent.records_in < SHARE_FROM_RECORDS:
        return 0
    return (independent.records_in - independent.records_kept) * PER_MILLION // independent.records_in


def _make_empty_plan(number: int) -> PartitionPlan:
    return PartitionPlan(
        partition=number,
        reason=Reason.CLEAN,
        log_start_offset=0,
        first_dirty_offset=0,
        next_first_dirty_offset=0,
        log_end_offset=0,
        segments=(),
    )


def _make_empty_staged(number: int) -> StagedPartition:
    facts = PartitionFacts(0, 0, 0, 0, 0, 0, 0, "0:0:0", "0:0:0")
    return StagedPartition(partition=number, facts=facts, rewrites=())
