"""Step 3: starting the Spark application that carries out plans. It sees plans and the object store only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from winnow import __version__
from winnow.bundle import bundled
from winnow.config.settings import Settings
from winnow.engine import staging
from winnow.engine.events import PlanFailure, failure_in, parse_event
from winnow.engine.rewrite import ENGINE, compact_partition
from winnow.errors import ServiceError
from winnow.java import check_spark_install, find_java, spark_environment
from winnow.model import StagingManifest
from winnow.pipeline.context import Context
from winnow.planning import PlanReference

TAIL_LINES = 15

Progress = Callable[[dict[str, Any]], None]
"""Told each event of the job: started, partition, plan, failed."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """How the Spark application ended: per plan id the failure that left it without a staging manifest."""

    exit_code: int
    failures: dict[str, PlanFailure]


def job_file() -> str:
    """The program that spark-submit starts."""
    return str(bundled("jobs") / "compact.py")


def spark_arguments(settings: Settings, plans: Sequence[PlanReference], attempt: str) -> list[str]:
    """Arguments of the job: references only. Credentials reach it by environment or instance role."""
    engine = settings.engine
    return [
        "--attempt",
        attempt,
        "--memory",
        str(engine.memory_bytes),
        "--threads",
        str(engine.threads),
        "--spill",
        engine.spill_folder,
        *(["--tasks", str(engine.tasks)] if engine.tasks is not None else []),
        *(["--bytes-per-second", str(engine.bytes_per_second)] if engine.bytes_per_second is not None else []),
        *[plan.uri for plan in plans],
    ]


def spark_conf(settings: Settings) -> dict[str, str]:
    """Spark configuration: no UI, quick to start, workers reused; what the settings say wins."""
    return {
        "spark.ui.enabled": "false",
        "spark.python.worker.reuse": "true",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "WARN",
        **settings.spark.conf,
    }


def stage_unread(ctx: Context, plans: Sequence[PlanReference], attempt: str) -> list[PlanReference]:
    """Stage the plans of retention alone: they read no segment, so no Spark is started for them. Gives the others."""
    left: list[PlanReference] = []
    for reference in plans:
        plan = staging.read_plan(reference.uri)
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


def submit(ctx: Context, plans: Sequence[PlanReference], attempt: str, progress: Progress | None = None) -> JobResult:
    """Run spark-submit for ``plans`` and wait for it.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        ServiceError: the application ended without saying what became of its plans.
    """
    settings = ctx.settings
    check_spark_install()
    environment = spark_environment(os.environ, find_java(os.environ, settings.home / "java"), settings.spark.master)
    command = [
        "spark-submit",
        "--master",
        settings.spark.master,
        "--name",
        f"winnow {attempt}",
        *[part for key, value in sorted(spark_conf(settings).items()) for part in ("--conf", f"{key}={value}")],
        job_file(),
        *spark_arguments(settings, plans, attempt),
    ]
    return _follow(command, environment, progress, plans)


def _follow(
    command: Sequence[str], environment: dict[str, str], progress: Progress | None, plans: Sequence[PlanReference]
) -> JobResult:
    failures: dict[str, PlanFailure] = {}
    heard: set[str] = set()
    tail: list[str] = []
    try:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
    except FileNotFoundError as problem:
        raise ServiceError(
            "spark-submit was not found on PATH. Nothing was compacted. Install pyspark into this environment."
        ) from problem
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            event = parse_event(line)
            if event is None:
                tail = [*tail, line.rstrip()][-TAIL_LINES:]
                continue
            if event["event"] in {"plan", "failed"}:
                # "failed" is about the application, and so about every plan of it.
                told = [event["plan_id"]] if event["event"] == "plan" else [plan.plan_id for plan in plans]
                heard.update(told)
                failure = failure_in(event)
                failures.update({plan_id: failure for plan_id in told if failure is not None})
            if progress is not None:
                progress(event)
    silent = [plan for plan in plans if plan.plan_id not in heard]
    if silent:
        sys.stderr.write("\n".join(tail) + "\n")
        reason = f"the Spark application ended with exit code {process.returncode} before it finished"
        failures.update({plan.plan_id: PlanFailure(reason, ServiceError.exit_code) for plan in silent})
    return JobResult(process.returncode, failures)
