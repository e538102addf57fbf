"""The leases that ``compact_topics`` holds while Spark runs, and the threads that renew them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.support import in_process_spark
from tests.support.world import TOPIC, World, build_versions, define_world
from winnow.pipeline.compaction import driver
from winnow.pipeline.compaction.driver import compact_topics
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import JobOutcome, Progress
from winnow.pipeline.topics.leases import hold_leases
from winnow.planning.plans import PlanReference
from winnow.values.model import Status

IDLE = [f"idle{number:02}" for number in range(50)]


world = define_world(1, build_versions(0, 12), min_cleanable_dirty_ratio="0")


def test_only_the_planned_topic_is_held_while_spark_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """50 idle topics and one that is eligible: one lease, one thread that renews, and nothing held afterwards."""
    for topic in IDLE:
        world.create(1, topic=topic)
    seen: list[tuple[set[str], int]] = []

    def submit(
        installation: Installation, plans: Sequence[PlanReference], attempt: str, progress: Progress | None = None
    ) -> JobOutcome:
        renewing = sum(thread.name == "leases" for thread in threading.enumerate())
        seen.append((set(installation.store.leases.find_many([*IDLE, TOPIC])), renewing))
        return in_process_spark.submit(installation, plans, attempt, progress)

    monkeypatch.setattr(driver, "submit_plans", submit)
    outcome = compact_topics(world.installation, [], as_of_ms=world.clock())

    assert seen == [({TOPIC}, 1)]
    assert outcome.exit_code == 0
    assert sorted(receipt.status for receipt in outcome.receipts) == [Status.NOTHING_TO_DO] * 50 + [Status.PUBLISHED]
    assert world.installation.store.leases.find_many([*IDLE, TOPIC]) == {}


def test_every_lease_is_renewed_although_another_one_was_lost(world: World) -> None:
    """One topic was taken over: its lease stays the other run's, and the second one is renewed all the same."""
    world.create(1, topic="clicks")
    store = world.installation.store.leases
    with hold_leases(world.installation) as held:
        held.acquire(TOPIC)
        before = held.acquire("clicks")
        world.clock.now_ms += world.installation.settings.lease_ms
        store.acquire(TOPIC, "another", world.clock(), 60_000)
        held.renew()
        renewed = store.find("clicks")
        assert renewed is not None
        assert renewed.expires_ms == before.expires_ms + world.installation.settings.lease_ms
    assert store.find("clicks") is None
    taken = store.find(TOPIC)
    assert taken is not None
    assert taken.holder == "another"
