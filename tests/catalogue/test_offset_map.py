"""What Kafka's offset map stands for: every key of the range is found, however many there are and however far apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.catalogue.log_builder import HOUR_MS
from tests.support.random_logs import build_table
from tests.support.world import TOPIC, FakeClock, World, build_versions, compute_survivors, open_world, record
from winnow.config.settings import load_settings
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import open_installation
from winnow.pipeline.read.records import read_batches
from winnow.values.model import Reason

LEAST_MEMORY_BYTES = 1_000_000
"""The smallest setting there is."""


@contextmanager
def small_world(folder: Path) -> Iterator[World]:
    """A world whose engine has hardly any memory."""
    clock = FakeClock()
    env = {"WINNOW_HOME": str(folder / "home"), "WINNOW_ENGINE__MEMORY_BYTES": str(LEAST_MEMORY_BYTES)}
    with open_installation(load_settings(cwd=folder, env=env), now_ms=clock) as installation:
        yield World(installation, clock, folder)


@pytest.mark.kafka("27")
@pytest.mark.parametrize("files", [1, 3, 5])
def test_exactly_the_keys_of_the_range_lose_their_older_record(tmp_path: Path, files: int) -> None:
    """500 keys in five files, then again in five; the range ends after the first few of the second five."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", min_compaction_lag_ms=str(HOUR_MS), internal_segment_bytes="1")
        old, now = world.clock() - HOUR_MS, world.clock()
        records = [
            record(n, b"key-%d" % (n % 500), b"%d" % n, old if n < 500 + files * 100 else now) for n in range(1_000)
        ]
        for start in range(0, 1_000, 100):
            world.ingest(records[start : start + 100])
        receipt = world.compact()
        assert receipt is not None
        (part,) = receipt.partitions
        end = 500 + files * 100
        assert (part.next_first_dirty_offset, part.records_in, part.records_kept) == (end, end, 500)
        assert world.read() == compute_survivors(records, end)
        assert [r.offset for r in world.read()] == [*range(files * 100, 1_000)]


@pytest.mark.kafka("28")
def test_many_more_keys_than_memory_are_all_compacted_in_one_run(tmp_path: Path) -> None:
    """72 MB of keys, twice; a setting of 1 MB counts as the least that works, 32 MiB. Nothing is left dirty."""
    count = 60_000
    records = [record(n, b"%01200d" % (n * 7 % count), b"%d" % n) for n in range(2 * count)]
    path = tmp_path / "many.parquet"
    pq.write_table(build_table(records), path)
    with small_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0")
        ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock())
        receipt = world.compact()
        assert receipt is not None
        (part,) = receipt.partitions
        assert (part.next_first_dirty_offset, part.records_in, part.records_kept) == (2 * count, 2 * count, count)
        found = [
            offset for batch in read_batches(world.installation, TOPIC) for offset in batch.column("offset").to_pylist()
        ]
        assert found == [each.offset for each in compute_survivors(records)]


@pytest.mark.kafka("31")
def test_one_run_with_the_least_memory_removes_every_older_record(tmp_path: Path) -> None:
    """Keys 0, 1, 0, 1, 0, of which the first two are clean: offsets 3 and 4 remain at once."""
    with small_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
        world.ingest(build_versions(0, 2, keys=2))
        world.compact()
        world.ingest(build_versions(2, 3, keys=2))
        world.compact()
        assert [r.offset for r in world.read()] == [3, 4]
        assert world.compact() is None


@pytest.mark.kafka("29")
def test_two_keys_millions_of_offsets_apart_are_both_found(tmp_path: Path) -> None:
    """The range ends after the far one."""
    far = 1 << 40
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0")
        records = [record(0, b"near", b"1"), record(1, b"far", b"1"), record(far, b"far", b"2")]
        world.ingest(records)
        world.compact()
        assert world.read() == [records[0], records[2]]
        assert world.state().first_dirty_offset == far + 1


@pytest.mark.kafka("30")
@pytest.mark.parametrize("firsts", [(0, 10), (0, 10, 1 << 33)], ids=["one gap", "two gaps"])
def test_the_checkpoint_jumps_over_the_gap_before_the_active_segment(tmp_path: Path, firsts: tuple[int, ...]) -> None:
    """Files of five records with gaps between them; the last is active. Looking again finds nothing to do."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", segment_ms=str(HOUR_MS))
        old, now = world.clock() - 2 * HOUR_MS, world.clock()
        for first in firsts:
            at_ms = now if first == firsts[-1] else old
            world.ingest([record(first + n, b"k", b"%d" % (first + n), at_ms) for n in range(5)])
        world.compact()
        assert world.state().first_dirty_offset == firsts[-1]
        assert world.compact() is None
        (found,) = assess_topics(world.installation, [TOPIC], as_of_ms=now, record=False)
        assert (found.reason, found.cleanable_bytes) == (Reason.NO_CLOSED_SEGMENT, 0)
        assert [r.offset for r in world.read()] == [firsts[-2] + 4, *(firsts[-1] + n for n in range(5))]


@pytest.mark.kafka("32")
@pytest.mark.parametrize("keys", [10, 100, 1_000, 5_000])
def test_every_key_is_found_at_its_own_last_offset(tmp_path: Path, keys: int) -> None:
    """Each key comes twice, the second time in another order."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0")
        second = {n: keys + (n * 7) % keys for n in range(keys)}
        by_offset = {n: n for n in range(keys)} | {offset: n for n, offset in second.items()}
        world.ingest([record(offset, b"key-%d" % by_offset[offset], b"x") for offset in sorted(by_offset)])
        world.compact()
        assert {r.key: r.offset for r in world.read()} == {b"key-%d" % n: offset for n, offset in second.items()}


@pytest.mark.kafka("33")
def test_nothing_known_of_one_partition_or_run_is_known_in_the_next(tmp_path: Path) -> None:
    """The same keys in two partitions of one plan, and again in a second run of one of them."""
    with open_world(tmp_path) as world:
        world.create(2, min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
        both = [*build_versions(0, 6), *build_versions(0, 3, partition=1)]
        world.ingest(both)
        world.compact()
        assert world.read() == compute_survivors(both)
        more = build_versions(3, 3, partition=1)
        world.ingest(more)
        world.compact()
        assert world.read() == compute_survivors([*both, *more])


@pytest.mark.kafka("35", "126")
def test_the_covered_end_follows_the_last_record_although_it_lost(tmp_path: Path) -> None:
    """The last two records have older timestamps than the first, so the last survivor lies far below the checkpoint."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", compaction_strategy="timestamp", internal_segment_bytes="1")
        world.ingest(
            [record(0, b"k", b"newest", 3_000), record(1, b"k", b"older", 2_000), record(7, b"k", b"old", 1_000)]
        )
        world.compact()
        assert [(r.offset, r.value) for r in world.read()] == [(0, b"newest")]
        assert (world.state().first_dirty_offset, world.state().log_end_offset) == (8, 8)
        assert world.compact() is None


@pytest.mark.kafka("36")
def test_as_many_records_are_kept_as_there_are_keys_at_every_step(tmp_path: Path) -> None:
    """Five steps of new and old keys; each receipt counts the whole log below its end."""
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
        for step in range(1, 6):
            world.ingest([record(step * 10 + n, b"key-%d" % n, b"x") for n in range(step)])
            receipt = world.compact()
            assert receipt is not None
            (part,) = receipt.partitions
            assert (part.records_kept, part.records_superseded) == (step, step - 1)
