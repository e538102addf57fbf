"""What the engine counts and keeps beside survivors: version headers, keys of another partition, keyless records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.surviving_records import read_header_version
from tests.unit.staging_builder import ATTEMPT, PLAN_ID, Scene, list_failed, write_segment
from winnow.engine.rewrite import compact_partition
from winnow.engine.task_resources import TaskBudget
from winnow.engine.winners import MAXIMUM_MALFORMED_OFFSETS
from winnow.errors import WinnowError
from winnow.files.partitioner import choose_partition
from winnow.files.quarantine_files import make_keyless_move_id
from winnow.values.model import Headers, OffsetRange, PartitionPlan, Plan, Reason, Record, Severity
from winnow.values.results import PartitionFacts, StagedPartition, StagingManifest
from winnow.values.strategies import Strategy

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

HEADER = "it's v"
LONG = (7).to_bytes(8, "big")

_names = st.sampled_from([HEADER, HEADER.upper(), HEADER + " ", "x"])
_values = st.sampled_from([None, b"", b"\x01", b"7 bytes", LONG, b"\xff" * 8, b"nine byte", b"x" * 100])
_headers = st.none() | st.lists(st.tuples(_names, _values), max_size=4).map(tuple)
_keys = st.sampled_from([None, b"", b"a", b"b"])


def planned(
    folder: Path, inputs: Sequence[Sequence[Record]], *, strategy: Strategy = Strategy.OFFSET, log_start_offset: int = 0
) -> Plan:
    """A plan over one partition whose segments are written below ``folder``."""
    segments = tuple(
        write_segment(folder / "log" / f"{records[0].offset}.parquet", records, 0) for records in inputs if records
    )
    end = segments[-1].last_offset + 1 if segments else log_start_offset
    partition = PartitionPlan(0, Reason.DIRTY_RATIO, log_start_offset, log_start_offset, end, end, segments)
    return Plan(
        plan_id=PLAN_ID,
        topic="orders",
        table_uuid="u",
        data_location=str(folder / "data"),
        as_of_ms=0,
        strategy=strategy,
        strategy_header=HEADER if strategy is Strategy.HEADER else None,
        delete_retention_ms=0,
        segment_bytes=1 << 30,
        partitions=(partition,),
        winnow_version="0",
        quarantine_location=str(folder / "quarantine"),
    )


def compacted(folder: Path, plan: Plan) -> StagedPartition:
    budget = TaskBudget(1 << 28, 1, str(folder / "spill"))
    return compact_partition(plan, plan.partitions[0], attempt=ATTEMPT, budget=budget)


def scene_of(folder: Path, plan: Plan, staged: StagedPartition) -> Scene:
    """What validation is asked to judge."""
    manifest = StagingManifest(plan.plan_id, plan.topic, ATTEMPT, (staged,), "duckdb", "0")
    return Scene(folder, plan, manifest)


def has_header(record: Record) -> bool:
    return any(name == HEADER for name, _ in record.headers or ())


def keyed(offset: int, key: str | None, headers: Headers | None = None, timestamp_ms: int | None = 1_000) -> Record:
    return Record(offset, None if key is None else key.encode(), b"value", timestamp_ms, headers)


@given(
    rows=st.lists(st.tuples(_keys, _headers), min_size=1, max_size=30), cut=st.integers(0, 29), start=st.integers(0, 12)
)
def test_header_anomalies_are_those_of_the_oracle_in_both_computations(
    rows: list[tuple[bytes | None, Headers | None]], cut: int, start: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Missing and malformed told apart, keyless records and records below the log start left out, lowest offsets."""
    folder = tmp_path_factory.mktemp("headers")
    records = [Record(n, key, b"v", 1_000, headers) for n, (key, headers) in enumerate(rows)]
    plan = planned(folder, [records[:cut], records[cut:]], strategy=Strategy.HEADER, log_start_offset=start)
    staged = compacted(folder, plan)
    readable = [r for r in records if r.offset >= start and r.key is not None]
    malformed = [r.offset for r in readable if has_header(r) and read_header_version(r, HEADER) is None]
    facts = staged.facts
    assert facts.headers_missing == sum(not has_header(r) for r in readable)
    assert facts.headers_malformed == len(malformed)
    assert facts.malformed_offsets == tuple(malformed[:MAXIMUM_MALFORMED_OFFSETS])
    (row,) = scene_of(folder, plan, staged).rows()
    assert row["recomputed_headers_missing"] == facts.headers_missing
    assert row["recomputed_headers_malformed"] == facts.headers_malformed
    assert (row["stale_winners"], row["duplicate_keys"], row["keyless_not_aside"]) == (0, 0, 0)


