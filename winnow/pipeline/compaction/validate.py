"""Validates staged attempts with Great Expectations, from facts computed again from their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from winnow.errors import (
    CommitConflictError,
    PlanVoidError,
    ValidationBrokenError,
    ValidationFailedError,
    WinnowError,
    join_first,
)
from winnow.pipeline.compaction.facts import FactRecomputer, StagedAttempt
from winnow.pipeline.compaction.failure_causes import advise
from winnow.pipeline.compaction.plan_limits import PlanExcess, build_limits, find_excesses
from winnow.pipeline.compaction.plan_validity import find_void
from winnow.pipeline.compaction.run_plan import close_as_void, read_run_manifest, read_run_plan
from winnow.pipeline.compaction.staged_files import count_misfits
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.marks import describe_marks, mark_uncleanable
from winnow.quality import wait_until_ready
from winnow.quality.content_validation import validate_content
from winnow.quality.fact_table import FactRow
from winnow.quality.shared_validation import FactTable, validate_fact_tables
from winnow.quality.suites import SuiteFindings, load_suite
from winnow.report import alert_kinds
from winnow.report.alert_kinds import Finding, Situation
from winnow.report.events import log_event
from winnow.report.evidence import format_evidence
from winnow.store import Run, RunState
from winnow.values import documents
from winnow.values.model import Plan, Severity
from winnow.values.results import Failure, StagingManifest, Verdict
from winnow.values.topic_state import Uncleanable

MAXIMUM_SHOWN_FAILURES = 3


@dataclass(frozen=True)
class PreparedAttempt:
    """One attempt whose facts are known, ready to be judged. ``findings``: those of the topic's own suite."""

    run: Run
    staged: StagedAttempt
    rows: Sequence[FactRow]
    findings: SuiteFindings | None
    durations_ms: dict[str, int]
    """Durations of the parts of its validation so far."""


