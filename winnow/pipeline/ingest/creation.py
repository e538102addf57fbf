"""Creates the topic of an ingest call, with the partitions that the input has."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.errors import BadInputError
from winnow.pipeline.context import Context
from winnow.sources.archive import count_partitions, open_archive, select_objects
from winnow.sources.choices import Choices
from winnow.sources.input_errors import NOTHING_INGESTED


def create_missing_topic(
    ctx: Context,
    topic: str,
    paths: Sequence[str],
    *,
    layout: str,
    choices: Choices,
    source_topic: str | None = None,
    partitions: int | None = None,
) -> int | None:
    """Create ``topic`` unless it is there; return its number of partitions, None if it was there.

    ``partitions``: None: as many as the input has, from names, else from the records, all of which are read.

    Raises:
        BadInputError: the input cannot be read, or neither names nor records tell a partition.
        ConfigurationError: this cannot be the name of a topic.
    """
    if topic in ctx.log.names():
        return None
    if partitions is None:
        archive = open_archive(paths, layout, choices.exclude)
        partitions = count_partitions(archive, select_objects(archive, topic, source_topic))
        if partitions is None:
            raise BadInputError(
                f"How many partitions topic {topic} has is not in the input: neither names nor records tell one. "
                f"{NOTHING_INGESTED} Say it with --partitions N; records without an offset then go where Kafka's "
                "default partitioner puts their keys."
            )
    ctx.log.create(topic, partitions, {})
    return partitions
