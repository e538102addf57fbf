"""Reads a run's plan and staging manifest, and checks that they are the documents that were validated.

Files in the staging area may have been changed by anyone who can write there. A plan is accepted if its bytes have the
digest of the run's row (for a row without one: if its id matches its content), and an attempt may be
published if plan and staging manifest are those that were validated.
"""

from __future__ import annotations

import contextlib

from winnow.engine import staging
from winnow.errors import PlanVoidError, RunAgainError, ValidationFailedError
from winnow.pipeline.installation import Installation
from winnow.report.events import log_event
from winnow.store import Run, RunState
from winnow.values import documents
from winnow.values.model import Plan
from winnow.values.results import StagingManifest, Verdict


def read_run_plan(run: Run) -> tuple[Plan, str]:
    """Read the plan of ``run`` and the sha256 of its bytes.

    Raises:
        PlanVoidError: the document is not the plan of this run.
        WinnowError, FormatVersionError, ServiceError: as :func:`winnow.engine.staging.read_plan`.
    """
    plan, sha256 = staging.read_plan_and_digest(run.plan_uri, run.plan_sha256)
    if (plan.plan_id, plan.topic) != (run.plan_id, run.topic):
        raise PlanVoidError(
            f"{run.plan_uri} should hold plan {run.plan_id} of topic {run.topic}, but holds plan {plan.plan_id} of "
            f"topic {plan.topic}.",
            left="The plan is void and nothing was published.",
            next="Find out what else writes to the staging area, then run it again: the next run plans the topic anew.",
        )
    return plan, sha256


def read_run_manifest(run: Run, attempt: str) -> StagingManifest | None:
    """Read the staging manifest that ``attempt`` at the plan of ``run`` left; None if it left none.

    Raises:
        PlanVoidError: the document belongs to another attempt or plan.
        WinnowError, FormatVersionError, ServiceError: as :func:`winnow.engine.staging.read_manifest`.
    """
    manifest = staging.read_manifest(run.plan_uri, attempt)
    if manifest is not None and (manifest.plan_id, manifest.topic, manifest.attempt) != (
        run.plan_id,
        run.topic,
        attempt,
    ):
        raise PlanVoidError(
            f"The staging manifest of attempt {attempt} at plan {run.plan_id} of topic {run.topic} is that of attempt "
            f"{manifest.attempt} at plan {manifest.plan_id} of topic {manifest.topic}.",
            left="It was not used and nothing was published.",
            next="Find out what else writes to the staging area, then run it again.",
        )
    return manifest


def read_validated_attempt(run: Run, verdict: Verdict | None, attempt: str) -> tuple[Plan, StagingManifest]:
    """Read plan and staging manifest of an attempt that passed validation, exactly as they were validated.

    Raises:
        ValidationFailedError: the attempt has not passed, or its staging manifest was changed since.
        PlanVoidError: the plan was changed.
        WinnowError, FormatVersionError, ServiceError: as :func:`winnow.engine.staging.read_plan`.
    """
    what = f"attempt {attempt} at plan {run.plan_id} of topic {run.topic}"
    manifest = read_run_manifest(run, attempt)
    if verdict is None or not verdict.passed or manifest is None:
        raise ValidationFailedError(
            f"{what[:1].upper()}{what[1:]} has not passed validation.",
            left="Nothing was published.",
            next="Run the compaction again.",
        )
    plan, sha256 = read_run_plan(run)
    if verdict.plan_sha256 != sha256:
        raise PlanVoidError(
            f"Plan {run.plan_id} of topic {run.topic} is not the one of which attempt {attempt} passed validation: "
            "something wrote it again.",
            left="The plan is void and nothing was published.",
            next="Run it again: the next run plans anew.",
        )
    if verdict.manifest_digest != documents.compute_digest(manifest):
        raise ValidationFailedError(
            f"The staging manifest of {what} is not the one that passed validation: something wrote it again.",
            left="Nothing was published.",
            next="Run the compaction again.",
        )
    return plan, manifest


def close_as_void(installation: Installation, run: Run, problem: PlanVoidError) -> None:
    """Close a run whose plan cannot be used; if its commit may exist, leave it open until it is settled."""
    if run.status.is_closed or run.status.is_unsettled:
        return
    with contextlib.suppress(RunAgainError):  # another process closed it, or began another attempt
        set_void(installation, run, str(problem))


def set_void(installation: Installation, run: Run, message: str) -> None:
    """Set the state of ``run`` to void, if it still has the attempt and state that ``run`` shows.

    A run whose last attempt failed in Spark ends as failed in Spark, with that reason: nothing else was tried since.

    Raises:
        RunAgainError: it has others by now.
    """
    has_failed = run.status is RunState.COMPACTING and bool(run.message)
    state = RunState.SPARK_FAILED if has_failed else RunState.VOID
    installation.store.runs.set_state(
        run.plan_id,
        state,
        installation.now_ms(),
        message=run.message if has_failed else message,
        attempt=run.attempt,
        seen=run.status,
    )
    if has_failed:
        log_event("spark_failed", run.topic, plan_id=run.plan_id, attempt=run.attempt)
    else:
        log_event("voided", run.topic, plan_id=run.plan_id, attempt=run.attempt)
