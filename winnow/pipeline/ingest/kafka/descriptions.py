"""Says where records from Kafka came from, in ledger and notices, and what open transactions hold back."""

from __future__ import annotations

from winnow.arrivals.broker_range import BROKERS_CHOICE
from winnow.clock import format_duration, format_ms
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.cluster import BrokerTopic
from winnow.pipeline.ingest.kafka.reading import KafkaReading
from winnow.pipeline.ingest.kafka.taking import Taking, summarize_removed
from winnow.pipeline.ingest.open import TOPIC_ID
from winnow.pipeline.ingest.request import UncommittedRecords

GAP_CHOICE = "accepted-gap"
OVERLAP_CHOICE = "skipped-overlap"
MIRROR_CHOICE = "mirror-of"
DIVERGENCE_CHOICE = "kept-after-divergence"
TAKEN_CHOICE = "taken-after-divergence"


def describe_source(reading: KafkaReading, settings: ClientSettings, taking: Taking | None = None) -> dict[str, str]:
    """Return what the ledger says of where the records came from, of offsets that were lost, and of what was removed.

    ``taking``: what leaves the log for what is read.
    """
    found = {BROKERS_CHOICE: settings.bootstrap_servers}
    if reading.topic.topic_id is not None:
        found[TOPIC_ID] = reading.topic.topic_id
    if reading.mirror_of is not None:
        found[MIRROR_CHOICE] = reading.mirror_of
    for partition, gap in sorted(reading.gaps.items()):
        found[f"{GAP_CHOICE}.{partition}"] = f"{gap.start}-{gap.end - 1}"
    for partition, skipped in sorted(reading.skipped.items()):
        found[f"{OVERLAP_CHOICE}.{partition}"] = f"{skipped.start}-{skipped.end - 1}"
    for each in reading.divergences:
        found[f"{DIVERGENCE_CHOICE}.{each.partition}"] = f"{each.offset}-{each.end - 1}"
    if taking is not None:
        found |= {f"{TAKEN_CHOICE}.{partition}": text for partition, text in summarize_removed(taking).items()}
    return found


def describe_reading(reading: KafkaReading) -> list[str]:
    """Say what a user should know about how far a topic was read."""
    found = []
    for partition, gap in sorted(reading.gaps.items()):
        found.append(
            f"{reading.topic.name}-{partition}: offsets {gap.start} to {gap.end - 1} were deleted at the brokers "
            "before they were read; the gap is recorded."
        )
    found += [
        f"{reading.topic.name}-{each.partition}: the brokers lost what was read from offset {each.offset} to "
        f"{each.end - 1}. Up to {each.records:,} such records stay in the log, and Kafka's from offset {each.offset} "
        "on come after them: readers see both, and a compaction keeps Kafka's of a key that both have."
        for each in reading.divergences
    ]
    late = {
        number: part.start_offset
        for number, part in sorted(reading.topic.partitions.items())
        if part.start_offset and reading.is_new
    }
    if late:
        shown = ", ".join(f"{reading.topic.name}-{number} {offset}" for number, offset in list(late.items())[:5])
        found.append(f"The brokers' logs do not begin at offset 0; older records are not there: {shown}.")
    if reading.number > 1:
        found.append(f"These records are of epoch {reading.number} (topic id {reading.topic.topic_id}).")
    if not reading.is_due:
        found.append(
            f"Nothing new{' that is committed' if reading.topic.is_held else ''} in Kafka's {reading.topic.name}."
        )
    found += describe_uncommitted(reading.topic)
    return found


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
