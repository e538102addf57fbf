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
