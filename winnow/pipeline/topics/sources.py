"""What becomes of the Kafka topics that logs follow: which are gone at the brokers, and which are not followed.

A topic that is gone is a state and an alert, not a failure that every call repeats. Whether a log follows its topic
stands in its own configuration; the metadata store keeps both for calls that must not open a thousand logs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence

from winnow.config.definitions import FOLLOW
from winnow.errors import ConfigurationError, WinnowError
from winnow.log.head import Head
from winnow.log.topic_configuration import set_config
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.overview import refresh_overview
from winnow.report import alert_kinds
from winnow.report.alert_kinds import AlertKind
from winnow.store.audit import AuditAction
from winnow.store.source_states import SourceKind, SourceState

log = logging.getLogger("winnow")

SOURCE_ALERTS = frozenset({AlertKind.SOURCE_GONE, AlertKind.INGEST_FAILED})
"""Kinds of alerts about topics that are followed."""
NOT_FOLLOWED = "is not followed any more"


def list_missing_topics(installation: Installation, pattern: str, listed: Collection[str]) -> list[str]:
    """List the topics here whose whole name matches ``pattern`` and which the brokers did not list.

    Raises:
        ServiceError: the catalog cannot be reached.
    """
    matching, known = re.compile(pattern), set(listed)
    return [name for name in installation.log.names() if name not in known and matching.fullmatch(name)]


def select_unfollowed(names: Sequence[str], states: Mapping[str, SourceState], heads: Mapping[str, str]) -> set[str]:
    """Select those of ``names`` whose log does not follow its Kafka topic, as was seen at the head that it has now."""
    return {
        name
        for name in names
        if (state := states.get(name)) is not None
        and state.kind is SourceKind.UNFOLLOWED
        and state.metadata_location == heads.get(name)
    }


def select_followed_before(
    installation: Installation, missing: Sequence[str], states: Mapping[str, SourceState], heads: Mapping[str, str]
) -> list[str]:
    """Select those of ``missing`` whose logs are copies of their namesakes at the brokers, and follow them.

    A log is opened once per head; what was seen of the others is recorded. A log that cannot be opened is left out:
    whoever works on it is told why.
    """
    followed = []
    seen: list[SourceState] = []
    for name in missing:
        state, location = states.get(name), heads.get(name)
        if location is None:
            continue
        if state is not None and state.metadata_location == location:
            if state.kind is SourceKind.GONE:
                followed.append(name)
            continue
        try:
            kind = _find_kind(installation, name)
        except WinnowError as problem:
            log.warning("Topic %s: whether it is gone at Kafka could not be found out: %s", name, problem)
            continue
        if kind is None:
            followed.append(name)
        elif kind is SourceKind.UNFOLLOWED:
            record_unfollowed(installation, {name: location})
        else:
            seen.append(SourceState(name, kind, installation.now_ms(), location))
    if seen:
        installation.store.source_states.record(seen)
    return followed


def _find_kind(installation: Installation, topic: str) -> SourceKind | None:
    """Find why a topic that the brokers do not list is not gone; None: it was their topic's copy, and follows it."""
    table = installation.log.open(topic)
    head = table.head()
    if not is_followed(table, head):
        return SourceKind.UNFOLLOWED
    is_copy = bool(head.state.epochs) and head.state.epochs[-1].topic == topic
    return None if is_copy else SourceKind.ABSENT


def is_followed(table: TopicLog, head: Head) -> bool:
    """Check whether the configuration of a log has it follow its Kafka topic, if the settings name that."""
    try:
        return table.config(head).follow
    except ConfigurationError:
        return True  # whoever works on the topic is told what is wrong with its configuration


