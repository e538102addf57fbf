"""When the page's picture of a topic is taken, and that it is the topic's present: a real table, files and store."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.world import TOPIC, FakeClock, World, build_versions, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.files import storage
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.explain.explain import explain_compaction
from winnow.pipeline.topics.definition import alter_topic, create_topic, describe_topic
from winnow.pipeline.topics.marks import mark_uncleanable, release_marks
from winnow.pipeline.topics.overview import (
    build_partition_overviews,
    build_topic_overview,
    decide_for_present,
    refresh_overview,
)
from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.pipeline.topics.topic_view import EarlierRuns, load_topic_view
from winnow.store.overview import Overview
from winnow.store.projection import Projection
from winnow.store.rows import PartitionOverview, TopicOverview, TopicSummary, Window
from winnow.values.model import OverviewState, Reason, Record
from winnow.values.results import Receipt

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A topic of two partitions, the first with records on three keys, whose clock closes segments after an hour."""
    # Snapshots carry the catalog's own time, by which the sweep goes.
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as opened:
        opened.create(2, min_cleanable_dirty_ratio="0.3", segment_ms=str(HOUR_MS), max_compaction_lag_ms=str(DAY_MS))
        opened.ingest(fresh(opened, 0, 30))
        yield opened


def fresh(world: World, first_offset: int, count: int, *, age_ms: int = 2 * HOUR_MS) -> list[Record]:
    """Records written ``age_ms`` ago."""
    return [
        record(each.offset, each.key, each.value, world.clock() - age_ms)
        for each in build_versions(first_offset, count)
    ]


def topic(world: World) -> TopicSummary:
    """The topic as the page shows it at the world's present."""
    found = world.installation.store.overview.find_topic(TOPIC, world.clock())
    assert found is not None
    return found


def picture(world: World) -> TopicOverview:
    """Its picture."""
    return topic(world).overview


def partition(world: World, number: int = 0) -> PartitionOverview:
    """The picture of one partition."""
    return world.installation.store.overview.list_partitions(TOPIC, world.clock(), Window()).rows[number].overview


def test_a_new_topic_is_on_the_page_at_once_and_so_is_what_is_ingested(world: World) -> None:
    """Empty and healthy, then due, before anybody assessed it."""
    create_topic(world.installation, "fresh", 2, {})
    empty = world.installation.store.overview.find_topic("fresh", world.clock())
    assert empty is not None
    assert (empty.state, empty.overview.partitions, empty.overview.size_bytes) == (OverviewState.HEALTHY, 2, 0)
    (segment,) = world.segments()
    seen = topic(world)
    assert (seen.state, seen.overview.size_bytes) == (OverviewState.DUE, segment.size_bytes)
    assert [partition(world, number).reason for number in range(2)] == [Reason.DIRTY_RATIO.value, Reason.EMPTY.value]


def test_assessing_records_the_picture_of_what_it_looked_at(world: World) -> None:
    """Bytes, offsets, ratio, deadline and configuration are those of the table."""
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    described, (segment,) = describe_topic(world.installation, TOPIC), world.segments()
    found = picture(world)
    assert (found.as_of_ms, found.recorded_at_ms) == (world.clock(), world.clock())
    assert (found.table_name, found.location) == (f"winnow.{TOPIC}", described.location)
    assert (found.policy, found.strategy, found.compacts, found.threshold) == ("compact", "offset", True, 0.3)
    assert (found.eligible, found.dirty_ratio, found.size_bytes) == (1, 1.0, segment.size_bytes)
    assert found.deadline_ms == world.clock() - 2 * HOUR_MS + DAY_MS
    assert topic(world).state is OverviewState.DUE
    rows = json.loads(found.configuration)
    assert [row["name"] for row in rows] == [entry.name for entry in described.config]
    assert all(row["sentence"] for row in rows)
    assert {row["name"] for row in rows if not row["is_default"]} == {
        *("min.cleanable.dirty.ratio", "segment.ms", "max.compaction.lag.ms")
    }
    first = partition(world)
    assert (first.log_start_offset, first.first_dirty_offset, first.first_uncleanable_offset) == (0, 0, 30)
    assert (first.active_offset, first.log_end_offset, first.reason) == (None, 30, Reason.DIRTY_RATIO.value)


