"""Step of the DAG change_partitions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from winnow.errors import UsageError
from winnow_airflow.xcom_values import ChangeRow

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.pipeline.topics.partitions import PartitionRow

log = logging.getLogger("airflow.task")

MAXIMUM_NAMED_PARTITIONS = 20
"""Maximum partitions that a sentence names; above it gives their number."""


def change_partitions(installation: Installation, row: ChangeRow) -> str:
    """Pause, resume or release partitions of a topic; return a sentence about what changed. Idempotent.

    Raises:
        UsageError: no such partition or action, or a pause without a name.
        UnknownTopicError: no such topic.
        CommitConflictError, CommitUnknownError, ServiceError: see
            :func:`winnow.pipeline.topics.state_change.change_states`.
    """
    from winnow.pipeline.topics import partitions as step

    topic, chosen, reason = row["topic"], row["partitions"], row["reason"]
    if row["action"] == "pause":
        text = _describe_pause(topic, step.pause_partitions(installation, topic, chosen, by=reason), reason)
    elif row["action"] == "resume":
        text = _describe_resume(topic, step.resume_partitions(installation, topic, chosen, by=reason), reason)
    elif row["action"] == "release":
        text = _describe_release(topic, step.release_partitions(installation, topic, chosen, why=reason))
    else:
        raise UsageError(
            f"There is no action {row['action']}.",
            left="Nothing was changed.",
            next="Choose pause, resume or release.",
        )
    log.info("%s", text)
    return text


def _describe_pause(topic: str, rows: Sequence[PartitionRow], name: str) -> str:
    changed = [row.partition for row in rows if row.changed]
    if not changed:
        paused = _name_partitions(topic, [row.partition for row in rows])
        return f"Nothing was changed: {paused} was paused by {name} already."
    return (
        f"Paused by {name}: {_name_partitions(topic, changed)}. No run compacts it until it is resumed under the same "
        "name; a run that is at work on it publishes nothing of its topic. Readers and ingest continue."
    )


def _describe_resume(topic: str, rows: Sequence[PartitionRow], name: str) -> str:
    changed = [row.partition for row in rows if row.changed]
    others = sorted({by for row in rows for by in row.paused_by})
    still = [row.partition for row in rows if row.paused_by]
    rest = f" Still paused by {', '.join(others)}: {_name_partitions(topic, still)}." if still else ""
    if not changed:
        unpaused = _name_partitions(topic, [row.partition for row in rows])
        return f"Nothing was changed: {unpaused} had no pause named {name}.{rest}"
    going = [number for number in changed if number not in still]
    next_run = " The next run takes what is due." if going else ""
    return f"Resumed by {name}: {_name_partitions(topic, changed)}.{rest}{next_run}"


def _describe_release(topic: str, released: Sequence[int]) -> str:
    if not released:
        return f"Nothing was changed: no partition of {topic} that was asked for is marked uncleanable."
    named = _name_partitions(topic, released)
    return f"Released: {named}. The next run tries it again; should it fail, you are alerted again."


def _name_partitions(topic: str, partitions: Sequence[int]) -> str:
    if len(partitions) > MAXIMUM_NAMED_PARTITIONS:
        return f"{len(partitions):,} partitions of {topic}"
    return ", ".join(f"{topic}-{number}" for number in sorted(partitions))
