"""Carries out plans of Spark applications (latest state, scrub, reading) without a JVM: the same tasks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tests.support.world import World
from winnow.config.settings import Settings
from winnow.engine.events import PlanOutcome
from winnow.engine.job_documents import read_job_document
from winnow.engine.latest_job import UpdateUnit, carry_out_update_plan, run_update_unit
from winnow.engine.latest_plans import UpdatePlan
from winnow.engine.read_job import carry_out_read_plan, run_read_unit
from winnow.engine.read_plans import ReadPlan
from winnow.engine.scrub_job import build_scrub_units, read_scrubbed_file, write_scrub_result
from winnow.engine.scrub_plans import ScrubPlan
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import WorkUnit
from winnow.engine.task_resources import TaskBudget
from winnow.pipeline.spark.submit import JobOutcome, Progress
from winnow.planning.plans import PlanReference
from winnow.quality.latest_facts import LatestJudge
from winnow.schemas.row_task import TaskRows, load_secrets

CORES = 4
"""As many cores as an application has; every part of a latest state is large to it."""


def run_latest_job(
    settings: Settings,
    job: Sequence[str],
    *,
    name: str,
    plans: Sequence[PlanReference],
    progress: Progress | None = None,
) -> JobOutcome:
    """Stands where spark-submit is started; nobody follows the progress."""
    del name, progress
    uri, sha256 = parse_plan_argument(job[-1])
    plan = read_job_document(UpdatePlan, uri, sha256)
    secrets = load_secrets(job[job.index("--secrets") + 1] if "--secrets" in job else None)
    budget = TaskBudget(settings.engine.memory_bytes, settings.engine.threads, settings.engine.spill_folder)
    judge = LatestJudge()

    def run(units: Sequence[WorkUnit]) -> list[dict[str, Any]]:
        return [
            run_update_unit(_send(unit), budget, partial(TaskRows, secrets=secrets), judge) for unit in reversed(units)
        ]

    return _report(carry_out_update_plan(uri, plan, run, judge, cores=CORES, giant_bytes=1), plans)


def run_scrub_job(
    settings: Settings,
    job: Sequence[str],
    *,
    name: str,
    plans: Sequence[PlanReference],
    progress: Progress | None = None,
) -> JobOutcome:
    """Stands where spark-submit is started."""
    del settings, name
    uri, sha256 = parse_plan_argument(job[-1])
    plan = read_job_document(ScrubPlan, uri, sha256)
    outcomes = []
    for unit in build_scrub_units(plan):
        assert unit.file is not None
        outcomes.append(read_scrubbed_file(unit.file, lambda _: None))
        if progress is not None:
            progress({"event": "file", "bytes": unit.size_bytes})
    return _report(write_scrub_result(uri, plan, outcomes), plans)


def run_read_job(
    settings: Settings,
    job: Sequence[str],
    *,
    name: str,
    plans: Sequence[PlanReference],
    progress: Progress | None = None,
) -> JobOutcome:
    """Stands where spark-submit is started; each part is written twice, as where an executor died after the first."""
    del name, progress
    uri, sha256 = parse_plan_argument(job[-1])
    plan = read_job_document(ReadPlan, uri, sha256)
    budget = TaskBudget(settings.engine.memory_bytes, settings.engine.threads, settings.engine.spill_folder)

    def run(units: Sequence[WorkUnit]) -> list[dict[str, Any]]:
        for unit in units:
            run_read_unit(unit, budget)
        return [run_read_unit(unit, budget) for unit in reversed(units)]

    return _report(carry_out_read_plan(uri, plan, run, cores=CORES, giant_bytes=1), plans)


def _report(outcome: PlanOutcome, plans: Sequence[PlanReference]) -> JobOutcome:
    """What the process that submits learns of the application that carried out the one plan."""
    (reference,) = plans
    if outcome.failure is not None:
        return JobOutcome(1, failures={reference.plan_id: outcome.failure})
    assert outcome.sha256 is not None
    return JobOutcome(0, digests={reference.plan_id: outcome.sha256})


def _send(unit: WorkUnit) -> UpdateUnit:
    """A task gets a copy."""
    sent: UpdateUnit = pickle.loads(pickle.dumps(unit))
    return sent


def prefer_tasks(world: World) -> World:
    """The same world, whose updates go to tasks whatever their size."""
    settings = world.installation.settings
    latest = settings.latest.model_copy(update={"spark_from_bytes": 1})
    installation = replace(world.installation, settings=settings.model_copy(update={"latest": latest}))
    return World(installation, world.clock, world.folder)


def prefer_tasks_for_erasures(world: World) -> World:
    """The same world, whose erasures go to tasks whatever their size."""
    settings = world.installation.settings
    erase = settings.erase.model_copy(update={"spark_from_bytes": 1})
    installation = replace(world.installation, settings=settings.model_copy(update={"erase": erase}))
    return World(installation, world.clock, world.folder)
