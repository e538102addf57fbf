"""Jobs for one call: what one that is killed leaves in the staging area goes with sweeps, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.support.world import TOPIC, World, build_versions, define_world
from winnow.config.topic import TopicConfig
from winnow.engine.job_notes import MANY_TOPICS_GRACE_MS, NOTES
from winnow.files import storage
from winnow.pipeline.admin.scrub import open_scrub
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.explain.compare import compare_strategies
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.spark import plan_job
from winnow.values.strategies import Strategy

GRACE_MS = TopicConfig.parse({}).retired_grace_ms
world = define_world(1, build_versions(0, 40), build_versions(40, 40), winnow_latest_table="true", segment_ms="1")


def list_staged(world: World) -> list[str]:
    return [entry.uri for entry in storage.list_files(world.installation.settings.staging)]


def scrub(world: World) -> None:
    open_scrub(world.installation, [TOPIC], runner="spark")


def update(world: World) -> None:
    update_latest_table(world.installation, TOPIC, "spark")


def compare(world: World) -> None:
    compare_strategies(
        world.installation, TOPIC, strategy=Strategy.TIMESTAMP, header=None, as_of_ms=world.clock(), sample=0
    )


CALLS: Mapping[str, tuple[Callable[[World], None], int]] = {
    "scrub": (scrub, MANY_TOPICS_GRACE_MS),
    "latest": (update, GRACE_MS),
    "compare": (compare, GRACE_MS),
}


class Killed(BaseException):
    """The call's process ends here."""


def die(*_: object, **more: object) -> None:
    raise Killed


@pytest.mark.parametrize("name", CALLS)
def test_what_a_killed_call_left_goes_with_the_first_sweep_after_the_grace_and_its_note_with_the_next(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, grace_ms = CALLS[name]
    with monkeypatch.context() as patch:
        patch.setattr(plan_job, "run_job", die)
        patch.setattr(plan_job, "end_job", lambda *_: None)
        with pytest.raises(Killed):
            call(world)
    note, plan = sorted(list_staged(world), key=lambda uri: f"/{NOTES}/" not in uri)
    assert f"/{NOTES}/" in note
    assert f"/{name}/" in plan
    storage.write_bytes(plan.replace(".json", ".result.json"), b"{}")
    left = list_staged(world)
    world.clock.now_ms += grace_ms - 1
    sweep_topics(world.installation, [TOPIC])
    assert list_staged(world) == left
    world.clock.now_ms += 1
    sweep_topics(world.installation, [TOPIC])
    assert list_staged(world) == [note]
    sweep_topics(world.installation, [TOPIC])
    assert list_staged(world) == []


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_fails_leaves_nothing(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_job, "run_job", die)
    with pytest.raises(Killed):
        CALLS[name][0](world)
    assert list_staged(world) == []
