"""A table of the latest state is late by the oldest record that it lacks, not by the time of its last update."""

from __future__ import annotations

import pytest

from tests.support.world import TOPIC, World, define_world, record
from winnow.log.topic_configuration import set_config
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.ingest import commit
from winnow.pipeline.latest import due_updates, progress
from winnow.pipeline.latest.due_updates import update_due_tables
from winnow.pipeline.latest.progress import measure_progress
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.latest.table_files import drop_latest_table
from winnow.pipeline.monitor import watch
from winnow.pipeline.monitor.watch import watch_topics
from winnow.pipeline.topics.overview import refresh_overview
from winnow.store.latest_progress import LatestProgress
from winnow.store.topic_rows import remove_rows

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

world = define_world(in_the_present=True)
"""At the present, since snapshots have the real time."""


def create(world: World, **config: str) -> None:
    world.create(2, segment_ms="1", min_cleanable_dirty_ratio="0")
    alter(world, winnow_latest_table="true", **config)


def alter(world: World, **config: str) -> None:
    set_config(world.installation.log.open(TOPIC), {name.replace("_", "."): text for name, text in config.items()}, [])
    refresh_overview(world.installation, TOPIC)


def ingest(world: World, offset: int, *, partition: int = 0, age_ms: int = 0) -> None:
    """Append one record whose timestamp is ``age_ms`` ago."""
    row = record(offset, b"k", b"v", partition=partition, timestamp_ms=world.clock() - age_ms)
    world.ingest([row])


def pass_time(world: World, ms: int) -> None:
    world.clock.now_ms += ms


def find(world: World) -> LatestProgress:
    found = world.installation.store.latest_tables.find(TOPIC)
    assert found is not None
    return found


def list_open(world: World) -> list[str]:
    return [row.kind for row in world.installation.store.alerts.list_open() if row.kind == "latest_late"]


def count_opened_tables(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List from now on, topic by topic, which tables of latest states a tick opens."""
    opened: list[str] = []
    genuine = measure_progress

    def look(installation: object, topic: str, **options: object) -> LatestProgress | None:
        opened.append(topic)
        return genuine(installation, topic, **options)  # type: ignore[arg-type]

    for module in (watch, due_updates, progress):
        monkeypatch.setattr(module, "measure_progress", look)
    return opened


def test_a_table_is_late_once_its_oldest_missing_record_is_older_than_the_limit(world: World) -> None:
    """The second record is younger, and that of the other partition is in time; neither changes the deadline."""
    create(world, winnow_latest_max_age_ms=str(HOUR_MS))
    ingest(world, 0, age_ms=HOUR_MS // 2)
    ingest(world, 1)
    ingest(world, 0, partition=1)
    since_ms = world.clock() - HOUR_MS // 2
    assert find(world).deadline_ms == since_ms + HOUR_MS
    pass_time(world, HOUR_MS // 2 + world.installation.settings.alert.deadline_grace_ms)
    watch_topics(world.installation)
    assert list_open(world) == []
    pass_time(world, 1)
    watch_topics(world.installation)
    assert list_open(world) == ["latest_late"]
    watch_topics(world.installation)
    update_latest_table(world.installation, TOPIC)
    watch_topics(world.installation)
    assert list_open(world) == []


def test_an_idle_topic_whose_table_shows_everything_is_never_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is anything opened to find that out, whatever else is committed to its log."""
    create(world, winnow_latest_max_age_ms=str(HOUR_MS))
    ingest(world, 0)
    update_latest_table(world.installation, TOPIC)
    opened = count_opened_tables(world, monkeypatch)
    pass_time(world, 30 * DAY_MS)
    watch_topics(world.installation)
    alter(world, segment_bytes="1000000")
    watch_topics(world.installation)
    assert (list_open(world), opened) == ([], [])
    assert find(world).missing_since_ms is None


def test_records_that_came_during_an_update_are_missing_after_it(world: World) -> None:
    create(world, winnow_latest_max_age_ms=str(HOUR_MS))
    ingest(world, 0, age_ms=10)
    update_latest_table(world.installation, TOPIC)
    ingest(world, 1, age_ms=7)
    since_ms = world.clock() - 7
    pass_time(world, 5)
    assert find(world).missing_since_ms == since_ms
    measured = measure_progress(world.installation, TOPIC)
    assert measured is not None
    assert measured.missing_since_ms == since_ms
    update_latest_table(world.installation, TOPIC)
    assert find(world).missing_since_ms is None


def test_an_append_whose_process_died_before_the_store_knew_is_found_by_the_next_watch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, winnow_latest_max_age_ms=str(HOUR_MS))
    ingest(world, 0)
    update_latest_table(world.installation, TOPIC)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "refresh_after_append", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            ingest(world, 1)
    assert find(world).missing_since_ms is None
    pass_time(world, HOUR_MS + world.installation.settings.alert.deadline_grace_ms + 1)
    watch_topics(world.installation)
    assert list_open(world) == ["latest_late"]


