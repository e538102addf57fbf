"""The metadata store lost: table and state give back checkpoints, marks, retired files and receipts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.world import TOPIC, FakeClock, World, build_versions, compute_survivors, open_world, record
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.topics.marks import mark_uncleanable
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.planning.plans import PlanReference
from winnow.store import CheckpointRow, Store
from winnow.values.model import TopicPartition

RECORDS = [*build_versions(0, 12), record(12, b"gone", None), *build_versions(0, 6, partition=1)]


def planned(world: World) -> PlanReference:
    reference = world.plan(world.clock())
    assert reference is not None
    return reference


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[tuple[World, World]]:
    """A world before and after its store was deleted: two compactions, a mark, files that wait for their grace."""
    clock = FakeClock()
    with open_world(tmp_path, clock) as before:
        before.create(2, min_cleanable_dirty_ratio="0")
        before.ingest(RECORDS)
        before.compact()
        clock.now_ms += 60_000
        before.ingest(build_versions(13, 5))
        before.compact()
        before.ingest(build_versions(6, 3, partition=1))
        mark_uncleanable(before.installation, TOPIC, planned(before).plan_id, {1: "the check said so"})
        path = Path(before.installation.settings.store_url.removeprefix("sqlite:///"))
        copy = path.with_name("before.db")
        before.installation.store.close()
        path.rename(copy)
        for left in path.parent.glob(f"{path.name}-*"):
            left.rename(copy.with_name(copy.name + left.name.removeprefix(path.name)))
        with Store.open(f"sqlite:///{copy}") as kept, open_world(tmp_path, clock) as after:
            yield World(replace(before.installation, store=kept), clock, tmp_path), after


def told(rows: list[CheckpointRow]) -> list[CheckpointRow]:
    """Checkpoints but for the time at which the projection was written."""
    return [replace(row, updated_at_ms=0) for row in rows]


@pytest.mark.kafka("91")
def test_a_new_store_knows_nothing_and_a_rebuilt_one_everything(lost: tuple[World, World]) -> None:
    before, after = lost
    assert (
        after.installation.store.projection.list_checkpoints(),
        after.installation.store.projection.list_receipts(),
        after.installation.store.projection.list_uncleanable(),
    ) == ([], [], {})
    assert rebuild_store(after.installation) == [TOPIC]

    old, new = before.installation.store, after.installation.store
    rebuilt = told(new.projection.list_checkpoints([TOPIC]))
    assert rebuilt == told(old.projection.list_checkpoints([TOPIC]))
    assert [(row.first_dirty_offset, row.log_end_offset) for row in rebuilt] == [(18, 18), (6, 9)]
    assert [len(row.history) for row in rebuilt] != [0, 0]
    assert all(entry.delete_horizon_ms is not None for row in rebuilt for entry in row.history)
    assert new.projection.list_receipts(TOPIC) == old.projection.list_receipts(TOPIC)
    assert len(new.projection.list_receipts(TOPIC)) == 2
    assert new.projection.list_uncleanable([TOPIC]) == old.projection.list_uncleanable([TOPIC])
    assert new.projection.list_uncleanable([TOPIC]).keys() == {TopicPartition(TOPIC, 1)}
    assert new.retired_files.list_retired(TOPIC) == old.retired_files.list_retired(TOPIC)
    assert len(new.retired_files.list_retired(TOPIC)) >= 3


def test_rebuilding_again_changes_nothing(lost: tuple[World, World]) -> None:
    _, after = lost
    rebuild_store(after.installation, [TOPIC])
    store = after.installation.store
    first = (
        told(store.projection.list_checkpoints()),
        store.projection.list_receipts(),
        store.projection.list_uncleanable(),
        store.retired_files.list_retired(TOPIC),
    )
    rebuild_store(after.installation)
    assert (
        told(store.projection.list_checkpoints()),
        store.projection.list_receipts(),
        store.projection.list_uncleanable(),
        store.retired_files.list_retired(TOPIC),
    ) == first


def test_without_a_rebuild_the_log_goes_on_and_nothing_is_cleaned_twice(lost: tuple[World, World]) -> None:
    """The store is a projection: what decides rests in the table's state."""
    _, after = lost
    read = after.read()
    cleaned = compute_survivors([*RECORDS[:13], *build_versions(13, 5), *build_versions(0, 6, partition=1)])
    assert read == [*cleaned, *build_versions(6, 3, partition=1)]
    assert after.compact() is None
    after.clock.now_ms += 20 * 60_000
    receipt = after.compact()
    assert receipt is not None
    assert [part.partition for part in receipt.partitions] == [1]
    assert [row.first_dirty_offset for row in after.installation.store.projection.list_checkpoints([TOPIC])] == [18, 9]


def test_retired_files_still_go_after_their_grace(lost: tuple[World, World]) -> None:
    """Before the rebuild and after it alike: the state remembers them."""
    _, after = lost
    waiting = {file.path for file in after.head().state.retired}
    assert waiting
    rebuild_store(after.installation)
    after.clock.now_ms += 2 * 86_400_000
    read = after.read()
    (report,) = sweep_topics(after.installation, [TOPIC])
    # Snapshots of today still refer to some, as the catalog dates them; what went was recorded.
    assert report.files_deleted + report.files_waiting >= len(waiting)
    assert after.read() == read
