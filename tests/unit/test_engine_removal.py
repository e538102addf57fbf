"""Naming what goes instead of what stays: the same survivors and the same facts, whatever the keys' hashes do."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.surviving_records import compute_survivors
from tests.support.examples import choose_examples
from tests.support.random_logs import HEADER, Row, build_records, version_headers, write_segment_file
from winnow.engine import duplicate_keys as contested_keys
from winnow.engine import rewrite, winners
from winnow.engine import survivors as tables
from winnow.engine.rewrite import compact_partition
from winnow.engine.task_resources import TaskBudget, Throttle, open_connection
from winnow.engine.winners import KeyShare
from winnow.files import duckdb_connection
from winnow.files.partitioner import choose_partition
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Reason, Record
from winnow.values.results import StagedPartition
from winnow.values.strategies import Strategy

_rows = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.none() | st.sampled_from([b"", b"a", b"b", b"c"]) | st.integers(0, 99).map(lambda n: b"key-%d" % n),
        st.none() | st.just(b"x"),
        st.none() | st.integers(0, 3),
        version_headers,
    ),
    min_size=1,
    max_size=20,
)


@pytest.fixture(autouse=True)
def _removes() -> Iterator[None]:
    """Small logs too, and however many keys are contested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contested_keys, "MINIMUM_RECORDS", 0)
        patch.setattr(contested_keys, "MAXIMUM_CONTESTED_SHARE", 1e9)
        yield


def planned(
    folder: str,
    records: Sequence[Record],
    cuts: set[int],
    strategy: Strategy = Strategy.OFFSET,
    *,
    start: int = 0,
    expired_below: int = 0,
    covered_end: int = 0,
) -> Plan:
    """A plan over one partition whose segments are ``records``, cut at ``cuts``."""
    edges = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    segments = tuple(
        segment
        for number, (low, high) in enumerate(itertools.pairwise(edges))
        if (segment := write_segment_file(folder, number, records[low:high])).last_offset >= start
    )
    end = records[-1].offset + 1
    expired = (OffsetRange(0, expired_below),) if expired_below else ()
    partition = PartitionPlan(0, Reason.DIRTY_RATIO, start, start, end, end, segments, expired, covered_end=covered_end)
    header = HEADER if strategy is Strategy.HEADER else None
    return Plan(
        "plan", "t", "u", f"{folder}/data", 0, strategy, header, 0, 1 << 30, (partition,), "1",
        quarantine_location=f"{folder}/quarantine",
    )  # fmt: skip


def budget_of(folder: str) -> TaskBudget:
    return TaskBudget(1 << 28, 1, str(Path(folder) / "spill"))


def compacted(folder: str, plan: Plan) -> StagedPartition:
    return compact_partition(plan, plan.partitions[0], attempt="a", budget=budget_of(folder))


def kept_offsets(partition: PartitionPlan, staged: StagedPartition) -> list[int]:
    """The readable offsets of the log after ``staged`` is published."""
    gone = {path for one in staged.rewrites for path in one.inputs}
    paths = [segment.path for segment in partition.segments if segment.path not in gone]
    paths += [segment.path for one in staged.rewrites for segment in one.outputs]
    found = (offset for path in paths for offset in pq.read_table(path, columns=["offset"])["offset"].to_pylist())
    return sorted(offset for offset in found if offset >= partition.log_start_offset)


@settings(max_examples=choose_examples(quick=20))
@given(
    rows=_rows,
    cuts=st.sets(st.integers(1, 19), max_size=3),
    strategy=st.sampled_from(list(Strategy)),
    start=st.integers(0, 10),
    expired_below=st.integers(0, 30),
    covered_end=st.integers(0, 60),
)
def test_survivors_and_facts_are_the_oracles_and_those_of_a_table_of_all_keys(
    rows: list[Row], cuts: set[int], strategy: Strategy, start: int, expired_below: int, covered_end: int
) -> None:
    """Keyless records, a log start inside a segment, expired tombstones, those that wait anew, every strategy."""
    records = build_records(rows)
    covered_end = max(covered_end, expired_below) if covered_end and strategy is not Strategy.OFFSET else 0
    start = min(start, records[-1].offset)
    readable = [record for record in records if record.offset >= start]
    expected = compute_survivors(
        readable,
        next_first_dirty_offset=records[-1].offset + 1,
        strategy=strategy,
        header=HEADER,
        expired=lambda offset: offset < expired_below,
        late_arrivals=covered_end > 0,
    )
    with tempfile.TemporaryDirectory() as folder:
        plan = planned(
            folder, records, cuts, strategy, start=start, expired_below=expired_below, covered_end=covered_end
        )
        staged = compacted(folder, plan)
        assert kept_offsets(plan.partitions[0], staged) == [record.offset for record in expected.kept]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contested_keys, "MINIMUM_RECORDS", 1 << 60)
            other = compacted(folder, plan)
    assert staged.facts == other.facts
    assert staged.facts.records_keyless == len(expected.keyless)
    assert staged.facts.tombstones_expired == len(expected.tombstones_expired)
    assert [offset for each in staged.facts.extended for offset in range(each.start, each.end)] == [
        offset for offset in expected.extended if offset < covered_end
    ]


