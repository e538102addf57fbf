"""Topic locks: skips topics that another run holds and keeps one topic's error from stopping the others.

Schedule, backfill and shell exclude one another by a lease per topic. What a run finds in other hands, or finds that
the log moved on under its plan, is *left*: told in a sentence, skipped, green. Only backfills wait
(:mod:`winnow_airflow.backfill_order`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowSkipException

from winnow.errors import PlanVoidError, TopicBusyError, WinnowError
from winnow_airflow.task_defaults import combine_errors, describe_error

if TYPE_CHECKING:
    from winnow.pipeline.context import Context as Pipeline
    from winnow.planning.plans import PlanReference
    from winnow.results import Receipt
    from winnow.store import Lease

log = logging.getLogger("airflow.task")


class TopicAttempts:
    """Goes through topics one by one; a topic that fails stops no other, and hides no other's failure."""

    def __init__(self, ctx: Pipeline) -> None:
        self.ctx = ctx
        self.errors: list[tuple[str, Exception]] = []
        self.left: list[str] = []

    @contextmanager
    def attempt(self, topic: str, plan_id: str | None = None) -> Iterator[None]:
        """Whatever the block raises is kept under ``topic``: as an error, or as a sentence where the topic is left.

        ``plan_id``: what the block carries out, so that a void plan can be explained.
        """
        try:
            yield
        except Exception as problem:  # another topic's bug is no reason to leave this one uncompacted
            text = self._left(problem, plan_id)
            if text is not None:
                self.leave(text)
                return
            log.error("Topic %s: %s", topic, describe_error(problem), exc_info=not isinstance(problem, WinnowError))
            self.errors.append((topic, problem))

    def leave(self, text: str) -> None:
        """Say that a topic is left, and why."""
        log.info("%s", text)
        self.left.append(text)

    def _left(self, problem: Exception, plan_id: str | None) -> str | None:
        if isinstance(problem, TopicBusyError):
            return f"{problem} It is left to that run."
        if not isinstance(problem, PlanVoidError) or plan_id is None:
            return None
        from winnow.pipeline.compaction.plan_validity import explain_void

        try:
            return explain_void(self.ctx, plan_id)
        except Exception as unknown:  # the void plan is told, and the next topic's turn comes, whatever this was
            strange = not isinstance(unknown, WinnowError)
            log.warning("Why the plan is void could not be looked up: %s", describe_error(unknown), exc_info=strange)
            return None

    def raise_errors(self) -> None:
        """Raise one exception for all that failed, if any did."""
        if self.errors:
            raise combine_errors(self.errors)

    def close(self, done: Sized, *, nothing: str) -> None:
        """End a task: raise what was kept; skip it when nothing was ``done``, because all was left or for ``nothing``.

        Raises:
            AirflowSkipException: there was nothing to do for this run.
        """
        self.raise_errors()
        if not done:
            raise AirflowSkipException("\n".join(self.left) or nothing)


def settle_topic(ctx: Pipeline, topic: str) -> list[Receipt]:
    """Settle what earlier runs of ``topic`` left open, if they did; what was published after all.

    Raises:
        TopicBusyError: another run holds the topic.
    """
    from winnow.pipeline.compaction.open_runs import settle_open_runs
    from winnow.pipeline.leases import hold_lease

    if not ctx.store.runs.list_open(topic) or _has_open_run(ctx, topic):
        return []
    with hold_lease(ctx, topic):
        return settle_open_runs(ctx, topic)


def lock_topic(ctx: Pipeline, topic: str) -> None:
    """Hold ``topic`` for this run until its report, and settle what earlier runs left open.

    Raises:
        TopicBusyError: another run holds the topic.
    """
    from winnow.pipeline.compaction.open_runs import settle_open_runs
    from winnow.pipeline.leases import acquire_lease

    at_work = _has_open_run(ctx, topic)
    acquire_lease(ctx, topic)
    if not at_work:
        settle_open_runs(ctx, topic)


def _has_open_run(ctx: Pipeline, topic: str) -> bool:
    """Whether this run has planned ``topic`` and holds it: a task that is cleared leaves alone what goes on there."""
    lease = ctx.store.leases.find(topic)
    held = lease is not None and lease.holder == ctx.holder and lease.expires_ms > ctx.now_ms()
    return held and any(run.holder == ctx.holder for run in ctx.store.runs.list_open(topic))


def lock_for_plan(ctx: Pipeline, plan: PlanReference) -> Lease:
    """Hold the topic of ``plan``, which may have waited for hours for a slot, and see that it can still be published.

    Raises:
        TopicBusyError: another run took the topic meanwhile.
        PlanVoidError: the log moved on; the run of the plan is closed as void.
    """
    from winnow.pipeline.compaction.open_runs import void_run
    from winnow.pipeline.compaction.plan_validity import check_plan_validity
    from winnow.pipeline.leases import acquire_lease

    lease = acquire_lease(ctx, plan.topic)
    run = ctx.store.runs.find(plan.plan_id)
    void = check_plan_validity(ctx, run) if run is not None else None
    if run is None or void is None:
        return lease
    if not run.status.is_closed:
        void_run(ctx, ctx.log.open(plan.topic), run, void.message)
    raise PlanVoidError(void.message)
