"""Starting spark-submit and following what its application tells. It sees documents and the object store only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from winnow.bundle import bundled
from winnow.config.settings import Settings
from winnow.engine.events import PlanFailure, failure_in, parse_event
from winnow.errors import ServiceError
from winnow.java import check_spark_install, find_java, spark_environment
from winnow.planning import PlanReference

TAIL_LINES = 15

Progress = Callable[[dict[str, Any]], None]
"""Told each event of the job: started, partition, plan, failed."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """How the Spark application ended: per plan id the failure that left it without a staging manifest."""

    exit_code: int
    failures: dict[str, PlanFailure]


def job_file(name: str) -> str:
    """The program ``name`` that spark-submit starts."""
    return str(bundled("jobs") / f"{name}.py")


def engine_arguments(settings: Settings) -> list[str]:
    """Arguments of every job: what its tasks may use. Credentials reach it by environment or instance role."""
    engine = settings.engine
    return [
        "--memory",
        str(engine.memory_bytes),
        "--threads",
        str(engine.threads),
        "--spill",
        engine.spill_folder,
        *(["--tasks", str(engine.tasks)] if engine.tasks is not None else []),
        *(["--bytes-per-second", str(engine.bytes_per_second)] if engine.bytes_per_second is not None else []),
    ]


def spark_conf(settings: Settings) -> dict[str, str]:
    """Spark configuration: no UI, quick to start, workers reused; what the settings say wins."""
    return {
        "spark.ui.enabled": "false",
        # A bar drawn over the lines that are listened to.
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        "spark.log.level": "WARN",
        **settings.spark.conf,
    }


def run_job(
    settings: Settings,
    job: Sequence[str],
    *,
    name: str,
    plans: Sequence[PlanReference],
    progress: Progress | None = None,
) -> JobResult:
    """Run spark-submit for ``job`` (a program and its arguments), which is about ``plans``, and wait for it.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        ServiceError: there is no spark-submit.
    """
    check_spark_install()
    environment = spark_environment(os.environ, find_java(os.environ, settings.home / "java"), settings.spark.master)
    command = [
        "spark-submit",
        "--master",
        settings.spark.master,
        "--name",
        name,
        *[part for key, value in sorted(spark_conf(settings).items()) for part in ("--conf", f"{key}={value}")],
        *job,
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