@settings(max_examples=choose_examples(quick=20))
@given(
    rows=_rows,
    cuts=st.sets(st.integers(1, 19), max_size=3),
    shares=st.integers(1, 3),
    most=st.sampled_from([0.0, 0.2, 1e9]),
    covered_end=st.sampled_from([0, 60]),
)
def test_shares_of_the_keys_amount_to_the_whole(
    rows: list[Row], cuts: set[int], shares: int, most: float, covered_end: int
) -> None:
    """Carried between tasks in files; a share in which too many keys are contested says it in the others' form."""
    records = build_records(rows)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        strategy = Strategy.TIMESTAMP if covered_end else Strategy.OFFSET
        plan = replace(planned(folder, records, cuts, strategy, covered_end=covered_end), partition_count=5)
        (partition,) = plan.partitions
        whole = compacted(folder, plan)
        patch.setattr(contested_keys, "is_applicable", lambda *_: True)
        patch.setattr(contested_keys, "MAXIMUM_CONTESTED_SHARE", most)
        budget, throttle = budget_of(folder), Throttle(None)
        found, uris = [], [f"{folder}/share-{number}.parquet" for number in range(shares)]
        for number, uri in enumerate(uris):
            with open_connection(budget, partition.segments) as connection:
                found.append(
                    rewrite.find_partition_winners(
                        connection, plan, partition, attempt="a", folder="f", throttle=throttle,
                        share=KeyShare(number, shares),
                    )
                )  # fmt: skip
                assert tables.find_offset_table(connection) == tables.REMOVED_TABLE
                tables.write_survivors(connection, uri)
        merged = rewrite.merge_winners(found)
        copied = []
        for group in rewrite.build_segment_groups(partition, merged.counts, plan.segment_bytes):
            with open_connection(budget, partition.segments) as connection:
                tables.load_survivors(connection, uris, first_offset=group.first_offset, last_offset=group.last_offset)
                copied.append(rewrite.copy_group(connection, plan, partition, group, folder="f", throttle=throttle))
        assert rewrite.build_staged_partition(partition, merged, copied, seconds=0.0).facts == whole.facts


def test_keys_elsewhere_are_counted_among_survivors_only(tmp_path: Path) -> None:
    """After partitions were added, once for each key."""
    records = build_records([(1, b"key-%d" % (number % 40), b"x", None, None) for number in range(60)])
    plan = replace(planned(str(tmp_path), records, {30}), partition_count=5)
    elsewhere = sum(choose_partition(b"key-%d" % number, 5) != 0 for number in range(40))
    assert compacted(str(tmp_path), plan).facts.keys_elsewhere == elsewhere


@pytest.mark.parametrize("hashes_at_once", [1, 3, 7, 1000])
def test_contested_keys_are_found_in_as_many_passes_as_memory_asks_for(tmp_path: Path, hashes_at_once: int) -> None:
    """Within one segment and across two; every pass sees its part of the hashes and all together see each once."""
    keys = [b"a", b"b", b"a", None, b"c", b"d", b"b", b"e", b"f", b"f"]
    records = build_records([(1, key, b"x", None, None) for key in keys])
    (partition,) = planned(str(tmp_path), records, {4, 8}).partitions
    connection = duckdb_connection.connect(memory_limit_bytes=1 << 28, spill_folder=str(tmp_path / "spill"))
    found = contested_keys.find_contested_keys(
        connection, partition.segments, '"offset" >= 0', hashes_at_once=hashes_at_once, maximum_contested=100
    )
    hashes = connection.execute("SELECT hash(x::BLOB) FROM (VALUES ('a'), ('b'), ('f')) AS t(x)").fetchall()
    connection.close()
    assert found is not None
    assert sorted(found.hashes.tolist()) == sorted(each for (each,) in hashes)
    assert (found.records, found.keyless) == ((4, 4, 2), (1, 0, 0))
    assert [segment.first_offset for segment in found.segments] == [0, 4, 8]


