"""Compacts topics: assess, plan, Spark, validation and publish, with one outcome per topic."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from winnow.engine.events import PlanFailure
from winnow.errors import (
    CommitConflictError,
    CommitUnknownError,
    PlanVoidError,
    ServiceError,
    TopicBusyError,
    ValidationFailedError,
    WinnowError,
    find_worst_exit_code,
)
from winnow.files.storage_health import make_service_error
from winnow.model import Status
from winnow.pipeline.compaction.facts import FactRecomputer
from winnow.pipeline.compaction.failures import judge_failure
from winnow.pipeline.compaction.open_runs import close_run, lock_topic
from winnow.pipeline.compaction.plan import pack_batches, plan_topic
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.stage import begin_attempt, end_attempt, stage_retention_plans, submit_plans
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.context import Context
from winnow.pipeline.leases import hold_leases
from winnow.planning.plans import PlanReference
from winnow.quality import start_import
from winnow.quality.validation import build_site_index
from winnow.results import Receipt

Progress = Callable[[dict[str, Any]], None]
log = logging.getLogger("winnow")


@dataclass(frozen=True, slots=True)
class TopicError:
    """Error of one topic; the others continue."""

    topic: str
    message: str
    exit_code: int


@dataclass
class CompactionOutcome:
    """Result of each topic, in the order of the request: one receipt each, and an error for each failed topic."""

    receipts: list[Receipt] = field(default_factory=list)
    errors: list[TopicError] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1 before all, else the highest that occurred."""
        return find_worst_exit_code(error.exit_code for error in self.errors)

    def add_failure(self, ended: Receipt, exit_code: int) -> None:
        """Add one topic's failure: its entry, and the same sentence as an error."""
        self.receipts.append(ended)
        self.errors.append(TopicError(ended.topic, ended.message, exit_code))


def compact_topics(
    ctx: Context,
    topics: Sequence[str],
    *,
    as_of_ms: int,
    progress: Progress | None = None,
    leave_held: bool | None = None,
) -> CompactionOutcome:
    """Compact the eligible partitions of ``topics`` (none = all). One topic's failure never stops another.

    ``leave_held``: a topic that another run holds is left to that run, with a sentence. Otherwise it is refused. Left
    out: it is refused where topics are named.
    """
    leave_held = not topics if leave_held is None else leave_held
    outcome = CompactionOutcome()
    attempt = f"a-{uuid.uuid4().hex[:12]}"
    names = list(dict.fromkeys(topics or ctx.log.names()))
    with hold_leases(ctx) as leases:
        plans: list[PlanReference] = []
        for topic in names:
            try:
                settled = lock_topic(ctx, topic, leases.acquire)
                plan = plan_topic(ctx, topic, as_of_ms=as_of_ms, attempt=attempt)
            except Exception as problem:  # one topic's failure, expected or not, never stops another
                if leave_held and isinstance(problem, TopicBusyError):
                    outcome.receipts.append(_build_idle_receipt(ctx, topic, as_of_ms, str(problem)))
                else:
                    _record_failure(ctx, outcome, (topic, None, None), as_of_ms, problem, Status.REFUSED)
            else:
                if plan is not None:
                    plans.append(plan)
                else:
                    outcome.receipts.append(
                        settled[-1]
                        if settled
                        else _build_idle_receipt(ctx, topic, as_of_ms, _describe_nothing_eligible(topic))
                    )
            if not plans or plans[-1].topic != topic:
                leases.release(topic)  # only planned topics stay locked while Spark runs
        for batch in pack_batches(plans):
            _run_batch(ctx, batch.plans, attempt, as_of_ms, outcome, progress)
            for plan in batch.plans:
                leases.release(plan.topic)
    order = {topic: number for number, topic in enumerate(names)}
    outcome.receipts.sort(key=lambda receipt: order[receipt.topic])
    return outcome


def _describe_nothing_eligible(topic: str) -> str:
    return f"Nothing of {topic} is eligible now. See why with: winnow assess {topic}"


