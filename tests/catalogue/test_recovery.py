"""Merging, replacing, damage and crashes: the log is the old one or the new one, and nothing in between.

The crashes themselves are in tests/faults, where real processes are killed at every step.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.random_logs import build_table
from tests.support.world import (
    NOW_MS,
    TOPIC,
    FakeClock,
    World,
    build_versions,
    compute_survivors,
    define_world,
    open_world,
    record,
)
from winnow.engine import staging
from winnow.engine.damage import explain_failure
from winnow.engine.read_ranges import SegmentSurvivors, group_segments
from winnow.engine.rewrite import compact_partition
from winnow.errors import DamagedSegmentError, PlanVoidError
from winnow.files import storage
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.topics.definition import alter_topic
from winnow.values.model import PartitionPlan, Segment

world = define_world(1, min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
"""Every file is closed, and anything cleanable is reason enough."""


# -------------------------------------------------------------------------------------------------------------- merging


@pytest.mark.kafka("71")
@pytest.mark.parametrize(
    ("segment_bytes", "sizes"), [(10**9, [6]), (1, [1] * 6), (300, [3, 3]), (299, [2, 2, 2])], ids=str
)
def test_neighbours_are_merged_up_to_the_limit_in_order(segment_bytes: int, sizes: list[int]) -> None:
    """Six segments of which 100 bytes each survive: all together, one by one, three by three."""
    segments = [Segment(f"s{n}", 0, n * 10, n * 10 + 9, 10, 200, None, None, 0) for n in range(6)]
    found = group_segments([SegmentSurvivors(segment, 5) for segment in segments], segment_bytes)
    assert [len(group) for group in found] == sizes
    assert [member.segment for group in found for member in group] == segments


@pytest.mark.kafka("71", "84")
def test_merged_segments_keep_their_order_over_gaps_wider_than_31_bits(world: World) -> None:
    """Three rounds, each with a jump of more than 2^31 offsets; whoever opens the log anew reads the same."""
    world.create(1, topic="wide", min_cleanable_dirty_ratio="0", segment_ms="1")
    written = []
    for jump in range(3):
        block = [record((jump << 33) + n, b"k%d" % (n % 4), b"%d-%d" % (jump, n)) for n in range(8)]
        block.append(record((jump << 33) + (1 << 32), b"only-%d" % jump, b"x"))
        written += block
        world.ingest(block, topic="wide")
        world.compact(topic="wide")
        assert world.read(topic="wide") == compute_survivors(written)
    assert world.state(topic="wide").log_end_offset == (2 << 33) + (1 << 32) + 1
    with open_world(world.folder, world.clock) as anew:
        assert anew.read(topic="wide") == compute_survivors(written)
        assert anew.compact(topic="wide") is None


# ------------------------------------------------------------------------------------------------------------ replacing


@pytest.mark.kafka("77")
def test_inputs_that_retention_took_meanwhile_are_not_removed_twice(world: World) -> None:
    """The log start moves past a planned file between plan and publish: the plan is void, the next run counts right."""
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact,delete"}, [])
    for start in range(0, 9, 3):
        world.ingest(build_versions(start, 3))
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    delete_records(world.installation, TOPIC, {0: 3})
    with pytest.raises(PlanVoidError, match="orders-0"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == build_versions(3, 6)
    world.clock.now_ms += 1
    receipt = world.compact()
    assert receipt is not None
    (part,) = receipt.partitions
    assert (part.records_retired, part.records_in, part.records_kept, part.records_superseded) == (3, 6, 3, 3)
    assert world.read() == build_versions(6, 3)


@pytest.mark.kafka("83")
def test_replaced_files_are_out_of_the_log_at_once_and_on_record_until_they_are_swept(world: World) -> None:
    """What left the log is named in its state; nothing else is."""
    world.ingest(build_versions(0, 6))
    before = {segment.path for segment in world.segments()}
    world.compact()
    assert {file.path for file in world.head().state.retired} == before
    assert before.isdisjoint(segment.path for segment in world.segments())


# -------------------------------------------------------------------------------------------------------- large records


@pytest.mark.kafka("79")
def test_a_record_much_larger_than_a_segment_is_compacted_like_any_other(world: World) -> None:
    """Twenty megabytes in a log of tiny segments, superseded by another twenty."""
    world.create(1, topic="large", min_cleanable_dirty_ratio="0", segment_bytes="1000")
    records = [record(0, b"k", b"x" * 20_000_000), record(1, b"small", b"v"), record(2, b"k", b"y" * 20_000_000)]
    path = world.folder / "large.parquet"
    pq.write_table(build_table(records), path)
    ingest_files(world.installation, "large", [str(path)], as_of_ms=world.clock())
    receipt = world.compact(topic="large")
    assert receipt is not None
    assert receipt.partitions[0].records_superseded == 1
    assert world.read(topic="large") == records[1:]


@pytest.mark.kafka("80")
def test_a_limit_that_was_lowered_afterwards_stops_nothing(world: World) -> None:
    """max.message.bytes binds producers; what is in the log stays compactable, and more may come from the archive."""
    world.ingest([record(n, b"k", b"x" * 1_000) for n in range(3)])
    alter_topic(world.installation, TOPIC, {"max.message.bytes": "10"}, [])
    world.ingest([record(3, b"other", b"x" * 1_000)])
    world.compact()
    assert [r.offset for r in world.read()] == [2, 3]


# --------------------------------------------------------------------------------------------------------------- damage


def first_segment(world: World) -> tuple[Segment, Path]:
    segment = world.segments()[0]
    return segment, storage.parse_local_path(segment.path)


def what_failed(world: World) -> Exception:
    """The error of carrying out the plan, in the words of the engine's own explanation."""
    reference = world.plan(world.clock())
    assert reference is not None
    plan = staging.read_plan(reference.uri)
    partition: PartitionPlan = plan.partitions[0]
    with pytest.raises(Exception) as failed:  # noqa: PT011 - the engine's library says what it likes
        compact_partition(plan, partition, attempt="a1", budget=world.installation.budget)
    return explain_failure(failed.value, plan.topic, partition)


