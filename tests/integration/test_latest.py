"""The latest state: of each key the winner by the topic's strategy, unless it is a tombstone; equal to the oracle's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.latest_state import Key, compute_latest_state
from tests.support.random_logs import (
    HEADER,
    Row,
    any_rows,
    build_records,
    make_order,
    split_records,
    write_segment_file,
)
from tests.support.world import TOPIC, World, open_world, record
from winnow.engine import duplicate_keys as contested_keys
from winnow.engine.latest_records import build_latest_plan, read_latest_records
from winnow.engine.task_resources import TaskBudget
from winnow.errors import DamagedSegmentError, UsageError
from winnow.files import storage
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.latest.records import read_latest_batches
from winnow.values.model import Record
from winnow.values.strategies import Strategy

HOUR_MS = 3_600_000
STRATEGIES = list(Strategy)


def to_records(batches: Iterable[pa.RecordBatch]) -> list[Record]:
    return [
        Record(
            row["offset"],
            row["key"],
            row["value"],
            None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000),
            None if row["headers"] is None else tuple((h["key"], h["value"]) for h in row["headers"]),
            row["timestampType"],
            row["partition"],
        )
        for batch in batches
        for row in batch.to_pylist()
    ]


def in_order(latest: Mapping[Key, Record]) -> list[Record]:
    return sorted(latest.values(), key=lambda each: (each.partition, each.offset))


def read_latest(world: World, **options: object) -> list[Record]:
    return to_records(read_latest_batches(world.installation, TOPIC, **options))  # type: ignore[arg-type]


@given(
    rows=any_rows,
    cuts=st.sets(st.integers(1, 23), max_size=3),
    strategy=st.sampled_from(STRATEGIES),
    log_start=st.integers(0, 12),
    hashed=st.booleans(),
)
def test_latest_state_equals_the_oracle_under_every_strategy(
    rows: list[Row], cuts: set[int], strategy: Strategy, log_start: int, hashed: bool
) -> None:
    """Records below the log start have no say; whichever way the engine finds winners, the same records are read."""
    records = build_records(rows)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if hashed:
            patch.setattr(contested_keys, "MINIMUM_RECORDS", 0)
        segments = tuple(
            write_segment_file(folder, number, part) for number, part in enumerate(split_records(records, cuts))
        )
        end_offset = records[-1].offset + 1
        start_offset = min(log_start, end_offset)
        plan = build_latest_plan(0, start_offset, start_offset, end_offset, segments)
        order = make_order(strategy)
        budget = TaskBudget(64 << 20, 1, folder)
        found = to_records(read_latest_records(plan, order, budget))
    readable = [each for each in records if each.offset >= start_offset]
    assert found == in_order(compute_latest_state(readable, strategy, HEADER))


_steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.lists(
                st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.booleans(), st.integers(0, 6)), min_size=1, max_size=5
            ),
        ),
        st.tuples(st.just("tick"), st.integers(1, 30)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("delete-records"), st.integers(1, 4)),
    ),
    min_size=4,
    max_size=10,
)


@settings(max_examples=settings().max_examples // 8)
@given(steps=_steps, strategy=st.sampled_from(STRATEGIES))
def test_latest_state_through_compactions_equals_the_oracle_of_what_readers_see(
    steps: list[tuple[str, object]], strategy: Strategy
) -> None:
    """Late, lower versions, tombstones that stay and go, and a raised log start: a compaction changes nothing of it."""
    config = {"compaction_strategy_header": HEADER} if strategy is Strategy.HEADER else {}
    with tempfile.TemporaryDirectory() as folder, open_world(Path(folder)) as world:
        world.create(
            2,
            cleanup_policy="compact,delete",
            segment_ms="1",
            min_cleanable_dirty_ratio="0",
            delete_retention_ms=str(HOUR_MS),
            compaction_strategy=strategy.value,
            **config,
        )
        set_config(world.installation.log.open(TOPIC), {"winnow.late.arrival.ms": str(6 * HOUR_MS)}, [])
        ends = [0, 0]
        written = 0
        latest: list[Record] = []
        for step, argument in steps:
            if step == "append":
                rows = []
                for key, deleted, rank in argument:  # type: ignore[attr-defined]
                    partition = written % 2
                    rows.append(
                        Record(
                            ends[partition],
                            key,
                            None if deleted else f"v{written}".encode(),
                            world.clock() - 40 * HOUR_MS + rank,
                            ((HEADER, rank.to_bytes(8, "big")),),
                            partition=partition,
                        )
                    )
                    ends[partition] += 1
                    written += 1
                world.ingest(sorted(rows, key=lambda each: each.partition))
            elif step == "tick":
                world.clock.now_ms += int(str(argument)) * HOUR_MS
            elif step == "compact":
                world.compact()
                assert in_order(compute_latest_state(world.read(), strategy, HEADER)) == latest
            else:
                delete_records(
                    world.installation, TOPIC, {0: min(world.state(0).log_start_offset + int(str(argument)), ends[0])}
                )
            latest = read_latest(world)
            assert latest == in_order(compute_latest_state(world.read(), strategy, HEADER))


def test_latest_of_one_key_is_read_in_every_partition_that_holds_it(world: World) -> None:
    """Keys meet within a partition only, so a key that lies in two has two latest records."""
    world.create(2, compaction_strategy="timestamp")
    rows = [record(0, b"a", b"old", 90), record(1, b"a", b"late", 10), record(2, b"b", b"x")]
    world.ingest([*rows, *(replace(each, partition=1, value=b"other") for each in rows)])
    found = read_latest(world, key=b"a")
    assert [(each.partition, each.offset, each.value) for each in found] == [(0, 0, b"old"), (1, 0, b"other")]
    assert read_latest(world, key=b"a", partition=1) == found[1:]
    assert read_latest(world, key=b"a", limit=1) == found[:1]
    assert read_latest(world, key=b"missing") == []


def test_latest_of_a_deleted_key_is_nothing_also_where_an_older_value_is_still_in_the_log(world: World) -> None:
    """The tombstone wins, and it is not part of the state."""
    world.create(1)
    world.ingest([record(0, b"a", b"x"), record(1, b"b", b"y"), record(2, b"a", None)])
    assert read_latest(world, key=b"a") == []
    assert [each.key for each in read_latest(world)] == [b"b"]


def test_limit_ends_the_reading_and_a_wrong_partition_is_refused(world: World) -> None:
    """Records are counted over all partitions."""
    world.create(2)
    world.ingest([record(n, b"%d" % n, b"x", partition=p) for p in range(2) for n in range(3)])
    assert [(each.partition, each.offset) for each in read_latest(world, limit=4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert read_latest(world, limit=0) == []
    with pytest.raises(UsageError, match="there is no partition 2"):
        read_latest(world, partition=2)


def test_damaged_value_is_found_and_the_segment_named(world: World) -> None:
    """A flipped byte of a value is not shown as somebody's latest value."""
    world.create(1)
    world.ingest([record(n, b"%d" % n, b"value-%d" % n * 50) for n in range(200)])
    (segment,) = world.segments()
    path = storage.parse_local_path(segment.path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedSegmentError, match=r"orders-0 could not be read: segment .* cannot be decoded"):
        read_latest(world)
