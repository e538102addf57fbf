"""Two runs at one topic: one does the work, the other skips it without an error. What needs a person fails."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from tests.dags.conftest import RunDag
from tests.support.dag_topics import (
    build_group_states,
    build_old_lines,
    make_topic,
    read_first_dirty_offsets,
    read_topic,
)
from tests.support.world import World
from winnow.config.settings import Settings
from winnow.engine.events import PartitionFailure, PlanFailure, PlanOutcome, emit_outcomes
from winnow.errors import (
    DamagedSegmentError,
    Explanation,
    ForeignTableError,
    PlanVoidError,
    ServiceError,
    TopicBusyError,
    WinnowError,
)
from winnow.files import storage
from winnow.files.segments import ARROW_SCHEMA
from winnow.log.head import Change
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.batch import stage_plans
from winnow.pipeline.compaction.open_runs import lock_for_plan, reopen_run
from winnow.pipeline.compaction.plan_validity import explain_void
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import JobOutcome, JobOutput
from winnow.pipeline.topics.leases import release_lease
from winnow.pipeline.topics.partitions import pause_partitions
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.values.results import Receipt
from winnow_airflow.tasks import compaction_steps, eligibility_steps, operators, sweep_steps
from winnow_airflow.tasks.operators import CompactOperator, list_pending_plans
from winnow_airflow.tasks.topic_results import TaskResults
from winnow_airflow.xcom_values import BatchRow, build_label

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

A, B = "airflow:compact_topics:a", "airflow:compact_topics:b"
NIGHT = "airflow:backfill_topics:night"


def as_run(installation: Installation, holder: str) -> Installation:
    """The lake as the run ``holder`` sees it."""
    return replace(installation, holder=holder)


def planned(installation: Installation, *topics: str, as_of_ms: int | None = None) -> BatchRow:
    """What a run plans for ``topics`` as of now, in one batch. It holds them then."""
    now_ms = installation.now_ms() if as_of_ms is None else as_of_ms
    (batch,) = compaction_steps.plan_topics(
        installation,
        [eligibility_steps.check_topic(installation, topic, as_of_ms=now_ms) for topic in topics],
        as_of_ms=now_ms,
    )
    return batch


def stage(installation: Installation, batch: BatchRow, folder: Path) -> None:
    """What Spark and validation leave, made in this process."""
    world = World(installation, cast("Any", installation.now_ms), folder)
    for plan in list_pending_plans(installation, batch):
        world.stage(plan, f"{batch['attempt']}-1")
        world.accept(plan, f"{batch['attempt']}-1")


def lapse(installation: Installation, *topics: str) -> None:
    """What an hour in the queue does to the leases of a run."""
    for topic in topics:
        release_lease(installation, topic)


def status(installation: Installation, batch: BatchRow) -> RunState:
    """Where the first plan of ``batch`` stands."""
    run = installation.store.runs.find(batch["plans"][0]["plan_id"])
    assert run is not None
    return run.status


def compact_as(installation: Installation, holder: str, topic: str, folder: Path) -> None:
    """Another run compacts ``topic`` from beginning to end."""
    other = as_run(installation, holder)
    batch = planned(other, topic)
    stage(other, batch, folder)
    assert compaction_steps.publish_batch(other, batch)
    compaction_steps.report_batch(other, batch)


@pytest.fixture
def a(installation: Installation, tmp_path: Path) -> Installation:
    """The run that this is about, and a topic of hundred records that is due."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    return as_run(installation, A)


