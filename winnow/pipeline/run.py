"""``winnow compact``: assess, plan, spark-submit, validate, publish, checkpoint, report, for any number of topics."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from winnow.errors import (
    CommitUnknownError,
    PlanVoidError,
    TopicBusyError,
    ValidationFailedError,
    WinnowError,
)
from winnow.model import Receipt, Status
from winnow.pipeline.compact import submit
from winnow.pipeline.context import Context
from winnow.pipeline.leases import holding
from winnow.pipeline.plan import batches, plan_topic
from winnow.pipeline.publish import publish
from winnow.pipeline.settle import settle
from winnow.pipeline.validate import validate
from winnow.planning import PlanReference
from winnow.quality import warm_up
from winnow.store import RunState

Progress = Callable[[dict[str, Any]], None]
log = logging.getLogger("winnow")


@dataclass(frozen=True, slots=True)
class TopicError:
    """What went wrong with one topic; the others went on."""

    topic: str
    message: str
    exit_code: int


@dataclass
class CompactionOutcome:
    """What became of each topic, in the order they were asked for."""

    receipts: list[Receipt] = field(default_factory=list)
    errors: list[TopicError] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1 before all, else the highest that occurred."""
        codes = [error.exit_code for error in self.errors]
        return 1 if 1 in codes else max(codes, default=0)


def compact_topics(
    ctx: Context, topics: Sequence[str], *, as_of_ms: int, progress: Progress | None = None
) -> CompactionOutcome:
    """Compact what is eligible of ``topics`` (none = all). One topic's failure never stops another."""
    outcome = CompactionOutcome()
    attempt = f"a-{uuid.uuid4().hex[:12]}"
    names = list(dict.fromkeys(topics or ctx.log.names()))
    with ExitStack() as leases:
        plans: list[PlanReference] = []
        for topic in names:
            try:
                leases.enter_context(holding(ctx, topic))
                settled = settle(ctx, topic)
                plan = plan_topic(ctx, topic, as_of_ms=as_of_ms, attempt=attempt)
            except TopicBusyError as problem:
                outcome.receipts.append(_nothing(ctx, topic, as_of_ms, str(problem)))
            except Exception as problem:  # one topic's failure, foreseen or not, never stops another
                outcome.errors.append(_error(topic, problem))
            else:
                if plan is not None:
                    plans.append(plan)
                else:
                    outcome.receipts.append(
                        settled[-1] if settled else _nothing(ctx, topic, as_of_ms, _nothing_text(topic))
                    )
        for batch in batches(plans):
            _run_batch(ctx, batch.plans, attempt, as_of_ms, outcome, progress)
    order = {topic: number for number, topic in enumerate(names)}
    outcome.receipts.sort(key=lambda receipt: order[receipt.topic])
    return outcome


def _nothing_text(topic: str) -> str:
    return f"Nothing of {topic} is eligible now. See why with: winnow assess {topic}"


def _run_batch(
    ctx: Context,
    plans: Sequence[PlanReference],
    attempt: str,
    as_of_ms: int,
    outcome: CompactionOutcome,
    progress: Progress | None,
) -> None:
    plans = [plan for plan in plans if _started(ctx, plan, attempt, outcome)]
    if not plans:
        return
    warm_up()  # importing Great Expectations takes seconds; Spark is at work meanwhile
    try:
        result = submit(ctx, plans, attempt, progress)
    except WinnowError as problem:
        for plan in plans:
            _void(ctx, plan, str(problem), problem.exit_code, outcome)
        return
    for plan in plans:
        if plan.plan_id in result.errors:
            message, code = result.errors[plan.plan_id]
            _void(ctx, plan, message, code, outcome)
            continue
        ctx.store.set_run_state(plan.plan_id, RunState.STAGED, ctx.now_ms(), attempt=attempt)
        _finish(ctx, plan, attempt, as_of_ms, outcome)


def _started(ctx: Context, plan: PlanReference, attempt: str, outcome: CompactionOutcome) -> bool:
    try:
        ctx.store.set_run_state(plan.plan_id, RunState.COMPACTING, ctx.now_ms(), attempt=attempt)
    except Exception as problem:  # as above
        outcome.errors.append(_error(plan.topic, problem))
        return False
    return True


def _void(ctx: Context, plan: PlanReference, message: str, code: int, outcome: CompactionOutcome) -> None:
    text = f"Topic {plan.topic} was not compacted: {message}. Nothing was published; run it again."
    ctx.store.set_run_state(plan.plan_id, RunState.VOID, ctx.now_ms(), message=text)
    outcome.errors.append(TopicError(plan.topic, text, code))


def _finish(ctx: Context, plan: PlanReference, attempt: str, as_of_ms: int, outcome: CompactionOutcome) -> None:
    try:
        validate(ctx, plan.plan_id, attempt)
        outcome.receipts.append(publish(ctx, plan.plan_id, attempt))
    except Exception as problem:  # as above
        found = _status_of(problem)
        outcome.errors.append(_error(plan.topic, problem))
        if found is not None:
            outcome.receipts.append(_ended(ctx, plan.topic, plan.plan_id, found, as_of_ms, str(problem), attempt))


def _error(topic: str, problem: Exception) -> TopicError:
    if isinstance(problem, WinnowError):
        return TopicError(topic, str(problem), problem.exit_code)
    log.debug("Topic %s", topic, exc_info=problem)
    # A library's own words may quote data, so only the kind of the exception is told.
    text = (
        f"Topic {topic}: unexpected {type(problem).__name__}. Nothing more was done for this topic; what was published "
        "stays. Run it again, with WINNOW_DEBUG=1 for the traceback."
    )
    return TopicError(topic, text, WinnowError.exit_code)


def _status_of(problem: Exception) -> Status | None:
    if isinstance(problem, ValidationFailedError):
        return Status.INVALID
    if isinstance(problem, PlanVoidError):
        return Status.REFUSED
    return Status.UNKNOWN if isinstance(problem, CommitUnknownError) else None


def _nothing(ctx: Context, topic: str, as_of_ms: int, message: str) -> Receipt:
    return _ended(ctx, topic, None, Status.NOTHING_TO_DO, as_of_ms, message, None)


def _ended(
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
