"""How far a run is, as the metadata store has it: transitions, and the Spark application that carries it out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support import in_process_spark
from tests.support.world import TOPIC, World, record
from winnow.engine.events import PlanFailure
from winnow.errors import Explanation, ServiceError
from winnow.pipeline.compaction import driver
from winnow.pipeline.compaction.driver import compact_topics
from winnow.pipeline.spark import progress as job_progress
from winnow.pipeline.spark.progress import AirflowTask, record_progress
from winnow.pipeline.spark.submit import JobOutcome
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.store.run_progress import RunProgress

RECORDS = [record(offset, f"k{offset % 3}".encode(), b"v" * 50, partition=offset % 2) for offset in range(40)]
PLACES = {"application_id": "local-1", "event_log": "s3://logs/local-1"}


@pytest.fixture
def due(world: World) -> World:
    """A lake with one topic that is due."""
    world.create(2, min_cleanable_dirty_ratio="0", segment_ms="1")
    world.ingest([replace(each, offset=each.offset // 2) for each in RECORDS])
    world.clock.now_ms += 3_600_000
    return world


def only_run(world: World) -> RunProgress:
    (run,) = world.installation.store.runs.list_runs(TOPIC)
    return world.installation.store.job_progress.find(run.plan_id)


def plan(topic: str = TOPIC, plan_id: str = "plan-1") -> PlanReference:
    return PlanReference(topic, plan_id, f"/{plan_id}", 2, 1_000, None)


def partition(plan_id: str = "plan-1", **given: Any) -> dict[str, Any]:
    return {"event": "partition", "plan_id": plan_id, "topic": TOPIC, "partition": 0, **given}


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_compaction_in_a_shell_leaves_its_stages_and_its_application(
    due: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned to published, with what the job reported."""

    def submit(installation: Any, plans: Any, attempt: str, progress: Any) -> JobOutcome:
        progress({"event": "started", "partitions": 2, "bytes": 10, **PLACES})
        progress(partition(plans[0].plan_id, bytes_in=7, bytes_out=3))
        return in_process_spark.submit(installation, plans, attempt, progress)

    monkeypatch.setattr(driver, "submit_plans", submit)
    assert compact_topics(due.installation, [TOPIC], as_of_ms=due.clock()).exit_code == 0
    found = only_run(due)
    states = ["planning", "planned", "compacting", "staged", "validated", "publishing", "published"]
    assert {each.state for each in found.transitions} == set(states)
    assert found.job is not None
    assert (found.job.application_id, found.job.event_log, found.job.ui_url) == ("local-1", "s3://logs/local-1", None)
    assert (found.job.dag_id, found.job.holder, found.job.error) == (None, due.installation.holder, None)
    assert (found.job.partitions, found.job.partitions_done, found.job.bytes_read) == (2, 1, 7)
    assert found.job.ended_at_ms is not None
    assert found.topics == (TOPIC,)


def test_failure_to_start_spark_is_called_that_with_its_reason(due: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run, application and receipt say the same."""

    def submit(*_: object) -> JobOutcome:
        raise ServiceError("There is no Java.")

    monkeypatch.setattr(driver, "submit_plans", submit)
    (receipt,) = compact_topics(due.installation, [TOPIC], as_of_ms=due.clock()).receipts
    (run,) = due.installation.store.runs.list_runs(TOPIC)
    assert (run.status, run.message) == (RunState.SPARK_FAILED, receipt.message)
    assert "There is no Java" in run.message
    job = only_run(due).job
    assert job is not None
    assert job.error == "There is no Java."


def test_first_reason_of_each_plan_and_of_the_application_is_kept(world: World) -> None:
    """The others follow from it, or stand in the log."""
    plans = [plan(), plan("clicks", "plan-2")]
    with record_progress(world.installation, plans, "a-1") as recorder:
        recorder.observe(partition(error="the segment is damaged", exit_code=4))
        recorder.observe(partition(error="another one is", exit_code=4))
        recorder.end(
            JobOutcome(
                4,
                {"plan-1": PlanFailure(Explanation("all of it"), 4), "plan-2": PlanFailure(Explanation("no disk"), 6)},
            )
        )
    first, second = (world.installation.store.job_progress.find(each.plan_id) for each in plans)
    assert first.job == second.job
    assert first.job is not None
    assert (first.job.error, first.job.partitions_failed) == ("the segment is damaged", 2)
    assert first.own is not None
    assert second.own is not None
    assert (first.own.error, second.own.error) == ("the segment is damaged", "no disk")
    assert first.topics == ("clicks", TOPIC)


def test_progress_is_seen_while_the_job_runs_with_the_task_that_submitted_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own thread: the block does nothing for it."""
    monkeypatch.setattr(job_progress, "WRITE_INTERVAL_S", 0.01)
    task = AirflowTask("compact_topics", "scheduled__1", "compact_batch.compact", 3, 2)

    def done() -> int:
        job = world.installation.store.job_progress.find("plan-1").job
        return -1 if job is None else job.partitions_done

    with record_progress(world.installation, [plan()], "a-1", task) as recorder:
        until(lambda: done() == 0)
        recorder.observe({"event": "started", **PLACES})
        recorder.observe(partition(bytes_in=600, bytes_out=100))
        until(lambda: done() == 1)
        found = world.installation.store.job_progress.find("plan-1")
        assert found.job is not None
        assert (found.job.map_index, found.job.try_number, found.job.task_id) == (3, 2, "compact_batch.compact")
        assert found.job.ended_at_ms is None


def test_store_that_does_not_answer_fails_no_compaction(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does an event that nobody understands; what was missed is written with the next."""
    record_job = type(world.installation.store.job_progress).record
    answers = iter([False])

    def sometimes(*arguments: Any) -> None:
        if next(answers, True):
            return record_job(*arguments)
        raise ServiceError("away")

    monkeypatch.setattr(type(world.installation.store.job_progress), "record", sometimes)
    with record_progress(world.installation, [plan()], "a-1") as recorder:
        recorder.observe({"event": "partition", "bytes_in": "many"})
        recorder.end(JobOutcome(0))
    found = world.installation.store.job_progress.find("plan-1")
    assert found.own is not None
    assert (found.own.partitions, found.own.partitions_done) == (2, 0)
