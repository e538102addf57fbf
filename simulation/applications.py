"""Carries out what processes ask of Spark: the same tasks and documents, in the process that asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from winnow.arrivals.run_task import read_task_secret
from winnow.config.settings import Settings
from winnow.engine.erasure_job import (
    TaskSource,
    build_erasure_units,
    open_task_source,
    run_erasure_task,
    write_erasure_result,
)
from winnow.engine.erasure_plans import ErasureJobPlan
from winnow.engine.job_documents import read_job_document
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_resources import TaskBudget
from winnow.pipeline.spark.submit import JobOutcome, Progress
from winnow.planning.plans import PlanReference
from winnow.quality import erasure_facts


def run_erasure_application(
    settings: Settings,
    job: Sequence[str],
    *,
    name: str,
    plans: Sequence[PlanReference],
    progress: Progress | None = None,
) -> JobOutcome:
    """Stands where spark-submit is started; each task is carried out twice, as where an executor died after the first.

    The result is that of the second time.
    """
    del name
    uri, sha256 = parse_plan_argument(job[-1])
    plan = read_job_document(ErasureJobPlan, uri, sha256)
    secret = read_task_secret(Path(job[job.index("--erase-secret") + 1]))
    assert secret is not None
    budget = TaskBudget(settings.engine.memory_bytes, settings.engine.threads, settings.engine.spill_folder)
    source, units = TaskSource(uri, sha256, secret), build_erasure_units(uri, plan)
    check, report = erasure_facts.compute_erasure_facts, progress or (lambda _: None)
    open_task_source.cache_clear()  # each executor reads the plan
    list(run_erasure_task([units], source, check, budget, report))
    open_task_source.cache_clear()
    results = list(run_erasure_task([units], source, check, budget, report))
    outcome = write_erasure_result(uri, plan, results)
    assert outcome.sha256 is not None
    return JobOutcome(0, digests={plans[0].plan_id: outcome.sha256})