@pytest.mark.kafka("81")
def test_a_segment_with_damaged_bytes_is_named_and_not_compacted(world: World) -> None:
    """Its footer is no footer any more. The log, and what can be read of it, stay as they were."""
    world.ingest(build_versions(0, 6))
    world.ingest(build_versions(6, 3))
    segment, path = first_segment(world)
    content = path.read_bytes()
    path.write_bytes(content[:-4] + b"\x00" * 4)
    problem = what_failed(world)
    assert isinstance(problem, DamagedSegmentError)
    assert segment.path in str(problem)
    assert world.state().first_dirty_offset is None
    path.write_bytes(content)
    world.clock.now_ms += 1
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 9))


@pytest.mark.kafka("82")
@pytest.mark.parametrize("left", [0, 100, -1], ids=["nothing", "the beginning", "all but one byte"])
def test_a_truncated_segment_is_named_and_not_compacted(world: World, left: int) -> None:
    """How many bytes are missing is said."""
    world.ingest(build_versions(0, 6))
    segment, path = first_segment(world)
    path.write_bytes(path.read_bytes()[:left])
    problem = what_failed(world)
    assert isinstance(problem, DamagedSegmentError)
    assert f"{segment.path} has {path.stat().st_size:,} bytes instead of {segment.size_bytes:,}" in str(problem)
    assert world.state().first_dirty_offset is None


@pytest.mark.kafka("78")
def test_a_run_that_is_stopped_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    """Paused by somebody while it is at work: files were written, none is published, and resuming lets the next go."""
    from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions

    with open_world(tmp_path, FakeClock(NOW_MS)) as world:
        world.create(1, min_cleanable_dirty_ratio="0")
        world.ingest(build_versions(0, 9))
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        world.accept(plan)
        pause_partitions(world.installation, TOPIC, by="truncation")
        with pytest.raises(PlanVoidError, match="was paused"):
            publish_attempt(world.installation, plan.plan_id, "a1")
        assert (world.read(), world.state().first_dirty_offset) == (build_versions(0, 9), None)
        assert world.compact() is None
        resume_partitions(world.installation, TOPIC, by="truncation")
        world.clock.now_ms += 1
        world.compact()
        assert world.read() == compute_survivors(build_versions(0, 9))
