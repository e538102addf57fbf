"""The side table of the latest state: what it holds is the oracle's answer, whatever happened to the log in between."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table

from oracle.latest_state import compute_latest_state
from tests.integration.test_latest import in_order, to_records
from tests.support.in_process_jobs import prefer_tasks, run_latest_job
from tests.support.random_logs import HEADER
from tests.support.world import TOPIC, FakeClock, World, define_world, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.engine import latest_update, task_planning
from winnow.files import storage
from winnow.log.latest_tables import LatestHead
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.latest import table as latest_table
from winnow.pipeline.latest.table import LatestUpdate, update_latest_table
from winnow.pipeline.spark import plan_job
from winnow.values.model import Record
from winnow.values.strategies import Strategy

HOUR_MS = 3_600_000
STRATEGIES = list(Strategy)
KEEPS = {"winnow.latest.table": "true"}
ALWAYS_DUE = {"segment_ms": "1", "min_cleanable_dirty_ratio": "0"}


world = define_world(in_the_present=True)
"""At the present, since snapshots have the real time."""


def create(world: World, partitions: int = 1, **config: str) -> None:
    world.create(partitions, **{**ALWAYS_DUE, **config})
    set_config(world.installation.log.open(TOPIC), KEEPS, [])


def load(world: World) -> LatestHead:
    head = world.installation.log.latest_table(TOPIC).load()
    assert head is not None
    return head


def read_rows(world: World, table: Table | None = None) -> list[Record]:
    """The table's rows: PyIceberg lists the files; read by itself, it makes an empty list of headers of none."""
    table = table or world.installation.log.catalog.load_table(("winnow_latest", TOPIC))
    paths = [storage.parse_local_path(task.file.file_path) for task in table.scan().plan_files()]
    found = [each for path in paths for each in to_records(pq.read_table(path).to_batches())]
    return sorted(found, key=lambda each: (each.partition, each.offset))


def expect(world: World, strategy: Strategy = Strategy.OFFSET) -> list[Record]:
    """What the oracle says of the records that readers of the log see now."""
    return in_order(compute_latest_state(world.read(), strategy, HEADER))


def update(world: World) -> LatestUpdate:
    return update_latest_table(world.installation, TOPIC)


def list_paths(world: World) -> set[str]:
    table = world.installation.log.latest_table(TOPIC)
    return {s.path for files in table.segments(load(world)).values() for s in files}


def test_each_publish_brings_the_table_up_to_date(world: World) -> None:
    """Inserted, updated and deleted keys; a row is the whole record, with its headers."""
    create(world)
    world.ingest([record(0, b"a", b"1"), record(1, b"b", b"1", headers=(("h", b"x"),)), record(2, b"a", b"2")])
    world.compact()
    assert read_rows(world) == [record(1, b"b", b"1", headers=(("h", b"x"),)), record(2, b"a", b"2")]
    world.ingest([record(3, b"b", None), record(4, b"c", b"1"), record(5, b"a", b"3")])
    world.compact()
    assert read_rows(world) == [record(4, b"c", b"1"), record(5, b"a", b"3")]
    head = load(world)
    assert head.reflected is not None
    assert head.reflected.snapshot_id == world.head().snapshot_id


_appends = st.tuples(
    st.just("append"),
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c", b""]), st.booleans(), st.integers(0, 6)), min_size=1, max_size=5
    ),
)
_publishes = st.sampled_from([("compact", 0), ("update", 0), ("fail", 0)])
_rare = st.one_of(
    st.tuples(st.just("delete_records"), st.integers(1, 3)),
    st.just(("undo", 0)),
    st.just(("sweep", 0)),
    st.tuples(st.just("alter"), st.sampled_from(STRATEGIES)),
)


