"""Validates a staged attempt with Great Expectations, from facts computed again from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from winnow import documents
from winnow.errors import (
    CommitConflictError,
    PlanVoidError,
    ValidationBrokenError,
    ValidationFailedError,
    WinnowError,
    join_first,
)
from winnow.model import Plan, Severity, Uncleanable
from winnow.pipeline.compaction.facts import FactRecomputer, StagedAttempt
from winnow.pipeline.compaction.plan_limits import PlanExcess, build_limits, find_excesses
from winnow.pipeline.compaction.plan_validity import find_void
from winnow.pipeline.compaction.run_plan import close_as_void, read_run_manifest, read_run_plan
from winnow.pipeline.compaction.staged_files import count_misfits
from winnow.pipeline.compaction.uncleanable import describe_marks, mark_uncleanable
from winnow.pipeline.context import Context
from winnow.quality import wait_until_ready
from winnow.quality.content_validation import validate_content
from winnow.quality.fact_table import FactRow
from winnow.quality.suites import SuiteFindings, load_suite
from winnow.quality.validation import validate_fact_table
from winnow.report import alert_templates
from winnow.report.alerts import Finding, Situation
from winnow.report.events import log_event
from winnow.results import Failure, StagingManifest, Verdict
from winnow.store import Run, RunState

MAXIMUM_SHOWN_FAILURES = 3


def validate_attempt(
    ctx: Context, plan_id: str, attempt: str, *, facts: FactRecomputer | None = None, index: bool = True
) -> Verdict:
    """Validate one attempt at a plan and record the verdict. Repeating it gives the same verdict.

    Args:
        ctx: the context.
        plan_id: a plan with a run.
        attempt: one that left a staging manifest.
        facts: a recomputer that may have started already; computed here if left out.
        index: build the index of the Data Docs, too; a caller with many topics does it once, afterwards
            (:func:`winnow.quality.validation.build_site_index`).

    Raises:
        ValidationFailedError: the result is wrong; the failing partitions are marked uncleanable.
        ValidationBrokenError: a check raised; nothing is marked.
        PlanVoidError: another run closed the plan meanwhile, or plan or staging manifest are not the recorded ones;
            nothing is judged.
    """
    run = ctx.store.runs.find(plan_id)
    if run is None:
        raise WinnowError(f"There is no run of plan {plan_id}. Nothing was changed; plan the topic again.")
    known = ctx.store.verdicts.find(plan_id, attempt)
    if run.status is RunState.PUBLISHED and known is not None:
        return known  # its inputs may be deleted by now
    if run.status in {RunState.VOID, RunState.REFUSED}:
        raise PlanVoidError(
            f"Plan {plan_id} of topic {run.topic} was closed meanwhile ({run.status}), so attempt {attempt} is not "
            "judged and no partition is marked. Nothing was published. Run it again: the next plan starts from the "
            "log as it is."
        )
    try:
        (plan, plan_sha256), manifest = read_run_plan(run), read_run_manifest(run, attempt)
    except PlanVoidError as problem:
        close_as_void(ctx, run, problem)
        raise
    if manifest is None:
        raise WinnowError(
            f"Attempt {attempt} at plan {plan_id} of topic {plan.topic} left no staging manifest, so its files do not "
            "count. Nothing was published. Run the compaction again."
        )
    started_ms = ctx.now_ms()
    times = _StepTimes(ctx)
    try:
        verdict = _compute_verdict(
            ctx, run, StagedAttempt(run.plan_uri, plan, manifest, plan_sha256), facts, times, index=index
        )
    except ValidationBrokenError as problem:
        parts: dict[str, Any] = {**times.durations_ms, "duration_ms": ctx.now_ms() - started_ms}
        log_event("broken", plan.topic, plan_id=plan_id, attempt=attempt, **parts)
        what, *more = str(problem).split(". ")
        raise _build_validation_error(ctx, plan, attempt, what, to_do=more[-1] if more else None) from problem
    ctx.store.verdicts.record(verdict)
    _log_verdict(verdict, times, duration_ms=ctx.now_ms() - started_ms)
    if verdict.passed:
        ctx.store.runs.set_state(plan_id, RunState.VALIDATED, ctx.now_ms(), attempt=attempt)
        return verdict
    if verdict.broken:
        reason = describe_failures(verdict.failures, plan.topic)
        what = f"A check of plan {plan.plan_id} of topic {plan.topic} raised instead of judging: {reason}"
        raise _build_validation_error(ctx, plan, verdict.attempt, what)
    raise _mark_failed_verdict(ctx, plan, verdict)


class _StepTimes:
    """Durations of the parts of one validation."""

    def __init__(self, ctx: Context) -> None:
        self._now_ms = ctx.now_ms
        self._last_ms = ctx.now_ms()
        self.durations_ms: dict[str, int] = {}

    def passed(self, part: str) -> None:
        """Record that ``part`` ended; it began when the previous one ended."""
        now_ms = self._now_ms()
        self.durations_ms[part], self._last_ms = now_ms - self._last_ms, now_ms


def compute_fact_table(ctx: Context, attempt: StagedAttempt, facts: FactRecomputer | None) -> list[FactRow]:
    """Compute the fact table of one attempt; ``facts`` may have started it already."""
    if facts is not None:
        return facts.rows(attempt)
    with FactRecomputer(ctx) as recomputer:
        return recomputer.rows(attempt)


def add_plan_limits(
    ctx: Context, run: Run, plan: Plan, manifest: StagingManifest, rows: Sequence[FactRow]
) -> list[FactRow]:
    """Add to ``rows`` the plan's excesses and the files that are not the attempt's own.

    A plan that no longer matches the log is judged by its files alone: publishing refuses it.
    """
    log = ctx.log.open(plan.topic)
    head = log.head()
    limits = build_limits(ctx, plan.topic, opened_at_ms=run.opened_at_ms)
    live = log.segments(head)
    excesses: dict[int, PlanExcess] = {}
    if find_void(log, head, plan, live) is None:
        excesses = find_excesses(plan, log, head, live, limits)
    files = count_misfits(plan, manifest, location=head.location, quarantine_location=limits.quarantine_location)
    return [
        row
        | asdict(excesses.get(int(row["partition"]), PlanExcess()))
        | dict(zip(("foreign_files", "misfit_files"), files[int(row["partition"])], strict=True))
        for row in rows
    ]


def _compute_verdict(
    ctx: Context, run: Run, attempt: StagedAttempt, facts: FactRecomputer | None, times: _StepTimes, *, index: bool
) -> Verdict:
    plan, manifest = attempt.plan, attempt.manifest
    rows = add_plan_limits(ctx, run, plan, manifest, compute_fact_table(ctx, attempt, facts))
    times.passed("facts_ms")
    wait_until_ready()
    times.passed("import_ms")
    verdict = replace(_judge(ctx, plan, manifest, rows, index=index), plan_sha256=attempt.plan_sha256)
    times.passed("judge_ms")
    return verdict


def _judge(ctx: Context, plan: Plan, manifest: StagingManifest, rows: Sequence[FactRow], *, index: bool) -> Verdict:
    verdict = validate_fact_table(
        rows,
        plan_id=plan.plan_id,
        topic=plan.topic,
        attempt=manifest.attempt,
        checked_at_ms=ctx.now_ms(),
        findings=_check_content(ctx, plan, manifest),
        data_docs=ctx.settings.data_docs,
        index=index,
    )
    return replace(verdict, manifest_digest=documents.compute_digest(manifest))


def _check_content(ctx: Context, plan: Plan, manifest: StagingManifest) -> SuiteFindings | None:
    """Validate the new records with the topic's content suite; None if the topic names none."""
    name = ctx.log.open(plan.topic).config().expectations
    if not name:
        return None
    extra_folder = ctx.settings.expectations
    failures = validate_content(name, plan, manifest, extra_folder=extra_folder)
    return SuiteFindings(load_suite(name, extra_folder), tuple(failures))


