"""Recomputes the facts of one staged partition with code independent of the engine.

It differs from the rewrite in method, so that no single mistake can hide in both. The rewrite reads with DuckDB, groups
all records by key in SQL, and counts on the way. Here Arrow reads with page checksums verified: the new files in full,
and the key and ordering columns of the inputs and of segments kept by reference. Survivors go into a hash table, every
input record is looked up there (:mod:`winnow.quality.key_check_in_memory`), and NumPy extracts versions
(:mod:`winnow.quality.record_versions`). DuckDB hashes what Arrow has read; it groups only to count a finding by the
bytes of the keys, or where the survivors do not fit into memory.

Statistics of row groups and pages are not used, not even for offsets: whoever wrote the data wrote them, too, and the
checksum of a page is only compared when the page is read.

Memory is bounded: batches of a few MiB, one input segment's offsets, and survivors within the limit or in tables that
spill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.errors import ServiceError, ValidationBrokenError
from winnow.files import duckdb_connection, storage_health
from winnow.files.fingerprint import CONTENT_HASH, WINNERS_HASH
from winnow.files.quarantine_files import make_keyless_move_id
from winnow.files.segments import Offsets, read_offsets
from winnow.quality.key_check_in_memory import (
    KEY_HASH,
    SURVIVOR_BYTES,
    FastKeyCensus,
    Hashes,
    HashFingerprint,
    RecordPositions,
    hash_records,
    stream_hashes,
)
from winnow.quality.key_check_spilling import (
    COLUMNS,
    EXACT,
    HASHED,
    MAY_GO,
    CensusResult,
    KeyCensus,
    Superseding,
    count_wrong_extensions,
)
from winnow.quality.reading import StagedFigures, read_readable_batches, read_staged_files
from winnow.quality.record_versions import KEY_AND_OFFSET, HeaderFigures, Mask, Ordering, make_header_counter
from winnow.quality.removal_checks import InputOffsets, count_keyless_not_quarantined
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Segment
from winnow.values.results import StagedPartition

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentFacts(HeaderFigures):
    """The recomputed facts of one partition over [log start, next first dirty offset).

    Fingerprints are as in :class:`winnow.values.results.PartitionFacts`. ``most_tombstones_expired`` counts the keys
    that have no record left and ended with a tombstone of an expired range; 0 if the rewrite reports no expired ones.
    All figures from ``wrong_extensions`` on are 0 in a sound result.
    """

    records_in: int
    records_kept: int
    records_keyless: int
    keys_in: int
    keys_kept: int
    bytes_in: int
    bytes_out: int
    winners_fingerprint: str
    content_fingerprint: str
    most_tombstones_expired: int
    wrong_extensions: int
    keyless_kept: int
    keyless_not_aside: int
    duplicate_keys: int
    stale_winners: int
    offset_order_violations: int
    offsets_not_in_input: int
    touched_above_end: int
    wrong_partition: int
    unreadable_files: int
    mismatched_files: int
    unreadable_inputs: int
    unplanned_inputs: int


def recompute_facts(
    plan: Plan,
    partition: PartitionPlan,
    staged: StagedPartition,
    *,
    attempt: str,
    memory_limit_bytes: int,
    threads: int,
    spill_folder: str | None,
) -> IndependentFacts:
    """Recompute the facts of what ``attempt`` staged, from the files. Only reads, and is repeatable.

    A file that is missing, truncated or damaged is a fact, not an exception.

    Raises:
        ServiceError: the object store cannot be reached.
        ValidationBrokenError: the recomputation failed (out of memory and of spill space).
    """
    with duckdb_connection.open_connection(
        memory_limit_bytes=memory_limit_bytes, threads=threads, spill_folder=spill_folder
    ) as connection:
        return recompute_facts_with(
            connection,
            plan,
            partition,
            staged,
            attempt=attempt,
            threads=threads,
            memory_limit_bytes=memory_limit_bytes,
        )


def recompute_facts_with(
    connection: duckdb.DuckDBPyConnection,
    plan: Plan,
    partition: PartitionPlan,
    staged: StagedPartition,
    *,
    attempt: str,
    threads: int,
    memory_limit_bytes: int,
) -> IndependentFacts:
    """Run :func:`recompute_facts` on an open connection, which is left unchanged."""
    import duckdb

    try:
        maximum_survivors = memory_limit_bytes // SURVIVOR_BYTES
        return _Recomputation(plan, partition, staged, attempt, connection, threads, maximum_survivors).recompute()
    except duckdb.Error as problem:
        shortage = storage_health.describe_machine_fault(problem)
        if shortage is not None:
            raise ServiceError(
                f"The facts of {plan.topic}-{partition.partition} could not be recomputed: {shortage}.",
                left="Nothing was published and no partition was marked.",
                next="Fix that, then run it again.",
            ) from problem
        # DuckDB's text may quote data; its kind is enough to act on.
        raise ValidationBrokenError(
            f"The facts of {plan.topic}-{partition.partition} could not be recomputed ({type(problem).__name__}).",
            left="Nothing was published and no partition was marked.",
            next="Check the memory limit and the space of the spill folder, then validate again.",
        ) from problem


class _Recomputation:
    """One run over one staged partition."""

    def __init__(
        self,
        plan: Plan,
        partition: PartitionPlan,
        staged: StagedPartition,
        attempt: str,
        connection: duckdb.DuckDBPyConnection,
        threads: int,
        maximum_survivors: int,
    ) -> None:
        self._plan = plan
        self._ingest_id = make_keyless_move_id(plan.plan_id, attempt)
        self._ordering = Ordering(plan)
        self._headers = make_header_counter()
        self._partition = partition
        self._staged = staged
        self._connection = connection
        self._threads = threads
        self._inside = OffsetRange(partition.log_start_offset, partition.next_first_dirty_offset)
        planned = {segment.path: segment for segment in partition.segments}
        named = [path for rewrite in staged.rewrites for path in rewrite.inputs]
        self._unplanned = len(named) - len(planned.keys() & set(named))
        self._rewritten = [segment for segment in partition.segments if segment.path in set(named)]
        self._kept = [segment for segment in partition.segments if segment.path not in set(named)]
        self._groups = [
            (tuple(planned[path] for path in rewrite.inputs if path in planned), rewrite.outputs)
            for rewrite in staged.rewrites
        ]
        self._new_files = [segment for _, outputs in self._groups for segment in outputs]
        staying = sum(segment.records for segment in (*self._new_files, *self._kept))
        self._superseding_stay = partition.covered_end > 0
        self._quick = (
            FastKeyCensus(maximum_survivors, superseding_stay=self._superseding_stay)
            if staying <= maximum_survivors
            else None
        )
        self._unreadable_inputs: set[str] = set()
        self._winners = HashFingerprint()
        self._content = HashFingerprint()
        self._records_kept = 0
        self._keyless_kept = 0
        self._touched = 0
        self._strays = _count_overlaps(
            (span.start, span.end - 1) for span in (_find_offset_span(inputs) for inputs, _ in self._groups)
        )

    def recompute(self) -> IndependentFacts:
        figures = self._read_new_files()
        spans = figures.spans + self._read_kept_segments()
        keys = self._count_keys()
        counts = [self._count_inside(segment) for segment in self._partition.segments]
        return IndependentFacts(
            records_in=sum(records for records, _ in counts),
            records_kept=self._records_kept,
            records_keyless=sum(keyless for _, keyless in counts),
            keys_in=keys.keys_in,
            keys_kept=keys.keys_kept,
            bytes_in=self._partition.size_bytes,
            bytes_out=figures.bytes_read + sum(segment.size_bytes for segment in self._kept),
            winners_fingerprint=str(self._winners),
            content_fingerprint=str(self._content),
            most_tombstones_expired=keys.keys_expired,
            **self._headers,
            wrong_extensions=keys.wrong_extensions,
            keyless_kept=self._keyless_kept,
            keyless_not_aside=self._count_keyless_not_quarantined(),
            duplicate_keys=keys.duplicate_keys,
            stale_winners=keys.stale_winners,
            offset_order_violations=figures.order_violations + _count_overlaps(spans),
            offsets_not_in_input=self._count_foreign_offsets(),
            touched_above_end=self._touched,
            wrong_partition=figures.wrong_partition,
            unreadable_files=figures.unreadable_files,
            mismatched_files=figures.mismatched_files,
            unreadable_inputs=len(self._unreadable_inputs),
            unplanned_inputs=self._unplanned,
        )

    def _read_new_files(self) -> StagedFigures:
        total = StagedFigures()
        for inputs, outputs in self._groups:
            span = _find_offset_span(inputs)
            above: list[Offsets] = []

            def each(
                segment: Segment,
                batch: pa.RecordBatch,
                offsets: Offsets,
                span: OffsetRange = span,
                above: list[Offsets] = above,
            ) -> None:
                content, winners, keys = hash_records(self._connection, batch, CONTENT_HASH, WINNERS_HASH, KEY_HASH)
                self._content.add(content)
                inside, chosen = self._find_keyed(batch)
                self._count_kept(int(inside.sum()), int(chosen.sum()))
                self._winners.add(_choose(winners, inside))
                if self._quick is not None:
                    ranked = self._ordering.rank(_choose_records(batch, chosen))
                    self._quick.add_survivors(
                        _choose(keys, chosen), RecordPositions.from_batch(ranked), by_reference=False
                    )
                self._strays += int((~chosen | (offsets < span.start) | (offsets >= span.end)).sum())
                above.append(offsets[offsets >= self._inside.end])

            total.add(read_staged_files(outputs, self._partition.partition, threads=self._threads, each=each))
            self._touched += self._count_touched_above(inputs, np.concatenate([np.empty(0, dtype=np.int64), *above]))
        return total

    def _read_kept_segments(self) -> list[tuple[int, int]]:
        for segment in self._kept:
            keyless: list[pa.RecordBatch] = []
            survivors = self._rank_kept(segment, keyless)
            for (winners, keys), ranked in stream_hashes(self._connection, survivors, WINNERS_HASH, KEY_HASH):
                self._winners.add(winners)
                if self._quick is not None:
                    self._quick.add_survivors(keys, RecordPositions.from_batch(ranked), by_reference=True)
            for batch in keyless:
                (winners,) = hash_records(self._connection, batch, WINNERS_HASH)
                self._winners.add(winners)
        return [(segment.first_offset, segment.last_offset) for segment in self._kept]

    def _rank_kept(self, segment: Segment, keyless: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the records of a segment kept by reference and yield the keyed ones; add the others to ``keyless``."""
        records = 0
        for batch in self._read_inputs([segment], self._ordering.columns):
            records += batch.num_rows
            inside, chosen = self._find_keyed(batch)
            self._count_kept(int(inside.sum()), int(chosen.sum()))
            if (inside & ~chosen).any():
                keyless.append(batch.select(KEY_AND_OFFSET).filter(pa.array(inside & ~chosen)))
            yield self._ordering.rank(_choose_records(batch, chosen), self._headers)
        if records != segment.records:
            self._unreadable_inputs.add(segment.path)

    def _count_kept(self, inside: int, keyed: int) -> None:
        self._records_kept += inside
        self._keyless_kept += inside - keyed

    def _count_keys(self) -> CensusResult:
        """Return the census. A finding of the fast one is counted again by the bytes of the keys."""
        gone = self._staged.facts.tombstones_expired
        if self._quick is None:
            found = self._count_by_grouping(HASHED, self._headers)
            return found if found.is_clean(gone) else self._count_by_grouping(EXACT)
        for (keys,), ranked in stream_hashes(self._connection, self._rank_inputs(self._headers), KEY_HASH):
            may_go = ranked.column(MAY_GO).to_numpy(zero_copy_only=False) if gone else np.zeros(len(keys), np.bool_)
            self._quick.add_inputs(keys, RecordPositions.from_batch(ranked), may_go)
        quick = self._quick.build_result(gone)
        if quick is None or self._count_wrong_extensions(self._quick.find_superseding):
            return self._count_by_grouping(EXACT)
        return quick

    def _count_wrong_extensions(self, superseding: Superseding) -> int:
        def batches(segment: Segment) -> Iterator[pa.RecordBatch]:
            # Unreadable new files are counted already.
            unreadable = self._unreadable_inputs if segment in self._kept else set()
            return read_readable_batches([segment], COLUMNS, self._threads, unreadable)

        after = (*self._kept, *self._new_files)
        reported, covered_end = self._staged.facts.extended, self._partition.covered_end
        return count_wrong_extensions(after, reported, covered_end, superseding, batches)

    def _count_by_grouping(self, identity: str, count: Counter[str] | None = None) -> CensusResult:
        """Return the census by grouping, which spills; ``count`` receives the header counts of rewritten records."""
        columns, by_version = self._ordering.columns, self._ordering.by_version
        expiring = self._staged.facts.tombstones_expired != 0
        with KeyCensus(
            self._connection,
            self._inside,
            identity,
            by_version=by_version,
            expiring=expiring,
            superseding_stay=self._superseding_stay,
        ) as census:
            # Unreadable files are counted already.
            for batch in read_readable_batches(self._new_files, columns, self._threads, set()):
                census.add_survivors(self._ordering.rank(self._select_keyed(batch)), by_reference=False)
            for batch in self._read_inputs(self._kept, columns):
                census.add_survivors(self._ordering.rank(self._select_keyed(batch)), by_reference=True)
            found = census.count_keys(self._rank_inputs(count))
            return replace(found, wrong_extensions=self._count_wrong_extensions(census.find_superseding))

    def _rank_inputs(self, count: Counter[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the keyed records of rewritten inputs; with :data:`MAY_GO` if tombstones expired."""
        for segment in self._rewritten:
            for batch in self._read_inputs([segment], self._list_input_columns(segment)):
                offsets = read_offsets(batch)
                self._strays += int(((offsets < segment.first_offset) | (offsets > segment.last_offset)).sum())
                chosen = self._select_keyed(batch)
                ranked = self._ordering.rank(chosen, count)
                if self._staged.facts.tombstones_expired:
                    ranked = ranked.append_column(MAY_GO, pa.array(self._mark_expirable(chosen)))
                yield ranked

    def _select_keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that a census counts."""
        _, chosen = self._find_keyed(batch)
        return _choose_records(batch, chosen)

    def _find_keyed(self, batch: pa.RecordBatch) -> tuple[Mask, Mask]:
        """Return which records are inside the compacted range, and which of these have a key."""
        offsets = read_offsets(batch)
        inside = (offsets >= self._inside.start) & (offsets < self._inside.end)
        if not batch.column("key").null_count:
            return inside, inside
        return inside, inside & batch.column("key").is_valid().to_numpy(zero_copy_only=False)

    def _list_input_columns(self, segment: Segment) -> tuple[str, ...]:
        """Return the columns to read; values only where an expired tombstone must be distinguished from a lost one."""
        expired = self._staged.facts.tombstones_expired and segment.tombstones
        overlaps = any(r.start <= segment.last_offset and segment.first_offset < r.end for r in self._partition.expired)
        return (*self._ordering.columns, "value") if expired and overlaps else self._ordering.columns

    def _mark_expirable(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return which records are tombstones of an expired range; none if the values were not read."""
        may_go = np.zeros(batch.num_rows, dtype=np.bool_)
        if "value" in batch.schema.names and batch.column("value").null_count:
            offsets = read_offsets(batch)
            for expired in self._partition.expired:
                may_go |= (offsets >= expired.start) & (offsets < expired.end)
            may_go &= batch.column("value").is_null().to_numpy(zero_copy_only=False)
        return may_go

    def _count_foreign_offsets(self) -> int:
        """Count the records of the new files whose offset is in none of the segments that they replace."""
        quick = self._quick
        if (
            quick is not None
            and not self._strays
            and not self._unreadable_inputs
            and quick.has_matched_every_new_record
        ):
            return 0
        foreign = 0
        for inputs, outputs in self._groups:
            known = InputOffsets(inputs, threads=self._threads)
            for batch in read_readable_batches(outputs, ("offset",), self._threads, set()):
                foreign += known.count_foreign(read_offsets(batch))
            self._unreadable_inputs |= known.unreadable
        return foreign

    def _count_keyless_not_quarantined(self) -> int:
        segments = [segment for segment in self._partition.segments if segment.keyless]
        if not segments and not self._staged.keyless_files:
            return 0
        return count_keyless_not_quarantined(
            self._connection,
            segments,
            self._inside,
            self._staged.keyless_files,
            self._ingest_id,
            threads=self._threads,
        )

    def _read_inputs(self, segments: Iterable[Segment], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        return read_readable_batches(segments, columns, self._threads, self._unreadable_inputs)

    def _count_inside(self, segment: Segment) -> tuple[int, int]:
        """Count records, and records without key, of a planned segment in the compacted range.

        Takes the manifest's figures, and reads the segment only if it crosses an end of the range.
        """
        if segment.first_offset >= self._inside.end or segment.last_offset < self._inside.start:
            return 0, 0
        if segment.first_offset in self._inside and segment.last_offset in self._inside:
            return segment.records, segment.keyless
        records = keyless = 0
        for batch in self._read_inputs([segment], KEY_AND_OFFSET):
            offsets = read_offsets(batch)
            inside = batch.filter(pa.array((offsets >= self._inside.start) & (offsets < self._inside.end)))
            records += inside.num_rows
            keyless += inside.column("key").null_count
        return records, keyless

    def _count_touched_above(self, inputs: Iterable[Segment], written: Offsets) -> int:
        """Count new records at or above the end of the range, and records there that a rewrite removed."""
        touched = len(written)
        for segment in inputs:
            if segment.last_offset >= self._inside.end:
                for batch in self._read_inputs([segment], ("offset",)):
                    offsets = read_offsets(batch)
                    touched += int((~np.isin(offsets[offsets >= self._inside.end], written)).sum())
        return touched


def _count_overlaps(spans: Iterable[tuple[int, int]]) -> int:
    """Count the files, in offset order, that begin at or before the end of the previous one."""
    return sum(1 for before, after in pairwise(sorted(spans)) if after[0] <= before[1])


def _choose(hashes: Hashes, chosen: Mask) -> Hashes:
    return hashes if chosen.all() else hashes[chosen]


def _choose_records(batch: pa.RecordBatch, chosen: Mask) -> pa.RecordBatch:
    return batch if chosen.all() else batch.filter(pa.array(chosen))


def _find_offset_span(segments: Sequence[Segment]) -> OffsetRange:
    """Return the range from the lowest to the highest offset that ``segments`` may hold."""
    if not segments:
        return OffsetRange(0, 0)
    return OffsetRange(min(s.first_offset for s in segments), max(s.last_offset for s in segments) + 1)
