"""Builds valid plans and staging manifests on real Parquet files, for tests that break one thing.

Survivors, counts and figures are computed in plain Python from lists of records; only the fingerprints need DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from winnow.files.fingerprint import CONTENT_FINGERPRINT, WINNERS_FINGERPRINT
from winnow.files.quarantine_files import QUARANTINE_SCHEMA, locate_keyless_move_file, make_keyless_move_id
from winnow.files.segments import ARROW_SCHEMA
from winnow.pipeline.compaction.plan_limits import PlanExcess
from winnow.quality.fact_table import FactRow, compute_fact_table
from winnow.quality.validation import validate_fact_table
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Reason, Record, Segment, Severity
from winnow.values.results import Failure, PartitionFacts, Rewrite, StagedPartition, StagingManifest, Verdict
from winnow.values.strategies import Strategy

SECRET_KEY = "secret-key-of-a-customer"
SECRET_VALUE = "secret-value-of-a-customer"
MEMORY_LIMIT_BYTES = 64 << 20
PLAN_ID = "5f0c0ffee0ddba11"
ATTEMPT = "1"
WITHIN_LIMITS: FactRow = {**asdict(PlanExcess()), "foreign_files": 0, "misfit_files": 0}
"""What the pipeline adds to each row of a plan that the topic's state and configuration allow."""


def record(offset: int, key: str | None, value: str | None = SECRET_VALUE, partition: int = 0) -> Record:
    """A record with a timestamp of its own, and a header on every third."""
    return Record(
        offset=offset,
        key=None if key is None else f"{SECRET_KEY}-{key}".encode(),
        value=None if value is None else f"{value}-{offset}".encode(),
        timestamp_ms=1_700_000_000_000 + offset % 1_000,
        headers=(("trace", b"\x00\x01"), ("empty", None)) if offset % 3 == 0 else (),
        partition=partition,
    )


def arrow(records: Sequence[Record]) -> pa.Table:
    """Records in the schema of a segment."""
    rows = [
        {
            "partition": r.partition,
            "offset": r.offset,
            "timestamp": None if r.timestamp_ms is None else r.timestamp_ms * 1000,
            "timestampType": r.timestamp_type,
            "key": r.key,
            "value": r.value,
            "headers": [{"key": name, "value": value} for name, value in r.headers or ()],
        }
        for r in records
    ]
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)


def write_segment(path: Path, records: Sequence[Record], partition: int) -> Segment:
    """Write a segment file and say of it what a manifest would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow(records), path, compression="zstd", write_page_checksum=True, store_schema=False)
    offsets = [r.offset for r in records]
    times = [r.timestamp_ms for r in records if r.timestamp_ms is not None]
    return Segment(
        path=str(path),
        partition=partition,
        first_offset=min(offsets),
        last_offset=max(offsets),
        records=len(records),
        size_bytes=path.stat().st_size,
        min_timestamp_ms=min(times, default=None),
        max_timestamp_ms=max(times, default=None),
        tombstones=sum(r.value is None for r in records),
        keyless=sum(r.key is None for r in records),
    )


def write_quarantine_file(
    path: Path, records: Sequence[Record], ingest_id: str = make_keyless_move_id(PLAN_ID, ATTEMPT)
) -> str:
    """Write records as a file for the quarantine; its path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [row | {"ingest_id": ingest_id, "file_digest": None, "row": None} for row in arrow(records).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, QUARANTINE_SCHEMA), path, write_page_checksum=True)
    return str(path)


@cache
def _start_duckdb() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")


def fingerprint(records: Sequence[Record], expression: str) -> str:
    """A fingerprint over records that never were in a file."""
    with _start_duckdb().cursor() as connection:
        connection.register("records", arrow(records))
        ((text,),) = connection.execute(f"SELECT {expression} FROM records").fetchall()
    return str(text)