def _log_verdict(verdict: Verdict, times: _StepTimes, *, duration_ms: int) -> None:
    key: dict[str, Any] = {
        "plan_id": verdict.plan_id,
        "attempt": verdict.attempt,
        **times.durations_ms,
        "duration_ms": duration_ms,
    }
    failed = sorted({each.expectation for each in verdict.failures if each.severity is Severity.FAIL})
    if verdict.passed:
        warnings = len(verdict.failures)
        log_event("validated", verdict.topic, expectations=verdict.expectations, warnings=warnings, **key)
    elif verdict.broken:
        log_event("broken", verdict.topic, failed=failed, **key)
    else:
        log_event("invalid", verdict.topic, partitions=verdict.failing_partitions, failed=failed, **key)


def describe_failures(failures: tuple[Failure, ...], topic: str) -> str:
    """Describe failures as one sentence part, at most three of them."""
    parts = [
        f"{topic if f.partition is None else f'{topic}-{f.partition}'}: {f.expectation} ({f.detail})"
        for f in failures
        if f.severity is Severity.FAIL
    ]
    return join_first(parts, MAXIMUM_SHOWN_FAILURES, last=" and ")


def _build_validation_error(
    ctx: Context, plan: Plan, attempt: str, what: str, to_do: str | None = None
) -> ValidationBrokenError:
    found = alert_templates.make_validation_broken(plan.topic, plan.plan_id, what, at_ms=ctx.now_ms(), to_do=to_do)
    ctx.store.runs.set_state(plan.plan_id, RunState.BROKEN, ctx.now_ms(), message=found.sentences, attempt=attempt)
    ctx.alerts.open_alert(found)
    return ValidationBrokenError(found.sentences)


