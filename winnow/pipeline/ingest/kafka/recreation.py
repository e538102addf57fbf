"""Decides how a log goes on whose topic was deleted and created again in Kafka, by the policy of the settings.

The policy answers what a person would with ``--new-epoch``; every check of that applies to it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from winnow.clock import format_ms
from winnow.errors import BadInputError, join_first
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.pipeline.ingest.kafka.reading import KafkaReading, ReadingRules, is_another_topic
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.store.audit import AuditAction
from winnow.values.model import Segment
from winnow.values.topic_state import TopicState

MAXIMUM_NAMED = 5


def choose_rules(state: TopicState, topic: BrokerTopic, rules: ReadingRules, *, goes_on: bool) -> ReadingRules:
    """Choose the rules of a call: with ``goes_on``, a topic that was created again begins an epoch by itself.

    Not while it is empty: then there is nothing to compare with the log, and a mirror or a restore that fills it later
    would make old values the newest.

    Raises:
        EmptyTopicError: the epoch begins when the topic has records.
    """
    if not goes_on or rules.begins_epoch or not is_another_topic(state, topic):
        return rules
    if _is_empty(topic):
        raise EmptyTopicError(topic.name)
    return replace(rules, begins_epoch=True)


class EmptyTopicError(Exception):
    """A topic that was created again has no records yet, so nothing is decided."""


def require_records(state: TopicState, topic: BrokerTopic, *, accepts_overlap: bool) -> None:
    """Refuse an epoch of a topic without records where the log has some: whatever comes first would be newer than they.

    Raises:
        BadInputError: nobody accepted that.
    """
    if accepts_overlap or not _is_empty(topic) or not any(part.log_end_offset for part in state.partitions.values()):
        return
    raise BadInputError(
        f"Topic {topic.name} has no records yet, so nothing can be compared with {state.topic}: a mirror or a restore "
        "that fills it later may make old values the newest.",
        left=NOTHING_INGESTED,
        next=(
            f"Run it again when it has records, or, if whatever comes is new: winnow ingest kafka {state.topic} "
            "--new-epoch --accept-overlap"
        ),
    )


def _is_empty(topic: BrokerTopic) -> bool:
    return all(part.start_offset == part.stable_offset for part in topic.partitions.values())


def require_newer_than_left(
    state: TopicState,
    reading: KafkaReading,
    segments: Mapping[int, Sequence[Segment]],
    cluster: Cluster,
    *,
    accepts_overlap: bool,
) -> None:
    """Refuse an epoch of fewer partitions all of whose records are older than those of partitions that it lacks.

    Records of those partitions have no partition at the brokers to be compared with, and may be in any.

    Raises:
        BadInputError: it is a mirror that lags, or old records that were restored, and nobody accepted that.
        ServiceError: the cluster cannot be reached.
    """
    left = list_left_partitions(state, reading.topic)
    times = [each.max_timestamp_ms for number in left for each in segments.get(number, ()) if each.max_timestamp_ms]
    if not times or accepts_overlap:
        return
    name = reading.topic.name
    if cluster.find_offsets_at(name, dict.fromkeys(reading.topic.partitions, max(times))):
        return
    raise BadInputError(
        f"Topic {name} has {len(reading.topic.partitions)} partitions in Kafka and {state.topic} has "
        f"{len(state.partitions)}; every record there is older than the newest of {state.topic}-{left[0]} and the "
        f"others that it lacks ({format_ms(max(times))}): a new epoch may make old values the newest.",
        left=NOTHING_INGESTED,
        next=(
            f"If it is a mirror that lags, wait until it has caught up. If not: winnow ingest kafka {state.topic} "
            "--new-epoch --accept-overlap"
        ),
    )


def begins_further_epoch(state: TopicState, reading: KafkaReading) -> bool:
    """Check whether a call begins an epoch of another topic than the one that brokers were asked about before."""
    return reading.begins_next_epoch and bool(state.epochs)


def describe_new_life(
    state: TopicState, reading: KafkaReading, segments: dict[int, tuple[Segment, ...]], *, by_policy: bool
) -> list[str]:
    """Say that an epoch begins, and what of the log the topic at the brokers does not have any more."""
    notices = []
    if by_policy:
        notices.append(
            f"Topic {reading.topic.name} was deleted and created again in Kafka: its topic id is "
            f"{reading.topic.topic_id}, and was {state.epochs[-1].topic_id}. By source.recreated=new_epoch the log "
            f"goes on with it where it ended, as epoch {reading.number}; offsets to read: {reading.offsets:,}."
        )
    left = list_left_partitions(state, reading.topic)
    if left:
        records = sum(segment.records for number in left for segment in segments.get(number, ()))
        names = join_first([f"{state.topic}-{number}" for number in left], MAXIMUM_NAMED, ", ")
        notices.append(
            f"Topic {reading.topic.name} has {len(reading.topic.partitions)} partitions in Kafka now, and "
            f"{state.topic} has {len(state.partitions)}: {names} keep their {records:,} records, and nothing new comes "
            "to them. A key that moved is in two partitions since: a tombstone in one does not reach the records in "
            "the other."
        )
    return notices


def list_left_partitions(state: TopicState, topic: BrokerTopic) -> list[int]:
    """List the partitions of the log that have records, and which the topic at the brokers does not have."""
    return sorted(
        number for number, part in state.partitions.items() if part.log_end_offset and number not in topic.partitions
    )


def record_new_epoch(installation: Installation, state: TopicState, reading: KafkaReading, done: IngestReport) -> None:
    """Record in the audit log that a committed call began an epoch of a log that had one; ``state``: before it."""
    left = list_left_partitions(state, reading.topic)
    detail = (
        f"epoch {reading.number}, topic id {reading.topic.topic_id}, before: {state.epochs[-1].topic_id}; records "
        f"appended: {done.records_appended:,}"
    )
    if reading.mirror_of is not None:
        detail += f"; a mirror of {reading.mirror_of}"
    if left:
        detail += f"; partitions that Kafka has no more: {_list_numbers(left)}"
    record_action(installation, AuditAction.NEW_EPOCH, done.topic, detail=detail)


def _list_numbers(numbers: Sequence[int]) -> str:
    return join_first([str(number) for number in numbers], MAXIMUM_NAMED, ", ")
