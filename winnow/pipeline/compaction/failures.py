"""Decides how to handle a plan that Spark did not carry out: leave it to another run, mark partitions, or fail."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.engine.events import PlanFailure
from winnow.errors import WinnowError
from winnow.pipeline.compaction.plan_validity import explain_void
from winnow.pipeline.compaction.uncleanable import mark_failed_partitions
from winnow.pipeline.context import Context
from winnow.planning.plans import PlanReference


@dataclass(frozen=True, slots=True)
class JudgedFailure:
    """The result of judging a failure; if both are None, nothing is known against the topic.

    ``left``: why the plan is left to another run. ``marked``: the error about partitions that are uncleanable now.
    """

    left: str | None = None
    marked: WinnowError | None = None


def judge_failure(ctx: Context, plan: PlanReference, failure: PlanFailure, attempt: str) -> JudgedFailure:
    """Judge why ``attempt`` left ``plan`` without a staging manifest, and mark the partitions that caused it.

    A plan that became void meanwhile is left: a file that another run retired and a sweep removed is no damage.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: the plan's validity cannot be checked.
    """
    text = explain_void(ctx, plan.plan_id)
    if text is not None:
        return JudgedFailure(left=text)
    return JudgedFailure(marked=mark_failed_partitions(ctx, plan, failure, attempt))
