"""What moves a topic moves its overview, its samples and the health of its table, and never fails because of them."""

from __future__ import annotations

import pytest

from tests.support.world import TOPIC, World, build_versions, define_world, record
from winnow.errors import ServiceError
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.topics import overview
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.store.overview import Overview
from winnow.store.rows import PartitionOverview, TopicOverview, Window
from winnow.store.samples import ALL_TOPICS

HOUR_MS = 3_600_000
LAG_MS = 2 * HOUR_MS


world = define_world(
    2,
    build_versions(0, 9),
    in_the_present=True,
    segment_ms="1000",
    cleanup_policy="compact,delete",
    max_compaction_lag_ms=str(LAG_MS),
)
"""A topic of two partitions with records in one."""


def seen(world: World) -> TopicOverview:
    """The overview that the page shows."""
    found = world.installation.store.overview.find_recorded(TOPIC)
    assert found is not None
    return found


def partitions(world: World) -> list[PartitionOverview]:
    listed = world.installation.store.overview.list_partitions(TOPIC, world.clock(), Window())
    return [each.overview for each in listed.rows]


def test_an_ingest_an_undo_and_deleted_records_show_at_once(world: World) -> None:
    assert (seen(world).records, seen(world).end_offsets, seen(world).files) == (9, 9, 1)
    world.clock.now_ms += 1
    done = world.ingest(build_versions(0, 4, partition=1))
    assert (seen(world).records, seen(world).end_offsets, seen(world).files) == (13, 13, 2)
    assert done.ingest_id is not None
    undo_ingest(world.installation, TOPIC, done.ingest_id)
    assert (seen(world).records, seen(world).end_offsets) == (9, 9)
    delete_records(world.installation, TOPIC, {0: 5})
    assert partitions(world)[0].log_start_offset == 5


def test_a_large_log_shows_an_ingest_without_its_manifests_being_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MAXIMUM_REFRESHED_SEGMENTS", 0)
    monkeypatch.setattr(overview, "refresh_overview", lambda *_: pytest.fail("the manifests were read"))
    before = seen(world)
    world.ingest([record(9, b"k", b"v"), record(10, b"k", b"w")])
    after = seen(world)
    assert (after.records, after.end_offsets, after.files) == (11, 11, 2)
    assert after.size_bytes == sum(each.size_bytes for each in world.segments()) > before.size_bytes
    grown = partitions(world)[0]
    monkeypatch.undo()
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    found = partitions(world)[0]
    names = ("log_end_offset", "size_bytes", "records", "files")
    assert [getattr(grown, name) for name in names] == [getattr(found, name) for name in names]


def test_an_ingest_succeeds_although_its_overview_cannot_be_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ServiceError("The metadata store does not answer.")

    for name in ("record_topic", "add_appended"):
        monkeypatch.setattr(Overview, name, fail)
    assert world.ingest([record(9, b"k", b"v")]).records_appended == 1
    monkeypatch.setattr(overview, "MAXIMUM_REFRESHED_SEGMENTS", 0)
    assert world.ingest([record(10, b"k", b"v")]).records_appended == 1
    assert seen(world).end_offsets == 9


def test_a_compaction_before_the_deadline_keeps_it_and_a_passed_one_is_still_due(world: World) -> None:
    world.ingest([record(0, b"k", b"v", partition=1, timestamp_ms=world.clock())])
    deadline_ms = partitions(world)[1].deadline_ms
    assert deadline_ms is not None
    since_ms = deadline_ms - 24 * HOUR_MS
    world.clock.now_ms = deadline_ms + 5
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    missed = world.installation.store.deadlines.list_missed(since_ms, world.clock(), grace_ms=0, limit=9)
    assert [(each.partition, each.deadline_ms, each.settled_at_ms) for each in missed] == [(1, deadline_ms, None)]
    assert world.compact() is not None
    days = world.installation.store.deadlines.count_by_day(since_ms, world.clock(), grace_ms=10)
    assert [(each.kept, each.missed) for each in days] == [(1, 0)]
    missed = world.installation.store.deadlines.list_missed(since_ms, world.clock(), grace_ms=0, limit=9)
    assert [each.settled_at_ms for each in missed] == [world.clock()]


def test_each_hour_leaves_a_sample_of_the_topic_and_of_all(world: World) -> None:
    since_ms = world.clock()
    for hour in range(1, 3):
        world.clock.now_ms += HOUR_MS
        world.ingest([record(8 + hour, b"k", b"v")])
    samples = world.installation.store.samples
    assert [each.end_offsets for each in samples.list_samples(TOPIC, since_ms)] == [9, 10, 11]
    assert [each.end_offsets for each in samples.list_samples(ALL_TOPICS, since_ms)][1:] == [10, 11]


def test_a_sweep_records_what_it_did_and_the_table_after_it(world: World) -> None:
    grace_ms = world.installation.log.open(TOPIC).config().retired_grace_ms
    world.clock.now_ms += LAG_MS + 5
    assert world.compact() is not None
    health = world.installation.store.table_health.find(TOPIC)
    assert health is not None
    assert (health.retired_files, health.snapshots, health.files) == (1, 2, 1)
    assert health.retired_bytes > 0
    assert sum(each.files for each in health.file_sizes) == health.files
    assert health.small_files == 0, "the only file of its partition cannot be merged with another"
    world.clock.now_ms += grace_ms + 5
    (report,) = sweep_topics(world.installation, [TOPIC])
    swept = world.installation.store.table_health.find_sweep(TOPIC)
    assert swept is not None
    assert (swept.swept_at_ms, swept.files_deleted, swept.bytes_deleted, swept.orphaned_files) == (
        world.clock(),
        report.files_deleted,
        report.bytes_deleted,
        0,
    )
    after = world.installation.store.table_health.find(TOPIC)
    assert after is not None
    assert (after.retired_files, after.condemned_files) == (0, 0)
    assert after.recorded_at_ms == world.clock()


def test_a_rebuilt_store_has_overview_health_and_the_figures_of_receipts(world: World) -> None:
    world.clock.now_ms += LAG_MS + 5
    assert world.compact() is not None
    saved_bytes = world.installation.store.receipt_figures.sum_saved_bytes(TOPIC)
    world.installation.store.projection.forget_topic(TOPIC)
    assert world.installation.store.overview.find_recorded(TOPIC) is None
    rebuild_store(world.installation, [TOPIC])
    assert seen(world).records == 3
    assert world.installation.store.table_health.find(TOPIC) is not None
    assert world.installation.store.receipt_figures.sum_saved_bytes(TOPIC) == saved_bytes != 0
    (day,) = world.installation.store.receipt_figures.sum_by_day(0)
    assert 0 < day.cpu_seconds < 30
    assert day.bytes_written == sum(segment.size_bytes for segment in world.segments())
