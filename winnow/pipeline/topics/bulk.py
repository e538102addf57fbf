"""One change of many topics: what is done with each of them, if it is still as it was reviewed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from winnow.errors import UsageError
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions
from winnow.values.bulk_changes import ACTIONS, ALTER, PAUSE, RESUME, BulkChange, compute_fingerprint
from winnow.values.config_changes import KeyChanges


def list_reviewed_values(
    installation: Installation, topics: Mapping[str, str], change: BulkChange
) -> dict[str, KeyChanges]:
    """List what ``change`` changes of each of ``topics`` that is as it was reviewed, from the metadata store alone.

    Args:
        installation: whose metadata store says what each topic sets.
        topics: by name the fingerprint of the topic as it was reviewed. A topic with another one is left out, as
            :func:`change_reviewed_topic` refuses it.
        change: of the configuration; of a pause there is nothing to list.
    """
    found: dict[str, KeyChanges] = {}
    for seen in installation.store.overview.stream_topics(installation.now_ms()) if change.action == ALTER else ():
        overview = seen.overview
        entries = json.loads(overview.configuration)
        before = {entry["name"]: entry["value"] for entry in entries if not entry["is_default"]}
        if topics.get(overview.topic) == compute_fingerprint(overview.location, before):
            after = change.apply(before)
            keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
            found[overview.topic] = {key: (before.get(key), after.get(key)) for key in keys}
    return found


def change_reviewed_topic(installation: Installation, topic: str, fingerprint: str, change: BulkChange) -> bool:
    """Change ``topic`` in one commit; return whether it was not as wanted already.

    The audit log has the change of all topics as one entry, which the caller writes. A pause has the reason of
    ``installation`` as its name.

    Raises:
        UsageError: the topic is not as it was reviewed, or there is no such action. Nothing of it was changed.
        UnknownTopicError: no such topic.
        ConfigurationError, ForeignConfigurationError: as :func:`winnow.pipeline.topics.definition.alter_topic`.
        CommitConflictError, CommitUnknownError, ServiceError: see
            :func:`winnow.pipeline.topics.state_change.change_states`.
    """
    if change.action not in ACTIONS:
        raise UsageError(
            f"There is no action {change.action}.", left="Nothing was changed.", next=f"Choose {', '.join(ACTIONS)}."
        )
    head = installation.log.open(topic).newest_head()
    overrides = read_overrides(head.table.properties)
    after = change.apply(overrides) if change.action == ALTER else overrides
    if change.action == ALTER and after == overrides:
        return False  # also when a task that was stopped after this commit is tried again
    if compute_fingerprint(head.location, overrides) != fingerprint:
        raise UsageError(
            f"{topic} was changed since you looked.",
            left="Nothing of it was changed.",
            next="Review the change again.",
        )
    part = replace(installation, is_recorded_by_caller=True)
    if change.action == PAUSE:
        return any(row.changed for row in pause_partitions(part, topic, by=installation.reason))
    if change.action == RESUME:
        return any(row.changed for row in resume_partitions(part, topic, by=installation.reason))
    config = {key: text for key, text in after.items() if overrides.get(key) != text}
    alter_topic(part, topic, config, [key for key in overrides if key not in after])
    return True