def test_a_topic_that_another_run_took_after_planning_is_left_to_it(
    installation: Installation, run_dag: RunDag, runnable: DagBag, tmp_path: Path
) -> None:
    """The lease lapsed in the queue: nothing is staged, judged or published, the run is green, the other keeps it."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    other = as_run(installation, NIGHT)

    def take_over(context: object) -> None:
        lapse(as_run(installation, str(getattr(installation.store.leases.find("orders"), "holder", None))), "orders")
        planned(other, "orders")

    runnable.dags["compact_topics"].task_dict["plan"].on_success_callback = [take_over]
    states = run_dag("compact_topics")

    assert states["run", -1] == "success"
    assert build_group_states(states) == ["skipped", "skipped", "skipped", "success"]
    lease = installation.store.leases.find("orders")
    assert lease is not None
    assert lease.holder == NIGHT
    assert [run.status for run in installation.store.runs.list_runs("orders") if run.holder == NIGHT] == [
        RunState.PLANNED
    ]
    assert len(read_topic(installation, "orders")) == 100


def test_a_plan_that_another_run_made_void_is_skipped_and_its_run_is_green(
    installation: Installation, run_dag: RunDag, runnable: DagBag, tmp_path: Path
) -> None:
    """The other published meanwhile: Spark is not started, the receipt is the other's, and the sentence names it."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])

    def overtake(context: object) -> None:
        lapse(as_run(installation, str(getattr(installation.store.leases.find("orders"), "holder", None))), "orders")
        compact_as(installation, NIGHT, "orders", tmp_path)

    runnable.dags["compact_topics"].task_dict["plan"].on_success_callback = [overtake]
    states = run_dag("compact_topics")

    assert states["run", -1] == "success"
    assert build_group_states(states) == ["skipped", "skipped", "skipped", "success"]
    assert {run.holder == NIGHT: run.status for run in installation.store.runs.list_runs("orders")} == {
        True: RunState.PUBLISHED,
        False: RunState.VOID,
    }
    assert read_first_dirty_offsets(installation, "orders") == {0: 100}
    assert installation.store.leases.find("orders") is None


