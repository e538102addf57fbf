"""Step 3: starting the Spark application that carries out plans. It sees plans and the object store only."""

from __future__ import annotations

from collections.abc import Sequence

from winnow import __version__
from winnow.config.settings import Settings
from winnow.engine import staging
from winnow.engine.rewrite import ENGINE, compact_partition
from winnow.model import StagingManifest
from winnow.pipeline.context import Context
from winnow.pipeline.spark_process import JobResult, Progress, engine_arguments, job_file, run_job
from winnow.planning import PlanReference
from winnow.report.events import tell
from winnow.store import RunState

JOB = "compact"
"""The program, below jobs/, that carries out plans."""


def spark_arguments(settings: Settings, plans: Sequence[PlanReference], attempt: str) -> list[str]:
    """Arguments of the job: references only. Credentials reach it by environment or instance role."""
    giant_bytes = str(settings.engine.giant_bytes)
    options = ["--attempt", attempt, *engine_arguments(settings), "--giant-bytes", giant_bytes]
    return [*options, *[plan.uri for plan in plans]]


def stage_unread(ctx: Context, plans: Sequence[PlanReference], attempt: str) -> list[PlanReference]:
    """Stage the plans of retention alone: they read no segment, so no Spark is started for them. Gives the others."""
    left: list[PlanReference] = []
    documents = staging.read_plans([reference.uri for reference in plans])
    for reference in plans:
        plan = documents[reference.uri]
        if any(partition.compacts for partition in plan.partitions):
            left.append(reference)
            continue
        parts = tuple(
            compact_partition(plan, partition, attempt=attempt, budget=ctx.budget)
            for partition in sorted(plan.partitions, key=lambda each: each.partition)
        )
        manifest = StagingManifest(plan.plan_id, plan.topic, attempt, parts, ENGINE, __version__)
        staging.write_manifest(reference.uri, manifest)
    return left


def begin_attempt(ctx: Context, plan: PlanReference, attempt: str) -> None:
    """An attempt at ``plan`` begins: its run is compacting."""
    ctx.store.set_run_state(plan.plan_id, RunState.COMPACTING, ctx.now_ms(), attempt=attempt)
    tell("compacting", plan.topic, plan_id=plan.plan_id, attempt=attempt)


def end_attempt(ctx: Context, plan: PlanReference, attempt: str, *, started_ms: int) -> None:
    """An attempt left its staging manifest: the run of ``plan`` is staged."""
    now_ms = ctx.now_ms()
    ctx.store.set_run_state(plan.plan_id, RunState.STAGED, now_ms, attempt=attempt)
    tell("staged", plan.topic, plan_id=plan.plan_id, attempt=attempt, duration_ms=now_ms - started_ms)


def submit(ctx: Context, plans: Sequence[PlanReference], attempt: str, progress: Progress | None = None) -> JobResult:
    """Run spark-submit for ``plans`` and wait for it.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        ServiceError: there is no spark-submit.
    """
    job = [job_file(JOB), *spark_arguments(ctx.settings, plans, attempt)]
    return run_job(ctx.settings, job, name=f"winnow {attempt}", plans=plans, progress=progress)
