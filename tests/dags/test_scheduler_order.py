"""What Airflow's scheduler makes of pools and priorities: its own code, over its own database, changing nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.dags.conftest import RunDag
from winnow.config.settings import Settings
from winnow.embedded.airflow_home import POOLS
from winnow.errors import ConfigurationError
from winnow.pipeline.installation import Installation
from winnow_airflow import pool_checks
from winnow_airflow.task_defaults import RETRY_POLICY

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

DAY = datetime(2024, 1, 2, tzinfo=UTC)
COMPACT = "compact_batch.compact"


@pytest.fixture
def scheduling(airflow_home: Settings) -> Iterator[Session]:
    """A session in which the DAGs are known as the dag-processor makes them known. What it does is taken back."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.utils.session import create_session

    manager = DagBundlesManager()  # type: ignore[no-untyped-call]
    manager.sync_bundles_to_db()
    for bundle in manager.get_all_dag_bundles():
        bundle.initialize()
        bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
        sync_bag_to_db(bag, bundle.name, bundle.version)
    with create_session(scoped=False) as session:
        yield session
        session.rollback()


def make_run(session: Session, dag_id: str, kind: str, day: datetime | None, *, state: str = "running") -> DagRun:
    """A run as the scheduler, the API or a backfill creates it; ``day`` None: by hand, without a logical date."""
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    model = SerializedDagModel.get(dag_id, session=session)
    assert model is not None
    after = day or DAY + timedelta(days=60)
    return model.dag.create_dagrun(
        run_id=f"{kind}__{after.isoformat()}",
        logical_date=day,
        data_interval=None if day is None else (day - timedelta(days=1), day),
        run_after=after,
        run_type=DagRunType(kind),
        triggered_by=DagRunTriggeredByType.TEST,
        state=DagRunState(state),
        conf={"action": "pause", "topic": "orders"} if dag_id == "change_partitions" else None,
        session=session,
    )


def waiting(session: Session, run: DagRun, batches: int) -> None:
    """Let the Spark tasks of ``run`` wait for slots, one per batch, expanded as the scheduler does it."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.state import TaskInstanceState

    first = run.get_task_instance(COMPACT, session=session)
    assert first is not None
    first.map_index, first.state = 0, TaskInstanceState.SCHEDULED
    task = run.get_dag().get_task(COMPACT)
    for index in range(1, batches):
        more = TaskInstance(task, run_id=run.run_id, map_index=index, dag_version_id=first.dag_version_id)
        more = session.merge(more)
        more.refresh_from_task(task, dag_run=run)
        more.state = TaskInstanceState.SCHEDULED
    session.flush()


def test_the_most_overdue_batch_goes_first_and_the_present_before_a_backfill(scheduling: Session) -> None:
    """By hand, then the schedule, then a backfill; within a run the order of the plan, which is that of deadlines."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.pool import Pool

    Pool.create_or_update_pool("winnow_spark", 20, "", False, session=scheduling)
    runs = {
        "backfill": make_run(scheduling, "backfill_topics", "backfill", DAY),
        "scheduled": make_run(scheduling, "compact_topics", "scheduled", DAY + timedelta(days=30)),
        "manual": make_run(scheduling, "compact_topics", "manual", None),
    }
    # Four in all, since the embedded Airflow runs four tasks at a time.
    for run, batches in zip(runs.values(), (1, 2, 1), strict=True):
        waiting(scheduling, run, batches)
    runner = SchedulerJobRunner(Job())  # type: ignore[no-untyped-call]
    queued = runner._executable_task_instances_to_queued(32, scheduling)
    ours = [ti for ti in queued if ti.task_id == COMPACT]
    assert [(ti.run_id.partition("__")[0], ti.map_index) for ti in ours] == [
        ("manual", 0),
        ("scheduled", 0),
        ("scheduled", 1),
        ("backfill", 0),
    ]


def start(session: Session, run: DagRun) -> dict[str, Any]:
    """Have the scheduler start what is queued; the configuration of ``run`` then."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner

    session.flush()
    SchedulerJobRunner(Job())._start_queued_dagruns(session)  # type: ignore[no-untyped-call]
    session.flush()
    session.refresh(run)
    assert str(run.state) == "running"
    return dict(run.conf or {})


@pytest.mark.parametrize("dag_id", ["compact_topics", "ingest_topics", "sweep_topics", "change_partitions"])
def test_a_missing_pool_is_noted_when_a_run_starts_and_forgotten_when_it_starts_again(
    scheduling: Session, dag_id: str
) -> None:
    """The scheduler tells the run's first task; once the pool is there, a run that is cleared knows nothing of it."""
    from airflow.models.pool import Pool
    from airflow.utils.state import DagRunState
    from sqlalchemy import delete

    run = make_run(scheduling, dag_id, "manual", None, state="queued")
    scheduling.execute(delete(Pool).where(Pool.pool == "winnow_commit"))
    assert start(scheduling, run).get(pool_checks.MISSING_POOLS_KEY) == ["winnow_commit"]

    run.state = DagRunState.QUEUED
    Pool.create_or_update_pool("winnow_commit", 4, "", False, session=scheduling)
    assert pool_checks.MISSING_POOLS_KEY not in start(scheduling, run)


def test_a_run_without_its_pools_ends_at_once_with_the_command_that_creates_them(
    installation: Installation, run_dag: RunDag
) -> None:
    """The first task is red, nothing else ran; the error is of the kind that is not tried again."""
    states = run_dag("sweep_topics", **{pool_checks.MISSING_POOLS_KEY: ["winnow_commit"]})
    assert (states["list_topics", -1], states["sweep", -1], states["run", -1]) == (
        "failed",
        "upstream_failed",
        "failed",
    )
    for dag_id, first in (("ingest_topics", "list_files"), ("change_partitions", "check_pools")):
        conf = {"action": "pause", "topic": "orders"} if dag_id == "change_partitions" else {}
        assert run_dag(dag_id, **{pool_checks.MISSING_POOLS_KEY: ["winnow_commit"]}, **conf)[first, -1] == "failed"

    class Run:
        conf = {pool_checks.MISSING_POOLS_KEY: ["winnow_check", "winnow_commit", "winnow_scrub", "winnow_spark"]}  # noqa: RUF012 - a run's

    with pytest.raises(ConfigurationError, match="Nothing was done") as caught:
        pool_checks.require_pools({"dag_run": Run()})
    for name, pool in POOLS.items():
        assert f"airflow pools set {name} {pool['slots']} '{pool['description']}'" in str(caught.value)
    assert RETRY_POLICY is not None
    assert RETRY_POLICY.evaluate(caught.value, 1, 3).action.value == "fail"


def test_the_first_task_of_every_dag_waits_in_no_pool_that_may_be_missing(dagbag: DagBag) -> None:
    """Else the task that would say it would wait itself."""
    for dag in dagbag.dags.values():
        assert {task.pool for task in dag.tasks if not task.upstream_task_ids} == {"default_pool"}, dag.dag_id
