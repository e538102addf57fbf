"""The side table of the latest state: what it holds is the oracle's answer, whatever happened to the log in between."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table

from oracle.latest_state import compute_latest_state
from tests.integration.test_latest import in_order, to_records
from tests.support.random_logs import HEADER
from tests.support.world import TOPIC, World, build_versions, open_world, record
from winnow.engine import latest_update
from winnow.errors import ForeignTableError, UsageError
from winnow.files import storage
from winnow.log.latest_tables import LatestHead, LatestTable
from winnow.model import Record, Strategy
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction import latest_table
from winnow.pipeline.compaction.latest_table import LatestUpdate, update_latest_table
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.undo import undo_ingest

HOUR_MS = 3_600_000
STRATEGIES = list(Strategy)
KEEPS = {"winnow.latest.table": "true"}
ALWAYS_DUE = {"segment_ms": "1", "min_cleanable_dirty_ratio": "0"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path) as opened:
        yield opened


def create(world: World, partitions: int = 1, **config: str) -> None:
    world.create(partitions, **{**ALWAYS_DUE, **config})
    world.ctx.log.open(TOPIC).set_config(KEEPS, [])


def load(world: World) -> LatestHead:
    head = world.ctx.log.latest_table(TOPIC).load()
    assert head is not None
    return head


def read_rows(world: World, table: Table | None = None) -> list[Record]:
    """The table's rows: PyIceberg lists the files; read by itself, it makes an empty list of headers of none."""
    table = table or world.ctx.log.catalog.load_table(("winnow_latest", TOPIC))
    paths = [storage.parse_local_path(task.file.file_path) for task in table.scan().plan_files()]
    found = [each for path in paths for each in to_records(pq.read_table(path).to_batches())]
    return sorted(found, key=lambda each: (each.partition, each.offset))


def expect(world: World, strategy: Strategy = Strategy.OFFSET) -> list[Record]:
    """What the oracle says of the records that readers of the log see now."""
    return in_order(compute_latest_state(world.read(), strategy, HEADER))


def update(world: World) -> LatestUpdate:
    return update_latest_table(world.ctx, TOPIC)


def list_paths(world: World) -> set[str]:
    table = world.ctx.log.latest_table(TOPIC)
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
    assert head.reflected is not None and head.reflected.snapshot_id == world.head().snapshot_id


_steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.lists(
                st.tuples(st.sampled_from([b"a", b"b", b"c", b""]), st.booleans(), st.integers(0, 6)),
                min_size=1,
                max_size=6,
            ),
        ),
        st.tuples(st.just("tick"), st.integers(1, 30)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("fail"), st.just(0)),
        st.tuples(st.just("update"), st.just(0)),
        st.tuples(st.just("delete-records"), st.integers(1, 4)),
        st.tuples(st.just("undo"), st.just(0)),
        st.tuples(st.just("sweep"), st.just(0)),
        st.tuples(st.just("alter"), st.sampled_from(STRATEGIES)),
    ),
    min_size=5,
    max_size=14,
)


@settings(max_examples=settings().max_examples // 3)
@given(steps=_steps, strategy=st.sampled_from(STRATEGIES), small_files=st.integers(1, 8))
def test_table_equals_the_oracle_after_any_history(
    steps: list[tuple[str, object]], strategy: Strategy, small_files: int
) -> None:
    """Late, lower versions, tombstones that expire, a raised log start, undone ingests, another strategy, sweeps.

    Some publishes do not get as far as the table; the next update makes up for them.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        open_world(Path(folder)) as world,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(latest_update, "MAXIMUM_SMALL_FILES", small_files)
        create(world, 2, cleanup_policy="compact,delete", delete_retention_ms=str(HOUR_MS))
        order = {"compaction.strategy": strategy.value, "compaction.strategy.header": HEADER}
        log = world.ctx.log.open(TOPIC)
        log.set_config({**order, "winnow.late.arrival.ms": "0", "winnow.retired.grace.ms": str(20 * HOUR_MS)}, [])
        written = 0
        for step, argument in [*steps, ("update", 0)]:
            if step == "append":
                ends = [world.state(partition).log_end_offset for partition in range(2)]
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
                if world.compact() is not None:
                    assert read_rows(world) == expect(world, strategy)
            elif step == "fail":
                with suppressed_updates():
                    world.compact()
            elif step == "undo":
                undo_newest(world)
            elif step == "sweep":
                sweep_topics(world.ctx, [TOPIC])
            elif step == "alter":
                strategy = argument  # type: ignore[assignment]
                log.set_config({"compaction.strategy": strategy.value}, [])
            elif step == "delete-records":
                start, end = world.state().log_start_offset, world.state().log_end_offset
                delete_records(world.ctx, TOPIC, {0: min(start + int(str(argument)), end)})
            else:
                done = update(world)
                if done.reflects is None:
                    continue
                assert read_rows(world) == expect(world, strategy)
                assert done.rows == len(read_rows(world))
                assert not update(world).changed
                assert load(world).snapshot_id == done.snapshot_id


def undo_newest(world: World) -> None:
    calls = list_ingests(world.ctx, TOPIC).calls
    if calls and calls[0].undoable:
        undo_ingest(world.ctx, TOPIC, calls[0].ingest_id)


@contextmanager
def suppressed_updates() -> Iterator[None]:
    """Publishes that die before they get to the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest_table, "update_after_publish", lambda *_: None)
        yield