def draw_steps(
    appends: st.SearchStrategy[tuple[str, Any]], least_rounds: int, most_rounds: int
) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Rounds of something appended, something else, some time, and a publish."""
    rounds = st.tuples(
        appends,
        st.one_of(_publishes, _publishes, _rare),
        st.tuples(st.just("tick"), st.sampled_from([0, 1, 9])),
        _publishes,
    )
    return st.lists(rounds, min_size=least_rounds, max_size=most_rounds).map(
        lambda turns: [step for turn in turns for step in turn]
    )


class History:
    """What happens to one log and its table, step by step."""

    def __init__(self, world: World, strategy: Strategy) -> None:
        self.world = world
        self.strategy = strategy
        self.written = 0

    def append(self, wanted: list[tuple[bytes, bool, int]]) -> None:
        ends = [self.world.state(partition).log_end_offset for partition in range(2)]
        rows = []
        for key, deleted, rank in wanted:
            partition = self.written % 2
            value = None if deleted else f"v{self.written}".encode()
            timestamp_ms = self.world.clock() - 40 * HOUR_MS + rank
            headers = ((HEADER, rank.to_bytes(8, "big")),)
            rows.append(Record(ends[partition], key, value, timestamp_ms, headers, partition=partition))
            ends[partition] += 1
            self.written += 1
        self.world.ingest(sorted(rows, key=lambda each: each.partition))

    def tick(self, hours: int) -> None:
        self.world.clock.now_ms += hours * HOUR_MS

    def compact(self, _: int) -> None:
        if self.world.compact() is not None:
            self.check()

    def fail(self, _: int) -> None:
        with suppressed_updates():
            self.world.compact()

    def undo(self, _: int) -> None:
        undo_newest(self.world)

    def sweep(self, _: int) -> None:
        sweep_topics(self.world.installation, [TOPIC])

    def alter(self, strategy: Strategy) -> None:
        self.strategy = strategy
        set_config(self.world.installation.log.open(TOPIC), {"compaction.strategy": strategy.value}, [])

    def delete_records(self, count: int) -> None:
        state = self.world.state()
        delete_records(self.world.installation, TOPIC, {0: min(state.log_start_offset + count, state.log_end_offset)})

    def update(self, _: int) -> None:
        done = update(self.world)
        if done.reflects is not None:
            self.check()
            assert done.rows == len(read_rows(self.world))
            assert not update(self.world).changed
            assert load(self.world).snapshot_id == done.snapshot_id

    def check(self) -> None:
        assert read_rows(self.world) == expect(self.world, self.strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=settings().max_examples // 8)
@given(steps=draw_steps(_appends, 3, 6), small_files=st.integers(1, 8), in_tasks=st.booleans())
def test_table_equals_the_oracle_after_any_history(
    steps: list[tuple[str, Any]], strategy: Strategy, small_files: int, in_tasks: bool
) -> None:
    """Late, lower versions, tombstones that expire, a raised log start, undone ingests, another strategy, sweeps.

    Some publishes do not get as far as the table; the next update makes up for them.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        open_world(Path(folder), FakeClock(read_wall_clock_ms())) as opened,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(plan_job, "run_job", run_latest_job)
        world = prefer_tasks(opened) if in_tasks else opened
        patch.setattr(latest_update, "MAXIMUM_SMALL_FILES", small_files)
        patch.setattr(task_planning, "MINIMUM_PART_BYTES", 1)
        create(world, 2, cleanup_policy="compact,delete", delete_retention_ms=str(HOUR_MS))
        times = {"winnow.late.arrival.ms": "0", "winnow.retired.grace.ms": str(5 * HOUR_MS)}
        order = {"compaction.strategy": strategy.value, "compaction.strategy.header": HEADER}
        set_config(world.installation.log.open(TOPIC), {**order, **times}, [])
        history = History(world, strategy)
        for step, argument in [*steps, ("update", 0)]:
            getattr(history, step)(argument)


def undo_newest(world: World) -> None:
    calls = list_ingests(world.installation, TOPIC).calls
    if calls and calls[0].undoable:
        undo_ingest(world.installation, TOPIC, calls[0].ingest_id)


@contextmanager
def suppressed_updates() -> Iterator[None]:
    """Publishes that die before they get to the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest_table, "update_after_publish", lambda *_: None)
        yield