class UnfollowedError(Exception):
    """The log of a topic does not follow it. ``location``: its head."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


def require_followed(table: TopicLog, head: Head) -> None:
    """Raise unless a log follows its Kafka topic.

    Raises:
        UnfollowedError: it does not; that is no failure.
    """
    if not is_followed(table, head):
        raise UnfollowedError(str(head.table.metadata_location))


def record_gone(
    installation: Installation, topics: Sequence[str], states: Mapping[str, SourceState], heads: Mapping[str, str]
) -> None:
    """Record that the brokers say they do not have ``topics``, which were followed, and alert once about each."""
    now_ms = installation.now_ms()
    changed = []
    for topic in topics:
        before = states.get(topic)
        is_known = before is not None and before.kind is SourceKind.GONE
        since_ms = before.since_ms if before is not None and is_known else now_ms
        if not is_known:
            installation.alerts.supersede(topic, {AlertKind.INGEST_FAILED}, None)
            installation.alerts.open_alert(alert_kinds.make_source_gone(topic, since_ms, at_ms=now_ms))
        state = SourceState(topic, SourceKind.GONE, since_ms, heads[topic])
        if state != before:
            changed.append(state)
    if changed:
        installation.store.source_states.record(changed)


def end_gone(installation: Installation, topics: Collection[str], states: Mapping[str, SourceState]) -> None:
    """Record that the brokers have ``topics``, and close the alerts about those that were gone."""
    back = [topic for topic in topics if topic in states and states[topic].kind is not SourceKind.UNFOLLOWED]
    for topic in back:
        if states[topic].kind is SourceKind.GONE:
            installation.alerts.recover(topic, {AlertKind.SOURCE_GONE}, None, "is there again at Kafka")
    if back:
        installation.store.source_states.forget(back)


def forget_unnamed(installation: Installation, named: Collection[str], states: Mapping[str, SourceState]) -> None:
    """Forget topics that are gone at Kafka, and are not ``named`` by what is followed any more."""
    unnamed = [topic for topic, state in states.items() if state.kind is SourceKind.GONE and topic not in named]
    for topic in unnamed:
        installation.alerts.recover(topic, SOURCE_ALERTS, None, NOT_FOLLOWED)
    if unnamed:
        installation.store.source_states.forget(unnamed)


def record_unfollowed(installation: Installation, locations: Mapping[str, str]) -> None:
    """Record that logs do not follow their Kafka topics, and close alerts about those. ``locations``: their heads."""
    for topic in locations:
        installation.alerts.recover(topic, SOURCE_ALERTS, None, NOT_FOLLOWED)
    now_ms = installation.now_ms()
    installation.store.source_states.record(
        [SourceState(topic, SourceKind.UNFOLLOWED, now_ms, location) for topic, location in locations.items()]
    )


def close_failures(installation: Installation, topics: Collection[str]) -> None:
    """Close the alerts about ingests that failed of those ``topics``, each of which has succeeded now.

    Where their brokers had lost records is forgotten.
    """
    if not topics:
        return
    failed = {each.topic for each in installation.store.alerts.list_open({AlertKind.INGEST_FAILED})}
    for topic in failed & set(topics):
        installation.alerts.recover(topic, {AlertKind.INGEST_FAILED}, None, "is ingested from Kafka again")
    diverged = installation.store.divergences.list_topics() & set(topics)
    if diverged:
        installation.store.divergences.forget(diverged)


def set_following(installation: Installation, topic: str, *, follows: bool) -> bool:
    """Have a log follow its Kafka topic if the settings name it, or not; return whether that changed anything.

    It stands in the topic's configuration. Repeating a call repairs the metadata store after a crash before it.

    Raises:
        UnknownTopicError, ForeignTableError, CommitConflictError, CommitUnknownError, ServiceError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    table = installation.log.open(topic)
    head = table.newest_head()
    changes = table.config(head).follow != follows
    if changes:
        head = set_config(table, {FOLLOW: str(follows).lower()}, []).head
        record_action(installation, AuditAction.FOLLOW if follows else AuditAction.UNFOLLOW, topic)
    restore_row(installation, table, head)
    if changes:
        refresh_overview(installation, topic)
    return changes


def restore_row(installation: Installation, table: TopicLog, head: Head) -> None:
    """Record in the metadata store whether a log follows its Kafka topic, as its configuration says."""
    state = installation.store.source_states.find(table.topic)
    if not is_followed(table, head):
        record_unfollowed(installation, {table.topic: str(head.table.metadata_location)})
    elif state is not None and state.kind is SourceKind.UNFOLLOWED:
        installation.store.source_states.forget([table.topic])