@dataclass(frozen=True)
class Case:
    """One topic partition: its input segments, and what an engine made of them."""

    inputs: tuple[tuple[Record, ...], ...]
    survivors: tuple[Record, ...]
    """What the engine left, in offset order."""
    expired: tuple[OffsetRange, ...] = ()
    tombstones_expired: int = 0
    keyless: int = 0
    """How many records without a key the engine says have left; those of the inputs go aside."""
    log_start_offset: int = 0
    end_offset: int | None = None


@dataclass
class Scene:
    """A plan and its staging manifest on disk."""

    folder: Path
    plan: Plan
    manifest: StagingManifest
    new_records: dict[int, list[Record]] = field(default_factory=dict)
    """Records of each partition's new file."""

    def staged(self, partition: int = 0) -> StagedPartition:
        return next(p for p in self.manifest.partitions if p.partition == partition)

    def output(self, partition: int = 0) -> Path:
        return Path(self.staged(partition).rewrites[0].outputs[0].path)

    def aside(self, partition: int = 0) -> Path:
        """The file with the keyless records of ``partition``."""
        return Path(self.staged(partition).keyless_files[0])

    def set_staged(self, staged: StagedPartition) -> None:
        others = tuple(p for p in self.manifest.partitions if p.partition != staged.partition)
        ordered = tuple(sorted((*others, staged), key=lambda p: p.partition))
        self.manifest = replace(self.manifest, partitions=ordered)

    def report(self, partition: int = 0, **figures: int | str) -> None:
        """Let the engine report other facts."""
        staged = self.staged(partition)
        self.set_staged(replace(staged, facts=replace(staged.facts, **figures)))  # type: ignore[arg-type]

    def rewrite_file(
        self,
        change: Callable[[list[Record]], list[Record]],
        partition: int = 0,
        *,
        tell: bool,
        content: bool = False,
    ) -> None:
        """Write the new file again with changed records.

        ``tell``: the staging manifest describes the file as it then is. ``content``: the reported content fingerprint
        and byte count follow too, as if the engine had done it knowingly.
        """
        changed = change(list(self.new_records[partition]))
        segment = write_segment(self.output(partition), changed, partition)
        staged = self.staged(partition)
        before = staged.rewrites[0].outputs[0]
        self.new_records[partition] = changed
        if tell:
            self.set_staged(replace(staged, rewrites=(replace(staged.rewrites[0], outputs=(segment,)),)))
            self.report(partition, bytes_out=staged.facts.bytes_out + segment.size_bytes - before.size_bytes)
        if content:
            self.report(partition, content_fingerprint=fingerprint(changed, CONTENT_FINGERPRINT))

    def rows(self) -> list[FactRow]:
        rows = compute_fact_table(
            self.plan,
            self.manifest,
            memory_limit_bytes=MEMORY_LIMIT_BYTES,
            threads=1,
            spill_folder=str(self.folder / "spill"),
        )
        return [row | WITHIN_LIMITS for row in rows]

    def verdict(self, data_docs: Path | None = None) -> Verdict:
        return validate_fact_table(
            self.rows(),
            plan_id=self.plan.plan_id,
            topic=self.plan.topic,
            attempt=self.manifest.attempt,
            checked_at_ms=1_800_000_000_000,
            data_docs=data_docs,
        )


def stage(folder: Path, cases: dict[int, Case]) -> Scene:
    """Write every file of ``cases`` and describe them truthfully."""
    plans, results, new_records = [], [], {}
    for number, case in cases.items():
        planned, result, records = _stage_partition(folder, number, case)
        plans.append(planned)
        results.append(result)
        new_records[number] = records
    plan = Plan(
        plan_id=PLAN_ID,
        topic="orders",
        table_uuid="00000000-0000-0000-0000-000000000000",
        data_location=str(folder / "data"),
        as_of_ms=1_800_000_000_000,
        strategy=Strategy.OFFSET,
        strategy_header=None,
        delete_retention_ms=86_400_000,
        segment_bytes=1 << 30,
        partitions=tuple(plans),
        winnow_version="0",
    )
    manifest = StagingManifest(
        plan_id=PLAN_ID, topic="orders", attempt=ATTEMPT, partitions=tuple(results), engine="test", winnow_version="0"
    )
    return Scene(folder, plan, manifest, new_records)


