"""Why a plan is void: what Winnow itself changed is explained, and anything else is reported to a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.world import TOPIC, FakeClock, World, build_versions, open_world
from winnow.clock import read_wall_clock_ms
from winnow.log.head import Change
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.plan_validity import VoidCause, check_plan_validity, explain_void
from winnow.pipeline.topics.definition import alter_topic, create_topic
from winnow.pipeline.topics.leases import release_lease
from winnow.pipeline.topics.partitions import pause_partitions
from winnow.store import Run

MINE, NIGHT = "airflow:compact_topics:mine", "airflow:backfill_topics:night"
HOUR_MS = 3_600_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Thirty records that are due, and a run that has planned them."""
    with open_world(tmp_path) as opened:
        mine = World(replace(opened.installation, holder=MINE), opened.clock, tmp_path)
        mine.create(min_cleanable_dirty_ratio="0", cleanup_policy="compact,delete", winnow_retired_grace_ms="0")
        mine.ingest(build_versions(0, 30))
        assert mine.plan(mine.clock()) is not None
        yield mine


def the_run(world: World) -> Run:
    """The run that planned first."""
    (run,) = [each for each in world.installation.store.runs.list_runs(TOPIC) if each.holder == MINE]
    return run


def compact_at_night(world: World, clock: FakeClock) -> None:
    """Another run compacts the topic; its worker has a clock of its own."""
    release_lease(world.installation, TOPIC)
    other = World(replace(world.installation, holder=NIGHT, now_ms=clock), clock, world.folder)
    assert other.compact(world.clock() + 1) is not None


def test_a_plan_stands_while_the_log_only_grows(world: World) -> None:
    """Appends lie above everything that is planned."""
    world.ingest(build_versions(30, 10))
    assert check_plan_validity(world.installation, the_run(world)) is None
    assert explain_void(world.installation, the_run(world).plan_id) is None


def test_a_plan_of_which_segments_were_taken_names_who_took_them_whatever_the_clocks_say(world: World) -> None:
    """The other worker's clock is two hours slow: the files it retired still say whose they are."""
    compact_at_night(world, FakeClock(world.clock() - 2 * HOUR_MS))
    found = check_plan_validity(world.installation, the_run(world))
    assert found is not None
    assert found.cause is VoidCause.TAKEN
    assert f"the log moved on, run {NIGHT} took it" in (explain_void(world.installation, the_run(world).plan_id) or "")


def test_a_plan_that_was_overtaken_long_ago_is_explained_by_the_newest_receipt(world: World) -> None:
    """A task that is cleared days later: the retired files are swept and forgotten by then."""
    compact_at_night(world, world.clock)
    # Snapshots have Iceberg's time, which is the machine's.
    world.clock.now_ms = read_wall_clock_ms() + 48 * HOUR_MS
    sweep_topics(world.installation, [TOPIC])
    assert world.head().state.retired == ()
    assert f"run {NIGHT} took it" in (explain_void(world.installation, the_run(world).plan_id) or "")


def recreate(world: World) -> None:
    """Drop the topic's table, and create the topic again."""
    world.installation.log.catalog.drop_table(("winnow", TOPIC))
    create_topic(world.installation, TOPIC, 1, {})


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda w: alter_topic(w.installation, TOPIC, {"segment.bytes": "2000000"}, []), VoidCause.RECONFIGURED),
        (lambda w: pause_partitions(w.installation, TOPIC, by="maria"), VoidCause.PAUSED),
        (lambda w: delete_records(w.installation, TOPIC, {0: 12}), VoidCause.DELETED),
    ],
    ids=lambda each: each.value if isinstance(each, VoidCause) else "",
)
def test_what_people_did_to_a_topic_explains_a_void_plan(
    world: World, change: Callable[[World], object], cause: VoidCause
) -> None:
    """On purpose, through Winnow: the next run goes on from there."""
    change(world)
    found = check_plan_validity(world.installation, the_run(world))
    assert found is not None
    assert found.cause is cause
    assert (explain_void(world.installation, the_run(world).plan_id) or "").endswith("(the next run takes the topic).")


def test_a_topic_that_was_created_again_voids_a_plan_whose_run_was_read_before(world: World) -> None:
    """The run's row goes with the former life; what was read of it still does not fit the new table."""
    run = the_run(world)
    recreate(world)
    found = check_plan_validity(world.installation, run)
    assert found is not None
    assert found.cause is VoidCause.RECREATED
    assert world.installation.store.runs.find(run.plan_id) is None


def test_a_segment_that_nobody_took_is_for_a_person(world: World) -> None:
    """The table lost a file and no run, delete or change says why: not explained away."""
    path = world.segments()[0].path
    world.installation.log.open(TOPIC).commit(lambda head: Change(state=head.state, remove=[path], summary={}))
    found = check_plan_validity(world.installation, the_run(world))
    assert found is not None
    assert found.cause is VoidCause.UNEXPLAINED
    assert explain_void(world.installation, the_run(world).plan_id) is None


def test_a_plan_that_nobody_knows_explains_nothing(world: World) -> None:
    """Its row is gone or never was."""
    assert explain_void(world.installation, "nobody's plan") is None
