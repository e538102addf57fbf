"""The kinds of alerts, and what each says: what happened, what is safe, what to do next. Pure.

A command in a message can be pasted as it is. docs/operations.md has a section for each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from winnow.clock import format_duration, format_ms
from winnow.errors import Explanation, join_first
from winnow.report.receipts import format_human_bytes
from winnow.values.counts import format_count
from winnow.values.model import TopicPartition
from winnow.values.results import OpenAlert

MAXIMUM_SHOWN = 3
"""Maximum findings that a message describes; more are counted."""
MAXIMUM_MESSAGE_CHARACTERS = 600
"""Maximum characters of one finding in a message: a reason may name a long path."""


class AlertKind(StrEnum):
    """The kinds of alerts, with their severity in the four words of paging services."""

    severity: str

    def __new__(cls, value: str, severity: str = "") -> Self:
        """Make the kind ``value``."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.severity = severity
        return kind

    VALIDATION_FAILED = "validation_failed", "error"
    VALIDATION_BROKEN = "validation_broken", "error"
    UNCLEANABLE_PARTITION = "uncleanable_partition", "error"
    DEADLINE_NEAR = "deadline_near", "warning"
    DEADLINE_MISSED = "deadline_missed", "critical"
    COMMIT_UNKNOWN = "commit_unknown", "critical"
    SWEEP_STUCK = "sweep_stuck", "warning"
    RUN_LATE = "run_late", "warning"
    ERASURE_UNFINISHED = "erasure_unfinished", "error"
    SEGMENT_DAMAGED = "segment_damaged", "critical"
    INGEST_FAILED = "ingest_failed", "error"
    SOURCE_GONE = "source_gone", "warning"
    CONFIGURATION_HELD = "configuration_held", "warning"
    LATEST_LATE = "latest_late", "warning"
    LATEST_REJECTED = "latest_rejected", "error"
    LATEST_SUSPECT = "latest_suspect", "warning"
    RECOVERED = "recovered", "info"


PUBLISHED_AGAIN = frozenset(
    {
        AlertKind.VALIDATION_FAILED,
        AlertKind.VALIDATION_BROKEN,
        AlertKind.UNCLEANABLE_PARTITION,
        AlertKind.COMMIT_UNKNOWN,
    }
)
"""Kinds that recover when the topic partition is published again."""
RELEASABLE = frozenset({AlertKind.VALIDATION_FAILED, AlertKind.UNCLEANABLE_PARTITION})
"""Kinds that an operator may release together with the partition."""
DEADLINES = frozenset({AlertKind.DEADLINE_NEAR, AlertKind.DEADLINE_MISSED})
LATEST = frozenset({AlertKind.LATEST_LATE, AlertKind.LATEST_REJECTED, AlertKind.LATEST_SUSPECT})
"""Kinds about a topic's table of the latest state."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of one topic partition (None: of the topic), and since when. ``what`` may be empty."""

    partition: int | None
    since_ms: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """The problems of a topic. ``summary``: what happened, what is safe and what to do next; findings complete it."""

    kind: AlertKind
    topic: str
    findings: tuple[Finding, ...]
    summary: Explanation
    at_ms: int
    plan_id: str | None = None

    def explain(self, findings: Sequence[Finding] | None = None) -> Explanation:
        """Explain the problems: ``findings``, None: all."""
        chosen = self.findings if findings is None else findings
        texts = [f"{format_name(self.topic, each.partition)}: {cut_text(each.what)}" for each in chosen if each.what]
        shown = [join_first(texts, MAXIMUM_SHOWN)] if texts else []
        what = ": ".join([self.summary.what.removesuffix("."), *shown])
        return self.summary._replace(what=f"{what.removesuffix('.')}.")

    @property
    def open_alerts(self) -> list[OpenAlert]:
        """Make one open alert per finding, as the metadata store keeps them until they recover."""
        return [
            OpenAlert(
                self.kind,
                self.topic,
                each.partition,
                each.since_ms,
                self.explain([each]).what,
                safe=self.summary.left,
                next=self.summary.next,
                plan_id=self.plan_id,
            )
            for each in self.findings
        ]


_AS_BEFORE = "Nothing was published; readers see the log as before."


def make_validation_failed(
    topic: str,
    plan_id: str,
    findings: Sequence[Finding],
    *,
    evidence: str,
    effect: str,
    at_ms: int,
) -> Situation:
    """Make the alert about a wrong result. ``evidence``: where the verdict is. ``effect``: the effect of the marks."""
    return Situation(
        kind=AlertKind.VALIDATION_FAILED,
        topic=topic,
        findings=tuple(findings),
        summary=Explanation(
            f"Validation of plan {plan_id} of topic {topic} failed",
            left=_AS_BEFORE,
            next=f"Evidence: {evidence}. {effect}",
        ),
        at_ms=at_ms,
        plan_id=plan_id,
    )


