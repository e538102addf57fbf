"""The fast key census passes exactly when the one that groups by key bytes does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.staging_builder import ATTEMPT, Case, Scene, build_orders_cases, record, stage
from winnow.errors import ServiceError
from winnow.files import duckdb_connection
from winnow.quality import key_check_in_memory as fast_key_census
from winnow.quality.key_check_in_memory import FastKeyCensus, KeyTable, RecordPositions, hash_records, stream_hashes
from winnow.quality.key_check_spilling import EXACT, KeyCensus
from winnow.quality.recomputation import IndependentFacts, recompute_facts
from winnow.values.model import OffsetRange, Record
from winnow.values.strategies import Strategy

# The leading part of a hash chooses the slot: these crowd into few of them.
_hashes = st.sampled_from([0, 1, 2, 3, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1])


def unsigned(numbers: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(numbers, dtype=np.uint64)


@given(held=st.lists(_hashes, unique=True), asked=st.lists(_hashes))
def test_a_table_finds_each_hash_that_it_holds_and_no_other(held: list[int], asked: list[int]) -> None:
    table = KeyTable(unsigned(held))
    expected = [held.index(each) if each in held else -1 for each in asked]
    assert table.find(unsigned(asked)).tolist() == expected
    assert not table.has_duplicates


@given(held=st.lists(_hashes, min_size=2))
def test_a_table_knows_whether_a_hash_is_there_twice(held: list[int]) -> None:
    assert KeyTable(unsigned(held)).has_duplicates == (len(set(held)) < len(held))


@given(parts=st.lists(st.lists(st.binary(max_size=20), max_size=5)), threads=st.sampled_from([1, 3]))
def test_hashes_of_a_stream_stand_beside_their_own_records(
    parts: list[list[bytes]], threads: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However the records are cut into batches, also empty ones, and however many threads hash them."""
    starts = np.cumsum([0, *map(len, parts)])
    batches = [
        pa.record_batch(
            {
                "key": pa.array(keys, pa.binary()),
                "offset": pa.array(range(start, start + len(keys)), pa.int64()),
                "present": pa.array([offset % 3 == 0 for offset in range(start, start + len(keys))], pa.bool_()),
            }
        )
        for keys, start in zip(parts, starts.tolist(), strict=False)
    ]
    connection = duckdb_connection.connect(
        memory_limit_bytes=32 << 20, threads=threads, spill_folder=str(tmp_path_factory.mktemp("spill"))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_key_census, "_STREAM_ROWS", 2)
        try:
            single = [hash_records(connection, batch, "hash(key)", 'hash(key, "offset")') for batch in batches]
            found = list(stream_hashes(connection, batches, "hash(key)", 'hash(key, "offset")'))
        finally:
            connection.close()
    expected = {
        (offset, offset % 3 == 0, keys, both)
        for start, hashes in zip(starts.tolist(), single, strict=False)
        for offset, (keys, both) in enumerate(zip(*(each.tolist() for each in hashes), strict=True), start)
    }
    rows = [
        (*row, *hashes)
        for each, rest in found
        for row, hashes in zip(
            zip(*(rest.column(name).to_pylist() for name in ("offset", "present")), strict=True),
            zip(*(part.tolist() for part in each), strict=True),
            strict=True,
        )
    ]
    assert len(rows) == sum(map(len, parts))
    assert set(rows) == expected


def test_an_error_of_the_records_ends_a_stream_of_hashes_unchanged(tmp_path: Path) -> None:
    """DuckDB would make its own of it, and a store that cannot be reached would look like a broken check."""

    def records() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"key": pa.array([b"a"], pa.binary()), "offset": pa.array([0], pa.int64())})
        raise ServiceError("The object store does not answer.")

    connection = duckdb_connection.connect(memory_limit_bytes=32 << 20, spill_folder=str(tmp_path))
    try:
        with pytest.raises(ServiceError, match="does not answer"):
            list(stream_hashes(connection, records(), "hash(key)"))
        assert [len(hashes) for (hashes,), _ in stream_hashes(connection, [], "hash(key)")] == []
    finally:
        connection.close()


_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(-1, 2), st.booleans()), max_size=12)


