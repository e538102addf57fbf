"""Marks partitions whose compaction failed as uncleanable, schedules their next attempt, and releases them.

Kafka keeps such marks in memory until the broker restarts; here they are carried with the log, with reason and time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from winnow.clock import format_ms
from winnow.engine.events import PlanFailure, format_failures
from winnow.errors import (
    BadInputError,
    DamagedSegmentError,
    UsageError,
    ValidationFailedError,
    WinnowError,
    make_error,
)
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.state_change import change_states
from winnow.planning.plans import PlanReference
from winnow.report import alert_kinds
from winnow.report.alert_kinds import Finding, Situation
from winnow.report.alerts import format_partitions
from winnow.report.events import log_event
from winnow.store import RunState
from winnow.values.topic_state import PartitionState, TopicState, Uncleanable

MINIMUM_BACK_OFF_MS = 15 * 60_000
MAXIMUM_BACK_OFF_MS = 24 * 3_600_000

MARKING_EXIT_CODES = frozenset({WinnowError.exit_code, BadInputError.exit_code, ValidationFailedError.exit_code})
"""Exit codes of failures that mark the partition. An unreachable service, a wrong setting or a
changed log says nothing about the partition."""


def mark_uncleanable(
    installation: Installation, topic: str, plan_id: str, reasons: Mapping[int, str]
) -> dict[int, Uncleanable]:
    """Mark partitions in the carried state (a snapshot without files) and in the metadata store; return their marks.

    Each further failure doubles the time to the next attempt, from 15 minutes to a day. Marking again for the same
    plan within that time changes nothing; after it, a backfill's next attempt at the same plan has failed too.

    Raises:
        CommitConflictError, CommitUnknownError, ServiceError: the mark may not be there.
    """
    now_ms = installation.now_ms()

    def change(state: TopicState) -> dict[int, PartitionState]:
        return {
            number: replace(
                state.partitions[number],
                uncleanable=_build_mark(state.partitions[number].uncleanable, plan_id, reason, now_ms),
            )
            for number, reason in reasons.items()
            if number in state.partitions
        }

    state, _ = change_states(installation, topic, change, operation="mark-uncleanable")
    marks = {number: state.partitions[number].uncleanable for number in reasons if number in state.partitions}
    return {number: mark for number, mark in marks.items() if mark is not None}


def _build_mark(before: Uncleanable | None, plan_id: str, reason: str, now_ms: int) -> Uncleanable:
    if before is not None and before.plan_id == plan_id and now_ms < (before.next_attempt_ms or 0):
        return before
    attempts = before.attempts + 1 if before is not None else 1
    return Uncleanable(
        reason=reason,
        since_ms=before.since_ms if before is not None else now_ms,
        plan_id=plan_id,
        attempts=attempts,
        next_attempt_ms=now_ms + compute_back_off_ms(attempts),
    )


def compute_back_off_ms(attempts: int) -> int:
    """Compute the wait (ms) after failure number ``attempts`` (from 1): 15 minutes, doubling, up to a day."""
    doublings = min(attempts - 1, (MAXIMUM_BACK_OFF_MS // MINIMUM_BACK_OFF_MS).bit_length())
    return min(MINIMUM_BACK_OFF_MS << doublings, MAXIMUM_BACK_OFF_MS)


def release_marks(
    installation: Installation, topic: str, partitions: Collection[int] | None = None, *, why: str
) -> list[int]:
    """Clear the uncleanable marks of ``partitions`` (None = all) for the next run; return those that had one, sorted.

    ``why`` goes into the snapshot's summary. A new failure of such a partition alerts again.

    Raises:
        UsageError: the topic has no such partition.
        CommitConflictError, CommitUnknownError, ServiceError: see :func:`change_states`.
    """
    released: list[int] = []

    def change(state: TopicState) -> dict[int, PartitionState]:
        chosen = select_partitions(topic, state, partitions)
        released[:] = [number for number in chosen if state.partitions[number].uncleanable is not None]
        return {number: replace(state.partitions[number], uncleanable=None) for number in released}

    change_states(installation, topic, change, operation="release", summary={"winnow.release-reason": why})
    installation.alerts.release(topic, released, why)
    return released


def select_partitions(topic: str, state: TopicState, partitions: Collection[int] | None) -> list[int]:
    """Return ``partitions`` (None or none = all of the topic), sorted.

    Raises:
        UsageError: the topic has no such partition.
    """
    unknown = sorted(set(partitions or ()) - set(state.partitions))
    if unknown:
        raise UsageError(
            f"Topic {topic} has partitions 0 to {len(state.partitions) - 1}, not {', '.join(map(str, unknown))}.",
            left="Nothing was changed.",
        )
    return sorted(set(partitions or state.partitions))


def mark_failed_partitions(
    installation: Installation, plan: PlanReference, failure: PlanFailure, attempt: str
) -> WinnowError | None:
    """Mark the partitions that a Spark job reported as failed, close the run as failed in Spark, and alert.

    Returns:
        The error that describes the failure, of the type of the worst one; None if nothing speaks against a
        partition, and nothing was done.
    """
    against = [each for each in failure.partitions if each.exit_code in MARKING_EXIT_CODES]
    if not against:
        return None
    reasons = {each.partition: _capitalize(each.error) for each in against}
    marks: dict[int, Uncleanable] = {}
    try:
        marks = mark_uncleanable(installation, plan.topic, plan.plan_id, reasons)
        effect = describe_marks(plan.topic, marks)
    except Exception as problem:  # the failure itself must be reported even if the mark fails
        effect = (
            f"The mark itself could not be committed ({type(problem).__name__}), so the next run may try these "
            "partitions again."
        )
    errors = {each.partition: each.error for each in against}
    found = build_uncleanable_alert(plan.topic, plan.plan_id, errors, marks, effect=effect, at_ms=installation.now_ms())
    # The run's message names every failed partition, the alert those that are marked.
    what = f"{found.summary.what}: {format_failures(plan.topic, failure.partitions)}"
    explanation = replace(found, summary=found.summary._replace(what=what), findings=()).explain()
    partitions = tuple(sorted(reasons))
    # Alert first: the partitions are marked even if the run has changed meanwhile.
    installation.alerts.open_alert(found)
    installation.store.runs.set_state(
        plan.plan_id,
        RunState.SPARK_FAILED,
        installation.now_ms(),
        message=str(explanation),
        attempt=attempt,
        partitions_marked=len(reasons),
    )
    log_event("spark_failed", plan.topic, plan_id=plan.plan_id, attempt=attempt, partitions=partitions)
    if failure.exit_code == ValidationFailedError.exit_code:
        return DamagedSegmentError(*explanation)
    return make_error(failure.exit_code, explanation)


def build_uncleanable_alert(
    topic: str,
    plan_id: str,
    reasons: Mapping[int, str],
    marks: Mapping[int, Uncleanable],
    *,
    at_ms: int,
    effect: str | None = None,
) -> Situation:
    """Build the alert about partitions that could not be compacted. ``effect`` None: derived from the marks."""
    findings = [
        Finding(number, marks[number].since_ms if number in marks else at_ms, reason)
        for number, reason in sorted(reasons.items())
    ]
    effect = effect if effect is not None else describe_marks(topic, marks)
    return alert_kinds.make_uncleanable_partition(topic, plan_id, findings, effect=effect, at_ms=at_ms)


def describe_marks(topic: str, marks: Mapping[int, Uncleanable]) -> str:
    """Describe the marks on partitions, and the command that makes the next run try them."""
    next_ms = min((mark.next_attempt_ms for mark in marks.values() if mark.next_attempt_ms is not None), default=None)
    when = f" until {format_ms(next_ms)}" if next_ms is not None else ""
    return (
        f"Marked uncleanable{when}: {format_partitions(topic, sorted(marks))}; the next run takes the others. "
        f"When the cause is fixed, retry at once with: {alert_kinds.make_release_command(topic, marks)}"
    )


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