def make_validation_broken(topic: str, plan_id: str, summary: str, *, at_ms: int, to_do: str = "") -> Situation:
    """Make the alert about a check that raised, or ended without a verdict. ``summary``: what happened."""
    return Situation(
        kind=AlertKind.VALIDATION_BROKEN,
        topic=topic,
        findings=(Finding(None, at_ms),),
        summary=Explanation(
            summary,
            left="Nothing was published and no partition was marked; readers see the log as before.",
            next=to_do or f"Fix the check or the suite, then run it again: winnow compact {topic}",
        ),
        at_ms=at_ms,
        plan_id=plan_id,
    )


def make_uncleanable_partition(
    topic: str, plan_id: str, findings: Sequence[Finding], *, effect: str, at_ms: int
) -> Situation:
    """Make the alert about partitions that could not be compacted. ``effect``: their mark, and how to release it."""
    return Situation(
        kind=AlertKind.UNCLEANABLE_PARTITION,
        topic=topic,
        findings=tuple(findings),
        summary=Explanation(
            f"Topic {topic} was not compacted",
            left="Nothing was published and nothing was lost; readers see the log as before.",
            next=effect,
        ),
        at_ms=at_ms,
        plan_id=plan_id,
    )


def make_commit_unknown(topic: str, plan_id: str, summary: str, *, at_ms: int) -> Situation:
    """Make the alert about a commit whose outcome is unknown. ``summary``: what happened."""
    return Situation(
        kind=AlertKind.COMMIT_UNKNOWN,
        topic=topic,
        findings=(Finding(None, at_ms),),
        summary=Explanation(
            summary,
            left=(
                "Nothing was cleaned up, and nothing will be before the outcome is known. Readers see the complete "
                "log, either as before or compacted; both are correct."
            ),
            next=(
                "Delete no files by hand. The next run looks for the plan in the table's history and settles it; to "
                f"do so at once: winnow compact {topic}"
            ),
        ),
        at_ms=at_ms,
        plan_id=plan_id,
    )


def make_deadline_near(topic: str, findings: Sequence[Finding], *, to_do: str, at_ms: int) -> Situation:
    """Make the alert about deadlines that will be missed unless an operator acts. ``to_do``: sentences."""
    return Situation(
        kind=AlertKind.DEADLINE_NEAR,
        topic=topic,
        findings=tuple(findings),
        summary=Explanation(
            f"Topic {topic} is about to miss its compaction deadline (max.compaction.lag.ms)",
            left=_STILL_THERE,
            next=to_do,
        ),
        at_ms=at_ms,
    )


def make_deadline_missed(topic: str, findings: Sequence[Finding], *, to_do: str, at_ms: int) -> Situation:
    """Make the alert about deadlines that passed although work was due. ``to_do``: sentences."""
    return Situation(
        kind=AlertKind.DEADLINE_MISSED,
        topic=topic,
        findings=tuple(findings),
        summary=Explanation(
            f"Topic {topic} missed its compaction deadline (max.compaction.lag.ms)",
            left=_STILL_THERE,
            next=to_do,
        ),
        at_ms=at_ms,
    )


_STILL_THERE = (
    "No record is lost and readers see a complete log; superseded and deleted values stay readable for longer than "
    "promised."
)


def make_run_late(topic: str, since_ms: int, *, work: str, state: str, plan_id: str | None, at_ms: int) -> Situation:
    """Make the alert about a run that takes longer than it should, while it goes on.

    ``since_ms``: when it began. ``work``: what it is, with its id. ``state``: who is at work on it. ``plan_id``: its
    plan; None: it is no compaction.
    """
    return Situation(
        kind=AlertKind.RUN_LATE,
        topic=topic,
        findings=(Finding(None, since_ms),),
        summary=Explanation(
            f"{work} of topic {topic} has been open since {format_ms(since_ms)}, for "
            f"{format_duration(at_ms - since_ms)}, longer than alert.run_late_ms: {state}",
            left="Readers see the log as it was published last; what this writes becomes visible at once, or never.",
            next=(
                "See in the log of its task, or of its process, whether it gets on. If it hangs, mark the task failed "
                "in Airflow, or end the process: the next run takes it from there. What the topic's earlier runs came "
                f"to, and how long they took: winnow receipts {topic}"
            ),
        ),
        at_ms=at_ms,
        plan_id=plan_id,
    )


