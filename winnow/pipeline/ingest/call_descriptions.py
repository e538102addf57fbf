"""Says where the records of a call from Kafka came from: in its ledger, and in its notices."""

from __future__ import annotations

from winnow.kafka.client_settings import ClientSettings
from winnow.pipeline.ingest.kafka_open_transactions import describe_uncommitted
from winnow.pipeline.ingest.kafka_reading import KafkaReading
from winnow.pipeline.ingest.kafka_taking import Taking, summarize_removed
from winnow.pipeline.ingest.kafka_task import BROKERS_CHOICE
from winnow.pipeline.ingest.open_input import TOPIC_ID

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