def validate_attempt(
    installation: Installation, plan_id: str, attempt: str, *, facts: FactRecomputer | None = None, index: bool = True
) -> Verdict:
    """Validate one attempt at a plan and record the verdict. Repeating it gives the same verdict.

    Args:
        installation: the installation.
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
    prepared = prepare_attempt(installation, plan_id, attempt, facts)
    if isinstance(prepared, Verdict):
        return prepared
    (judged,) = judge_attempts(installation, [prepared], index=index)
    return conclude_validation(installation, prepared, judged)


def prepare_attempt(
    installation: Installation, plan_id: str, attempt: str, facts: FactRecomputer | None = None
) -> PreparedAttempt | Verdict:
    """Gather everything that an attempt is judged by; its verdict if it is published already.

    Raises:
        ValidationBrokenError, PlanVoidError: as :func:`validate_attempt`.
    """
    run = installation.store.runs.get(plan_id)
    if run.status is RunState.PUBLISHED:
        known = installation.store.verdicts.find(plan_id, attempt)
        if known is not None:
            return known  # its inputs may be deleted by now
    if run.status in {RunState.VOID, RunState.REFUSED}:
        raise PlanVoidError(
            f"Plan {plan_id} of topic {run.topic} was closed meanwhile ({run.status}), so attempt {attempt} is not "
            "judged and no partition is marked.",
            left="Nothing was published.",
            next="Run it again: the next plan starts from the log as it is.",
        )
    try:
        (plan, plan_sha256), manifest = read_run_plan(run), read_run_manifest(run, attempt)
    except PlanVoidError as problem:
        close_as_void(installation, run, problem)
        raise
    if manifest is None:
        raise WinnowError(
            f"Attempt {attempt} at plan {plan_id} of topic {plan.topic} left no staging manifest, so its files do not "
            "count.",
            left="Nothing was published.",
            next="Run the compaction again.",
        )
    staged = StagedAttempt(run.plan_uri, plan, manifest, plan_sha256)
    durations_ms: dict[str, int] = {}
    try:
        with _measure(installation, durations_ms, "facts_ms"):
            rows = add_plan_limits(installation, run, plan, manifest, compute_fact_table(installation, staged, facts))
        findings = _check_content(installation, plan, manifest, durations_ms)
    except ValidationBrokenError as problem:
        raise _conclude_broken(installation, staged, durations_ms, problem) from problem
    return PreparedAttempt(run, staged, rows, findings, durations_ms)


def judge_attempts(
    installation: Installation, prepared: Sequence[PreparedAttempt], *, index: bool = True
) -> list[Verdict | Exception]:
    """Judge attempts together; return for each its verdict, or the error of judging it. Records nothing.

    ``index``: as in :func:`validate_attempt`.

    Raises:
        ConfigurationError, ImportError: the structural suite or Great Expectations cannot be loaded.
    """
    waited_ms: dict[str, int] = {}
    with _measure(installation, waited_ms, "import_ms"):
        wait_until_ready()
    judged_ms: dict[str, int] = {}
    with _measure(installation, judged_ms, "judge_ms"):
        found = validate_fact_tables(
            [
                FactTable(each.run.plan_id, each.run.topic, each.staged.manifest.attempt, each.rows, each.findings)
                for each in prepared
            ],
            checked_at_ms=installation.now_ms(),
            data_docs=installation.settings.data_docs,
            index=index,
        )
    for number, each in enumerate(prepared):
        # The sums over all attempts are what was spent.
        _add(each.durations_ms, "import_ms", 0 if number else waited_ms["import_ms"])
        _add(each.durations_ms, "judge_ms", judged_ms["judge_ms"] // len(prepared))
    return [_add_digests(each.staged, judged) for each, judged in zip(prepared, found, strict=True)]


def _add_digests(staged: StagedAttempt, judged: Verdict | Exception) -> Verdict | Exception:
    """Add to a verdict what it is about: only this plan and this staging manifest may be published."""
    if isinstance(judged, Exception):
        return judged
    return replace(judged, plan_sha256=staged.plan_sha256, manifest_digest=documents.compute_digest(staged.manifest))


def conclude_validation(installation: Installation, prepared: PreparedAttempt, judged: Verdict | Exception) -> Verdict:
    """Record the verdict on an attempt, and its effect: the run is validated, or its partitions are marked.

    Raises:
        ValidationFailedError, ValidationBrokenError: as :func:`validate_attempt`; also the error of judging it.
    """
    plan, attempt = prepared.staged.plan, prepared.staged.manifest.attempt
    if isinstance(judged, ValidationBrokenError):
        raise _conclude_broken(installation, prepared.staged, prepared.durations_ms, judged) from judged
    if isinstance(judged, Exception):
        raise judged
    installation.store.verdicts.record(judged)
    _log_verdict(judged, prepared.durations_ms)
    if judged.passed:
        installation.store.runs.set_state(plan.plan_id, RunState.VALIDATED, installation.now_ms(), attempt=attempt)
        return judged
    if judged.broken:
        raise _close_as_broken(installation, plan, attempt, build_broken_alert(judged, at_ms=installation.now_ms()))
    raise _mark_failed_verdict(installation, plan, judged)


def _conclude_broken(
    installation: Installation, staged: StagedAttempt, durations_ms: dict[str, int], problem: ValidationBrokenError
) -> ValidationBrokenError:
    plan, attempt = staged.plan, staged.manifest.attempt
    parts: dict[str, Any] = {**durations_ms, "duration_ms": sum(durations_ms.values())}
    log_event("broken", plan.topic, plan_id=plan.plan_id, attempt=attempt, **parts)
    alert = alert_kinds.make_validation_broken(
        plan.topic, plan.plan_id, problem.what, at_ms=installation.now_ms(), to_do=problem.next
    )
    return _close_as_broken(installation, plan, attempt, alert)


@contextmanager
def _measure(installation: Installation, durations_ms: dict[str, int], part: str) -> Iterator[None]:
    """Add the duration of the block to ``durations_ms`` as ``part``."""
    started_ms = installation.now_ms()
    try:
        yield
    finally:
        _add(durations_ms, part, installation.now_ms() - started_ms)


def _add(durations_ms: dict[str, int], part: str, more_ms: int) -> None:
    durations_ms[part] = durations_ms.get(part, 0) + more_ms


def compute_fact_table(
    installation: Installation, attempt: StagedAttempt, facts: FactRecomputer | None
) -> list[FactRow]:
    """Compute the fact table of one attempt; ``facts`` may have started it already."""
    if facts is not None:
        return facts.rows(attempt)
    with FactRecomputer(installation) as recomputer:
        return recomputer.rows(attempt)


def add_plan_limits(
    installation: Installation, run: Run, plan: Plan, manifest: StagingManifest, rows: Sequence[FactRow]
) -> list[FactRow]:
    """Add to ``rows`` the plan's excesses and the files that are not the attempt's own.

    A plan that no longer matches the log is judged by its files alone: publishing refuses it.
    """
    log = installation.log.open(plan.topic)
    head = log.head()
    limits = build_limits(installation, head, opened_at_ms=run.opened_at_ms)
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


def _check_content(
    installation: Installation, plan: Plan, manifest: StagingManifest, durations_ms: dict[str, int]
) -> SuiteFindings | None:
    """Validate the new records with the topic's content suite; None if the topic names none."""
    name = installation.log.open(plan.topic).config().expectations
    if not name:
        return None
    with _measure(installation, durations_ms, "import_ms"):
        wait_until_ready()
    with _measure(installation, durations_ms, "judge_ms"):
        extra_folder = installation.settings.expectations
        failures = validate_content(name, plan, manifest, extra_folder=extra_folder)
        return SuiteFindings(load_suite(name, extra_folder), tuple(failures))


