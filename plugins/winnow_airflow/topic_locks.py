"""Topic locks: skips topics that another run holds and keeps one topic's error from stopping the others.

Schedule, backfill and shell exclude one another by a lease per topic. A topic that another run holds, or whose log
changed since it was planned, is *left*: logged in a sentence, skipped, not failed. Only backfills wait
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

log = logging.getLogger("airflow.task")


class TopicAttempts:
    """Processes topics one by one; an error in one topic does not stop the others or hide their errors."""

    def __init__(self, ctx: Pipeline) -> None:
        self.ctx = ctx
        self.errors: list[tuple[str, Exception]] = []
        self.left: list[str] = []

    @contextmanager
    def attempt(self, topic: str, plan_id: str | None = None) -> Iterator[None]:
        """Keep an exception of the block under ``topic``: as an error, or as a sentence when the topic is left.

        ``plan_id``: the plan that the block carries out, to explain a void plan.
        """
        try:
            yield
        except Exception as problem:  # a bug in one topic must not leave this one uncompacted
            text = self._left(problem, plan_id)
            if text is not None:
                self.leave(text)
                return
            log.error("Topic %s: %s", topic, describe_error(problem), exc_info=not isinstance(problem, WinnowError))
            self.errors.append((topic, problem))

    def leave(self, text: str) -> None:
        """Log and keep the reason why a topic is left."""
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
        except Exception as unknown:  # report the void plan and go on, even if explaining it fails
            strange = not isinstance(unknown, WinnowError)
            log.warning("Why the plan is void could not be looked up: %s", describe_error(unknown), exc_info=strange)
            return None

    def raise_errors(self) -> None:
        """Raise one exception for all errors, if there are any."""
        if self.errors:
            raise combine_errors(self.errors)

    def close(self, done: Sized, *, nothing: str) -> None:
        """End a task: raise the kept errors, or skip the task when nothing was ``done``.

        The skip's message lists the topics that were left; without any it is ``nothing``.

        Raises:
            AirflowSkipException: there was nothing to do for this run.
        """
        self.raise_errors()
        if not done:
            raise AirflowSkipException("\n".join(self.left) or nothing)