def test_a_table_that_was_never_made_or_was_dropped_lacks_every_record(world: World) -> None:
    create(world)
    ingest(world, 0, age_ms=DAY_MS)
    since_ms = world.clock() - DAY_MS
    alter(world, winnow_latest_max_age_ms=str(HOUR_MS))
    assert find(world).deadline_ms == since_ms + HOUR_MS
    update_latest_table(world.installation, TOPIC)
    assert find(world).deadline_ms is None
    drop_latest_table(world.installation, TOPIC)
    assert find(world).deadline_ms == since_ms + HOUR_MS


def test_a_topic_that_keeps_no_table_any_more_is_not_late(world: World) -> None:
    create(world, winnow_latest_max_age_ms="1")
    ingest(world, 0, age_ms=DAY_MS)
    watch_topics(world.installation)
    assert list_open(world) == ["latest_late"]
    alter(world, winnow_latest_table="false")
    watch_topics(world.installation)
    assert list_open(world) == []
    assert world.installation.store.latest_tables.find(TOPIC) is None


def test_a_table_with_a_number_of_seconds_is_updated_by_a_tick_when_they_are_over_and_records_came(
    world: World,
) -> None:
    create(world, winnow_latest_update="60")
    ingest(world, 0)
    assert update_due_tables(world.installation) == [TOPIC]
    assert update_due_tables(world.installation) == []
    pass_time(world, DAY_MS)
    assert update_due_tables(world.installation) == []
    ingest(world, 1)
    pass_time(world, 59_999 - DAY_MS)
    assert update_due_tables(world.installation) == []
    pass_time(world, 1)
    assert update_due_tables(world.installation) == [TOPIC]
    assert find(world).missing_since_ms is None


def test_a_table_that_cannot_be_updated_is_tried_again_after_its_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create(world, winnow_latest_update="60")
    ingest(world, 0)
    with monkeypatch.context() as patch:
        patch.setattr("winnow.pipeline.latest.table.load_topic_view", lambda *_: 1 // 0)
        assert update_due_tables(world.installation) == [TOPIC]
    assert "is behind its log" in caplog.text
    assert update_due_tables(world.installation) == []
    pass_time(world, 60_000)
    assert update_due_tables(world.installation) == [TOPIC]
    assert find(world).due_ms is None


def test_an_assessment_of_a_store_that_was_lost_finds_the_table_again(world: World) -> None:
    """The store may be made anew at any time: what it lacks is looked at, and nothing is late that is shown."""
    create(world, winnow_latest_max_age_ms=str(HOUR_MS))
    ingest(world, 0, age_ms=2 * DAY_MS)
    update_latest_table(world.installation, TOPIC)
    store = world.installation.store
    with store._database.writing() as session:
        remove_rows(session, TOPIC)
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    watch_topics(world.installation)
    assert list_open(world) == []
    assert find(world).missing_since_ms is None