def make_sweep_stuck(topic: str, since_ms: int, summary: str, *, dag_id: str, at_ms: int) -> Situation:
    """Make the alert about retired files that outlive their grace. ``summary``: what happened.

    ``dag_id``: the DAG that sweeps.
    """
    return Situation(
        kind=AlertKind.SWEEP_STUCK,
        topic=topic,
        findings=(Finding(None, since_ms),),
        summary=Explanation(
            summary,
            left=(
                "Readers are not affected: these files are no longer part of the log. But they take disk space, and "
                "records that were removed from the log are still on disk in them."
            ),
            next=(
                f"Find out why the DAG {dag_id} did not remove them: is it paused, did a task fail? If files stay "
                "after a sweep, a branch or a tag of the table still refers to them. To sweep by hand and read its "
                f"output: winnow sweep {topic}"
            ),
        ),
        at_ms=at_ms,
    )


def make_erasure_unfinished(topic: str, since_ms: int, files: int, *, dag_id: str, at_ms: int) -> Situation:
    """Make the alert about erased keys whose files are still on disk. ``dag_id``: the DAG that sweeps."""
    return Situation(
        kind=AlertKind.ERASURE_UNFINISHED,
        topic=topic,
        findings=(Finding(None, since_ms),),
        summary=Explanation(
            f"Keys of topic {topic} are erased for readers, and not yet from disk: "
            f"{format_count(files, 'file', 'wait')} since {format_ms(since_ms)}",
            left="No reader sees these records any more. Whoever may read the warehouse can still read the files.",
            next=(
                f"Every sweep goes on with deleting them, so find out why the DAG {dag_id} did not. To go on at once, "
                f"and read what is in the way: winnow sweep {topic}"
            ),
        ),
        at_ms=at_ms,
    )


def make_segment_damaged(topic: str, findings: Sequence[Finding], *, at_ms: int) -> Situation:
    """Make the alert about files in which a scrub found damage."""
    return Situation(
        kind=AlertKind.SEGMENT_DAMAGED,
        topic=topic,
        findings=tuple(findings),
        summary=Explanation(
            f"A scrub found damage in topic {topic}",
            left=(
                "Nothing was changed. Readers get an error at a damaged segment and never its changed bytes; "
                "compaction does not copy from it. All other files that were checked are intact."
            ),
            next=(
                "Restore each file under the same name from a backup or the object store's versions, and check the "
                f"disk it was on. Then scrub again, which closes this alert: winnow scrub {topic}"
            ),
        ),
        at_ms=at_ms,
    )


def make_ingest_failed(topic: str, summary: str, *, dag_id: str, at_ms: int) -> Situation:
    """Make the alert about a followed topic whose ingest failed. ``summary``: why.

    ``dag_id``: the DAG that follows topics.
    """
    return Situation(
        kind=AlertKind.INGEST_FAILED,
        topic=topic,
        findings=(Finding(None, at_ms),),
        summary=Explanation(
            f"Topic {topic} could not be ingested from Kafka: {summary}",
            left=(
                "Nothing of that call landed; readers see the log as before, and every other topic is followed as "
                "usual. Records that are new in Kafka are not in the log, and the brokers' retention does not wait "
                "for it."
            ),
            next=(
                f"Do what the message says. The next run of {dag_id} tries again; to try now, and read the whole "
                f"message: winnow ingest kafka {topic}"
            ),
        ),
        at_ms=at_ms,
    )


def make_source_gone(topic: str, since_ms: int, *, at_ms: int) -> Situation:
    """Make the alert about a followed topic that the brokers say they do not have."""
    return Situation(
        kind=AlertKind.SOURCE_GONE,
        topic=topic,
        findings=(Finding(None, since_ms),),
        summary=Explanation(
            f"Topic {topic} is gone at Kafka since {format_ms(since_ms)}: its brokers say that they do not have it",
            left="The log here is as it was, with every record that was ingested; nothing new can come.",
            next=(
                "If the topic was deleted on purpose, follow it no more, which closes this alert: winnow topics "
                f"unfollow {topic}. If not, the log can be written back into Kafka: winnow restore {topic}"
            ),
        ),
        at_ms=at_ms,
    )


