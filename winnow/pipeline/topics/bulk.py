"""One change of many topics: what is done with each of them, if it is still as it was reviewed."""

from __future__ import annotations

from dataclasses import replace

from winnow.errors import UsageError
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions
from winnow.values.bulk_changes import ACTIONS, ALTER, PAUSE, RESUME, BulkChange, compute_fingerprint


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
