"""Says what open transactions hold back of a Kafka topic, in reports and in sentences."""

from __future__ import annotations

from winnow.clock import format_duration, format_ms
from winnow.kafka.cluster import BrokerTopic
from winnow.pipeline.ingest.commit import UncommittedRecords

MAXIMUM_TRANSACTION_MS = 900_000
"""How long brokers let a transaction be open: Kafka's default of ``transaction.max.timeout.ms``. An older one hangs."""


def list_uncommitted(topic: BrokerTopic) -> tuple[UncommittedRecords, ...]:
    """List what open transactions hold back of each partition of ``topic``; partitions without one are left out."""
    return tuple(
        UncommittedRecords(number, part.stable_offset, part.end_offset, part.records_uncommitted, part.open_since_ms)
        for number, part in sorted(topic.partitions.items())
        if part.records_uncommitted
    )


def describe_uncommitted(topic: BrokerTopic) -> list[str]:
    """Say what open transactions hold back of ``topic``, and of one that hangs how it is ended."""
    held = list_uncommitted(topic)
    if not held:
        return []
    oldest = min(held, key=lambda part: (part.open_since_ms is None, part.open_since_ms or 0))
    place = f"{topic.name}-{oldest.partition} from offset {oldest.last_stable_offset} on"
    if len(held) > 1:
        place = f"{len(held):,} partitions, the oldest of them in {place}"
    count = sum(part.records for part in held)
    sentence = f"{count:,} {'record is' if count == 1 else 'records are'} held by an open transaction"
    age_ms = None if oldest.open_since_ms is None else topic.looked_at_ms - oldest.open_since_ms
    if age_ms is not None:
        sentence += f" since {format_ms(topic.looked_at_ms - age_ms)} ({format_duration(age_ms)})"
    sentence += f", in {place}. A later call appends them once it is committed or aborted."
    if age_ms is not None and age_ms > MAXIMUM_TRANSACTION_MS:
        sentence += (
            " It hangs, unless the brokers' transaction.max.timeout.ms allows so much. To end it without its records: "
            f"kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic.name} "
            f"--partition {oldest.partition} --start-offset {oldest.last_stable_offset}"
        )
    return [sentence]
