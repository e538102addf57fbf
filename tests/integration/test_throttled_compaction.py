"""A real compaction under a throttle: the average rate stays at or below it, and the result is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.world import World, build_versions, define_world, record
from winnow.config.settings import load_settings
from winnow.engine import staging
from winnow.engine.rewrite import MAXIMUM_BATCH_ROWS, compact_partition
from winnow.engine.task_resources import Throttle
from winnow.pipeline.compaction.stage import build_job_arguments
from winnow.values.results import StagedPartition

RATE = 1000.0


class Clock:
    """A clock that only sleeping moves, so that everything else takes no time at all."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waits = 0

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.seconds += seconds
        self.waits += 1


world = define_world(
    1, build_versions(0, 500, keys=7), build_versions(500, 500, keys=5), min_cleanable_dirty_ratio="0", segment_ms="1"
)
"""A topic with two segments; both lose something and both keep something."""


def compacted(
    world: World, attempt: str, throttle: Throttle | None = None, rate: float | None = None
) -> StagedPartition:
    """The staged result of compacting the topic's only partition in process."""
    plan = world.plan(world.clock() + 10, attempt="a1")
    assert plan is not None
    document = staging.read_plan(plan.uri)
    (partition,) = document.partitions
    budget = replace(world.installation.budget, bytes_per_second=rate)
    return compact_partition(document, partition, attempt=attempt, budget=budget, throttle=throttle)


def moved_bytes(world: World, staged: StagedPartition) -> int:
    """What moved as Kafka counts it: all segments for the winners, all again for the rewrite, and what was written."""
    assert staged.facts.records_kept == 7
    read_bytes = sum(segment.size_bytes for segment in world.segments())
    written_bytes = sum(segment.size_bytes for rewrite in staged.rewrites for segment in rewrite.outputs)
    assert written_bytes > 0
    return 2 * read_bytes + written_bytes


@pytest.mark.kafka("G23")
def test_average_rate_of_a_compaction_is_at_or_below_the_throttle(world: World) -> None:
    """Every byte read for the winners, read for the rewrite and written is paid for; nothing is paid for twice."""
    clock = Clock()
    moved = moved_bytes(world, compacted(world, "slow", Throttle(RATE, clock, clock.sleep)))
    assert moved / clock.seconds <= RATE
    assert clock.seconds < 1.5 * moved / RATE


def test_budget_with_a_rate_throttles_without_being_told_how(world: World) -> None:
    """The clock and the sleep of the machine are used, as in a Spark task."""
    rate = 10_000.0
    staged = compacted(world, "slow", rate=rate)
    assert staged.seconds >= moved_bytes(world, staged) / rate


def test_waits_are_spread_over_the_records_that_are_copied(world: World) -> None:
    """One wait before the winners' scan and one for each batch of survivors, not one long one at the end."""
    world.ingest([record(n, b"%d" % n, b"") for n in range(1000, 21_000)] + [record(21_000, b"1000", b"")])
    clock = Clock()
    compacted(world, "slow", Throttle(RATE, clock, clock.sleep))
    assert clock.waits >= 1 + 20_000 // MAXIMUM_BATCH_ROWS + 1


def test_throttled_result_is_the_unthrottled_one(world: World) -> None:
    """Waiting changes nothing about what is kept."""
    clock = Clock()
    slow = compacted(world, "slow", Throttle(RATE, clock, clock.sleep))
    assert slow.facts == compacted(world, "fast").facts


@pytest.mark.kafka("119")
def test_rate_is_off_by_default_and_reaches_the_job_when_set(tmp_path: Path) -> None:
    """The arguments of the Spark job and the budget of a task say the same."""
    plain = load_settings(cwd=tmp_path, env={})
    assert plain.engine.bytes_per_second is None
    assert not {"--bytes-per-second", "--tasks"} & set(build_job_arguments(plain, [], "a1"))
    env = {"WINNOW_KAFKA__LOG_CLEANER_IO_MAX_BYTES_PER_SECOND": "5e6", "WINNOW_KAFKA__LOG_CLEANER_THREADS": "3"}
    said = build_job_arguments(load_settings(cwd=tmp_path, env=env), [], "a1")
    assert said[said.index("--bytes-per-second") + 1] == "5000000.0"
    assert said[said.index("--tasks") + 1] == "3"


def test_budget_of_a_task_in_process_has_no_rate_unless_one_is_set(world: World) -> None:
    """A compaction without the setting never waits."""
    assert world.installation.budget.bytes_per_second is None