def test_versions_are_signed_and_every_bit_counts(tmp_path: Path) -> None:
    """One key for each pair of longs, the greater one first, so that the offset never decides rightly."""
    longs = [-(2**63), -(2**63) + 1, -256, -1, 0, 1, 255, 256, 2**56, 2**63 - 2, 2**63 - 1]
    pairs = [(high, low) for high in longs for low in longs if high > low]
    records = [
        keyed(2 * n + late, f"key-{n}", ((HEADER, number.to_bytes(8, "big", signed=True)),))
        for n, pair in enumerate(pairs)
        for late, number in enumerate(pair)
    ]
    plan = planned(tmp_path, [records], strategy=Strategy.HEADER)
    staged = compacted(tmp_path, plan)
    (output,) = staged.rewrites[0].outputs
    assert pq.read_table(output.path)["offset"].to_pylist() == [2 * n for n in range(len(pairs))]
    (row,) = scene_of(tmp_path, plan, staged).rows()
    assert row["stale_winners"] == 0


def test_at_most_twenty_malformed_offsets_are_named_and_they_are_the_lowest(tmp_path: Path) -> None:
    """Over segment ends, in offset order, and none with a sound header among them."""
    records = [keyed(n, f"k{n}", ((HEADER, LONG if n % 3 == 0 else b"short"),)) for n in range(60)]
    plan = planned(tmp_path, [records[:20], records[20:25], records[25:]], strategy=Strategy.HEADER)
    facts = compacted(tmp_path, plan).facts
    assert (facts.headers_missing, facts.headers_malformed) == (0, 40)
    assert facts.malformed_offsets == tuple(n for n in range(60) if n % 3)[:20]


@pytest.mark.parametrize("strategy", [Strategy.OFFSET, Strategy.TIMESTAMP])
def test_other_strategies_count_no_headers(tmp_path: Path, strategy: Strategy) -> None:
    """What nobody asked for is nobody's anomaly."""
    plan = planned(tmp_path, [[keyed(n, "k", ((HEADER, b"short"),)) for n in range(3)]], strategy=strategy)
    staged = compacted(tmp_path, plan)
    assert (staged.facts.headers_missing, staged.facts.headers_malformed) == (0, 0)
    assert scene_of(tmp_path, plan, staged).verdict().failures == ()


def test_malformed_version_headers_are_warned_of_and_pass(tmp_path: Path) -> None:
    """They count as missing, which is a result, but perhaps not the one that the producer had in mind."""
    plan = planned(tmp_path, [[keyed(0, "a", ((HEADER, b"short"),)), keyed(1, "b")]], strategy=Strategy.HEADER)
    verdict = scene_of(tmp_path, plan, compacted(tmp_path, plan)).verdict()
    assert verdict.passed
    assert list_failed(verdict, 0, Severity.WARN) == {"version_headers_whole"}


@pytest.mark.parametrize("figure", ["headers_missing", "headers_malformed"])
def test_a_miscount_of_headers_fails_by_name(tmp_path: Path, figure: str) -> None:
    records = [keyed(0, "a", ((HEADER, b"short"),)), keyed(1, "a"), keyed(2, "b", ((HEADER, LONG),))]
    plan = planned(tmp_path, [records], strategy=Strategy.HEADER)
    staged = compacted(tmp_path, plan)
    wrong = replace(staged, facts=replace(staged.facts, **{figure: 2}))  # type: ignore[arg-type]
    assert list_failed(scene_of(tmp_path, plan, wrong).verdict(), 0) == {f"{figure}_equal"}


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
def test_surviving_keys_that_the_partitioner_would_put_elsewhere_are_counted(tmp_path: Path, partitions: int) -> None:
    """Each surviving key once, however many versions it had; keys that went with their tombstone not at all."""
    records = [keyed(n, f"key-{n % 40}") for n in range(100)]
    gone = [replace(keyed(100 + n, f"key-{n}"), value=None) for n in range(5)]
    plan = replace(planned(tmp_path, [records, gone]), partition_count=partitions)
    partition = replace(plan.partitions[0], expired=(OffsetRange(0, 105),))
    staged = compacted(tmp_path, replace(plan, partitions=(partition,)))
    left = {f"key-{n}".encode() for n in range(5, 40)}
    assert staged.facts.records_kept == len(left)
    assert staged.facts.keys_elsewhere == sum(choose_partition(key, partitions) != 0 for key in left)


