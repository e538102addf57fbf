"""Step 4: is the staged result right? Facts computed again from the files, judged by Great Expectations."""

from __future__ import annotations

from dataclasses import replace

from winnow.engine import staging
from winnow.errors import CommitConflictError, ValidationBrokenError, ValidationFailedError, WinnowError
from winnow.model import Failure, Plan, Severity, StagingManifest, Verdict
from winnow.pipeline.context import Context
from winnow.pipeline.uncleanable import mark_uncleanable
from winnow.quality.content import judge_content
from winnow.quality.facts import fact_table
from winnow.quality.judge import judge
from winnow.report.alerts import Alert, raise_alert
from winnow.store import RunState

SHOWN = 3
FACT_WORKERS = 2


def validate(ctx: Context, plan_id: str, attempt: str) -> Verdict:
    """Judge one attempt at a plan and record the verdict. Judging again gives the same verdict.

    Raises:
        ValidationFailedError: the result is wrong; the failing partitions are marked uncleanable.
        ValidationBrokenError: a check raised; nothing is marked.
    """
    run = ctx.store.run(plan_id)
    if run is None:
        raise WinnowError(f"There is no run of plan {plan_id}. Nothing was changed; plan the topic again.")
    known = ctx.store.verdict(plan_id, attempt)
    if run.status is RunState.PUBLISHED and known is not None:
        return known  # its inputs may be gone by now
    plan = staging.read_plan(run.plan_uri)
    manifest = staging.read_manifest(run.plan_uri, attempt)
    if manifest is None:
        raise WinnowError(
            f"Attempt {attempt} at plan {plan_id} of topic {plan.topic} left no staging manifest, so its files do not "
            "count. Nothing was published. Run the compaction again."
        )
    try:
        verdict = _verdict(ctx, plan, manifest)
    except ValidationBrokenError as problem:
        _record_broken(ctx, plan, attempt, str(problem))
        raise
    ctx.store.record_verdict(verdict)
    if verdict.passed:
        ctx.store.set_run_state(plan_id, RunState.VALIDATED, ctx.now_ms(), attempt=attempt)
        return verdict
    if verdict.broken:
        _broken(ctx, plan, verdict)
    return _failed(ctx, plan, verdict)


def _verdict(ctx: Context, plan: Plan, manifest: StagingManifest) -> Verdict:
    settings = ctx.settings
    budget = ctx.budget
    rows = fact_table(
        plan,
        manifest,
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
        workers=FACT_WORKERS,
    )
    verdict = judge(
        rows,
        plan_id=plan.plan_id,
        topic=plan.topic,
        attempt=manifest.attempt,
        checked_at_ms=ctx.now_ms(),
        data_docs=settings.data_docs,
    )
    suite = ctx.log.open(plan.topic).config().expectations
    if not suite or verdict.broken:
        return verdict
    failures = judge_content(suite, plan, manifest, extra_folder=settings.expectations)
    broken = any(failure.expectation.endswith(":raised") for failure in failures)
    return replace(
        verdict,
        passed=verdict.passed and not broken and not any(f.severity is Severity.FAIL for f in failures),
        broken=broken,
        failures=(*verdict.failures, *failures),
    )


def describe(failures: tuple[Failure, ...], topic: str) -> str:
    """Failures as one sentence part, at most three of them."""
    parts = [
        f"{topic if f.partition is None else f'{topic}-{f.partition}'}: {f.expectation} ({f.detail})"
        for f in failures
        if f.severity is Severity.FAIL
    ]
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return "; ".join(parts[:SHOWN]) + more


def _broken(ctx: Context, plan: Plan, verdict: Verdict) -> None:
    message = (
        f"A check of plan {plan.plan_id} of topic {plan.topic} raised instead of judging: "
        f"{describe(verdict.failures, plan.topic)}. Nothing was published and no partition was marked. Mend the check "
        "or the suite, then run the compaction again."
    )
    _record_broken(ctx, plan, verdict.attempt, message)
    raise ValidationBrokenError(message)


def _record_broken(ctx: Context, plan: Plan, attempt: str, message: str) -> None:
    ctx.store.set_run_state(plan.plan_id, RunState.BROKEN, ctx.now_ms(), message=message, attempt=attempt)
    raise_alert(ctx.settings, ctx.store, Alert("validation_broken", plan.topic, None, message, ctx.now_ms()))


def _failed(ctx: Context, plan: Plan, verdict: Verdict) -> Verdict:
    partitions = verdict.failing_partitions or tuple(p.partition for p in plan.partitions)
    reason = describe(verdict.failures, plan.topic)
    try:
        mark_uncleanable(ctx, plan.topic, plan.plan_id, dict.fromkeys(partitions, reason))
    except CommitConflictError:
        reason += " (the mark itself could not be committed; the next run may try these partitions again)"
    message = (
        f"Validation of plan {plan.plan_id} of topic {plan.topic} failed: {reason}. Nothing was published; readers see "
        f"the log as before. Partition(s) {', '.join(map(str, partitions))} are marked uncleanable and tried again "
        f"later; the next run takes the others. Evidence: {verdict.data_docs or 'winnow receipts ' + plan.topic}"
    )
    ctx.store.set_run_state(plan.plan_id, RunState.INVALID, ctx.now_ms(), message=message, attempt=verdict.attempt)
    raise_alert(ctx.settings, ctx.store, Alert("validation_failed", plan.topic, partitions, message, ctx.now_ms()))
    raise ValidationFailedError(message)
