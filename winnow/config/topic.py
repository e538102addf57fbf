"""Parses and checks the configuration of one topic as Kafka does.

Errors have Kafka's words (ConfigDef, LogConfig.validate); all are ConfigurationError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import cast

from winnow.config import values
from winnow.config.broker import BROKER_BY_NAME, TopicDefault
from winnow.config.definitions import (
    BY_NAME,
    DEFINITIONS,
    KAFKA_KEYS_WITHOUT_MEANING,
    KEY_FORMAT,
    KEY_SCHEMA,
    LATEST_EXPECTATIONS,
    LATEST_FIELDS,
    LATEST_MAX_AGE,
    LATEST_MAX_UNDECODED,
    LATEST_PARTITION_BY,
    LATEST_SORT_BY,
    LATEST_UPDATE,
    MAXIMUM_LONG,
    MAXIMUM_TAGS,
    TOPIC_KEY_OF_BROKER_NAME,
    VALUE_ENVELOPE,
    VALUE_ENVELOPE_FIELDS,
    VALUE_FORMAT,
    VALUE_SCHEMA,
)
from winnow.config.kafka_settings import KafkaRecord, describe_recorded
from winnow.config.names import find_nearest
from winnow.config.values import Value
from winnow.errors import ConfigurationError
from winnow.values.formats import Format
from winnow.values.latest_fields import FieldRules, parse_fields
from winnow.values.latest_layout import TableLayout, parse_layout
from winnow.values.latest_order import parse_order
from winnow.values.row_shape import Envelope, RowShape, UpdateTime
from winnow.values.strategies import Strategy
from winnow.values.typed_columns import SystemColumn

COMPACT, DELETE = "compact", "delete"

_PARTITIONING_COLUMNS = frozenset({SystemColumn.TIMESTAMP})
"""The columns of a typed table's own by which it may be partitioned."""

_WITH_FIELDS = frozenset({Format.JSON, Format.AVRO, Format.PROTOBUF, Format.JSON_SCHEMA})


