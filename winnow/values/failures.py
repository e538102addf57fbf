"""Collects the failures of a step topic by topic, so that one topic's failure stops no other and hides none.

Schedule, backfill and shell exclude one another by a lease per topic. A topic that another run holds, or whose log
changed since it was planned, is *left* to that run: it has not failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.errors import PlanVoidError, TopicBusyError, WinnowError

if TYPE_CHECKING:
    from winnow.values.model import Status

log = logging.getLogger("winnow")


@dataclass(frozen=True, slots=True)
class TopicFailure:
    """A step that failed for one topic, or was left to another run.

    ``plan_id``, ``attempt``: those that the step was about. ``left``: why the topic is left, in a sentence; None if it
    failed. ``cause``: the reason without the topic, if other topics may have failed for the same one. ``status``: that
    of the topic's receipt; None if only the error decides it.
    """

    topic: str
    error: Exception
    plan_id: str | None = None
    attempt: str | None = None
    left: str | None = None
    cause: str | None = None
    status: Status | None = None


class TopicFailures:
    """Collects the failures of topics that are processed one after another.

    ``explain_void``: says of the id of a void plan why its topic is left to another run; None if nothing explains it.
    """

    def __init__(self, explain_void: Callable[[str], str | None]) -> None:
        self._explain_void = explain_void
        self.failures: list[TopicFailure] = []

    @contextmanager
    def collect(
        self, topic: str, plan_id: str | None = None, attempt: str | None = None, *, status: Status | None = None
    ) -> Iterator[None]:
        """Collect an exception of the block, which is about ``topic``; the arguments are those of a failure."""
        try:
            yield
        except Exception as problem:  # one topic's failure, expected or not, stops no other
            left = self._explain_left(problem, plan_id)
            self.add(TopicFailure(topic, problem, plan_id, attempt, left=left, status=status))

    def add(self, failure: TopicFailure) -> None:
        """Add a failure."""
        self.failures.append(failure)

    def _explain_left(self, problem: Exception, plan_id: str | None) -> str | None:
        if isinstance(problem, TopicBusyError):
            return f"{problem} It is left to that run."
        if not isinstance(problem, PlanVoidError) or plan_id is None:
            return None
        try:
            return self._explain_void(plan_id)
        except Exception as unknown:  # the void plan is reported even if the explanation fails
            is_known = isinstance(unknown, WinnowError)
            text = str(unknown) if is_known else type(unknown).__name__
            log.warning("Plan %s is void; it is not known why: %s", plan_id, text, exc_info=not is_known)
            return None
