"""The route of a run's progress: its time line, its Spark application, and whether the user may cancel it."""

from __future__ import annotations

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter

from winnow_airflow.page.access import may_change_tasks, may_view
from winnow_airflow.page.dependencies import InstallationDep, NowDep
from winnow_airflow.page.responses import Document, describe
from winnow_airflow.page.run_stages import build_stages

router = APIRouter(prefix="/api/runs", dependencies=[may_view])


@router.get("/{plan_id}/progress")
def get_progress(installation: InstallationDep, now_ms: NowDep, user: GetUserDep, plan_id: str) -> Document:
    """Return how far a run is.

    ``stages``: empty for a run of an older Winnow. ``job``: its latest Spark application, None before the first;
    ``own``: what that has done of this run; ``topics``: all that the application compacts. ``may_cancel``: whether the
    user may fail the Airflow task that submitted it; False where a shell did.
    """
    found = installation.store.job_progress.find(plan_id)
    job = found.job
    return {
        "now_ms": now_ms,
        "stages": [describe(stage) for stage in build_stages(found.transitions)],
        "job": None if job is None else describe(job, without=("job_id",)),
        "own": None if found.own is None else describe(found.own, without=("plan_id", "topic")),
        "topics": list(found.topics),
        "may_cancel": job is not None and job.dag_id is not None and may_change_tasks(user, job.dag_id),
    }
