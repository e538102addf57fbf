"""The alert document, the same for every channel, and its formatting. Pure.

A :class:`Situation` describes a problem; :func:`make_alert` makes its document (or that of the findings that are new),
and :func:`make_recovery` the one about its end. Every document says what happened to which topic
partition, since when, what is safe, what to do next, and where to look. None holds bytes of users.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from winnow.clock import format_duration, format_ms
from winnow.errors import Explanation, join_first
from winnow.values.model import TopicPartition
from winnow.values.results import OpenAlert

MAXIMUM_SHOWN = 3
"""Maximum findings that a message describes; more are counted."""
MAXIMUM_NAMED_PARTITIONS = 10
"""Maximum topic partitions that a message names; more are counted."""
MAXIMUM_MESSAGE_CHARACTERS = 600
"""Maximum characters of one finding in a message: a reason may name a long path."""


class AlertKind(StrEnum):
    """The fixed kinds of alerts."""

    VALIDATION_FAILED = "validation_failed"
    VALIDATION_BROKEN = "validation_broken"
    UNCLEANABLE_PARTITION = "uncleanable_partition"
    DEADLINE_NEAR = "deadline_near"
    DEADLINE_MISSED = "deadline_missed"
    COMMIT_UNKNOWN = "commit_unknown"
    SWEEP_STUCK = "sweep_stuck"
    SEGMENT_DAMAGED = "segment_damaged"
    INGEST_FAILED = "ingest_failed"
    SOURCE_GONE = "source_gone"
    CONFIGURATION_HELD = "configuration_held"
    RECOVERED = "recovered"


SEVERITIES: dict[AlertKind, str] = {
    AlertKind.VALIDATION_FAILED: "error",
    AlertKind.VALIDATION_BROKEN: "error",
    AlertKind.UNCLEANABLE_PARTITION: "error",
    AlertKind.DEADLINE_NEAR: "warning",
    AlertKind.DEADLINE_MISSED: "critical",
    AlertKind.COMMIT_UNKNOWN: "critical",
    AlertKind.SWEEP_STUCK: "warning",
    AlertKind.SEGMENT_DAMAGED: "critical",
    AlertKind.INGEST_FAILED: "error",
    AlertKind.SOURCE_GONE: "warning",
    AlertKind.CONFIGURATION_HELD: "warning",
    AlertKind.RECOVERED: "info",
}
"""Severity per kind, in the four words of paging services."""

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


@dataclass(frozen=True, slots=True)
class Alert:
    """One message as every channel gets it; the webhook posts exactly these fields as JSON.

    ``partitions`` None: the topic as a whole. ``message``: what happened. ``safe`` and ``next``: sentences. ``link``:
    the page to open, None where Airflow's address is unknown. ``text``: the whole message, for a chat. ``about``:
    the kind of alert that ended, for a recovery.
    """

    kind: AlertKind
    topic: str
    partitions: tuple[int, ...] | None
    message: str
    at_ms: int
    since_ms: int
    safe: str
    next: str
    link: str | None
    plan_id: str | None
    severity: str
    text: str
    about: tuple[AlertKind, ...] = ()


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
        texts = [f"{_format_name(self.topic, each.partition)}: {_cut_text(each.what)}" for each in chosen if each.what]
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


def make_alert(situation: Situation, fresh: Collection[OpenAlert], page_url: str | None) -> Alert:
    """Make the document about the ``fresh`` findings of ``situation``, at least one."""
    new = {each.partition for each in fresh}
    findings = [each for each in situation.findings if each.partition in new]
    return _make_document(
        situation.kind,
        situation.topic,
        [each.partition for each in findings],
        situation.explain(findings),
        situation.plan_id,
        at_ms=situation.at_ms,
        since_ms=min(each.since_ms for each in findings),
        page_url=page_url,
    )


def make_reminders(unmuted: Sequence[OpenAlert], *, at_ms: int, page_url: str | None) -> list[Alert]:
    """Make the documents about alerts whose mute has ended and which are still open, one per problem of a topic."""
    groups: dict[tuple[str, str, str | None], list[OpenAlert]] = {}
    for each in unmuted:
        if each.kind not in SEVERITIES:
            continue  # another Winnow's
        groups.setdefault((each.topic, each.kind, each.plan_id), []).append(each)
    return [
        _make_document(
            AlertKind(kind),
            topic,
            [each.partition for each in alerts],
            Explanation(
                "Still open after its mute: "
                + join_first([_cut_text(each.message) for each in alerts], MAXIMUM_SHOWN, separator=" "),
                alerts[0].safe,
                alerts[0].next,
            ),
            plan_id,
            at_ms=at_ms,
            since_ms=min(each.since_ms for each in alerts),
            page_url=page_url,
        )
        for (topic, kind, plan_id), alerts in groups.items()
    ]


def list_alert_keys(alert: Alert) -> list[str]:
    """List the keys of the open alerts that ``alert`` is about: :attr:`winnow.values.results.OpenAlert.key`."""
    return [OpenAlert(alert.kind, alert.topic, each, 0).key for each in alert.partitions or (None,)]


def _make_document(
    kind: AlertKind,
    topic: str,
    numbers: Iterable[int | None],
    explanation: Explanation,
    plan_id: str | None,
    *,
    at_ms: int,
    since_ms: int,
    page_url: str | None,
) -> Alert:
    partitions = _list_partitions(numbers)
    link = make_link(page_url, topic, plan_id)
    message, safe, to_do = explanation
    return Alert(
        kind=kind,
        topic=topic,
        partitions=partitions,
        message=message,
        at_ms=at_ms,
        since_ms=since_ms,
        safe=safe,
        next=to_do,
        link=link,
        plan_id=plan_id,
        severity=SEVERITIES[kind],
        text=_format_text(
            f"{SEVERITIES[kind].upper()}: {_format_words(kind)}: {format_partitions(topic, partitions)}",
            message,
            f"Since: {format_ms(since_ms)}",
            f"Safe: {safe}",
            f"Next: {to_do}",
            link,
        ),
    )


def make_recovery(
    topic: str,
    ended: Sequence[OpenAlert],
    how: str,
    *,
    at_ms: int,
    page_url: str | None,
    plan_id: str | None = None,
    safe: str = "Readers see the log as published; nothing was lost.",
) -> Alert:
    """Make the document that reports the end of ``ended``. ``how`` completes the sentence "Recovered: orders-0 …"."""
    kinds = tuple(dict.fromkeys(AlertKind(each.kind) for each in ended))
    partitions = _list_partitions(each.partition for each in ended)
    since_ms = min(each.since_ms for each in ended)
    stretches = []
    for kind in kinds:
        began_ms = min(each.since_ms for each in ended if each.kind == kind)
        stretches.append(f"{kind.value} after {format_duration(at_ms - began_ms)}")
    releases = list(dict.fromkeys(each.released for each in ended if each.released))
    by_hand = f" By hand: {', '.join(releases[:MAXIMUM_SHOWN])}." if releases else ""
    message = f"Recovered: {format_partitions(topic, partitions)} {how}. This closes {', '.join(stretches)}.{by_hand}"
    to_do = "There is nothing to do."
    link = make_link(page_url, topic, plan_id)
    return Alert(
        kind=AlertKind.RECOVERED,
        topic=topic,
        partitions=partitions,
        message=message,
        at_ms=at_ms,
        since_ms=since_ms,
        safe=safe,
        next=to_do,
        link=link,
        plan_id=plan_id,
        severity=SEVERITIES[AlertKind.RECOVERED],
        text=_format_text(message, f"Since: {format_ms(since_ms)}", f"Safe: {safe}", f"Next: {to_do}", link),
        about=kinds,
    )


def make_link(page_url: str | None, topic: str, plan_id: str | None) -> str | None:
    """Make the link to the page of the run, or of the topic without a run; None without the address of Airflow."""
    if page_url is None:
        return None
    place = f"topics/{topic}" if plan_id is None else f"runs/{plan_id}"
    return f"{page_url.rstrip('/')}/winnow/page#/{place}"


def format_partitions(topic: str, partitions: Sequence[int] | None) -> str:
    """Format the first few topic partitions as Kafka names them; the topic alone if it is meant as a whole."""
    if not partitions:
        return topic
    named = [_format_name(topic, number) for number in partitions]
    return join_first(named, MAXIMUM_NAMED_PARTITIONS, ", ", last=" and ")


def _list_partitions(found: Iterable[int | None]) -> tuple[int, ...] | None:
    return tuple(sorted({number for number in found if number is not None})) or None


def _format_name(topic: str, partition: int | None) -> str:
    return topic if partition is None else str(TopicPartition(topic, partition))


def _format_words(kind: AlertKind) -> str:
    return kind.value.replace("_", " ")


def _cut_text(text: str) -> str:
    return text if len(text) <= MAXIMUM_MESSAGE_CHARACTERS else f"{text[:MAXIMUM_MESSAGE_CHARACTERS]}…"


def _format_text(*lines: str | None) -> str:
    return "\n".join(line for line in lines if line)
