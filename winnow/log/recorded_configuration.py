"""Compares the committed topic configuration with the table's properties.

Iceberg lets any tool set a table's properties without a snapshot, and a metadata file has no checksum of its own in
most catalogs. The effects of a topic's configuration cannot be undone (retention deletes), so it counts only as it
was committed through Winnow: the carried state has a copy. Other properties may be set by any tool.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from winnow.config.kafka_settings import KafkaRecord, RecordedSetting, forget_taken, format_record, parse_record
from winnow.config.topic import is_topic_key
from winnow.errors import ForeignConfigurationError, join_first

PARTITIONS_PROPERTY = "winnow.partitions"
INITIAL_PROPERTY = "winnow.initial-configuration"
"""The configuration that a topic was created with, as JSON: valid until the first commit makes a state."""
KAFKA_PROPERTY = "winnow.kafka-configuration"
"""What was last known of the topic's configuration at Kafka, and which overrides were taken from there, as JSON."""
MAXIMUM_KEYS_NAMED = 8


@dataclass(frozen=True, slots=True)
class ConfigurationDifference:
    """One key on which the table's properties and the committed configuration differ; None: not set."""

    key: str
    committed: str | None
    present: str | None

    def __str__(self) -> str:
        return f"{self.key} is {_format_difference(self.present)} (committed: {_format_difference(self.committed)})"


def read_configuration(properties: Mapping[str, str]) -> dict[str, str]:
    """Read the configuration from a table's properties: topic keys, number of partitions, what is known of Kafka's."""
    return {
        key: text
        for key, text in sorted(properties.items())
        if key in {PARTITIONS_PROPERTY, KAFKA_PROPERTY} or is_topic_key(key)
    }


def read_kafka_record(properties: Mapping[str, str]) -> dict[str, RecordedSetting]:
    """Read what was last known of the topic's configuration at Kafka; empty if it was never asked."""
    return parse_record(properties.get(KAFKA_PROPERTY))


def make_kafka_property(record: KafkaRecord) -> dict[str, str]:
    """Make the table property that keeps ``record``."""
    return {KAFKA_PROPERTY: format_record(record)}


def make_property_of_person(properties: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """Make the table property after a person set or reset ``keys`` here; none if it stays as it is."""
    record = read_kafka_record(properties)
    after = forget_taken(record, keys)
    return {} if after == record else make_kafka_property(after)


def read_overrides(properties: Mapping[str, str]) -> dict[str, str]:
    """Read the known topic keys from a table's properties or a recorded configuration."""
    return {key: text for key, text in properties.items() if is_topic_key(key)}


def make_initial_property(configuration: Mapping[str, str]) -> dict[str, str]:
    """Make the table property that records what a topic is created with."""
    return {INITIAL_PROPERTY: json.dumps(read_configuration(configuration), sort_keys=True)}


def read_initial_configuration(properties: Mapping[str, str]) -> dict[str, str] | None:
    """Read the property of :func:`make_initial_property`; None: not set. An unreadable one equals no other."""
    text = properties.get(INITIAL_PROPERTY)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def list_differences(
    recorded: Mapping[str, str] | None, properties: Mapping[str, str]
) -> tuple[ConfigurationDifference, ...]:
    """List where the table's ``properties`` differ from what was ``recorded`` (None: nothing was)."""
    if recorded is None:
        return ()
    present = read_configuration(properties)
    return tuple(
        ConfigurationDifference(key, recorded.get(key), present.get(key))
        for key in sorted({*recorded, *present})
        if recorded.get(key) != present.get(key)
    )


def describe_differences(topic: str, found: tuple[ConfigurationDifference, ...], metadata_location: str) -> str:
    """Describe the differences: the keys and the command that accepts them."""
    changes = join_first([str(each) for each in found], MAXIMUM_KEYS_NAMED)
    return (
        f"The configuration of topic {topic} is not the one that Winnow committed: {changes}. Another tool changed the "
        f"table's properties, the table was rolled back past a change, or {metadata_location} is damaged. Nothing was "
        "changed, and until this is resolved Winnow does not work on the topic. To accept it: winnow topics alter "
        f"{topic} --accept-config (add --config KEY=VALUE or --delete-config KEY to correct a key)."
    )


def check_recorded(
    topic: str, recorded: Mapping[str, str] | None, properties: Mapping[str, str], metadata_location: str
) -> None:
    """Check that the table's properties equal the recorded configuration.

    Raises:
        ForeignConfigurationError: they differ; names the keys and the command that accepts them.
    """
    found = list_differences(recorded, properties)
    if found:
        raise ForeignConfigurationError(describe_differences(topic, found, metadata_location))


def _format_difference(text: str | None) -> str:
    return "not set" if text is None else repr(text)
