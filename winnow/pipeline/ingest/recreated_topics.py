"""Decides how a log goes on whose topic was deleted and created again in Kafka, by the policy of the settings.

The policy answers what a person would with ``--new-epoch``; every check of that applies to it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.errors import join_first
from winnow.kafka.cluster import BrokerTopic
from winnow.model import Segment, TopicState
from winnow.pipeline.audit import record_action
from winnow.pipeline.context import Context
from winnow.pipeline.ingest.commit import IngestReport
from winnow.pipeline.ingest.kafka_reading import KafkaReading, ReadingRules, is_another_topic
from winnow.store.audit import AuditAction

MAXIMUM_NAMED = 5


def choose_rules(state: TopicState, topic: BrokerTopic, rules: ReadingRules, *, goes_on: bool) -> ReadingRules:
    """Choose the rules of a call: with ``goes_on``, a topic that was created again begins an epoch by itself."""
    if not goes_on or rules.begins_epoch or not is_another_topic(state, topic):
        return rules
    return replace(rules, begins_epoch=True)


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


def record_new_epoch(ctx: Context, state: TopicState, reading: KafkaReading, done: IngestReport) -> None:
    """Record in the audit log that a committed call began an epoch of a log that had one; ``state``: before it."""
    left = list_left_partitions(state, reading.topic)
    detail = (
        f"epoch {reading.number}, topic id {reading.topic.topic_id}, before: {state.epochs[-1].topic_id}; records "
        f"appended: {done.records_appended:,}"
    )
    if left:
        detail += f"; partitions that Kafka has no more: {_list_numbers(left)}"
    record_action(ctx, AuditAction.NEW_EPOCH, done.topic, detail=detail)


def _list_numbers(numbers: Sequence[int]) -> str:
    return join_first([str(number) for number in numbers], MAXIMUM_NAMED, ", ")
