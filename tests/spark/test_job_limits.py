"""``winnow compact`` under a broker's names for threads and rate, with a real Spark application."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import pytest

from tests.support.world import FakeClock, World, build_versions, compute_survivors, open_world
from winnow.clock import read_wall_clock_ms

PARTITIONS = 3
RECORDS = [each for partition in range(PARTITIONS) for each in build_versions(0, 300, keys=20, partition=partition)]
RATE = 20_000


@dataclass(frozen=True)
class Limited:
    """The world after a compaction with one cleaner thread and a rate, and the bytes it had to read once."""

    world: World
    read_bytes: int


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limited]:
    """Three partitions, two cores, one cleaner thread."""
    with open_world(tmp_path_factory.mktemp("limited"), FakeClock(read_wall_clock_ms())) as world:
        world.create(PARTITIONS, min_cleanable_dirty_ratio="0")
        world.ingest(RECORDS)
        read_bytes = sum(segment.size_bytes for number in range(PARTITIONS) for segment in world.segments(number))
        limits = {
            "WINNOW_KAFKA__LOG_CLEANER_THREADS": "1",
            "WINNOW_KAFKA__LOG_CLEANER_IO_MAX_BYTES_PER_SECOND": str(RATE),
        }
        home = {"WINNOW_HOME": str(world.installation.settings.home), "WINNOW_SPARK__MASTER": "local[2]"}
        done = subprocess.run(
            [sys.executable, "-m", "winnow.cli", "compact", "--json"],
            env=os.environ | home | limits,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert [topic["status"] for topic in json.loads(done.stdout)] == ["published"]
        yield Limited(world, read_bytes)


def test_one_cleaner_thread_cleans_one_partition_after_the_other(limited: Limited) -> None:
    """Every new segment was written by the same Spark task, though there are two cores."""
    folders = {
        PurePosixPath(segment.path).parent.name
        for number in range(PARTITIONS)
        for segment in limited.world.segments(number)
    }
    assert len(folders) == 1


def test_rate_reaches_the_task_and_holds_it_back(limited: Limited) -> None:
    """The task needed at least as long as its bytes need at the rate."""
    (receipt,) = limited.world.installation.log.open("orders").receipts()
    written_bytes = sum(part.bytes_out for part in receipt.partitions)
    assert sum(part.seconds for part in receipt.partitions) >= (2 * limited.read_bytes + written_bytes) / RATE


def test_limits_change_nothing_about_what_is_kept(limited: Limited) -> None:
    """The oracle's records, byte for byte."""
    assert limited.world.read() == compute_survivors(RECORDS)