@given(
    survivors=_rows,
    inputs=_rows.map(lambda rows: list({row[1]: row for row in rows}.values())),
    tombstones=st.sets(st.integers(0, 9)),
    gone=st.integers(0, 2),
    by_version=st.booleans(),
)
def test_the_quick_census_gives_what_grouping_gives_or_nothing(
    survivors: list[tuple[int, int, int, bool]],
    inputs: list[tuple[int, int, int, bool]],
    tombstones: set[int],
    gone: int,
    by_version: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever the survivors and the inputs are, records that were there and records that were not."""
    quick = FastKeyCensus(100)
    quick.add_survivors(*looked_up(survivors, by_version), by_reference=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_key_census, "_MINIMUM_RECORDS_TO_REDUCE", 2)
        for cut in (inputs[:3], inputs[3:]):
            quick.add_inputs(
                *looked_up(cut, by_version), np.array([row[1] in tombstones for row in cut], dtype=np.bool_)
            )
    connection = duckdb_connection.connect(
        memory_limit_bytes=32 << 20, spill_folder=str(tmp_path_factory.mktemp("spill"))
    )
    try:
        with KeyCensus(connection, OffsetRange(0, 10), EXACT, by_version=by_version, expiring=True) as census:
            census.add_survivors(batch_of(survivors, by_version), by_reference=False)
            may_go = pa.array([row[1] in tombstones for row in inputs], pa.bool_())
            counted = census.count_keys([batch_of(inputs, by_version).append_column("may_go", may_go)])
    finally:
        connection.close()
    found = quick.build_result(gone)
    if found is not None:
        assert found == counted
    else:
        # What is sound has no survivor that is not itself among the inputs.
        met = {(row[0], row[1]) for row in survivors} <= {(row[0], row[1]) for row in inputs}
        assert not (met and counted.is_clean(gone))


def looked_up(rows: list[tuple[int, int, int, bool]], by_version: bool) -> tuple[np.ndarray, RecordPositions]:
    offsets = np.array([row[1] for row in rows], dtype=np.int64)
    places = RecordPositions(offsets)
    if by_version:
        versions = np.array([row[2] for row in rows], dtype=np.int64)
        places = RecordPositions(offsets, versions, np.array([row[3] for row in rows], dtype=np.bool_))
    return unsigned([row[0] for row in rows]), places


def batch_of(rows: list[tuple[int, int, int, bool]], by_version: bool) -> pa.RecordBatch:
    key = pa.array([b"%d" % row[0] for row in rows], pa.binary())
    columns = {"key": key, "offset": pa.array([row[1] for row in rows], pa.int64())}
    if by_version:
        columns["present"] = pa.array([row[3] for row in rows], pa.bool_())
        columns["version"] = pa.array([row[2] for row in rows], pa.int64())
    return pa.record_batch(columns)


def facts(scene: Scene, memory_limit_bytes: int) -> IndependentFacts:
    return recompute_facts(
        scene.plan,
        scene.plan.partitions[0],
        scene.staged(),
        attempt=ATTEMPT,
        memory_limit_bytes=memory_limit_bytes,
        threads=1,
        spill_folder=str(scene.folder / "spill"),
    )


def moved(records: list[Record]) -> list[Record]:
    """The last new record one offset further, where a segment begins that nobody rewrote."""
    return [*records[:-1], replace(records[-1], offset=records[-1].offset + 1)]


@pytest.mark.parametrize("strategy", [Strategy.OFFSET, Strategy.TIMESTAMP])
@pytest.mark.parametrize("case", ["sound", "older", "twice", "lost", "foreign"])
def test_survivors_that_do_not_fit_into_memory_give_the_same_facts(
    tmp_path: Path, case: str, strategy: Strategy
) -> None:
    """Sound or not: what is looked up and what is grouped and spilled agree in every figure."""
    whole = build_orders_cases()
    newest = next(each for each in whole.survivors if each.offset == 16)
    older = next(r for records in whole.inputs for r in records if r.key == newest.key)
    others = tuple(each for each in whole.survivors if each is not newest)
    survivors = {"older": (older, *others), "twice": (older, *whole.survivors), "lost": others}
    scene = stage(tmp_path, {0: replace(whole, survivors=survivors.get(case, whole.survivors))})
    scene.plan = replace(scene.plan, strategy=strategy)
    if case == "foreign":
        scene.rewrite_file(moved, tell=True)
    found = facts(scene, 64 << 20)
    assert facts(scene, 1) == found
    wrong = (found.duplicate_keys, found.stale_winners, found.keys_in - found.keys_kept, found.offsets_not_in_input)
    assert (
        wrong
        == {
            "sound": (0, 0, 0, 0),
            "older": (0, 1, 0, 0),
            "twice": (1, 1, 0, 0),
            "lost": (0, 0, 1, 0),
            "foreign": (0, 0, 0, 1),
        }[case]
    )


def test_a_record_moved_from_one_rewrite_to_another_is_foreign_to_it(tmp_path: Path) -> None:
    """Its offset was among the inputs of the partition, but not among those that its file replaces."""
    inputs = (
        (record(0, "a"), record(1, "a")),
        (record(2, "kept"),),
        (record(3, "b"), record(4, "b")),
    )
    scene = stage(tmp_path, {0: Case(inputs, (inputs[0][1], inputs[1][0], inputs[2][1]))})
    staged = scene.staged()
    (rewrite,) = staged.rewrites
    scene.set_staged(
        replace(
            staged,
            rewrites=(
                replace(rewrite, inputs=rewrite.inputs[:1]),
                replace(rewrite, inputs=rewrite.inputs[1:], outputs=()),
            ),
        )
    )
    assert facts(scene, 64 << 20).offsets_not_in_input == 1
