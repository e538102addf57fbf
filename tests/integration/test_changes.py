"""Changes between two states: the keys that the oracle finds inserted, updated and deleted, and no others."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.latest_state import Key, compute_changes, compute_latest_state
from tests.support.cli_runner import make_topic, record, winnow, write_lines
from tests.support.key_changes import read_offset_changes, read_snapshot_changes
from tests.support.random_logs import (
    HEADER,
    Row,
    build_records,
    make_order,
    split_records,
    version_headers,
    write_segment_file,
)
from tests.support.world import TOPIC, World, open_world
from tests.support.world import record as make_record
from winnow.engine.key_changes import LogExtent, read_key_changes
from winnow.engine.task_resources import TaskBudget
from winnow.errors import UsageError
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.explain.changes import OffsetBounds
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.values.model import Record
from winnow.values.strategies import Strategy

HOUR_MS = 3_600_000
Changes = dict[Key, tuple[str, bytes | None, int | None, int | None]]

_rows = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.none() | st.sampled_from([b"", b"a", b"b", b"c"]),
        st.none() | st.sampled_from([b"", b"x"]),
        st.none() | st.integers(0, 3),
        version_headers,
    ),
    min_size=1,
    max_size=20,
)


def to_changes(batches: Iterable[pa.RecordBatch]) -> Changes:
    found: Changes = {}
    for batch in batches:
        for row in batch.to_pylist():
            place = (row["partition"], row["key"])
            assert place not in found
            assert (row["timestamp"] is None) or row["change"] != "deleted"
            found[place] = (row["change"], row["value"], row["offset"], row["previous_offset"])
    return found


def expect(before: Mapping[Key, Record], after: Mapping[Key, Record]) -> Changes:
    found: Changes = {}
    for place, change in compute_changes(before, after).items():
        new, old = after.get(place), before.get(place)
        found[place] = (
            change,
            None if new is None else new.value,
            None if new is None else new.offset,
            None if old is None else old.offset,
        )
    return found


@given(
    rows=_rows,
    cuts=st.sets(st.integers(1, 19), max_size=3),
    strategy=st.sampled_from(Strategy),
    bounds=st.tuples(st.integers(0, 6), st.integers(4, 40), st.integers(0, 6), st.integers(4, 40)),
    holds=st.tuples(*[st.just(15) | st.integers(0, 15)] * 2),
)
def test_changes_between_any_two_extents_equal_the_oracle(
    rows: list[Row], cuts: set[int], strategy: Strategy, bounds: tuple[int, int, int, int], holds: tuple[int, int]
) -> None:
    """Some files in both, some in one of them, log starts and ends anywhere: in either direction."""
    records = build_records(rows)
    with tempfile.TemporaryDirectory() as folder:
        parts = split_records(records, cuts)
        files = [write_segment_file(folder, number, part) for number, part in enumerate(parts)]
        extents, states = [], []
        for start, end, mask in ((*bounds[:2], holds[0]), (*bounds[2:], holds[1])):
            held = [number for number in range(len(files)) if mask >> number & 1]
            extents.append(LogExtent(tuple(files[number] for number in held), start, end))
            seen = [each for number in held for each in parts[number] if start <= each.offset < end]
            states.append(compute_latest_state(seen, strategy, HEADER))
        order = make_order(strategy)
        budget = TaskBudget(64 << 20, 1, folder)
        for compares in (False, True):
            found = to_changes(read_key_changes(0, extents[0], extents[1], order, budget, compares_records=compares))
            assert found == expect(states[0], states[1])


_steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.lists(
                st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.booleans(), st.integers(0, 6)), min_size=1, max_size=5
            ),
        ),
        st.tuples(st.just("compact"), st.integers(0, 30)),
        st.tuples(st.just("delete-records"), st.integers(1, 4)),
        st.tuples(st.just("undo"), st.just(0)),
    ),
    min_size=4,
    max_size=8,
)


@settings(max_examples=settings().max_examples // 10)
@given(steps=_steps, strategy=st.sampled_from(Strategy))
def test_changes_between_snapshots_and_offsets_of_real_histories_equal_the_oracle(
    steps: list[tuple[str, Any]], strategy: Strategy
) -> None:
    """Appends, compactions, raised log starts and undone ingests; each pair of neighbouring snapshots, and the ends."""
    config = {"compaction_strategy_header": HEADER} if strategy is Strategy.HEADER else {}
    with tempfile.TemporaryDirectory() as folder, open_world(Path(folder)) as world:
        world.create(
            1,
            cleanup_policy="compact,delete",
            segment_ms="1",
            min_cleanable_dirty_ratio="0",
            delete_retention_ms=str(HOUR_MS),
            compaction_strategy=strategy.value,
            **config,
        )
        seen: list[tuple[int, dict[Key, Record]]] = []
        last_ingest = ""
        for number, (step, argument) in enumerate([("append", [(b"a", False, 1), (b"b", False, 1)]), *steps]):
            state = world.state()
            if step == "append":
                rows = [
                    Record(
                        state.log_end_offset + at,
                        key,
                        None if deleted else f"v{number}".encode(),
                        world.clock() - 40 * HOUR_MS + rank,
                        ((HEADER, rank.to_bytes(8, "big")),),
                    )
                    for at, (key, deleted, rank) in enumerate(argument)
                ]
                last_ingest = world.ingest(rows).ingest_id or ""
            elif step == "compact":
                world.clock.now_ms += int(str(argument)) * HOUR_MS
                world.compact()
                last_ingest = ""
            elif step == "undo":
                if last_ingest:
                    undo_ingest(world.installation, TOPIC, last_ingest)
                last_ingest = ""
            else:
                start = min(state.log_start_offset + int(str(argument)), state.log_end_offset)
                delete_records(world.installation, TOPIC, {0: start})
                last_ingest = ""
            snapshot_id = world.head().snapshot_id
            assert snapshot_id is not None
            seen.append((snapshot_id, compute_latest_state(world.read(), strategy, HEADER)))
        for (old_id, old), (new_id, new) in [*itertools.pairwise(seen), (seen[0], seen[-1]), (seen[-1], seen[0])]:
            found = to_changes(read_snapshot_changes(world.installation, TOPIC, old_id, new_id))
            # Offsets of an undone ingest are given again, so a record at the same offset may be another one.
            assert found == expect_by_record(old, new)
        _check_offsets(world, strategy)


def expect_by_record(before: Mapping[Key, Record], after: Mapping[Key, Record]) -> Changes:
    """As the oracle, and updated also where another record has the same offset."""
    found = expect(before, after)
    for place in before.keys() & after.keys():
        old, new = before[place], after[place]
        if old != new:
            found[place] = ("updated", new.value, new.offset, old.offset)
    return found


def _check_offsets(world: World, strategy: Strategy) -> None:
    records = world.read()
    state = world.state()
    bounds = range(state.log_start_offset, state.log_end_offset + 1)
    for start, end in [(bounds[0], bounds[-1]), (bounds[len(bounds) // 2], bounds[-1]), (bounds[0], bounds[-1] // 2)]:
        try:
            found = to_changes(
                read_offset_changes(world.installation, TOPIC, OffsetBounds(start), OffsetBounds(max(start, end)))
            )
        except UsageError as problem:
            refused = str(problem)
            found = None
        else:
            refused = ""
        if found is None:
            assert "not known any more" in refused
            assert (state.first_dirty_offset or 0) > min(each for each in (start, end) if each > bounds[0])
            continue
        states = [
            compute_latest_state([each for each in records if each.offset < bound], strategy, HEADER)
            for bound in (start, max(start, end))
        ]
        assert found == expect(*states)


def test_bounds_inside_one_file_are_between_its_records(world: World) -> None:
    """No file is in one state only: the records between the bounds are."""
    world.create(1)
    world.ingest([make_record(0, b"a", b"x"), make_record(1, b"b", b"y"), make_record(2, b"a", b"z")])
    found = to_changes(read_offset_changes(world.installation, TOPIC, OffsetBounds(1), OffsetBounds(2)))
    assert found == {(0, b"b"): ("inserted", b"y", 1, None)}
    found = to_changes(
        read_offset_changes(world.installation, TOPIC, OffsetBounds(by_partition={0: 2}), OffsetBounds())
    )
    assert found == {(0, b"a"): ("updated", b"z", 2, 0)}


def test_record_at_the_offset_of_an_undone_one_is_an_update(world: World) -> None:
    """The offset is the same, the record is not."""
    world.create(1)
    world.ingest([make_record(0, b"a", b"x")])
    report = world.ingest([make_record(1, b"b", b"wrong"), make_record(2, b"c", b"same")])
    before = world.head().snapshot_id
    assert before is not None
    assert report.ingest_id is not None
    undo_ingest(world.installation, TOPIC, report.ingest_id)
    world.ingest([make_record(1, b"b", b"right"), make_record(2, b"c", b"same")])
    found = to_changes(read_snapshot_changes(world.installation, TOPIC, before))
    assert found == {(0, b"b"): ("updated", b"right", 1, 1)}


def test_compaction_alone_changes_no_key(world: World) -> None:
    """However many records it removes."""
    world.create(1, segment_ms="1", min_cleanable_dirty_ratio="0")
    world.ingest([make_record(n, b"%d" % (n % 3), b"x") for n in range(12)] + [make_record(12, b"0", None)])
    before = world.head().snapshot_id
    assert before is not None
    assert world.compact() is not None
    assert len(world.read()) == 3
    assert to_changes(read_snapshot_changes(world.installation, TOPIC, before)) == {}


def test_state_before_a_compaction_is_asked_by_snapshot_and_refused_by_offset(world: World) -> None:
    """What the compaction removed is not guessed: the old snapshot still has it."""
    world.create(1, segment_ms="1", min_cleanable_dirty_ratio="0")
    world.ingest([make_record(0, b"a", b"old"), make_record(1, b"b", b"x")])
    before = world.head().snapshot_id
    assert before is not None
    world.ingest([make_record(2, b"a", b"new")])
    world.compact()
    with pytest.raises(UsageError, match=r"--from-offset 2 of orders-0 lies below 3, .* not known any more"):
        to_changes(read_offset_changes(world.installation, TOPIC, OffsetBounds(2), OffsetBounds()))
    found = to_changes(read_snapshot_changes(world.installation, TOPIC, before))
    assert found == {(0, b"a"): ("updated", b"new", 2, 0)}
    assert to_changes(read_offset_changes(world.installation, TOPIC, OffsetBounds(3), OffsetBounds())) == {}


# As it is typed


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def make_customers(tmp_path: Path) -> list[int]:
    """Two ingests; the snapshots after each."""
    winnow("topics", "create", "customers", "--partitions", 1)
    snapshots: list[int] = []
    parts: list[list[tuple[str, str | None]]] = [
        [("ann", "berlin"), ("bob", "paris"), ("eva", "rom")],
        [("bob", None), ("ann", "bonn"), ("cleo", "oslo")],
    ]
    for number, part in enumerate(parts):
        rows = [record(key, value, partition=0, offset=3 * number + at) for at, (key, value) in enumerate(part)]
        path = write_lines(tmp_path / f"{number}.jsonl", rows)
        snapshots.append(winnow("ingest", "files", "customers", path, "--json").document["snapshot_id"])
    return snapshots


def test_changes_are_lines_in_the_order_of_the_newer_record(tmp_path: Path) -> None:
    """The same between the snapshots and between the offsets of the two ingests."""
    old, new = make_customers(tmp_path)
    by_snapshot = winnow("changes", "customers", "--from-snapshot", old, "--text").stdout
    found = lines(by_snapshot)
    assert [
        (each["change"], each["key"], each["value"], each["offset"], each["previous_offset"]) for each in found
    ] == [
        ("deleted", "bob", None, None, 1),
        ("updated", "ann", "bonn", 4, 0),
        ("inserted", "cleo", "oslo", 5, None),
    ]
    assert list(found[0]) == ["change", "partition", "key", "value", "offset", "timestamp", "previous_offset"]
    for flags in (["--from-snapshot", old, "--to-snapshot", new], ["--from-offset", 3], ["--from-offset", "0:3"]):
        assert winnow("changes", "customers", *flags, "--text").stdout == by_snapshot
    assert lines(winnow("changes", "customers", "--from-offset", 3, "--to-offset", "0:4", "--text").stdout) == found[:1]
    target = tmp_path / "changes.parquet"
    winnow("changes", "customers", "--from-offset", 3, "--format", "parquet", "--output", target)
    assert pq.read_table(target).column("key").to_pylist() == [b"bob", b"ann", b"cleo"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "Say between which states"),
        (["--to-snapshot", 1], "Say between which states"),
        (["--from-snapshot", 1, "--from-offset", 1], "Say between which states"),
        (["--from-snapshot", 12345], "has no snapshot 12345"),
        (["--from-offset", "x"], "takes one O, or P:O"),
        (["--from-offset", "0:1", "--from-offset", "0:2"], "names partition 0 twice"),
        (["--from-offset", "9:1"], "there is no partition 9"),
        (["--from-offset", 77], "before --from-offset 77"),
        (["--from-offset", 4, "--to-offset", 2], "lies behind --to-offset 2"),
        (["--from-offset", 1, "--format", "parquet"], "needs --output FILE"),
    ],
)
def test_states_that_cannot_be_compared_end_with_two(tmp_path: Path, flags: list[object], said: str) -> None:
    """One sentence, no rows."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("changes", "orders", *flags, code=2)
    assert answer.stdout == ""
    assert said in answer.stderr