def _stage_partition(folder: Path, number: int, case: Case) -> tuple[PartitionPlan, StagedPartition, list[Record]]:
    segments = tuple(
        write_segment(folder / "log" / f"{number}-{records[0].offset}.parquet", records, number)
        for records in case.inputs
    )
    left = {r.offset: r for r in case.survivors}
    loses = [any(r.offset not in left for r in records) for records in case.inputs]
    rewritten = [s for s, lost in zip(segments, loses, strict=True) if lost]
    replaced = {r.offset for records, lost in zip(case.inputs, loses, strict=True) if lost for r in records}
    new = [r for r in case.survivors if r.offset in replaced]
    outputs = (write_segment(folder / "data" / PLAN_ID / "1" / f"{number}.parquet", new, number),) if new else ()
    end_offset = case.inputs[-1][-1].offset + 1 if case.end_offset is None else case.end_offset
    records_in = sum(s.records for s in segments)
    kept_bytes = sum(s.size_bytes for s in segments if s not in rewritten)
    facts = PartitionFacts(
        records_in=records_in,
        records_kept=len(case.survivors),
        records_superseded=records_in - len(case.survivors) - case.tombstones_expired - case.keyless,
        tombstones_expired=case.tombstones_expired,
        records_keyless=case.keyless,
        bytes_in=sum(s.size_bytes for s in segments),
        bytes_out=kept_bytes + sum(s.size_bytes for s in outputs),
        winners_fingerprint=fingerprint(case.survivors, WINNERS_FINGERPRINT),
        content_fingerprint=fingerprint(new, CONTENT_FINGERPRINT),
    )
    plan = PartitionPlan(
        partition=number,
        reason=Reason.DIRTY_RATIO,
        log_start_offset=case.log_start_offset,
        first_dirty_offset=case.inputs[0][0].offset,
        next_first_dirty_offset=end_offset,
        log_end_offset=end_offset + 100,
        segments=segments,
        expired=case.expired,
    )
    rewrites = (Rewrite(tuple(s.path for s in rewritten), outputs),) if rewritten else ()
    keyless = [r for records in case.inputs for r in records if r.key is None] if case.keyless else []
    aside = Path(locate_keyless_move_file(str(folder / "quarantine"), PLAN_ID, ATTEMPT, number, 0))
    keyless_files = (write_quarantine_file(aside, keyless),) if keyless else ()
    return plan, StagedPartition(number, facts, rewrites, keyless_files=keyless_files), new


def build_orders_cases(partition: int = 0, base: int = 0) -> Case:
    """Two segments that lose records and one that loses none; every key survives at its highest offset."""
    first = tuple(record(base + i, f"k{i % 4}", partition=partition) for i in range(10))
    second = tuple(record(base + 10 + i, f"k{i % 6}", partition=partition) for i in range(10))
    third = tuple(record(base + 20 + i, f"n{i}", None if i == 2 else SECRET_VALUE, partition) for i in range(5))
    newest = {r.key: r for r in (*first, *second, *third)}
    return Case(
        inputs=(first, second, third),
        survivors=tuple(sorted(newest.values(), key=lambda r: r.offset)),
        log_start_offset=base,
    )


def list_failed(verdict: Verdict, partition: int | None = None, severity: Severity = Severity.FAIL) -> set[str]:
    """Ids of the expectations of ``severity`` that failed, all of them for ``partition`` when it is given."""
    found: list[Failure] = [f for f in verdict.failures if f.severity is severity]
    if partition is not None:
        assert {f.partition for f in found} == {partition}
    return {f.expectation for f in found}