def test_keys_elsewhere_are_not_looked_for_unless_partitions_were_added(tmp_path: Path) -> None:
    plan = planned(tmp_path, [[keyed(n, f"key-{n}") for n in range(20)]])
    assert compacted(tmp_path, plan).facts.keys_elsewhere == 0


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_partition_without_segments_has_zero_facts_and_passes(tmp_path: Path, strategy: Strategy) -> None:
    """Retention only: what it takes out of the log is not read, not even when it is gone already."""
    plan = planned(tmp_path, [], strategy=strategy, log_start_offset=10)
    retired = write_segment(tmp_path / "log" / "retired.parquet", [keyed(0, "a")], 0)
    Path(retired.path).unlink()
    partition = replace(plan.partitions[0], compacts=False, retired=(retired,), previous_log_start_offset=0)
    plan = replace(plan, partitions=(partition,), partition_count=4)
    staged = compacted(tmp_path, plan)
    assert staged.facts == PartitionFacts(0, 0, 0, 0, 0, 0, 0, "0:0:0", "0:0:0")
    assert (staged.rewrites, staged.keyless_files) == ((), ())
    assert scene_of(tmp_path, plan, staged).verdict().failures == ()


def test_keyless_records_leave_as_rows_of_the_quarantine_with_every_field(tmp_path: Path) -> None:
    """Readable ones only; missing and empty headers stay apart; the file says nothing of user bytes in its footer."""
    records = [
        keyed(0, None, (("below the log start", b""),)),
        replace(keyed(1, None, ((HEADER, None),), timestamp_ms=None), timestamp_type=1),
        keyed(2, "a"),
        replace(keyed(3, None), value=None),
        keyed(4, "a"),
    ]
    plan = planned(tmp_path, [records[:3], records[3:]], log_start_offset=1)
    staged = compacted(tmp_path, plan)
    (file,) = staged.keyless_files
    assert file.startswith(f"{plan.quarantine_location}/data/{PLAN_ID}/{ATTEMPT}/")
    rows = pq.read_table(file).to_pylist()
    assert [(row["offset"], row["value"], row["timestampType"]) for row in rows] == [(1, b"value", 1), (3, None, 0)]
    assert {row["ingest_id"] for row in rows} == {make_keyless_move_id(PLAN_ID, ATTEMPT)}
    assert rows[0]["headers"] == [{"key": HEADER, "value": None}]
    assert rows[0]["timestamp"] is None
    metadata = pq.read_metadata(file)
    with_bounds = {
        metadata.row_group(0).column(n).path_in_schema
        for n in range(metadata.num_columns)
        if metadata.row_group(0).column(n).is_stats_set and metadata.row_group(0).column(n).statistics.has_min_max
    }
    assert with_bounds <= {"ingest_id", "row", "partition", "offset"}
    assert list_failed(scene_of(tmp_path, plan, staged).verdict(), 0, Severity.WARN) == {"keyless_records_moved"}


def test_many_keyless_records_are_cut_into_files_of_segment_bytes(tmp_path: Path) -> None:
    noise = [bytes((n * 31 + i * i) % 251 for i in range(90)) for n in range(256)]
    records = [Record(n, None, noise[n % 256] + str(n * 7919).encode(), 1_000) for n in range(20_000)]
    plan = replace(planned(tmp_path, [records]), segment_bytes=40_000)
    staged = compacted(tmp_path, plan)
    assert len(staged.keyless_files) == 2
    offsets = [o for file in staged.keyless_files for o in pq.read_table(file)["offset"].to_pylist()]
    assert offsets == list(range(20_000))
    assert scene_of(tmp_path, plan, staged).verdict().passed


def test_a_plan_without_a_place_for_keyless_records_is_refused_before_one_is_dropped(tmp_path: Path) -> None:
    plan = replace(planned(tmp_path, [[keyed(0, None), keyed(1, "a")]]), quarantine_location=None)
    with pytest.raises(WinnowError, match=r"^orders-0 holds records without a key, .* names no quarantine for them"):
        compacted(tmp_path, plan)
    assert not (tmp_path / "data").exists()
