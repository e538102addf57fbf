"""The checkpoint goes where the data goes, pauses nest, and only a run at work can be finished.

The files of a broker's checkpoints, and their import, are in tests/unit/test_checkpoint_file.py and
tests/integration/test_checkpoint_import.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import TOPIC, World, build_versions, compute_survivors, define_world, open_world
from winnow.errors import ValidationFailedError, WinnowError
from winnow.pipeline.admin.checkpoints import export_checkpoints, import_checkpoints
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.partitions import list_partitions, pause_partitions, resume_partitions
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.sources.checkpoint_file import CheckpointEntry
from winnow.values.model import Reason

world = define_world(
    2,
    [*build_versions(0, 6), *build_versions(0, 3, partition=1)],
    min_cleanable_dirty_ratio="0",
    internal_segment_bytes="1",
)
"""Two partitions; every file is closed, and anything cleanable is reason enough."""


def reasons(world: World) -> list[Reason]:
    return [a.reason for a in assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)]


@pytest.mark.kafka("87")
def test_a_checkpoint_that_was_written_is_read_back_by_everybody(world: World) -> None:
    """From the log's own state, from the metadata store, and as an entry for a broker's file."""
    world.compact()
    assert [world.state(n).first_dirty_offset for n in (0, 1)] == [6, 3]
    assert [row.first_dirty_offset for row in world.installation.store.projection.list_checkpoints([TOPIC])] == [6, 3]
    assert export_checkpoints(world.installation, TOPIC) == [CheckpointEntry(TOPIC, 0, 6), CheckpointEntry(TOPIC, 1, 3)]


@pytest.mark.kafka("90")
def test_a_checkpoint_beyond_the_log_counts_from_its_start_until_the_log_reaches_it(world: World) -> None:
    """An archive is never cut off; one that lags behind the broker is what looks like it. Nothing is raised."""
    import_checkpoints(world.installation, TOPIC, [CheckpointEntry(TOPIC, 0, 8), CheckpointEntry(TOPIC, 1, 2)])
    found = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    assert [a.first_dirty_offset for a in found] == [0, 2]
    import_checkpoints(world.installation, TOPIC, [CheckpointEntry(TOPIC, 1, 1)])
    assert world.state(1).first_dirty_offset == 2
    world.ingest(build_versions(6, 4))
    found = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    assert found[0].first_dirty_offset == 8


@pytest.mark.kafka("91")
def test_the_checkpoint_goes_where_the_data_goes(world: World, tmp_path: Path) -> None:
    """The home is moved and its metadata store lost: what the table carries is what counts."""
    world.compact()
    state = world.head().state
    world.installation.store.close()
    store = Path(world.installation.settings.store_url.removeprefix("sqlite:///"))
    for each in store.parent.glob(f"{store.name}*"):
        each.unlink()
    with open_world(world.folder, world.clock) as moved:
        rebuild_store(moved.installation)
        assert moved.head().state == state
        assert [row.first_dirty_offset for row in moved.installation.store.projection.list_checkpoints([TOPIC])] == [
            6,
            3,
        ]
        assert moved.compact() is None


@pytest.mark.kafka("92")
def test_only_what_is_at_work_can_be_finished_and_finishing_writes_its_end(world: World) -> None:
    """Nothing planned, planned only, staged and judged, and finished twice."""
    with pytest.raises(WinnowError, match="no run of plan"):
        publish_attempt(world.installation, "0" * 32, "a1")
    plan = world.plan(world.clock())
    assert plan is not None
    with pytest.raises(ValidationFailedError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.installation.store.projection.list_checkpoints([TOPIC]) == []
    world.stage(plan)
    world.accept(plan)
    receipt = publish_attempt(world.installation, plan.plan_id, "a1")
    assert [part.next_first_dirty_offset for part in receipt.partitions] == [6, 3]
    assert [row.first_dirty_offset for row in world.installation.store.projection.list_checkpoints([TOPIC])] == [6, 3]
    assert publish_attempt(world.installation, plan.plan_id, "a1") == receipt


@pytest.mark.kafka("93")
def test_finishing_retention_moves_the_log_start_and_no_checkpoint(world: World) -> None:
    """The checkpoint is only kept inside the log; nothing is called clean that was not cleaned."""
    world.compact()
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
    delete_records(world.installation, TOPIC, {0: 6})
    world.ingest(build_versions(6, 3))
    plan = world.plan(world.clock())
    assert plan is not None
    with pytest.raises(ValidationFailedError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    world.stage(plan)
    world.accept(plan)
    publish_attempt(world.installation, plan.plan_id, "a1")
    assert (world.state(0).log_start_offset, world.state(0).first_dirty_offset) == (6, 6)
    assert world.state(1).first_dirty_offset == 3
    assert world.read(0) == build_versions(6, 3)
    assert world.compact() is None


@pytest.mark.kafka("94")
def test_nested_pauses_need_as_many_resumes(world: World) -> None:
    """Two names pause one partition; the other is compacted meanwhile, and in the end nothing is left of it."""
    pause_partitions(world.installation, TOPIC, [0], by="truncation")
    pause_partitions(world.installation, TOPIC, [0], by="copying")
    pause_partitions(world.installation, TOPIC, [0], by="copying")
    assert reasons(world) == [Reason.PAUSED, Reason.DIRTY_RATIO]
    world.compact()
    assert world.read() == [*build_versions(0, 6), *build_versions(0, 3, partition=1)]
    resume_partitions(world.installation, TOPIC, [0], by="copying")
    assert reasons(world) == [Reason.PAUSED, Reason.CLEAN]
    resume_partitions(world.installation, TOPIC, [0], by="somebody else")
    assert reasons(world) == [Reason.PAUSED, Reason.CLEAN]
    resume_partitions(world.installation, TOPIC, [0], by="truncation")
    assert [row.state for row in list_partitions(world.installation, TOPIC)] == ["none", "none"]
    world.compact()
    assert world.read(0) == compute_survivors(build_versions(0, 6))