def test_active_segment_and_lag_are_drawn_where_they_begin(world: World) -> None:
    """Clean, then cleanable, then too young, then active."""
    world.compact()
    alter_topic(world.installation, TOPIC, {"min.compaction.lag.ms": str(4 * HOUR_MS)}, [])
    for first, age_ms in ((30, 5 * HOUR_MS), (33, 3 * HOUR_MS), (36, 0)):
        world.ingest(fresh(world, first, 3, age_ms=age_ms))
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    found = partition(world)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (30, 33)
    assert (found.active_offset, found.log_end_offset) == (36, 39)


def test_planning_records_the_picture_also_of_an_idle_topic(world: World) -> None:
    """And a plan that is due is seen as due while it is carried out."""
    assert world.plan(world.clock()) is not None
    assert topic(world).state is OverviewState.DUE
    world.compact()
    world.clock.now_ms += HOUR_MS
    assert world.plan(world.clock()) is None
    assert (topic(world).state, picture(world).recorded_at_ms) == (OverviewState.HEALTHY, world.clock())


def test_a_compacted_topic_is_healthy_at_once_and_not_at_the_next_check(world: World) -> None:
    """It was overdue before; publishing looks again."""
    world.clock.now_ms += 2 * DAY_MS
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    assert topic(world).state is OverviewState.OVERDUE
    world.compact()
    seen = topic(world)
    assert (seen.state, seen.deadline_ms, seen.overview.dirty_ratio) == (OverviewState.HEALTHY, None, 0.0)
    assert (partition(world).first_dirty_offset, partition(world).reason) == (30, Reason.CLEAN.value)
    (retired,) = world.head().state.retired
    assert seen.overview.retired_bytes == retired.size_bytes > 0


def test_swept_bytes_are_not_shown_as_waiting(world: World) -> None:
    """The sweep looks again where it removed something."""
    world.compact()
    world.clock.now_ms += 2 * DAY_MS
    assert picture(world).retired_bytes > 0
    sweep_topics(world.installation, [TOPIC])
    assert picture(world).retired_bytes == 0


def test_reclaimable_bytes_are_unknown_before_the_first_run_and_estimated_after_it(world: World) -> None:
    """Also where nothing is due yet; nothing to clean is nothing to gain."""
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    assert (partition(world).reclaimable_bytes, picture(world).reclaimable_bytes) == (None, None)
    assert partition(world, 1).reclaimable_bytes == 0
    receipt = world.compact()
    assert receipt is not None
    assert picture(world).reclaimable_bytes == 0
    alter_topic(world.installation, TOPIC, {"min.cleanable.dirty.ratio": "1"}, [])
    world.ingest(fresh(world, 30, 30))
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    found = partition(world)
    size_bytes = sum(segment.size_bytes for segment in world.segments())
    assert not found.eligible
    assert found.reclaimable_bytes is not None
    assert 0 < found.reclaimable_bytes < size_bytes
    assert picture(world).reclaimable_bytes == found.reclaimable_bytes


def test_reclaimable_bytes_of_a_topic_are_at_least_those_of_the_partitions_that_are_known(world: World) -> None:
    """Nothing known, or nothing but 0 beside what is unknown, is unknown."""
    view = load_topic_view(world.installation, TOPIC)
    earlier = EarlierRuns(world.installation, TOPIC)
    first, second = build_partition_overviews(view, decide_for_present(view), earlier)[:2]
    for known, total in (((5, 7), 12), ((5, None), 5), ((0, None), None), ((None, None), None), ((0, 0), 0)):
        partitions = [
            replace(each, reclaimable_bytes=of_it) for each, of_it in zip((first, second), known, strict=True)
        ]
        assert build_topic_overview(view, partitions, recorded_at_ms=0).reclaimable_bytes == total


