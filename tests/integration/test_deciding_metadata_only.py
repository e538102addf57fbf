"""Deciding what to compact reads manifests and state: no data file is opened and no Spark is started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import TOPIC, World, build_versions, open_world, record
from winnow.files import storage
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.plan import plan_topic
from winnow.pipeline.explain.explain import explain_compaction
from winnow.pipeline.topics.definition import describe_topic
from winnow.values.model import Reason


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two partitions: one compacted with new records behind it, one never compacted; without any data file."""
    with open_world(tmp_path) as opened:
        opened.create(3, min_cleanable_dirty_ratio="0")
        opened.ingest([*build_versions(0, 9), record(9, b"gone", None)])
        opened.compact()
        opened.ingest([*build_versions(10, 5), *build_versions(0, 7, partition=1)])
        for partition in range(2):
            for segment in opened.segments(partition):
                assert storage.parse_local_path(segment.path).is_file()
                storage.parse_local_path(segment.path).unlink()
        yield opened


def test_assess_needs_no_data_file(world: World) -> None:
    found = {a.partition: a for a in assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())}
    assert [(a.eligible, a.reason) for a in found.values()] == [
        (True, Reason.DIRTY_RATIO),
        (True, Reason.DIRTY_RATIO),
        (False, Reason.EMPTY),
    ]
    assert (found[0].first_dirty_offset, found[0].first_uncleanable_offset) == (10, 15)
    assert (found[0].clean_bytes, found[0].cleanable_bytes) == tuple(
        sum(s.size_bytes for s in world.segments(0) if (s.first_offset < 10) is clean) for clean in (True, False)
    )
    assert found[1].cleanable_bytes == world.segments(1)[0].size_bytes
    assert found[0].clean_bytes > 0


def test_plan_needs_no_data_file_and_names_every_one_it_covers(world: World) -> None:
    reference = plan_topic(world.installation, TOPIC, as_of_ms=world.clock(), attempt="a1")
    assert reference is not None
    assert reference.partitions == 2
    assert reference.size_bytes == sum(s.size_bytes for p in range(2) for s in world.segments(p))


def test_explain_and_describe_need_no_data_file_and_count_tombstones(world: World) -> None:
    world.clock.now_ms += 2 * 86_400_000
    explained = {
        p.partition: p for p in explain_compaction(world.installation, TOPIC, as_of_ms=world.clock()).partitions
    }
    assert (explained[0].records, explained[1].records) == (4 + 5, 7)
    assert describe_topic(world.installation, TOPIC).records == {0: 9, 1: 7}


def test_explain_writes_nothing_and_gives_the_plan_that_would_be_carried_out(world: World) -> None:
    before, runs = world.listing(), world.installation.store.runs.list_runs(TOPIC)
    explained = explain_compaction(world.installation, TOPIC, as_of_ms=world.clock())
    assert (world.listing(), world.installation.store.runs.list_runs(TOPIC)) == (before, runs)
    reference = plan_topic(world.installation, TOPIC, as_of_ms=world.clock(), attempt="a1")
    assert reference is not None
    assert reference.plan_id == explained.plan_id


def test_planning_the_same_decision_again_is_the_same_plan(world: World) -> None:
    one = plan_topic(world.installation, TOPIC, as_of_ms=world.clock(), attempt="a1")
    two = plan_topic(world.installation, TOPIC, as_of_ms=world.clock(), attempt="a2")
    assert one is not None
    assert one == two
    assert [run.plan_id for run in world.installation.store.runs.list_open(TOPIC)] == [one.plan_id]


def test_deciding_loads_neither_spark_nor_great_expectations() -> None:
    """Not even their packages: assess answers in a second."""
    program = (
        "import sys, winnow.pipeline.compaction.assess, winnow.pipeline.compaction.plan, "
        "winnow.pipeline.explain.explain;"
        "print([name for name in ('pyspark', 'great_expectations') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