def _log_verdict(verdict: Verdict, durations_ms: dict[str, int]) -> None:
    key: dict[str, Any] = {
        "plan_id": verdict.plan_id,
        "attempt": verdict.attempt,
        **durations_ms,
        "duration_ms": sum(durations_ms.values()),
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


def _select_failures(verdict: Verdict, partition: int) -> tuple[Failure, ...]:
    """Select what concerns ``partition``: its own failures, and those of the topic as a whole."""
    return tuple(each for each in verdict.failures if each.partition in {partition, None})


def build_broken_alert(verdict: Verdict, *, at_ms: int) -> Situation:
    """Build the alert about a verdict that says nothing, because a check raised."""
    reason = describe_failures(verdict.failures, verdict.topic)
    what = f"A check of plan {verdict.plan_id} of topic {verdict.topic} raised instead of judging: {reason}"
    return alert_kinds.make_validation_broken(verdict.topic, verdict.plan_id, what, at_ms=at_ms)


def _close_as_broken(installation: Installation, plan: Plan, attempt: str, alert: Situation) -> ValidationBrokenError:
    explanation = alert.explain()
    installation.store.runs.set_state(
        plan.plan_id, RunState.BROKEN, installation.now_ms(), message=str(explanation), attempt=attempt
    )
    installation.alerts.open_alert(alert)
    return ValidationBrokenError(*explanation)


def _mark_failed_verdict(installation: Installation, plan: Plan, verdict: Verdict) -> ValidationFailedError:
    partitions = verdict.failing_partitions or tuple(p.partition for p in plan.partitions)
    marks: dict[int, Uncleanable] = {}
    effect = ""
    try:
        marks = mark_uncleanable(
            installation,
            plan.topic,
            plan.plan_id,
            {number: describe_failures(_select_failures(verdict, number), plan.topic) for number in partitions},
        )
    except CommitConflictError:
        effect = "The mark itself could not be committed, so the next run may try these partitions again."
    found = build_verdict_alert(
        plan.topic,
        verdict,
        partitions,
        marks,
        at_ms=installation.now_ms(),
        page_url=installation.page_url,
        effect=effect,
    )
    # Alert first: the partitions are marked even if the run has changed meanwhile.
    installation.alerts.open_alert(found)
    explanation = found.explain()
    installation.store.runs.set_state(
        plan.plan_id,
        RunState.INVALID,
        installation.now_ms(),
        message=str(explanation),
        attempt=verdict.attempt,
        partitions_marked=len(partitions),
    )
    return ValidationFailedError(*explanation)


def build_verdict_alert(
    topic: str,
    verdict: Verdict,
    partitions: Sequence[int],
    marks: Mapping[int, Uncleanable],
    *,
    at_ms: int,
    page_url: str | None,
    effect: str = "",
) -> Situation:
    """Build the alert about a verdict that did not pass. ``effect``: the effect of the marks, if not the usual one.

    ``page_url``: Airflow's address, for the link to the verdict's page.
    """
    findings = []
    for number in partitions:
        failed = [
            f"{failure.expectation} ({failure.detail})"
            for failure in _select_failures(verdict, number)
            if failure.severity is Severity.FAIL
        ]
        since_ms = marks[number].since_ms if number in marks else at_ms
        findings.append(Finding(number, since_ms, join_first(failed, MAXIMUM_SHOWN_FAILURES, last=" and ")))
    return alert_kinds.make_validation_failed(
        topic,
        verdict.plan_id,
        findings,
        evidence=format_evidence(verdict.data_docs, page_url, f"winnow receipts {topic}"),
        effect=f"{advise(topic, verdict.failures)} {effect or describe_marks(topic, marks)}",
        at_ms=at_ms,
    )