def make_configuration_held(topic: str, source_topic: str, changes: str, *, effect: str, at_ms: int) -> Situation:
    """Make the alert about changes at Kafka that would remove records here. ``effect``: sentences; may be empty."""
    return Situation(
        kind=AlertKind.CONFIGURATION_HELD,
        topic=topic,
        findings=(Finding(None, at_ms, changes),),
        summary=Explanation(
            f"The configuration of Kafka's {source_topic} would remove records of the log",
            left="It is not in force here: nothing is removed because of it, and records go on being ingested.",
            next=(
                f"{effect} To have it in force here: winnow topics alter {topic} --accept-kafka-config. To keep the "
                "records, give it its earlier value at Kafka."
            ).strip(),
        ),
        at_ms=at_ms,
    )


def make_latest_late(topic: str, since_ms: int, *, max_age_ms: int, dag_id: str, at_ms: int) -> Situation:
    """Make the alert about a table of the latest state in which a record should be by now.

    ``since_ms``: the time of the oldest record that it does not show. ``dag_id``: the DAG whose publishes update it.
    """
    return Situation(
        kind=AlertKind.LATEST_LATE,
        topic=topic,
        findings=(Finding(None, since_ms + max_age_ms),),
        summary=Explanation(
            f"The table of the latest state of topic {topic} does not show records since {format_ms(since_ms)}, "
            f"{format_duration(at_ms - since_ms - max_age_ms)} longer than it may (winnow.latest.max.age.ms)",
            left="The log has every record. Readers of the table see all of it as of before, complete and correct.",
            next=(
                f"Bring it up to date, and read what is in the way: winnow latest-table update {topic}. If that "
                f"succeeds, find out why {dag_id} did not, or update it more often: winnow topics alter {topic} "
                "--config winnow.latest.update=ingest"
            ),
        ),
        at_ms=at_ms,
    )


def make_latest_rejected(
    topic: str, findings: Sequence[Finding], *, evidence: str, to_do: str, at_ms: int
) -> Situation:
    """Make the alert about an update of the table of the latest state that was judged wrong.

    ``evidence``: where the verdict is. ``to_do``: sentences.
    """
    return Situation(
        kind=AlertKind.LATEST_REJECTED,
        topic=topic,
        findings=tuple(findings),
        summary=Explanation(
            f"The table of the latest state of topic {topic} was not updated: what it would show was judged wrong, or "
            "could not be judged",
            left="The table is as before, complete and correct as of then. The log is not concerned.",
            next=f"Evidence: {evidence}. {to_do}",
        ),
        at_ms=at_ms,
    )


def make_latest_suspect(topic: str, findings: Sequence[Finding], *, evidence: str, at_ms: int) -> Situation:
    """Make the alert about rows of the table of the latest state that somebody should look at."""
    return Situation(
        kind=AlertKind.LATEST_SUSPECT,
        topic=topic,
        findings=tuple(findings),
        summary=Explanation(
            f"The table of the latest state of topic {topic} was updated, with warnings",
            left="Every row is there. One that could not be decoded has its reason in __error.",
            next=(
                f"Evidence: {evidence}. Which schemas are in use: winnow schemas list {topic}. To allow some rows that "
                f"cannot be decoded: winnow topics alter {topic} --config winnow.latest.max.undecoded.ratio=0.01"
            ),
        ),
        at_ms=at_ms,
    )


def describe_overdue_files(files: int, size_bytes: int, due_ms: int, now_ms: int) -> str:
    """Describe how many files outlive their grace, and for how long."""
    return (
        f"{format_count(files, 'retired file')} with {format_human_bytes(size_bytes)} still there "
        f"{format_duration(now_ms - due_ms)} after their grace (winnow.retired.grace.ms)"
    )


def make_release_command(topic: str, partitions: Iterable[int]) -> str:
    """Make the command that makes the next run try uncleanable partitions."""
    return f"winnow partitions release {topic}{_format_options(partitions)}"


def make_resume_command(topic: str, partitions: Iterable[int]) -> str:
    """Make the command that takes back every pause."""
    return f"winnow partitions resume {topic}{_format_options(partitions)} --all"


def _format_options(partitions: Iterable[int]) -> str:
    """Format the partitions as options; none if there are many, which means all."""
    numbers = sorted(partitions)
    return "".join(f" --partition {number}" for number in numbers) if len(numbers) <= MAXIMUM_SHOWN else ""


def format_name(topic: str, partition: int | None) -> str:
    """Format a topic partition as Kafka names it; the topic alone if it is meant as a whole."""
    return topic if partition is None else str(TopicPartition(topic, partition))


def cut_text(text: str) -> str:
    """Cut a text that is too long for a message."""
    return text if len(text) <= MAXIMUM_MESSAGE_CHARACTERS else f"{text[:MAXIMUM_MESSAGE_CHARACTERS]}…"
