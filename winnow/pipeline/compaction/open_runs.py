"""Settles the runs that earlier processes left open: published ones are completed, others closed as void."""

from __future__ import annotations

from winnow.errors import RunAgainError
from winnow.log.fence import end_attempts
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.publish import describe_not_published, move_checkpoint
from winnow.pipeline.context import Context
from winnow.report.alerts import AlertKind
from winnow.report.events import log_event
from winnow.results import Receipt
from winnow.store import Run, RunState

MAXIMUM_TRIES = 8
"""How often a run that moves while it is being closed is looked up again."""

ENDED_EARLY_MESSAGE = "The run ended before it published anything; its plan is void and readers saw no change."


def settle_open_runs(ctx: Context, topic: str) -> list[Receipt]:
    """Settle the open runs of ``topic``: published ones get their checkpoint and keep their receipt, others are void.

    The caller holds the topic, so most often no open run of it is alive. One that is, because its lease was lost while
    it was paused, is ended by the topic's fence before it is said to be void.

    Raises:
        CommitConflictError, CommitUnknownError: the fence could not be raised, or may have been; the run stays open.
    """
    log = ctx.log.open(topic)
    found = [void_run(ctx, log, run, ENDED_EARLY_MESSAGE) for run in ctx.store.runs.list_open(topic)]
    return [receipt for receipt in found if receipt is not None]


def void_run(ctx: Context, log: TopicLog, run: Run, message: str) -> Receipt | None:
    """Close ``run`` as void, unless its plan is published: then its checkpoint follows, and the receipt is returned.

    A run that may be committing at this moment is fenced off first. One that somebody else closed meanwhile stays as it
    is.

    Raises:
        CommitConflictError, CommitUnknownError: the fence could not be raised, or may have been; the run stays open.
        RunAgainError: the run kept moving; it is alive.
    """
    for _ in range(MAXIMUM_TRIES):
        published = _find_published_receipt(log, run)
        if published is not None:
            return move_checkpoint(ctx, log, published)
        try:
            ctx.store.runs.set_state(
                run.plan_id, RunState.VOID, ctx.now_ms(), message=message, attempt=run.attempt, seen=run.status
            )
        except RunAgainError:
            now = ctx.store.runs.find(run.plan_id)
            if now is None or now.status.is_closed:
                return None
            if now == run:
                raise
            run = now
            continue
        log_event("voided", run.topic, plan_id=run.plan_id, attempt=run.attempt)
        if run.status.is_unsettled:
            ctx.alerts.recover(
                run.topic, {AlertKind.COMMIT_UNKNOWN}, None, describe_not_published(run.plan_id), plan_id=run.plan_id
            )
        return None
    raise RunAgainError(
        f"The run of plan {run.plan_id} of topic {run.topic} moves while it is being closed: another process works on "
        "it. Nothing was changed. Run it again when that one has ended."
    )


def _find_published_receipt(log: TopicLog, run: Run) -> Receipt | None:
    """The receipt of ``run``; None: it is not published, and no attempt of it that may be committing will be."""
    if run.status.is_unsettled:
        return end_attempts(log, run.plan_id, run.fence, since_ms=run.opened_at_ms)
    return log.find_receipt(run.plan_id, since_ms=run.opened_at_ms)
