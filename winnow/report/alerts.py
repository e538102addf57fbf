"""The alert document, the same for every channel, and its formatting. Pure.

A :class:`Situation` describes a problem; :func:`make_alert` makes its document (or that of the findings that are new),
and :func:`make_recovery` the one about its end. Every document says what happened to which topic
partition, since when, what is safe, what to do next, and where to look. None holds bytes of users.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from winnow.clock import format_duration, format_ms
from winnow.errors import Explanation, join_first
from winnow.report.alert_kinds import MAXIMUM_SHOWN, AlertKind, Situation, cut_text, format_name
from winnow.report.evidence import remove_local_scheme
from winnow.values.documents import dump_json
from winnow.values.results import OpenAlert

MAXIMUM_NAMED_PARTITIONS = 10
"""Maximum topic partitions that a message names; more are counted."""


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
    known = frozenset(AlertKind)
    for each in unmuted:
        if each.kind not in known:
            continue  # another Winnow's
        groups.setdefault((each.topic, each.kind, each.plan_id), []).append(each)
    return [
        _make_document(
            AlertKind(kind),
            topic,
            [each.partition for each in alerts],
            Explanation(
                "Still open after its mute: "
                + join_first([cut_text(each.message) for each in alerts], MAXIMUM_SHOWN, separator=" "),
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


def dump_message(alert: Alert) -> str:
    """Write the document that channels get: their readers are elsewhere, so it links to no file of this machine."""
    return remove_local_scheme(dump_json(alert).decode())


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
        severity=kind.severity,
        text=_format_text(
            f"{kind.severity.upper()}: {_format_words(kind)}: {format_partitions(topic, partitions)}",
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
        severity=AlertKind.RECOVERED.severity,
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
    named = [format_name(topic, number) for number in partitions]
    return join_first(named, MAXIMUM_NAMED_PARTITIONS, ", ", last=" and ")


def _list_partitions(found: Iterable[int | None]) -> tuple[int, ...] | None:
    return tuple(sorted({number for number in found if number is not None})) or None


def _format_words(kind: AlertKind) -> str:
    return kind.value.replace("_", " ")


def _format_text(*lines: str | None) -> str:
    return "\n".join(line for line in lines if line)
