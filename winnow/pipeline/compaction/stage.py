"""Starts the Spark application that carries out plans, and records the attempt."""

from __future__ import annotations

from collections.abc import Sequence

from winnow import __version__
from winnow.config.settings import Settings
from winnow.engine import staging
from winnow.engine.events import PlanFailure, describe_plan_failure
from winnow.errors import PlanVoidError, ServiceError, WinnowError
from winnow.pipeline.compaction.plan_limits import is_below_own_tables
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import JobOutcome, Progress, build_engine_arguments, find_job_file, run_job
from winnow.planning.plans import PlanReference
from winnow.report.events import log_event
from winnow.store import RunState
from winnow.values.model import Plan
from winnow.values.results import StagingManifest

JOB_NAME = "compact"
"""The program, below jobs/, that carries out plans."""


def build_job_arguments(settings: Settings, plans: Sequence[PlanReference], attempt: str) -> list[str]:
    """Build the arguments of the job: references only. Credentials come from environment or instance role."""
    options = ["--attempt", attempt, *build_engine_arguments(settings)]
    return [*options, *[staging.format_plan_argument(plan.uri, plan.sha256) for plan in plans]]


def stage_retention_plans(
    installation: Installation, plans: Sequence[PlanReference], attempt: str
) -> tuple[list[PlanReference], dict[str, PlanFailure]]:
    """Stage the plans that only apply retention: they read no segment, so they need no Spark.

    Returns the others, and per plan id why a plan may not be carried out: it is not the recorded one, or writes
    outside the topic's tables. Such a plan does not affect the others.

    Raises:
        ServiceError: catalog or object store cannot be reached.
    """
    left: list[PlanReference] = []
    refused: dict[str, PlanFailure] = {}
    checked = staging.run_concurrently(lambda each: _read_checked_plan(installation, each), plans)
    for reference, plan in zip(plans, checked, strict=True):
        if isinstance(plan, WinnowError):
            refused[reference.plan_id] = describe_plan_failure(plan)
            continue
        if any(partition.compacts for partition in plan.partitions):
            left.append(reference)
            continue
        from winnow.engine.rewrite import ENGINE_NAME, compact_partition  # with DuckDB and NumPy

        parts = tuple(
            compact_partition(plan, partition, attempt=attempt, budget=installation.budget)
            for partition in sorted(plan.partitions, key=lambda each: each.partition)
        )
        manifest = StagingManifest(plan.plan_id, plan.topic, attempt, parts, ENGINE_NAME, __version__)
        staging.write_manifest(reference.uri, manifest)
    return left, refused


def _read_checked_plan(installation: Installation, reference: PlanReference) -> Plan | WinnowError:
    """Read the plan of ``reference``, or return why it may not be carried out."""
    try:
        plan = staging.read_plan(reference.uri, reference.sha256)
        head = installation.log.open(reference.topic).head()
    except ServiceError:
        raise
    except WinnowError as problem:
        return problem
    own = is_below_own_tables(plan, head.location, installation.log.quarantine(reference.topic, head).location)
    if (plan.plan_id, plan.topic) == (reference.plan_id, reference.topic) and own:
        return plan
    return PlanVoidError(
        f"Plan {reference.plan_id} of topic {reference.topic} is that of another topic or writes elsewhere than below "
        f"the topic's own tables ({reference.uri}).",
        left="It is void and was not used. Nothing was published.",
        next="Find out what else writes to the staging area, then run it again: the next run plans the topic anew.",
    )


def begin_attempt(installation: Installation, plan: PlanReference, attempt: str) -> None:
    """Record that an attempt at ``plan`` begins: its run is compacting."""
    installation.store.runs.begin_attempt(plan.plan_id, attempt, installation.now_ms())
    log_event("compacting", plan.topic, plan_id=plan.plan_id, attempt=attempt)


def end_attempt(installation: Installation, plan: PlanReference, attempt: str, *, started_ms: int) -> None:
    """Record that an attempt left its staging manifest: the run of ``plan`` is staged."""
    now_ms = installation.now_ms()
    installation.store.runs.set_state(plan.plan_id, RunState.STAGED, now_ms, attempt=attempt)
    log_event("staged", plan.topic, plan_id=plan.plan_id, attempt=attempt, duration_ms=now_ms - started_ms)


def submit_plans(
    installation: Installation, plans: Sequence[PlanReference], attempt: str, progress: Progress | None = None
) -> JobOutcome:
    """Run spark-submit for ``plans`` and wait for it.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        ServiceError: there is no spark-submit.
    """
    job = [find_job_file(JOB_NAME), *build_job_arguments(installation.settings, plans, attempt)]
    return run_job(installation.settings, job, name=f"winnow {attempt}", plans=plans, progress=progress)