class KeylessPolicy(StrEnum):
    """How ingest treats a record without a key while the policy includes compact."""

    REJECT = "reject"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One line of ``topics describe``.

    ``source``: ``topic``, ``default``, ``default (Winnow)`` where that differs from Kafka's, or
    ``default (PLACE: NAME)`` where the installation sets it, under the broker's name for it. ``kafka``: where the value
    stands to the one in force at Kafka; None: nothing is known, or there is nothing to say.
    """

    name: str
    value: str
    source: str
    sentence: str
    kafka: str | None = None


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The configuration in force for one topic. Keys, ranges and units: :mod:`winnow.config.definitions`.

    ``segment_bytes`` is the effective size: ``internal.segment.bytes`` where that is set. ``retention_ms`` -1 and a
    negative ``retention_bytes`` mean no limit. ``latest_update_ms``: updates of the table of the latest state besides
    those of ``latest_update``; None: no others. ``latest_max_age_ms`` None: no limit.
    ``overrides``: values that the topic sets, stripped.
    ``defaults``: values that the installation sets for all topics.
    """

    cleanup_policy: frozenset[str]
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    retention_ms: int
    retention_bytes: int
    file_delete_delay_ms: int
    max_message_bytes: int
    message_timestamp_type: str
    compaction_strategy: Strategy
    compaction_strategy_header: str
    remote_storage_enable: bool
    keyless: KeylessPolicy
    retired_grace_ms: int
    late_arrival_ms: int
    retention_protect_latest: bool
    latest_table: bool
    latest_update: UpdateTime
    latest_update_ms: int | None
    latest_max_age_ms: int | None
    latest_max_undecoded_ratio: float
    latest_expectations: str
    row_shape: RowShape
    latest_layout: TableLayout
    follow: bool
    expectations: str
    owner: str
    tags: tuple[str, ...]
    overrides: Mapping[str, str] = field(hash=False)
    defaults: Mapping[str, TopicDefault] = field(hash=False)

    @classmethod
    def parse(
        cls, overrides: Mapping[str, str | None], defaults: Mapping[str, TopicDefault] | None = None
    ) -> TopicConfig:
        """Parse the configuration of a topic that sets ``overrides``; the rest comes from ``defaults`` or the table.

        Raises:
            ConfigurationError: an unknown key, a bad value, or values that contradict one another.
        """
        for name in overrides:
            if not is_topic_key(name):
                raise make_unknown_key_error(name)
        found: dict[str, Value] = {}
        defaults = defaults or {}
        for each in DEFINITIONS:
            default = defaults[each.name].text if each.name in defaults else each.default
            text = overrides.get(each.name, default)
            if text is not None or each.name in overrides:
                found[each.name] = values.parse_value(each.name, text, each.kind, each.validator)
        given = {name: values.trim_like_java(text) for name, text in sorted(overrides.items()) if text is not None}
        config = _make_config(found, given, defaults)
        _check_together(config)
        return config

    @property
    def compacts(self) -> bool:
        """Whether the policy includes compact."""
        return COMPACT in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether the policy includes delete."""
        return DELETE in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age (ms) at which the clock closes a segment: Kafka's LogConfig.maxSegmentMs."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms


def is_topic_key(name: str) -> bool:
    """Check whether ``name`` is a key of topic configuration (Winnow's own included)."""
    return name in BY_NAME


def make_unknown_key_error(name: str) -> ConfigurationError:
    """Make the error for an unknown key: Kafka's sentence, and a second one that says what to write instead."""
    if name in TOPIC_KEY_OF_BROKER_NAME:
        hint = f"That is a broker's name; a topic's is {TOPIC_KEY_OF_BROKER_NAME[name]}."
    elif name in BROKER_BY_NAME:
        hint = "A broker has it for all topics; set it in winnow.toml, in the table [kafka]."
    elif name in KAFKA_KEYS_WITHOUT_MEANING:
        hint = "It configures Kafka's brokers and has no meaning for an archive; leave it out."
    else:
        hint = f"The nearest known name is {find_nearest(name, BY_NAME)}."
    return ConfigurationError(f"Unknown topic config name: {name}.", next=hint)


def list_entries(config: TopicConfig, kafka: KafkaRecord | None = None) -> tuple[ConfigEntry, ...]:
    """List every key with value, origin and description, in the table's order.

    A key without a default appears only where the topic sets it. ``kafka``: what is known of the topic at Kafka.
    """
    found: list[ConfigEntry] = []
    for each in DEFINITIONS:
        if each.name in config.overrides:
            found.append(ConfigEntry(each.name, config.overrides[each.name], "topic", each.sentence))
        elif each.name in config.defaults:
            default = config.defaults[each.name]
            found.append(ConfigEntry(each.name, default.text, f"default ({default.source})", each.sentence))
        elif each.default is not None:
            source = "default" if each.kafka_default is None else "default (Winnow)"
            found.append(ConfigEntry(each.name, each.default, source, each.sentence))
    if kafka:
        found = [replace(each, kafka=describe_recorded(each.name, kafka.get(each.name), each.value)) for each in found]
    return tuple(found)


def _check_together(config: TopicConfig) -> None:
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigurationError(
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
            + _name_source(config, ". ", "min.compaction.lag.ms", "max.compaction.lag.ms")
        )
    if config.remote_storage_enable and config.compacts:
        raise ConfigurationError(
            "Remote log storage is unsupported for the compacted topics"
            + _name_source(config, ". ", "remote.storage.enable", "cleanup.policy")
        )
    if config.compaction_strategy is Strategy.HEADER and not config.compaction_strategy_header:
        raise ConfigurationError(
            "compaction.strategy.header must be specified."
            + _name_source(config, " ", "compaction.strategy", "compaction.strategy.header")
        )
    if config.row_shape.envelope is not Envelope.NONE and config.row_shape.value_format not in _WITH_FIELDS:
        raise ConfigurationError(
            f"{VALUE_ENVELOPE}={config.row_shape.envelope} needs values with fields: {VALUE_FORMAT} must be one of "
            f"{', '.join(sorted(_WITH_FIELDS))}" + _name_source(config, ". ", VALUE_ENVELOPE, VALUE_FORMAT)
        )
    if config.row_shape.envelope is Envelope.NONE and config.row_shape.envelope_fields:
        raise ConfigurationError(
            f"{VALUE_ENVELOPE_FIELDS} needs an envelope: {VALUE_ENVELOPE} must be {Envelope.DEBEZIUM}"
            + _name_source(config, ". ", VALUE_ENVELOPE, VALUE_ENVELOPE_FIELDS)
        )
    _check_layout(config, LATEST_PARTITION_BY, config.latest_layout.list_columns())
    _check_layout(config, LATEST_SORT_BY, [term.column for term in config.latest_layout.order])
    if len(config.tags) > MAXIMUM_TAGS:
        raise ConfigurationError(
            f"winnow.tags has {len(config.tags)} tags; a topic may have at most {MAXIMUM_TAGS}"
            + _name_source(config, ". ", "winnow.tags")
        )


def _check_layout(config: TopicConfig, key: str, columns: Sequence[str]) -> None:
    if columns and not config.row_shape.is_typed:
        raise ConfigurationError(
            f"{key} needs columns: {KEY_FORMAT} or {VALUE_FORMAT} must be another one than bytes"
            + _name_source(config, ". ", key, KEY_FORMAT, VALUE_FORMAT)
        )
    own = next((name for name in columns if name in {*SystemColumn} - _PARTITIONING_COLUMNS), None)
    if own is not None:
        raise ConfigurationError(
            f"{key} names {own}; of the table's own columns it may name {SystemColumn.TIMESTAMP} only"
        )
    hidden = next(
        (name for name in columns if name not in _PARTITIONING_COLUMNS and not config.row_shape.fields.shows(name)),
        None,
    )
    if hidden is not None:
        raise ConfigurationError(
            f"{key} names {hidden}, which {LATEST_FIELDS} does not show"
            + _name_source(config, ". ", key, LATEST_FIELDS)
        )


def _parse_layout(partitions: str, order: str) -> TableLayout:
    try:
        layout = parse_layout(partitions)
    except ValueError as problem:
        raise values.make_invalid_value_error(LATEST_PARTITION_BY, partitions, str(problem)) from problem
    try:
        return replace(layout, order=parse_order(order))
    except ValueError as problem:
        raise values.make_invalid_value_error(LATEST_SORT_BY, order, str(problem)) from problem


def _parse_envelope_fields(entries: tuple[str, ...]) -> tuple[str, ...]:
    paths = tuple(entry.strip() for entry in entries)
    wrong = next((path for path in paths if not all(path.split("."))), None)
    if wrong is not None:
        raise values.make_invalid_value_error(VALUE_ENVELOPE_FIELDS, ",".join(entries), f"{wrong!r} names no field")
    return tuple(dict.fromkeys(paths))


def _parse_fields(entries: tuple[str, ...]) -> FieldRules:
    try:
        return parse_fields(entries)
    except ValueError as problem:
        raise values.make_invalid_value_error(LATEST_FIELDS, ",".join(entries), str(problem)) from problem


def _name_source(config: TopicConfig, joint: str, *names: str) -> str:
    # Only where the installation sets a default; where the topic sets both, their origin is clear.
    if all(name in config.overrides or name not in config.defaults for name in names):
        return ""
    sources = {entry.name: entry.source for entry in list_entries(config)}
    return joint + "; ".join(f"{name} comes from: {sources[name]}" for name in names) + "."


def _make_config(
    found: Mapping[str, Value], overrides: Mapping[str, str], defaults: Mapping[str, TopicDefault]
) -> TopicConfig:
    def number(name: str) -> int:
        return cast(int, found[name])

    seconds = values.parse_seconds(str(found[LATEST_UPDATE]))
    return TopicConfig(
        cleanup_policy=frozenset(cast(tuple[str, ...], found["cleanup.policy"])),
        min_cleanable_dirty_ratio=cast(float, found["min.cleanable.dirty.ratio"]),
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        delete_retention_ms=number("delete.retention.ms"),
        segment_bytes=number("internal.segment.bytes" if "internal.segment.bytes" in found else "segment.bytes"),
        segment_ms=number("segment.ms"),
        segment_jitter_ms=number("segment.jitter.ms"),
        segment_index_bytes=number("segment.index.bytes"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        max_message_bytes=number("max.message.bytes"),
        message_timestamp_type=str(found["message.timestamp.type"]),
        compaction_strategy=Strategy(str(found["compaction.strategy"])),
        compaction_strategy_header=str(found["compaction.strategy.header"]),
        remote_storage_enable=cast(bool, found["remote.storage.enable"]),
        keyless=KeylessPolicy(str(found["winnow.keyless"])),
        retired_grace_ms=number("winnow.retired.grace.ms"),
        late_arrival_ms=number("winnow.late.arrival.ms"),
        retention_protect_latest=cast(bool, found["winnow.retention.protect.latest"]),
        latest_table=cast(bool, found["winnow.latest.table"]),
        latest_update=UpdateTime.PUBLISH if seconds is not None else UpdateTime(str(found[LATEST_UPDATE])),
        latest_update_ms=None if seconds is None else seconds * 1_000,
        latest_max_age_ms=None if number(LATEST_MAX_AGE) == MAXIMUM_LONG else number(LATEST_MAX_AGE),
        latest_max_undecoded_ratio=cast(float, found[LATEST_MAX_UNDECODED]),
        latest_expectations=str(found[LATEST_EXPECTATIONS]),
        row_shape=RowShape(
            key_format=Format(str(found[KEY_FORMAT])),
            value_format=Format(str(found[VALUE_FORMAT])),
            key_schema=str(found[KEY_SCHEMA]),
            value_schema=str(found[VALUE_SCHEMA]),
            envelope=Envelope(str(found[VALUE_ENVELOPE])),
            envelope_fields=_parse_envelope_fields(cast(tuple[str, ...], found[VALUE_ENVELOPE_FIELDS])),
            fields=_parse_fields(cast(tuple[str, ...], found[LATEST_FIELDS])),
        ),
        latest_layout=_parse_layout(str(found[LATEST_PARTITION_BY]), str(found[LATEST_SORT_BY])),
        follow=cast(bool, found["winnow.follow"]),
        expectations=str(found["winnow.expectations"]),
        owner=str(found["winnow.owner"]),
        tags=tuple(sorted(set(cast(tuple[str, ...], found["winnow.tags"])))),
        overrides=dict(overrides),
        defaults=dict(defaults),
    )