def _run_batch(
    ctx: Context,
    plans: Sequence[PlanReference],
    attempt: str,
    as_of_ms: int,
    outcome: CompactionOutcome,
    progress: Progress | None,
) -> None:
    started_ms = ctx.now_ms()
    plans = [plan for plan in plans if _begin_attempt_or_fail(ctx, plan, attempt, as_of_ms, outcome)]
    if not plans:
        return
    start_import()  # importing Great Expectations takes seconds; Spark is at work meanwhile
    try:
        reading, failures = stage_retention_plans(ctx, plans, attempt)
        failures |= submit_plans(ctx, reading, attempt, progress).failures if reading else {}
    except Exception as problem:  # an error that keeps Spark from starting is reported for every plan
        found = _convert_to_winnow_error("the batch", problem, ctx.settings.places)
        failures = {plan.plan_id: PlanFailure(str(found), found.exit_code) for plan in plans}
    with FactRecomputer(ctx, progress) as facts:  # for all topics, while the first is published
        facts.begin([plan for plan in plans if plan.plan_id not in failures], attempt)
        for plan in plans:
            key = (plan.topic, plan.plan_id, attempt)
            try:
                if plan.plan_id in failures:
                    _record_plan_failure(ctx, plan, attempt, as_of_ms, failures[plan.plan_id], outcome)
                    continue
                end_attempt(ctx, plan, attempt, started_ms=started_ms)
                validate_attempt(ctx, plan.plan_id, attempt, facts=facts, index=False)
            except Exception as problem:  # as above
                _record_failure(ctx, outcome, key, as_of_ms, problem, Status.REFUSED)
                continue
            try:
                outcome.receipts.append(publish_attempt(ctx, plan.plan_id, attempt))
            except Exception as problem:  # as above; it may have happened after the commit
                _record_failure(ctx, outcome, key, as_of_ms, problem, Status.UNKNOWN)
    build_site_index(ctx.settings.data_docs)


def _begin_attempt_or_fail(
    ctx: Context, plan: PlanReference, attempt: str, as_of_ms: int, outcome: CompactionOutcome
) -> bool:
    try:
        begin_attempt(ctx, plan, attempt)
    except Exception as problem:  # as above
        _record_failure(ctx, outcome, (plan.topic, plan.plan_id, attempt), as_of_ms, problem, Status.REFUSED)
        return False
    return True


def _record_plan_failure(
    ctx: Context,
    plan: PlanReference,
    attempt: str,
    as_of_ms: int,
    failure: PlanFailure,
    outcome: CompactionOutcome,
) -> None:
    """Handle a missing staging manifest: leave the plan to another run, mark its partitions, or void it."""
    judged = judge_failure(ctx, plan, failure, attempt)
    exit_code, status = failure.exit_code, Status.REFUSED
    if judged.marked is not None:
        message, status = str(judged.marked), Status.INVALID
    elif judged.left is not None:
        message, exit_code = judged.left, PlanVoidError.exit_code
    else:
        message = (
            f"Topic {plan.topic} was not compacted: {failure.error.rstrip('.')}. Nothing was published; run it again."
        )
    if status is Status.REFUSED:
        close_run(ctx, ctx.store.runs.find(plan.plan_id), message, attempt=attempt)
    outcome.add_failure(_build_receipt(ctx, plan.topic, plan.plan_id, status, as_of_ms, message, attempt), exit_code)


def _record_failure(
    ctx: Context,
    outcome: CompactionOutcome,
    key: tuple[str, str | None, str | None],
    as_of_ms: int,
    problem: Exception,
    otherwise: Status,
) -> None:
    """Record the failure of a topic, its plan and attempt (``key``); ``otherwise`` if ``problem`` implies no status."""
    topic, plan_id, attempt = key
    found = _convert_to_winnow_error(f"topic {topic}", problem, ctx.settings.places)
    status = _find_status(problem) or otherwise
    outcome.add_failure(_build_receipt(ctx, topic, plan_id, status, as_of_ms, str(found), attempt), found.exit_code)


def _convert_to_winnow_error(what: str, problem: Exception, places: Sequence[str]) -> WinnowError:
    if isinstance(problem, WinnowError):
        return problem
    log.debug("%s", what, exc_info=problem)
    of_the_machine = make_service_error(problem, places)
    if of_the_machine is not None:
        return ServiceError(f"{what[:1].upper()}{what[1:]}: {of_the_machine}")
    # A library's message may quote data, so only the exception's type is shown.
    return WinnowError(
        f"{what[:1].upper()}{what[1:]}: unexpected {type(problem).__name__}. Nothing more was done for it; what was "
        "published stays. Run it again, with WINNOW_DEBUG=1 for the traceback."
    )


def _find_status(problem: Exception) -> Status | None:
    if isinstance(problem, ValidationFailedError):
        return Status.INVALID
    if isinstance(problem, PlanVoidError | CommitConflictError):
        return Status.REFUSED
    return Status.UNKNOWN if isinstance(problem, CommitUnknownError) else None


def _build_idle_receipt(ctx: Context, topic: str, as_of_ms: int, message: str) -> Receipt:
    return _build_receipt(ctx, topic, None, Status.NOTHING_TO_DO, as_of_ms, message, None)


def _build_receipt(
    ctx: Context, topic: str, plan_id: str | None, status: Status, as_of_ms: int, message: str, attempt: str | None
) -> Receipt:
    return Receipt(
        topic=topic,
        plan_id=plan_id,
        status=status,
        snapshot_id=None,
        partitions=(),
        message=message,
        as_of_ms=as_of_ms,
        finished_at_ms=ctx.now_ms(),
        attempt=attempt,
    )
