"""Works on a log and ends normally; the power is cut afterwards: ``FOLDER NOW_MS WHAT...``.

Whatever runs is Winnow's own; in place of Spark its tasks run in this process, one after another.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.world import TOPIC, FakeClock, World, build_versions, open_world, record
from winnow.engine import compaction_job as spark
from winnow.engine import staging
from winnow.engine.task_planning import plan_tasks
from winnow.log.topic_configuration import set_config
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.topics.leases import hold_lease
from winnow.planning.plans import PlanReference
from winnow.store import RunState

RECORDS = [*build_versions(0, 12), *build_versions(0, 9, partition=1)]
KEYLESS = [record(12, None, b"keyless", partition=0)]
OLD_TOPIC = "payments"
OLD = [record(n, None if n == 1 else b"old", b"%d" % n) for n in range(3)]
"""Records of a topic whose policy was not ``compact`` when they came."""


def lake(folder: Path) -> dict[str, str]:
    """Settings that give each database a new folder of its own."""
    return {
        "WINNOW_CATALOG__TYPE": "sql",
        "WINNOW_CATALOG__URI": f"sqlite:///{folder}/catalogs/of/this/catalog.db",
        "WINNOW_STORE_URL": f"sqlite:///{folder}/stores/of/this/store.db",
    }


def ingest(world: World) -> None:
    """A compacted topic, its records and one without a key; and another topic with one that is allowed there."""
    common = {"min_cleanable_dirty_ratio": "0", "winnow_keyless": "quarantine"}
    world.create(2, **common)
    world.ingest([*RECORDS, *KEYLESS])
    world.create(1, OLD_TOPIC, cleanup_policy="delete", **common)
    world.ingest(OLD, topic=OLD_TOPIC)


def compact(world: World) -> None:
    """Both topics; the other one becomes a compacted one, and what has no key leaves it."""
    set_config(world.installation.log.open(OLD_TOPIC), {"cleanup.policy": "compact"}, ())
    for topic in (TOPIC, OLD_TOPIC):
        with hold_lease(world.installation, topic):
            settle_open_runs(world.installation, topic)
            plan = world.plan(world.clock(), topic=topic)
            assert plan is not None
            carry_out(world, plan)


def carry_out(world: World, plan: PlanReference) -> None:
    """Do as Spark's tasks do, and publish."""
    document = staging.read_plan(plan.uri)
    world.installation.store.runs.set_state(plan.plan_id, RunState.COMPACTING, world.clock(), attempt="a1")
    tasks, budget = plan_tasks(spark.build_units(plan.uri, document), 1, world.installation.budget, 1)
    results = list(spark._run_task(tasks, "a1", budget, lambda _: None))
    assert spark.write_plan_manifest(plan.uri, document, "a1", results).manifest_uri is not None
    world.installation.store.runs.set_state(plan.plan_id, RunState.STAGED, world.clock(), attempt="a1")
    world.accept(plan)
    publish_attempt(world.installation, plan.plan_id, "a1")


WORK = {each.__name__: each for each in (ingest, compact)}


def main() -> None:
    """Do one after another."""
    folder, now_ms, *works = sys.argv[1:]
    with open_world(Path(folder), FakeClock(int(now_ms)), lake(Path(folder))) as world:
        for what in works:
            WORK[what](world)


if __name__ == "__main__":
    main()