def test_earlier_runs_are_read_once_for_a_decision_and_never_for_an_idle_topic(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Picture and plan share what the store says."""
    asked: list[str | None] = []
    genuine = Projection.list_receipts

    def receipts(projection: Projection, topic: str | None = None, limit: int | None = None) -> list[Receipt]:
        asked.append(topic)
        return genuine(projection, topic, limit)

    monkeypatch.setattr(Projection, "list_receipts", receipts)
    world.plan(world.clock())
    assert asked == [TOPIC]
    world.compact()
    asked.clear()
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    assert asked == []


@pytest.mark.parametrize("shift_ms", [-30 * DAY_MS, 30 * DAY_MS])
def test_picture_is_of_the_present_whatever_as_of_is_asked_about(world: World, shift_ms: int) -> None:
    """A backfill over last month and a simulated next one are not what is due today."""
    world.compact()
    world.ingest(fresh(world, 30, 30, age_ms=0))
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock() + shift_ms)
    assert (picture(world).as_of_ms, topic(world).state) == (world.clock(), OverviewState.HEALTHY)
    assert partition(world).active_offset == 30


def test_looking_without_recording_leaves_the_picture_alone(world: World) -> None:
    """Explaining, and assessing for a forecast."""
    world.clock.now_ms += HOUR_MS
    before = picture(world)
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    explain_compaction(world.installation, TOPIC, as_of_ms=world.clock())
    assert picture(world) == before


def test_pause_resume_mark_and_release_are_seen_at_once(world: World) -> None:
    """The reason of the picture follows the mark, so that nothing contradicts itself."""
    seen = []

    def look() -> None:
        row = world.installation.store.overview.list_partitions(TOPIC, world.clock(), Window()).rows[0]
        seen.append((row.state.value, row.overview.reason, row.overview.eligible))

    pause_partitions(world.installation, TOPIC, [0], by="maria")
    look()
    resume_partitions(world.installation, TOPIC, [0], by="maria")
    look()
    mark_uncleanable(world.installation, TOPIC, "plan-1", {0: "It is damaged."})
    look()
    release_marks(world.installation, TOPIC, [0], why="It was mended.")
    look()
    due = ("due", "dirty_ratio", True)
    assert seen == [("paused", "paused", False), due, ("uncleanable", "uncleanable", False), due]


def test_changed_configuration_is_seen_at_once(world: World) -> None:
    """Also more partitions, and records deleted by offset."""
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.9"}, [])
    found = picture(world)
    assert (found.policy, found.threshold) == ("compact,delete", 0.9)
    alter_topic(world.installation, TOPIC, {}, [], partitions=5)
    assert (picture(world).partitions, partition(world, 4).reason) == (5, Reason.EMPTY.value)
    delete_records(world.installation, TOPIC, {0: 7})
    assert partition(world).log_start_offset == 7


def test_topic_that_does_not_compact_misses_no_deadline(world: World) -> None:
    """Its maximum lag means nothing, so it is neither dirty nor late."""
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
    world.clock.now_ms += 9 * DAY_MS
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    seen = topic(world)
    assert (seen.state, seen.deadline_ms, seen.overview.dirty_ratio) == (OverviewState.HEALTHY, None, 0.0)
    assert partition(world).reason == Reason.POLICY_DELETE_ONLY.value


def test_rebuilt_store_has_its_pictures_again(world: World) -> None:
    """They follow from table and state."""
    world.compact()
    before = picture(world)
    world.installation.store.projection.forget_topic(TOPIC)
    assert world.installation.store.overview.find_topic(TOPIC, world.clock()) is None
    rebuild_store(world.installation)
    assert picture(world) == before


def test_picture_needs_no_data_file(world: World) -> None:
    """Manifests and state say it all."""
    for segment in world.segments():
        storage.parse_local_path(segment.path).unlink()
    assert refresh_overview(world.installation, TOPIC)
    assert topic(world).state is OverviewState.DUE


def test_a_picture_that_cannot_be_taken_fails_no_publish(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is published is published; the page shows what was before, and the log says so."""
    plan = world.plan(world.clock())
    assert plan is not None
    monkeypatch.setattr(Overview, "record_topic", lambda *_: 1 / 0)
    world.stage(plan)
    world.accept(plan)
    from winnow.pipeline.compaction.publish import publish_attempt

    with caplog.at_level(logging.WARNING, "winnow"):
        receipt = publish_attempt(world.installation, plan.plan_id, "a1")
    assert receipt.snapshot_id is not None
    assert topic(world).state is OverviewState.DUE
    assert f"The page shows topic {TOPIC} as it was before" in caplog.text
    assert "Unexpected ZeroDivisionError" in caplog.text


def test_a_picture_that_cannot_be_taken_stops_no_decision_and_no_plan(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The metadata store lost a table, say: the page is stale, and topics are compacted."""
    with sqlite3.connect(world.folder / "home" / "store.db") as database:
        database.execute("DROP TABLE winnow_partition_overview")
    with caplog.at_level(logging.WARNING, "winnow"):
        found = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
        assert [each.eligible for each in found] == [True, False]
        assert world.installation.store.assessments.last_assessed_ms(TOPIC) is not None
        assert world.compact(world.clock()) is not None
    assert "The page shows topic orders as it was before" in caplog.text
