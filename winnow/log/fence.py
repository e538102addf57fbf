"""Raises the fence of a topic, so that earlier attempts can no longer be published.

The fence is an integer table property that only grows. Every attempt at a plan carries the fence that the table had
when its run was opened, and is published only by a commit to a head that still has it. So a commit that raises the
fence ends every attempt before it for good, no matter how long a process is paused or what its clock or lease says.
Files of an attempt may be deleted only behind such a commit (the proof is in ARCHITECTURE.md).

The property and the snapshot without files go into one commit, so that a catalog that compares the snapshot reference
lets no publisher pass that has read the head before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from winnow.log.head import Change, Head
from winnow.log.table import FENCE_PROPERTY
from winnow.log.topic_log import TopicLog
from winnow.values.results import Receipt


class _NoCommitNeededError(Exception):
    """The plan is published, or its attempts are behind the fence already."""


def end_attempts(log: TopicLog, plan_id: str, fence: int, *, since_ms: int) -> Receipt | None:
    """Make sure that no attempt with ``fence`` at a plan is published from now on, unless one was already.

    Args:
        log: the topic's log.
        plan_id: the plan, which may have been published meanwhile.
        fence: the fence of the attempts.
        since_ms: when the run was opened (ms): its receipt is no older.

    Returns:
        The receipt of the plan when it was published; then the fence stays. None: the attempts are behind the fence.

    Raises:
        CommitConflictError: other commits came first too often; nothing was decided.
        CommitUnknownError: whether the fence was raised is not known; nothing may be concluded.
        ServiceError: the catalog cannot be reached; nothing may be concluded.
    """
    published: list[Receipt] = []

    def build(head: Head) -> Change:
        published[:] = filter(None, [log.find_receipt(plan_id, head, since_ms=since_ms)])
        if published or head.fence > fence:
            raise _NoCommitNeededError
        return make_fence_change(head, [fence], operation="fence")

    with contextlib.suppress(_NoCommitNeededError):
        log.commit(build)
    return published[0] if published else None


def make_fence_change(head: Head, fences: Iterable[int], *, operation: str) -> Change:
    """Make the commit that raises the fence of ``head`` above ``fences`` and changes nothing else."""
    fence = max([head.fence, *fences]) + 1
    return Change(
        state=replace(head.state, fence=fence),
        summary={"winnow.operation": operation},
        properties={FENCE_PROPERTY: str(fence)},
    )