def test_a_plan_that_became_void_before_it_was_published_is_left_with_a_sentence(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """Validated, then overtaken: publishing says who took the log, changes nothing, and is green."""
    batch = planned(a, "orders")
    stage(a, batch, tmp_path)
    lapse(a, "orders")
    compact_as(installation, NIGHT, "orders", tmp_path)
    before = installation.log.open("orders").head().snapshot_id

    with pytest.raises(AirflowSkipException, match=rf"the log moved on, run {NIGHT} took it"):
        compaction_steps.publish_batch(a, batch)
    assert installation.log.open("orders").head().snapshot_id == before
    assert status(installation, batch) is RunState.VOID
    with pytest.raises(AirflowSkipException, match=rf"run {NIGHT} took it"):
        compaction_steps.publish_batch(a, batch)


def test_a_busy_topic_is_left_by_every_step(installation: Installation, a: Installation, tmp_path: Path) -> None:
    """Compact, validate and publish find it in other hands: each skips with a sentence, none is tried again."""
    batch = planned(a, "orders")
    stage(a, batch, tmp_path)
    lapse(a, "orders")
    installation.store.leases.acquire("orders", NIGHT, installation.now_ms(), 60_000)
    for step in (compaction_steps.validate_batch, compaction_steps.publish_batch):
        with pytest.raises(AirflowSkipException, match=rf"held by {NIGHT} .* It is left to that run"):
            step(a, batch)
    (plan,) = plans_of(batch)
    results = TaskResults(a)
    with results.collect("orders", plan.plan_id):
        lock_for_plan(a, plan)
    assert (len(results.left), results.errors) == (1, [])
    paragraphs, receipts = compaction_steps.report_batch(a, batch)
    assert "another run has it" in paragraphs[0]
    assert receipts == []
    assert installation.store.runs.list_runs("orders")[0].status is RunState.VALIDATED, "it is not this run's to close"


def plans_of(batch: BatchRow) -> list[PlanReference]:
    """The plans of ``batch`` as the operator has them."""
    return [PlanReference(**row) for row in batch["plans"]]


def test_a_pause_after_planning_skips_the_topic(installation: Installation, a: Installation, tmp_path: Path) -> None:
    """Somebody paused it on purpose: nothing is wrong, and the sentence says who and how to go on."""
    batch = planned(a, "orders")
    stage(a, batch, tmp_path)
    pause_partitions(installation, "orders", by="maria")
    with pytest.raises(AirflowSkipException, match="Paused by maria"):
        compaction_steps.publish_batch(a, batch)
    assert status(installation, batch) is RunState.REFUSED
    (plan,) = plans_of(batch)
    results = TaskResults(a)
    with results.collect("orders", plan.plan_id):
        lock_for_plan(a, plan)
    assert results.errors == []
    assert "Paused by maria" in results.left[0]


def lose_a_segment(installation: Installation, topic: str) -> None:
    """A commit that nobody can explain: the state goes on, and a planned file is no longer in the table."""
    log = installation.log.open(topic)
    path = log.segments(log.head())[0][0].path
    log.commit(lambda head: Change(state=head.state, remove=[path], summary={}))


def test_a_void_that_nothing_explains_stays_red_beside_a_topic_that_is_left(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """One topic was overtaken, of the other a file is gone from the table and no run took it: that one is told."""
    make_topic(installation, tmp_path, "clicks", [build_old_lines(100, 10)])
    batch = planned(a, "clicks", "orders")
    stage(a, batch, tmp_path)
    lapse(a, "orders")
    compact_as(installation, NIGHT, "orders", tmp_path)
    lose_a_segment(installation, "clicks")
    with pytest.raises(PlanVoidError, match="clicks-0") as caught:
        compaction_steps.publish_batch(a, batch)
    assert "orders" not in str(caught.value)


def test_one_topics_failure_is_not_hidden_by_anothers(a: Installation) -> None:
    """A service that is away, a void plan, a busy topic: the first two are raised together, the third is left."""
    results = TaskResults(a)
    with results.collect("a"):
        raise ServiceError("the store is away")
    with results.collect("b", "no such plan"):
        raise PlanVoidError("b is void")
    with results.collect("c"):
        raise TopicBusyError("c is held.")
    assert results.left == ["c is held. It is left to that run."]
    with pytest.raises(ServiceError, match=r"(?s)a: the store is away.*b: b is void"):
        results.close([], nothing="nothing")


def test_two_runs_with_the_same_plan_do_not_close_each_others_work(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """The same instant gives the same plan id: what the second run has opened again is the second run's."""
    now_ms = installation.now_ms()
    b = as_run(installation, B)
    mine = planned(a, "orders", as_of_ms=now_ms)
    lapse(a, "orders")
    theirs = planned(b, "orders", as_of_ms=now_ms)
    assert mine["plans"] == theirs["plans"]

    plan_id = mine["plans"][0]["plan_id"]
    assert explain_void(a, plan_id) == f"Topic orders: plan {plan_id} is the work of {B} now; it is left to that run."
    compaction_steps.report_batch(a, mine)
    assert installation.store.runs.list_runs("orders")[0].status is RunState.PLANNED
    stage(b, theirs, tmp_path)
    assert compaction_steps.publish_batch(b, theirs) == [plan_id]
    assert compaction_steps.report_batch(a, mine)[1] == [], "the event is told once, by the run that published"
    assert [receipt.plan_id for receipt, _ in compaction_steps.report_batch(b, theirs)[1]] == [plan_id]


def test_a_check_that_is_cleared_leaves_its_own_runs_work_alone(installation: Installation, a: Installation) -> None:
    """It settles what others left open, but not what this run is at; and it keeps the topic held."""
    planned(a, "orders")
    eligibility_steps.check_topic(a, "orders", as_of_ms=installation.now_ms())
    assert installation.store.runs.list_runs("orders")[0].status is RunState.PLANNED
    lease = installation.store.leases.find("orders")
    assert lease is not None
    assert lease.holder == A
    lapse(a, "orders")
    eligibility_steps.check_topic(as_run(installation, B), "orders", as_of_ms=installation.now_ms())
    assert installation.store.runs.list_runs("orders")[0].status is RunState.VOID


def test_planning_again_keeps_the_plans_and_what_they_are_at(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """The plan task of a run is cleared, before and after its topic was published: the same plan, then none."""
    now_ms = installation.now_ms()
    checks = [eligibility_steps.check_topic(a, "orders", as_of_ms=now_ms)]
    (first,) = compaction_steps.plan_topics(a, checks, as_of_ms=now_ms)
    stage(a, first, tmp_path)
    (again,) = compaction_steps.plan_topics(a, checks, as_of_ms=now_ms)
    assert again["plans"] == first["plans"]
    assert len(installation.store.runs.list_runs("orders")) == 1
    stage(a, again, tmp_path)
    assert compaction_steps.publish_batch(a, again)
    compaction_steps.report_batch(a, again)
    receipts = installation.store.projection.list_receipts("orders")
    assert compaction_steps.plan_topics(a, checks, as_of_ms=now_ms) == []
    assert installation.store.leases.find("orders") is None
    assert installation.store.projection.list_receipts("orders") == receipts


def end_without_files(*plans: PlanReference, submitted: Sequence[PlanReference] = ()) -> JobOutcome:
    """The outcome of a Spark job that found a segment of each of ``plans`` missing and reported on no other."""
    failure = PlanFailure(Explanation("gone"), 4, (PartitionFailure(0, "segment is missing", 4),))
    stream = io.StringIO()
    emit_outcomes([PlanOutcome(plan.topic, plan.plan_id, None, failure) for plan in plans], stream)
    output = JobOutput([plan.plan_id for plan in submitted or plans])
    for line in stream.getvalue().splitlines():
        output.read_line(line)
    return output.end(4)


def test_a_file_that_another_run_took_is_no_damage(installation: Installation, a: Installation, tmp_path: Path) -> None:
    """Spark says that a segment is missing, but the log moved on under it: nothing is marked, nothing is red."""
    batch = planned(a, "orders")
    (plan,) = plans_of(batch)

    def submit(plans: Sequence[PlanReference]) -> JobOutcome:
        lapse(a, "orders")
        compact_as(installation, NIGHT, "orders", tmp_path)
        return end_without_files(plan)

    results = TaskResults(a)
    assert stage_plans(a, [plan], "a-1", results, submit) == []
    assert results.errors == []
    assert f"{NIGHT} took it" in results.left[0]
    assert installation.store.projection.list_uncleanable(["orders"]) == {}


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_plan_that_the_job_did_not_report_on_counts_by_its_staging_manifest(
    installation: Installation, a: Installation, tmp_path: Path, is_staged: bool
) -> None:
    """The job died early, and the only plan that it reported on is left to another run; the other one is judged."""
    make_topic(installation, tmp_path, "clicks", [build_old_lines(100, 10)])
    batch = planned(a, "clicks", "orders")
    plans = {plan.topic: plan for plan in plans_of(batch)}

    def submit(submitted: Sequence[PlanReference]) -> JobOutcome:
        lapse(a, "orders")
        compact_as(installation, NIGHT, "orders", tmp_path)
        if is_staged:
            World(a, cast("Any", a.now_ms), tmp_path).stage(plans["clicks"], "a-1")
        return end_without_files(plans["orders"], submitted=submitted)

    results = TaskResults(a)
    staged = stage_plans(a, [*plans.values()], "a-1", results, submit)
    assert f"{NIGHT} took it" in results.left[0]
    if is_staged:
        assert (staged, results.errors) == ([plans["clicks"]], [])
        return
    assert staged == []
    ((topic, problem),) = results.errors
    assert topic == "clicks"
    assert isinstance(problem, ServiceError)
    assert "the Spark application ended with exit code 4 before it finished" in str(problem)


def test_a_damaged_segment_is_marked_although_a_sibling_cannot_be_looked_up(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """Whether the first plan is left cannot be said: that is an error, and the second topic's partition is marked."""
    make_topic(installation, tmp_path, "clicks", [build_old_lines(100, 10)])
    batch = planned(a, "clicks", "orders")
    plans = sorted(plans_of(batch), key=lambda plan: plan.topic)

    def submit(submitted: Sequence[PlanReference]) -> JobOutcome:
        installation.log.open("clicks").head().table.append(ARROW_SCHEMA.empty_table())
        return end_without_files(*submitted)

    results = TaskResults(a)
    stage_plans(a, plans, "a-1", results, submit)
    assert [topic for topic, _ in results.errors] == ["clicks", "orders"]
    assert isinstance(results.errors[0][1], ForeignTableError)
    assert isinstance(results.errors[1][1], DamagedSegmentError)
    assert [mark.topic for mark in installation.store.projection.list_uncleanable(["clicks", "orders"])] == ["orders"]


def test_topics_that_failed_for_one_cause_are_one_error(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """Spark died under two topics: one sentence says so, and the task is tried again."""
    make_topic(installation, tmp_path, "clicks", [build_old_lines(100, 10)])
    plans = plans_of(planned(a, "clicks", "orders"))
    results = TaskResults(a)
    assert stage_plans(a, plans, "a-1", results, lambda submitted: JobOutput([p.plan_id for p in plans]).end(137)) == []
    ((label, problem),) = results.errors
    assert label == build_label(["clicks", "orders"])
    assert isinstance(problem, ServiceError)
    assert str(problem) == (
        "2 topics were not compacted: the Spark application ended with exit code 137 before it finished. Nothing of "
        "them was published."
    )


def test_what_the_job_reported_long_before_its_last_lines_reaches_the_task(
    airflow_home: object, installation: Installation, a: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spark-submit that reports a missing segment, then logs a thousand lines: the partition is marked."""
    batch = planned(a, "orders")
    (plan,) = plans_of(batch)
    stream = io.StringIO()
    failure = PlanFailure(Explanation("gone"), 4, (PartitionFailure(0, "segment is missing", 4),))
    emit_outcomes([PlanOutcome(plan.topic, plan.plan_id, None, failure)], stream)
    output = tmp_path / "output"
    output.write_text(stream.getvalue() + "a line of Spark's own\n" * 1_000)
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat '{output}'\nexit 4\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    monkeypatch.setattr(operators, "_build_driver_environment", lambda settings: {"PATH": path})
    context = {
        "ti": SimpleNamespace(dag_id="compact_topics", run_id="a", task_id="compact", map_index=0, try_number=1),
        "dag_run": SimpleNamespace(dag_id="compact_topics", run_id="a"),
    }
    with pytest.raises(DamagedSegmentError, match="segment is missing"):
        CompactOperator(task_id="compact", batch=batch).execute(cast("Any", context))
    assert [mark.topic for mark in installation.store.projection.list_uncleanable(["orders"])] == ["orders"]


def test_a_void_plan_that_nobody_can_explain_stops_no_other_topic(installation: Installation, a: Installation) -> None:
    """Its document cannot even be opened, with an error of the disk's own: the plan's own error is kept, and told."""
    (plan,) = plans_of(planned(a, "orders"))
    document = storage.parse_local_path(plan.uri)
    document.unlink()
    document.mkdir()
    results = TaskResults(a)
    with results.collect("orders", plan.plan_id):
        raise PlanVoidError("orders is void")
    with results.collect("clicks"):
        raise ServiceError("the store is away")
    assert [topic for topic, _ in results.errors] == ["clicks", "orders"]


def test_an_attempt_at_a_plan_that_another_run_left_open_is_this_runs_work(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """The other opened the same plan and could not judge it: what this run does now is its own to tell and publish."""
    now_ms = installation.now_ms()
    b = as_run(installation, B)
    mine = planned(a, "orders", as_of_ms=now_ms)
    lapse(a, "orders")
    theirs = planned(b, "orders", as_of_ms=now_ms)
    plan_id = theirs["plans"][0]["plan_id"]
    installation.store.runs.set_state(plan_id, RunState.BROKEN, now_ms, attempt=theirs["attempt"])
    compaction_steps.report_batch(b, theirs)
    assert status(installation, theirs) is RunState.BROKEN

    (plan,) = plans_of(mine)
    lock_for_plan(a, plan)
    reopen_run(a, plan, f"{mine['attempt']}-1")
    assert explain_void(a, plan_id) is None, "a failure of this attempt is this run's to tell"
    stage(a, mine, tmp_path)
    assert compaction_steps.publish_batch(a, mine) == [plan_id]
    assert [receipt.plan_id for receipt, _ in compaction_steps.report_batch(a, mine)[1]] == [plan_id]


def test_a_topic_whose_earlier_runs_cannot_be_settled_is_given_back(
    installation: Installation, a: Installation
) -> None:
    """Planning takes hold of it first; an hour's lease would keep everybody off a topic that is at fault already."""
    now_ms = installation.now_ms()
    found = eligibility_steps.check_topic(a, "orders", as_of_ms=now_ms)
    installation.store.runs.open("p", "orders", attempt="b", as_of_ms=now_ms, plan_uri="", now_ms=now_ms, holder=B)
    installation.log.open("orders").head().table.append(ARROW_SCHEMA.empty_table())
    (failed,) = compaction_steps.plan_topics(a, [found], as_of_ms=now_ms)
    assert "Topic orders could not be planned" in str(failed.get("error"))
    assert installation.store.leases.find("orders") is None


def test_a_report_that_may_be_mended_is_tried_again_and_in_the_end_loses_no_other_topics_event(
    installation: Installation, a: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One receipt cannot be reached: raised while tries are left; then told, and the other topic's event goes out."""
    make_topic(installation, tmp_path, "clicks", [build_old_lines(100, 10)])
    batch = planned(a, "clicks", "orders")
    stage(a, batch, tmp_path)
    compaction_steps.publish_batch(a, batch)
    genuine = TopicLog.find_receipt

    def find_receipt(log: TopicLog, *arguments: Any, **named: Any) -> Receipt | None:
        if log.topic == "orders":
            raise ServiceError("The object store does not answer.")
        return genuine(log, *arguments, **named)

    monkeypatch.setattr(TopicLog, "find_receipt", find_receipt)
    with pytest.raises(ServiceError, match="does not answer"):
        compaction_steps.report_batch(a, batch)
    paragraphs, published = compaction_steps.report_batch(a, batch, last_try=True)
    assert [receipt.topic for receipt, _ in published] == ["clicks"]
    assert "Topic orders could not be reported: " in paragraphs[-1]
    assert [installation.store.leases.find(topic) for topic in ("clicks", "orders")] == [None, None]

    alone = BatchRow(
        label="orders", attempt=batch["attempt"], plans=[r for r in batch["plans"] if r["topic"] == "orders"]
    )
    with pytest.raises(ServiceError, match="does not answer"):
        compaction_steps.report_batch(a, alone, last_try=True)


def test_a_damaged_receipt_is_told_at_once_and_loses_no_other_topics_event(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """Trying again mends no file."""
    make_topic(installation, tmp_path, "clicks", [build_old_lines(100, 10)])
    batch = planned(a, "clicks", "orders")
    stage(a, batch, tmp_path)
    compaction_steps.publish_batch(a, batch)
    head = installation.log.open("orders").head()
    (reference,) = head.state.receipts
    for place in head.documents.list_places(reference.path):
        storage.write_bytes(place, b"no receipt")
    paragraphs, published = compaction_steps.report_batch(a, batch)
    assert [receipt.topic for receipt, _ in published] == ["clicks"]
    assert "receipt file of topic orders" in paragraphs[-1]


def test_a_spark_task_whose_batch_is_left_is_skipped_before_spark(
    installation: Installation, a: Installation, tmp_path: Path
) -> None:
    """Cleared the day after, when another run has long taken the topic: seconds, a sentence, no second attempt."""
    batch = planned(a, "orders")
    lapse(a, "orders")
    compact_as(installation, NIGHT, "orders", tmp_path)
    context = {
        "ti": SimpleNamespace(try_number=2),
        "dag_run": SimpleNamespace(dag_id="compact_topics", run_id="a"),
    }
    operator = CompactOperator(task_id="compact", batch=batch)
    with pytest.raises(AirflowSkipException, match=rf"{NIGHT} took it"):
        operator.execute(cast("Any", context))
    assert status(installation, batch) is RunState.VOID


def test_an_error_that_keeps_spark_from_starting_is_in_the_tasks_log_with_its_traceback(
    installation: Installation, a: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of the task names only its type, since a library's message may quote data."""

    def fail(settings: Settings) -> None:
        raise KeyError("secret")

    batch = planned(a, "orders")
    monkeypatch.setattr(operators, "_build_driver_environment", fail)
    context = {
        "ti": SimpleNamespace(dag_id="compact_topics", run_id="a", task_id="compact", map_index=0, try_number=1),
        "dag_run": SimpleNamespace(dag_id="compact_topics", run_id="a"),
    }
    with pytest.raises(WinnowError, match="unexpected KeyError") as caught:
        CompactOperator(task_id="compact", batch=batch).execute(cast("Any", context))
    assert "secret" not in str(caught.value)
    logged = capsys.readouterr().out.partition("Spark could not be started.")[2]
    assert "in fail" in logged
    assert "KeyError" in logged


def test_a_sweep_waits_for_a_compaction_and_then_leaves_the_topic(installation: Installation, a: Installation) -> None:
    """Tried again while tries are left, since its files have waited a day already; green when the topic stays busy."""
    planned(a, "orders")
    with pytest.raises(TopicBusyError, match=f"held by {A}"):
        sweep_steps.sweep_topics(as_run(installation, B), ["orders"], last_try=False)
    ((_, said),) = sweep_steps.sweep_topics(as_run(installation, B), ["orders"], last_try=True)
    assert "It is left to that run" in said


def test_a_topic_that_was_dropped_meanwhile_is_a_paragraph_of_its_report(
    installation: Installation, a: Installation
) -> None:
    """Nothing is wrong with the run, and trying again brings nothing back: it is told, and the topic is given back."""
    batch = planned(a, "orders")
    installation.log.catalog.drop_table(("winnow", "orders"))
    (said,), published = compaction_steps.report_batch(a, batch)
    assert "Topic orders was dropped" in said
    assert published == []
    assert installation.store.leases.find("orders") is None
