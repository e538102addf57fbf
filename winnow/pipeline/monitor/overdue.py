"""Explains why a compaction deadline is or will be missed, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.clock import format_duration, format_ms
from winnow.config.settings import Settings
from winnow.planning.cleanable import PartitionLog
from winnow.report.alert_kinds import Finding, make_release_command, make_resume_command
from winnow.report.forecast import PendingPartition
from winnow.store import Run
from winnow.values.model import Assessment, Reason

_IDLE_REASONS = {
    Reason.IN_PROGRESS: "a run is at work on it",
    Reason.INSIDE_MIN_LAG: "min.compaction.lag.ms keeps it",
}


@dataclass(frozen=True, slots=True)
class MissingRecords:
    """Records at the brokers that are not in the log: their earliest deadline, and a description."""

    deadline_ms: int
    what: str


@dataclass(frozen=True, slots=True)
class DuePartition:
    """One partition that has a deadline, with its assessment and its log, and what is missing in it, if known."""

    assessment: Assessment
    log: PartitionLog
    missing: MissingRecords | None = None

    @property
    def deadline_ms(self) -> int:
        """When the oldest dirty record, be it in the log or still at the brokers, has waited for the maximum lag."""
        known = [self.assessment.deadline_ms, None if self.missing is None else self.missing.deadline_ms]
        return min(each for each in known if each is not None)

    @property
    def is_not_ingested(self) -> bool:
        """Whether the deadline is that of a record which is still at the brokers."""
        return self.missing is not None and self.missing.deadline_ms == self.deadline_ms

    @property
    def is_paused(self) -> bool:
        """Whether the partition is paused."""
        return self.log.state.paused_since_ms is not None

    @property
    def is_uncleanable(self) -> bool:
        """Whether the partition is marked as uncleanable."""
        return self.log.state.uncleanable is not None

    @property
    def is_blocked(self) -> bool:
        """Whether no run will take the partition before its deadline."""
        return self.is_paused or self.is_uncleanable

    @property
    def work(self) -> PendingPartition:
        """The work of compacting it: the active segment is closed by the deadline, so a run reads all segments."""
        size_bytes = sum(segment.size_bytes for segment in self.log.segments)
        return PendingPartition(
            self.log.topic, self.log.partition, self.deadline_ms, size_bytes, self.is_blocked, self.is_not_ingested
        )


def describe_missed_deadline(due: DuePartition, last_run: Run | None, now_ms: int) -> Finding:
    """Describe a missed deadline: since when, and why."""
    why = _describe_missing(due) or _describe_block(due) or _IDLE_REASONS.get(due.assessment.reason)
    if why is None and due.assessment.eligible:
        why = (
            "it is due, and no run has taken it"
            if last_run is None
            else f"it is due; the last run of the topic is {last_run.status} since {format_ms(last_run.updated_at_ms)}"
        )
    why = why or f"no run takes it ({due.assessment.reason.value})"
    ago = format_duration(now_ms - due.deadline_ms)
    return Finding(due.log.partition, due.deadline_ms, f"due {format_ms(due.deadline_ms)}, {ago} ago; {why}")


def describe_near_deadline(due: DuePartition, late_by_ms: int | None, now_ms: int) -> Finding:
    """Describe a deadline that will be missed."""
    remaining_ms = due.deadline_ms - now_ms
    when = f"in {format_duration(remaining_ms)}" if remaining_ms > 0 else f"{format_duration(-remaining_ms)} ago"
    why = (
        _describe_missing(due)
        or _describe_block(due)
        or f"at the present pace it is compacted {format_duration(late_by_ms or 0)} too late at the earliest"
    )
    state = due.log.state
    began = [state.paused_since_ms, state.uncleanable.since_ms if state.uncleanable is not None else None]
    since_ms = min((each for each in began if each is not None), default=now_ms)
    return Finding(due.log.partition, since_ms, f"due {format_ms(due.deadline_ms)}, {when}; {why}")


def _describe_missing(due: DuePartition) -> str | None:
    return due.missing.what if due.missing is not None and due.is_not_ingested else None


def _describe_block(due: DuePartition) -> str | None:
    state = due.log.state
    reasons = []
    if state.paused_since_ms is not None:
        reasons.append(f"paused by {', '.join(state.paused_by) or 'somebody'} since {format_ms(state.paused_since_ms)}")
    if state.uncleanable is not None:
        mark = state.uncleanable
        again = f", next attempt {format_ms(mark.next_attempt_ms)}" if mark.next_attempt_ms is not None else ""
        reasons.append(f"uncleanable since {format_ms(mark.since_ms)}{again}")
    return " and ".join(reasons) or None


def format_advice(settings: Settings, topic: str, found: Sequence[DuePartition]) -> str:
    """Return what to do, one command per cause; ``settings`` name the DAGs."""
    paused = [each.log.partition for each in found if each.is_paused]
    marked = [each.log.partition for each in found if each.is_uncleanable]
    advice = []
    if paused:
        advice.append(f"resume paused partitions: {make_resume_command(topic, paused)}")
    if marked:
        advice.append(f"once the cause is fixed, release uncleanable partitions: {make_release_command(topic, marked)}")
    if any(each.is_not_ingested for each in found):
        advice.append(
            f"find out why {settings.name_dag('ingest_topics')} does not ingest it (is the DAG paused, did a task "
            f"fail) or ingest it by hand: winnow ingest kafka {topic}"
        )
    if any(not each.is_blocked and not each.is_not_ingested for each in found):
        advice.append(
            f"find out why {settings.name_dag('compact_topics')} does not compact it (is the DAG paused, did a task "
            "fail, is it too much "
            f"work: winnow assess {topic} --forecast) or compact it by hand: winnow compact {topic}"
        )
    text = "; ".join(advice)
    return text[:1].upper() + text[1:]
