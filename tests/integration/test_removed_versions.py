"""Removed records of a key: found in files that runs took out of the log, and never more than may be seen."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.world import NOW_MS, TOPIC, FakeClock, World, open_world, record
from winnow.clock import DAY_MS, read_wall_clock_ms
from winnow.files import storage
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.erase.erase import EraseRequest, commit_erasure
from winnow.pipeline.explain import removed_versions
from winnow.pipeline.explain.removed_versions import RemovedVersions, find_removed_versions, list_run_files
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.values.model import Record


def look_for(world: World, key: bytes, partition: int | None = None) -> RemovedVersions:
    """What is found of ``key``."""
    view = load_topic_view(world.installation, TOPIC)
    return find_removed_versions(view, key, partition, world.clock())


def list_offsets(found: RemovedVersions) -> list[int]:
    """The offsets that are found."""
    return [each.offset for each in found.records]


def fill(world: World) -> None:
    """Make a topic with ``a`` at 0, 1 and 3 and ``b`` at 2, in two files; a run keeps 2 and 3."""
    world.create(
        1, segment_bytes="14", min_cleanable_dirty_ratio="0", cleanup_policy="compact,delete", retention_ms="-1"
    )
    world.ingest([record(0, b"a", b"old")])
    world.ingest([record(1, b"a", b"older"), record(2, b"b", b"x"), record(3, b"a", b"new")])
    world.ingest([record(4, b"z", b"x")])
    assert world.compact() is not None


def test_a_removed_record_is_found_with_its_value_and_the_run_that_removed_it(world: World) -> None:
    """It is not shown by the representation of the answer, which a log could hold."""
    fill(world)
    found = look_for(world, b"a")
    assert list_offsets(found) == [0, 1]
    assert [each.record.column("value")[0].as_py() for each in found.records] == [b"old", b"older"]
    (receipt,) = world.installation.store.projection.list_receipts(TOPIC)
    assert {each.plan_id for each in found.records} == {receipt.plan_id}
    assert all(each.is_certain for each in found.records)
    assert "older" not in repr(found)
    world.clock.now_ms += 400 * DAY_MS
    assert not any(each.is_certain for each in look_for(world, b"a").records)


def test_nothing_is_found_of_an_erased_key_of_deleted_records_or_of_swept_files(tmp_path: Path) -> None:
    """Neither what an erasure condemned, nor what lies below the log start, nor what a sweep deleted."""
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as world:
        fill(world)
        delete_records(world.installation, TOPIC, {0: 1})
        assert list_offsets(look_for(world, b"a")) == [1]
        commit_erasure(world.installation, EraseRequest(TOPIC, (b"a",), "request 4711"))
        assert list_offsets(look_for(world, b"a")) == []
        world.ingest([record(5, b"b", b"y")])
        world.ingest([record(6, b"z", b"x")])
        assert world.compact() is not None
        assert list_offsets(look_for(world, b"b")) == [2]
        world.clock.now_ms += 400 * DAY_MS
        sweep_topics(world.installation, [TOPIC])
        assert look_for(world, b"b").files == 0


def test_a_file_that_cannot_be_read_is_counted_and_hides_no_other(world: World) -> None:
    """So is one that is too much for one look."""
    fill(world)
    view = load_topic_view(world.installation, TOPIC)
    file = next(each for each in list_run_files(view, None) if f"-{1:020d}-" in each.path)
    storage.write_bytes(file.path, b"no parquet")
    found = look_for(world, b"a")
    assert (list_offsets(found), found.damaged_files) == ([0], 1)


def test_one_look_reads_a_bounded_number_of_bytes(world: World) -> None:
    """The newest files first; the others are counted."""
    fill(world)
    view = load_topic_view(world.installation, TOPIC)
    files = list_run_files(view, None)
    chosen, unread = removed_versions.choose_files(files, sum(each.size_bytes for each in files) - 1)
    assert (chosen, unread) == (files[1:], 1)


_steps = st.lists(
    st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.none() | st.just(b"x")), min_size=1, max_size=5)
    | st.just("compact"),
    min_size=1,
    max_size=6,
)


@settings(max_examples=max(10, settings().max_examples // 5))
@given(steps=_steps)
def test_what_a_random_history_removed_is_found_with_the_run_that_did(
    steps: list[list[tuple[bytes, bytes | None]] | str],
) -> None:
    """Exactly the records that came and are not there, each with its value and with the run after which it was not."""
    with tempfile.TemporaryDirectory() as folder, open_world(Path(folder)) as world:
        world.create(
            1, segment_ms="1", delete_retention_ms="0", winnow_late_arrival_ms="0", min_cleanable_dirty_ratio="0"
        )
        brought: dict[int, Record] = {}
        removed_by: dict[int, str | None] = {}
        for step in steps:
            world.clock.now_ms += 1000
            if not isinstance(step, str):
                first = len(brought)
                rows = [record(first + n, key, value, NOW_MS - DAY_MS) for n, (key, value) in enumerate(step)]
                world.ingest(rows)
                brought |= {each.offset: each for each in rows}
                continue
            before = {each.offset for each in world.read()}
            receipt = world.compact()
            gone = before - {each.offset for each in world.read()}
            removed_by |= dict.fromkeys(gone, None if receipt is None else receipt.plan_id)
        for key in (b"a", b"b"):
            found = look_for(world, key, 0)
            expected = {offset: plan_id for offset, plan_id in removed_by.items() if brought[offset].key == key}
            assert {each.offset: each.plan_id for each in found.records} == expected
            assert found.total == len(expected)
            for each in found.records:
                assert each.record.column("value")[0].as_py() == brought[each.offset].value
