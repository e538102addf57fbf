"""A scrub whose files are read by tasks: those of a Spark application, in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.integration.test_scrub import flip_in, open_partitions, restore
from tests.support.in_process_jobs import run_scrub_job
from tests.support.world import NOW_MS, TOPIC, World, build_versions, define_world
from winnow.engine import scrub_job
from winnow.errors import ServiceError
from winnow.files import storage
from winnow.files.checked_reading import read_segment
from winnow.pipeline.admin import scrub_on_spark
from winnow.pipeline.admin.scrub import Scrub, ScrubReport, open_scrub
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.spark import plan_job
from winnow.pipeline.spark.plan_job import run_plan_job
from winnow.values.model import Segment

world = define_world(
    2,
    *([*build_versions(first, 40), *build_versions(first, 40, partition=1)] for first in (0, 40, 80)),
    min_cleanable_dirty_ratio="0",
    segment_ms="1",
)


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_job, "run_job", run_scrub_job)


def scrub(world: World, **more: Any) -> ScrubReport:
    (report,) = open_scrub(world.installation, [TOPIC], runner="spark", **more)
    return report


def list_checks(world: World) -> dict[str, Any]:
    return dict(world.installation.store.segment_checks.list_checks(TOPIC))


def test_tasks_find_what_one_process_finds_and_leave_the_same_records(world: World) -> None:
    """A flipped byte, a missing file, and a sound file of another segment."""
    flipped, missing, other = world.segments(1)
    flip_in(flipped.path, "value")
    storage.delete(missing.path)
    restore(other.path, storage.parse_local_path(world.segments(0)[0].path).read_bytes())
    by_tasks = scrub(world)
    checks = list_checks(world)
    assert [finding.kind for finding in by_tasks.findings].count("missing") == 1
    assert len(by_tasks.findings) == 3
    assert open_partitions(world) == [1]
    (by_one_process,) = open_scrub(world.installation, [TOPIC], runner="local")
    assert by_tasks == by_one_process
    assert checks == list_checks(world)


def test_files_of_at_least_the_setting_s_bytes_go_to_tasks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def note(*arguments: Any, **more: Any) -> Any:
        started.append(more["size_bytes"])
        return run_plan_job(*arguments, **more)

    monkeypatch.setattr(scrub_on_spark, "run_plan_job", note)
    size_bytes = sum(segment.size_bytes for partition in range(2) for segment in world.segments(partition))
    for limit in (size_bytes + 1, size_bytes):
        settings = world.installation.settings
        changed = settings.scrub.model_copy(update={"spark_from_bytes": limit})
        installation = replace(world.installation, settings=settings.model_copy(update={"scrub": changed}))
        open_scrub(installation, [TOPIC])
    assert started == [size_bytes]


def test_a_file_that_cannot_be_read_is_an_error_and_the_others_are_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable = world.segments(0)[1].path

    def fail(segment: Segment, **more: Any) -> Any:
        if segment.path == unreadable:
            raise ServiceError("The object store did not answer.")
        return read_segment(segment, **more)

    monkeypatch.setattr(scrub_job, "read_segment", fail)
    with pytest.raises(ServiceError, match="The object store did not answer"):
        scrub(world)
    live = {segment.path for partition in range(2) for segment in world.segments(partition)}
    assert live - list_checks(world).keys() == {unreadable}


def test_a_segment_that_was_compacted_away_meanwhile_is_no_finding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:

    def compact_first(*arguments: Any, **more: Any) -> Any:
        world.compact()
        world.clock.now_ms += 40 * 86_400_000
        sweep_topics(world.installation, [TOPIC])
        return run_plan_job(*arguments, **more)

    monkeypatch.setattr(scrub_on_spark, "run_plan_job", compact_first)
    report = scrub(world)
    assert report.findings == ()
    assert not [path for path, check in list_checks(world).items() if check.finding is not None]


def test_progress_is_told_as_files_are_read(world: World) -> None:
    told: list[tuple[int, int]] = []
    work = Scrub(world.installation, progress=lambda done, total: told.append((done, total)), runner="spark")
    work.add(TOPIC)
    (report,) = work.run()
    done = [step for step, _ in told]
    assert done == sorted(done)
    assert told[-1][1] == sum(segment.size_bytes for partition in range(2) for segment in world.segments(partition))
    assert report.oldest_checked_ms == NOW_MS
