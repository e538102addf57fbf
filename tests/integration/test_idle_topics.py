"""A topic that was found idle is not looked at again until its log, its rules or the clock can have changed that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.rest_catalog import serve_rest_catalog
from tests.support.store_fixtures import open_run
from tests.support.world import TOPIC, FakeClock, World, build_versions, open_world
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.idle_topics import find_idle_topics
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.partitions import pause_partitions

HOUR_MS = 3_600_000


@pytest.fixture(params=["sql", "rest"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A topic that was compacted and checked: nothing of it is due. In a SQL catalog, and in one behind HTTP."""
    if request.param == "sql":
        with open_world(tmp_path) as opened:
            yield _make_idle(opened)
        return
    with serve_rest_catalog() as (_, address):
        lake = {"WINNOW_CATALOG__TYPE": "rest", "WINNOW_CATALOG__URI": address}
        with open_world(tmp_path, lake=lake) as opened:
            yield _make_idle(opened)


def _make_idle(world: World) -> World:
    world.create(2, segment_ms=str(HOUR_MS))
    world.ingest([*build_versions(0, 9), *build_versions(0, 7, partition=1)])
    assert world.compact() is not None
    check(world)
    return world


def check(world: World) -> None:
    """Look at the topic and record what was found, as the DAG's check does."""
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())


def is_left_out(world: World) -> bool:
    """Whether the next check looks at the topic no more."""
    return TOPIC in find_idle_topics(world.installation, [TOPIC], as_of_ms=world.clock())


def test_an_unchanged_topic_is_left_out_without_being_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A year later, too: a clean log without tombstones is never due by the clock alone."""
    world.clock.now_ms += 365 * 24 * HOUR_MS
    monkeypatch.setattr(TopicLog, "head", lambda *_, **__: pytest.fail("the topic was opened"))
    found = find_idle_topics(world.installation, [TOPIC, "unknown"], as_of_ms=world.clock())
    assert found == {TOPIC: {"clean": 2}}
    overview = world.installation.store.overview.find_recorded(TOPIC)
    assert overview is not None
    assert (overview.as_of_ms, overview.recorded_at_ms) == (world.clock(), world.clock())
    assert world.installation.store.assessments.last_assessed_ms(TOPIC) == world.clock()


def test_every_commit_ends_it(world: World) -> None:
    """New records, a pause, a changed configuration: each gives the log another head."""
    for commit in (
        lambda: world.ingest([replace(each, timestamp_ms=world.clock()) for each in build_versions(9, 3)]),
        lambda: pause_partitions(world.installation, TOPIC, [0], by="anna"),
        lambda: alter_topic(world.installation, TOPIC, {"min.cleanable.dirty.ratio": "0.1"}, ()),
    ):
        commit()
        assert not is_left_out(world)
        check(world)
        assert is_left_out(world)


def test_the_clock_ends_it_in_the_millisecond_in_which_a_segment_closes(world: World) -> None:
    """Records that wait in the active segment are due later without any commit."""
    world.ingest([replace(each, timestamp_ms=world.clock()) for each in build_versions(9, 30)])
    check(world)
    world.clock.now_ms += HOUR_MS
    assert is_left_out(world)
    world.clock.now_ms += 1
    assert not is_left_out(world)
    (first, _) = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    assert first.eligible
    assert not is_left_out(world)


def test_an_as_of_outside_of_the_present_is_looked_at(world: World) -> None:
    """Neither a backfill's past nor a simulated future was decided about; a backfill's answer is not kept."""
    past_ms, future_ms = world.clock() - 1, world.clock() + 30 * 24 * HOUR_MS
    assert find_idle_topics(world.installation, [TOPIC], as_of_ms=past_ms) == {}
    before = world.installation.store.idle_topics.find_many([TOPIC])
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock() - 24 * HOUR_MS)
    assess_topics(world.installation, [TOPIC], as_of_ms=future_ms)
    assert world.installation.store.idle_topics.find_many([TOPIC]) == before


def test_another_default_of_the_installation_ends_it(world: World) -> None:
    """The topic's own settings are in its head; those of the installation are not."""
    settings = world.installation.settings.model_copy(update={"kafka": {"log.cleaner.min.cleanable.ratio": "0.9"}})
    with open_installation(settings, now_ms=world.clock) as changed:
        assert find_idle_topics(changed, [TOPIC], as_of_ms=world.clock()) == {}


def test_a_topic_with_an_open_run_or_another_holder_is_looked_at(world: World) -> None:
    """The one is settled by the check, the other is waited for by a backfill."""
    with (
        open_installation(
            world.installation.settings, now_ms=world.clock, holder="airflow:compact_topics:other"
        ) as other,
        hold_lease(other, TOPIC),
    ):
        assert not is_left_out(world)
    assert is_left_out(world)
    open_run(world.installation.store)
    assert not is_left_out(world)


def test_a_topic_that_is_due_is_looked_at_every_time(tmp_path: Path) -> None:
    """What is due is planned from a fresh look."""
    with open_world(tmp_path, FakeClock()) as world:
        world.create(1, min_cleanable_dirty_ratio="0")
        world.ingest(build_versions(0, 9))
        check(world)
        assert world.installation.store.idle_topics.find_many([TOPIC]) == {}
        assert not is_left_out(world)
