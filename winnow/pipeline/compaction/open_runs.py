"""Opens, resumes, settles and closes runs: published ones are completed, others closed as void."""

from __future__ import annotations

from winnow.errors import PlanVoidError, RunAgainError
from winnow.log.fence import end_attempts
from winnow.log.head_age import make_missing_receipt_error
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.plan_validity import check_plan_validity
from winnow.pipeline.compaction.publish import describe_not_published, move_checkpoint
from winnow.pipeline.compaction.run_plan import set_void
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.leases import HeldLeases, acquire_lease, hold_lease
from winnow.planning.plans import PlanReference
from winnow.report.alert_kinds import AlertKind
from winnow.store import Lease, Run
from winnow.values.results import Receipt

MAXIMUM_TRIES = 8
"""Maximum lookups of a run that changes while it is being closed."""

ENDED_EARLY_MESSAGE = "The run ended before it published anything; its plan is void and readers saw no change."


def settle_open_runs(installation: Installation, topic: str) -> list[Receipt]:
    """Settle the open runs of ``topic``: published ones get their checkpoint and keep their receipt, others are void.

    The caller holds the topic, so usually no open run of it is alive. One that lost its lease while
    it was paused is stopped by the topic's fence before it is recorded as void.

    Raises:
        CommitConflictError, CommitUnknownError: the fence could not be raised, or may have been; the run stays open.
    """
    log = installation.log.open(topic)
    found = [void_run(installation, log, run, ENDED_EARLY_MESSAGE) for run in installation.store.runs.list_open(topic)]
    return [receipt for receipt in found if receipt is not None]


def settle_topic(installation: Installation, topic: str) -> list[Receipt]:
    """Settle the open runs of ``topic``, unless this run is at work on it; return the receipts of published ones.

    Raises:
        TopicBusyError: another run holds the topic.
    """
    if not installation.store.runs.list_open(topic) or _has_open_run(installation, topic):
        return []
    with hold_lease(installation, topic):
        return settle_open_runs(installation, topic)


def lock_topic(installation: Installation, topic: str, leases: HeldLeases) -> list[Receipt]:
    """Lock ``topic`` and settle its open runs; return the receipts of published ones.

    ``leases``: keeps and renews the lease.

    Raises:
        TopicBusyError: another run holds the topic.
    """
    at_work = _has_open_run(installation, topic)
    lease = leases.acquire(topic)
    return [] if at_work else settle_open_runs(installation, lease.topic)


def _has_open_run(installation: Installation, topic: str) -> bool:
    """Check whether this run has planned ``topic`` and holds it: a cleared task leaves that work alone."""
    lease = installation.store.leases.find(topic)
    held = lease is not None and lease.holder == installation.holder and lease.expires_ms > installation.now_ms()
    return held and any(run.holder == installation.holder for run in installation.store.runs.list_open(topic))


def lock_for_plan(installation: Installation, plan: PlanReference) -> Lease:
    """Lock the topic of ``plan``, which may have waited for hours, and check that it can still be published.

    Raises:
        TopicBusyError: another run took the topic meanwhile.
        PlanVoidError: the log moved on; the run of the plan is closed as void.
    """
    lease = acquire_lease(installation, plan.topic)
    run = installation.store.runs.find(plan.plan_id)
    void = check_plan_validity(installation, run) if run is not None else None
    if void is None:
        return lease
    close_run(installation, run, void.message)
    raise PlanVoidError(void.message)


def reopen_run(installation: Installation, plan: PlanReference, attempt: str) -> None:
    """Reopen the run of ``plan`` if it was closed, is another run's, or was fenced off before it began.

    The caller holds its topic. Clearing a Spark task asks for another attempt, and two runs with the same
    as-of make the same plan.
    """
    run = installation.store.runs.find(plan.plan_id)
    fence = installation.log.open(plan.topic).head().fence
    if run is not None and (run.status.is_closed or run.holder != installation.holder or run.fence != fence):
        installation.store.runs.open(
            plan.plan_id,
            plan.topic,
            attempt=attempt,
            as_of_ms=run.as_of_ms,
            plan_uri=plan.uri,
            plan_sha256=plan.sha256 or run.plan_sha256,
            now_ms=installation.now_ms(),
            holder=installation.holder,
            fence=fence,
        )


def close_run(installation: Installation, run: Run | None, message: str, *, attempt: str | None = None) -> None:
    """Close ``run`` as void as :func:`void_run` does, unless it is closed or at another attempt than ``attempt``."""
    if run is not None and not run.status.is_closed and attempt in {None, run.attempt}:
        void_run(installation, installation.log.open(run.topic), run, message)


def void_run(installation: Installation, log: TopicLog, run: Run, message: str) -> Receipt | None:
    """Close ``run`` as void. If its plan is published, complete its checkpoint and return the receipt instead.

    A run that may be committing at this moment is fenced off first. A run that another process closed meanwhile stays
    unchanged.

    Raises:
        CommitConflictError, CommitUnknownError: the fence could not be raised, or may have been; the run stays open.
        RunAgainError: the run kept changing; it is alive.
    """
    for _ in range(MAXIMUM_TRIES):
        published = _find_published_receipt(installation, log, run)
        if published is not None:
            return move_checkpoint(installation, log, published)
        try:
            set_void(installation, run, message)
        except RunAgainError:
            now = installation.store.runs.find(run.plan_id)
            if now is None or now.status.is_closed:
                return None
            if now == run:
                raise
            run = now
            continue
        if run.status.is_unsettled:
            installation.alerts.recover(
                run.topic, {AlertKind.COMMIT_UNKNOWN}, None, describe_not_published(run.plan_id), plan_id=run.plan_id
            )
        return None
    raise RunAgainError(
        f"The run of plan {run.plan_id} of topic {run.topic} keeps changing while it is being closed: another process "
        "is working on it.",
        left="Nothing was changed.",
        next="Run it again when that one has ended.",
    )


def _find_published_receipt(installation: Installation, log: TopicLog, run: Run) -> Receipt | None:
    """Find the receipt of ``run``; None: it is not published, and none of its attempts can be published any more.

    Raises:
        OlderHeadError: the catalog is older than what was recorded, or the metadata store has the receipt and the log
            has not: a run that was published is not void.
    """
    head = log.newest_head()
    found = log.find_receipt(run.plan_id, head, since_ms=run.opened_at_ms)
    if found is None and installation.store.projection.find_receipt(run.plan_id) is not None:
        raise make_missing_receipt_error(run.topic, run.plan_id)
    if found is None and run.status.is_unsettled:
        return end_attempts(log, run.plan_id, run.fence, since_ms=run.opened_at_ms)
    return found