def _mark_failed_verdict(ctx: Context, plan: Plan, verdict: Verdict) -> ValidationFailedError:
    partitions = verdict.failing_partitions or tuple(p.partition for p in plan.partitions)
    reason = describe_failures(verdict.failures, plan.topic)
    marks: dict[int, Uncleanable] = {}
    effect = ""
    try:
        marks = mark_uncleanable(ctx, plan.topic, plan.plan_id, dict.fromkeys(partitions, reason))
    except CommitConflictError:
        effect = "The mark itself could not be committed, so the next run may try these partitions again."
    found = build_verdict_alert(plan.topic, verdict, partitions, marks, at_ms=ctx.now_ms(), effect=effect)
    # Alert first: the partitions are marked even if the run has changed meanwhile.
    ctx.alerts.open_alert(found)
    ctx.store.runs.set_state(
        plan.plan_id, RunState.INVALID, ctx.now_ms(), message=found.sentences, attempt=verdict.attempt
    )
    return ValidationFailedError(found.sentences)


def build_verdict_alert(
    topic: str,
    verdict: Verdict,
    partitions: Sequence[int],
    marks: Mapping[int, Uncleanable],
    *,
    at_ms: int,
    effect: str = "",
) -> Situation:
    """Build the alert about a verdict that did not pass. ``effect``: the effect of the marks, if not the usual one."""
    findings = []
    for number in partitions:
        failed = [
            f"{failure.expectation} ({failure.detail})"
            for failure in verdict.failures
            if failure.severity is Severity.FAIL and failure.partition in {number, None}
        ]
        since_ms = marks[number].since_ms if number in marks else at_ms
        findings.append(Finding(number, since_ms, join_first(failed, MAXIMUM_SHOWN_FAILURES, last=" and ")))
    return alert_templates.make_validation_failed(
        topic,
        verdict.plan_id,
        findings,
        evidence=verdict.data_docs or f"winnow receipts {topic}",
        effect=effect or describe_marks(topic, marks),
        at_ms=at_ms,
    )
