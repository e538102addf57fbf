"""Runs ``compact_topics`` without a JVM: the same work and output lines, in process."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest

from tests.support.world import open_connections
from winnow.engine import staging
from winnow.engine.compaction_job import build_units, run_unit, write_plan_manifest
from winnow.engine.events import emit_outcomes, parse_event, parse_failure
from winnow.pipeline.compaction import driver
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import JobOutcome, Progress
from winnow.planning.plans import PlanReference


def run_job(installation: Installation, plans: Sequence[PlanReference], attempt: str) -> str:
    """Carry out ``plans`` and give the last lines that the job would print."""
    documents, refused = staging.read_usable_plans(
        [staging.format_plan_argument(plan.uri, plan.sha256) for plan in plans]
    )
    stream = io.StringIO()
    outcomes = refused + [
        write_plan_manifest(
            uri,
            plan,
            attempt,
            [
                run_unit(
                    unit,
                    attempt,
                    installation.budget,
                    folder=f"{attempt}-t0",
                    connections=open_connections(installation.budget),
                )
                for unit in build_units(uri, plan)
            ],
        )
        for uri, plan in documents.items()
    ]
    emit_outcomes(outcomes, stream)
    return stream.getvalue()


def submit(
    installation: Installation, plans: Sequence[PlanReference], attempt: str, progress: Progress | None = None
) -> JobOutcome:
    """Stands where spark-submit is started."""
    failures = {}
    for line in run_job(installation, plans, attempt).splitlines():
        event = parse_event(line)
        assert event is not None
        failure = parse_failure(event)
        if failure is not None:
            failures[event["plan_id"]] = failure
    return JobOutcome(1 if failures else 0, failures)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """``compact_topics`` starts no JVM."""
    monkeypatch.setattr(driver, "submit_plans", submit)
