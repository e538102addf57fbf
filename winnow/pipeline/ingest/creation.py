"""Creates the topic of an ingest call, with the partitions that the input has.

Whoever refuses the input afterwards removes the topic again: a call notes what it created, by the table's uuid.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from winnow.config.kafka_settings import KafkaRecord
from winnow.errors import BadInputError
from winnow.pipeline.context import Context
from winnow.pipeline.topics.audit import record_creation
from winnow.sources.archive import Archive, count_partitions, open_archive, select_objects
from winnow.sources.choices import Choices
from winnow.sources.input_errors import NOTHING_INGESTED

CreatedTopics = MutableMapping[str, str]
"""The uuid of the table of each topic that a call created."""


def create_topic(
    ctx: Context,
    topic: str,
    partitions: int,
    created: CreatedTopics,
    overrides: Mapping[str, str] | None = None,
    *,
    kafka: KafkaRecord | None = None,
) -> None:
    """Create ``topic`` and note it in ``created``; ``kafka``: what is known of its configuration at Kafka.

    Raises:
        ConfigurationError: this cannot be the name of a topic, or it exists.
    """
    overrides = overrides or {}
    created[topic] = ctx.log.create(topic, partitions, overrides, kafka=kafka).head().table_uuid
    record_creation(ctx, topic, partitions, overrides)


def describe_default_policy(ctx: Context, topic: str, records: int) -> list[str]:
    """Say what runs remove of a topic that a call created without saying its policy; nothing if they remove nothing.

    ``records``: how many the call appended.
    """
    if not records or not ctx.log.open(topic).config().compacts:
        return []
    text = (
        f"Topic {topic} is compacted by default: of {records:,} records a run keeps the newest of each key. What the "
        f"first one may remove: winnow explain {topic} --include-active-segment. To keep all: winnow topics alter "
        f"{topic} --config cleanup.policy=delete"
    )
    return [text]


def create_missing_topic(
    ctx: Context,
    topic: str,
    paths: Sequence[str],
    created: CreatedTopics,
    *,
    layout: str,
    choices: Choices,
    source_topic: str | None = None,
    partitions: int | None = None,
    archive: Archive | None = None,
) -> int | None:
    """Create ``topic`` unless it is there; return its number of partitions, None if it was there.

    ``created``: it is noted here. ``partitions``: None: as many as the input has, from names, else from the records,
    all of which are read. ``archive``: what ``paths`` hold, if they were listed before.

    Raises:
        BadInputError: the input cannot be read, or neither names nor records tell a partition.
        ConfigurationError: this cannot be the name of a topic.
    """
    if topic in ctx.log.names():
        return None
    archive = archive or open_archive(
        paths, layout, choices.exclude, fields=choices.fields, partition=choices.partition
    )
    if partitions is None:
        partitions = count_partitions(archive, select_objects(archive, topic, source_topic))
        if partitions is None:
            raise BadInputError(
                f"How many partitions topic {topic} has is not in the input: neither names nor records tell one.",
                left=NOTHING_INGESTED,
                next=(
                    "Say it with --partitions N; records without an offset then go where Kafka's default partitioner "
                    "puts their keys."
                ),
            )
    create_topic(ctx, topic, partitions, created)
    return partitions