def test_a_compacted_log_with_few_new_keys_is_read_only_where_it_must_be(tmp_path: Path) -> None:
    """Key and offset of all once; more only of the segments that lose something or hold what replaces it."""
    clean = [(1, b"key-%d" % number, b"x" * 100, None, None) for number in range(400)]
    new = [(1, b"key-%d" % number, b"y", None, None) for number in (110, 120, 130)]
    plan = replace(planned(str(tmp_path), build_records(clean + new), {100, 200, 300, 400}), segment_bytes=1)
    partition = replace(plan.partitions[0], first_dirty_offset=400)
    queries: list[str] = []
    with open_connection(budget_of(str(tmp_path)), partition.segments) as connection:
        watched = cast("duckdb.DuckDBPyConnection", _Watched(connection, queries))
        throttle = Throttle(None)
        found = rewrite.find_partition_winners(watched, plan, partition, attempt="a", folder="f", throttle=throttle)
        looked = list(queries)
        queries.clear()
        groups = rewrite.build_segment_groups(partition, found.counts, plan.segment_bytes)
        copied = [
            rewrite.copy_group(watched, plan, partition, group, folder="f", throttle=throttle) for group in groups
        ]
    names = [segment.path for segment in partition.segments]
    assert [sum(name in query for query in looked) for name in names] == [1, 2, 1, 1, 2]
    assert not any("value" in query or "timestamp" in query for query in looked)
    assert [sum(name in query for query in queries) for name in names] == [0, 1, 0, 0, 0]
    (one,) = copied
    assert one.rewrite.inputs == (names[1],)
    assert sum(segment.records for segment in one.rewrite.outputs) == 97


class _Watched:
    """A connection that remembers the queries which read files; it carries them all out."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, queries: list[str]) -> None:
        self._connection = connection
        self._queries = queries

    def execute(self, query: str) -> duckdb.DuckDBPyConnection:
        self._note(query)
        return self._connection.execute(query)

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        self._note(query)
        return self._connection.sql(query)

    def register(self, name: str, value: pa.Table) -> None:
        self._connection.register(name, value)

    def unregister(self, name: str) -> None:
        self._connection.unregister(name)

    def _note(self, query: str) -> None:
        if "read_parquet" in query:
            self._queries.append(query)


@settings(max_examples=choose_examples(quick=20))
@given(rows=_rows, parts=st.sampled_from([1, 4, 16]))
def test_a_table_of_keys_made_in_parts_is_the_table_of_all(rows: list[Row], parts: int) -> None:
    """Where memory does not do for all keys at once; keyless records are counted once."""
    records = build_records(rows)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        plan = planned(folder, records, {7})
        by_removal = compacted(folder, plan).facts
        patch.setattr(contested_keys, "MINIMUM_RECORDS", 1 << 60)
        patch.setattr(winners, "KEY_TABLE_PARTS", (parts,))
        assert compacted(folder, plan).facts == by_removal


def test_segments_without_a_contested_key_are_not_read_again(tmp_path: Path) -> None:
    """Only those are named that hold a record which may lose, or win against one."""
    records = build_records([(1, b"key-%d" % (number % 90), b"x", None, None) for number in range(100)])
    (partition,) = planned(str(tmp_path), records, {10, 40, 95}).partitions
    connection = duckdb_connection.connect(memory_limit_bytes=1 << 28, spill_folder=str(tmp_path / "spill"))
    found = contested_keys.find_contested_keys(
        connection, partition.segments, '"offset" >= 0', hashes_at_once=99, maximum_contested=100
    )
    connection.close()
    assert found is not None
    assert [segment.first_offset for segment in found.segments] == [0, 40, 95]


def test_hashes_at_both_ends_of_their_range_are_merged() -> None:
    """Runs are merged range by range; the first and the last hash that there is belong to one."""
    least, most = 0, (1 << 64) - 1
    runs = contested_keys._SortedRuns(4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contested_keys, "_MAXIMUM_MERGED_HASHES", 2)
        for run in ([least, 5, most], [most, 1 << 63, least, 7], [1 << 63, 6]):
            runs.add(np.array(run, np.uint64))
            runs.end_run()
        assert runs.find_repeated().tolist() == [least, 1 << 63, most]


@pytest.mark.parametrize(("keys", "removes"), [(1_000, True), (300, False)])
def test_a_sample_tells_a_log_of_unique_keys_from_one_of_many_versions(
    tmp_path: Path, keys: int, removes: bool
) -> None:
    """Both ways are exact; the sample decides which is taken."""
    records = build_records([(1, b"key-%d" % (number * 7 % keys), b"x", None, None) for number in range(1_000)])
    (partition,) = planned(str(tmp_path), records, {250, 500, 750}).partitions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contested_keys, "MAXIMUM_CONTESTED_SHARE", 0.25)
        patch.setattr(contested_keys, "SAMPLED_SHARE", 0.5)
        connection = duckdb_connection.connect(memory_limit_bytes=1 << 28, spill_folder=str(tmp_path / "spill"))
        assert contested_keys.is_applicable(connection, partition) is removes
        # What was cleaned before is taken for unique without a look; too many contested keys are noticed later.
        cleaned = replace(partition, first_dirty_offset=600)
        assert contested_keys.is_applicable(connection, cleaned)
        counts = winners.pick_winners(connection, cleaned, Strategy.OFFSET)
        assert tables.find_offset_table(connection) == (tables.REMOVED_TABLE if removes else tables.SURVIVORS_TABLE)
        connection.close()
    assert counts.figures.records_kept == keys
