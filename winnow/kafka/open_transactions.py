"""Reads since when transactions are open in topic partitions.

A partition's last stable offset is below its high watermark only if a transaction is open there. Its first record is
then the one at the last stable offset, and that record's timestamp says how old the transaction is. So one record of
each such partition is read, and none of the others.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.kafka.client import make_consumer
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.cluster import BrokerTopic

if TYPE_CHECKING:
    from confluent_kafka import Message

MAXIMUM_READING_S = 5.0
"""How long all first records together are waited for; of those that did not come by then no age is known."""
FETCH_BYTES = 64 << 10
"""What is fetched of a partition for one record; a larger batch of a producer's comes whole."""

Partition = tuple[str, int]


def date_open_transactions(settings: ClientSettings, topics: Mapping[str, BrokerTopic]) -> dict[str, BrokerTopic]:
    """Return ``topics`` with the timestamp of the first uncommitted record of each partition that has one.

    Asks the brokers only if there is one. Brokers that do not answer in time cost the timestamps, and raise nothing.

    Raises:
        ConfigurationError: the client library is missing, or refuses a property.
    """
    places = {
        (topic.name, number): part.stable_offset
        for topic in topics.values()
        for number, part in topic.partitions.items()
        if part.records_uncommitted
    }
    times = _read_times(settings, places)
    return {name: _add_times(topic, times) for name, topic in topics.items()}


def _add_times(topic: BrokerTopic, times: Mapping[Partition, int | None]) -> BrokerTopic:
    dated = {
        number: replace(part, open_since_ms=times[topic.name, number])
        for number, part in topic.partitions.items()
        if (topic.name, number) in times
    }
    return replace(topic, partitions={**topic.partitions, **dated}) if dated else topic


def _read_times(settings: ClientSettings, places: Mapping[Partition, int]) -> dict[Partition, int | None]:
    """Read the timestamp of the record at one offset of each partition, committed or not."""
    if not places:
        return {}
    from confluent_kafka import KafkaException, TopicPartition

    times: dict[Partition, int | None] = {}
    consumer = make_consumer(
        settings,
        isolation_level="read_uncommitted",
        queued_min_messages=1,
        # The library's second is how long a partition would wait whose batch did not fit beside the others'.
        fetch_queue_backoff_ms=5,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    # An age is worth no failure of the call that asks for it.
    with contextlib.closing(consumer), contextlib.suppress(KafkaException):
        consumer.assign([TopicPartition(topic, number, offset) for (topic, number), offset in places.items()])
        end_s = time.monotonic() + MAXIMUM_READING_S
        while len(times) < len(places) and time.monotonic() < end_s:
            new: dict[Partition, int | None] = {}
            for event in consumer.consume(max(2 * len(places), 100), 0.1):
                partition = _find_answered(event)
                if partition is not None and partition in places and partition not in times | new:
                    new[partition] = _get_time(event, places[partition])
            times |= new
            # What the library holds of these is not read: the first records of others come behind it.
            consumer.pause([TopicPartition(*partition) for partition in new])
    return times


def _find_answered(event: Message) -> Partition | None:
    """Return the partition that ``event`` says the last word about: a record, or that there is none."""
    error, topic, number = event.error(), event.topic(), event.partition()
    if topic is None or number is None or (error is not None and error.retriable()):
        return None
    return topic, number


def _get_time(event: Message, offset: int) -> int | None:
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    if event.error() is not None or event.offset() != offset:
        return None
    kind, ms = event.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or ms < 0 else ms
