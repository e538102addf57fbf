"""Broker configuration: its keys, their effect on Winnow, and the table ``[kafka]`` of ``winnow.toml``.

Names, defaults and ranges are those of Kafka's CleanerConfig and KafkaConfig; where Winnow differs, ``effect`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from winnow.config import values
from winnow.config.definitions import BY_NAME, DEFINITIONS, BrokerName, Definition
from winnow.config.layers import Layer
from winnow.config.names import find_nearest
from winnow.config.values import BytesPerSecond, Range, Validator, Value, ValueType
from winnow.errors import ConfigurationError

THREADS = "log.cleaner.threads"

DEDUPE_BUFFER_BYTES = "log.cleaner.dedupe.buffer.size"

BYTES_PER_SECOND = "log.cleaner.io.max.bytes.per.second"

MAXIMUM_DOUBLE = "1.7976931348623157E308"


@dataclass(frozen=True, slots=True)
class BrokerDefinition:
    """One broker key that has no topic key.

    Attributes:
        name: Kafka's name.
        kind: how its value is read.
        default: Kafka's default as text.
        validator: which values are valid; None for all of ``kind``.
        sentence: what it does in Kafka, for people.
        effect: what becomes of it in Winnow, for people.
        unit: ``ms``, ``bytes`` or empty.
    """

    name: str
    kind: ValueType
    default: str
    validator: Validator | None
    sentence: str
    effect: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class _Enabled:
    """Refuses false: the cleaner cannot be switched off, because nothing runs by itself."""

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid; None when it is."""
        if value is True:
            return None
        return (
            "Winnow compacts only when it is asked to; pause the DAG compact_topics (with your prefix) in Airflow, or "
            "partitions with: winnow partitions pause TOPIC"
        )


BROKER_DEFINITIONS: tuple[BrokerDefinition, ...] = (
    BrokerDefinition(
        "log.cleaner.enable",
        ValueType.BOOLEAN,
        "true",
        _Enabled(),
        "Whether the cleaner runs at all; deprecated since Kafka 4.1 (KIP-1148).",
        "true is accepted and changes nothing; false is refused, and the error says what to pause instead.",
    ),
    BrokerDefinition(
        THREADS,
        ValueType.INT,
        "1",
        Range(1),
        "How many partitions are cleaned at once.",
        "Sets engine.tasks, the maximum number of Spark tasks per application. When not set, Spark's "
        "cores decide. 0 is refused, as Kafka 5.0 will.",
    ),
    BrokerDefinition(
        DEDUPE_BUFFER_BYTES,
        ValueType.LONG,
        "134217728",
        None,
        "Memory of all cleaner threads together for their offset maps; more than 1 MiB per thread.",
        "Sets engine.memory_bytes: divided by log.cleaner.threads (1 when not set), it is the memory of one task "
        "before it spills to disk. Kafka's default does not apply, nor does its limit of 2 GiB per thread.",
        "bytes",
    ),
    BrokerDefinition(
        BYTES_PER_SECOND,
        ValueType.DOUBLE,
        MAXIMUM_DOUBLE,
        BytesPerSecond(),
        "How many bytes all cleaner threads together read and write per second, on average.",
        "Sets engine.bytes_per_second: each task of an application gets an equal share. Kafka's default, the largest "
        "double, means no limit.",
    ),
    BrokerDefinition(
        "log.cleaner.io.buffer.load.factor",
        ValueType.DOUBLE,
        "0.9",
        None,
        "How full the offset map may become before a cleaning stops short of the partition's end.",
        "No effect: the engine spills to disk, so one compaction always covers the whole cleanable range.",
    ),
    BrokerDefinition(
        "log.cleaner.io.buffer.size",
        ValueType.INT,
        "524288",
        Range(0),
        "Memory of all cleaner threads together for reading and writing.",
        "No effect: the engine's memory is one budget, engine.memory_bytes.",
        "bytes",
    ),
    BrokerDefinition(
        "log.cleaner.backoff.ms",
        ValueType.LONG,
        "15000",
        Range(0),
        "How long a cleaner thread sleeps when there is nothing to clean.",
        "No effect: the schedule of the DAG compact_topics (with your prefix) says when partitions are checked.",
        "ms",
    ),
    BrokerDefinition(
        "log.retention.check.interval.ms",
        ValueType.LONG,
        "300000",
        Range(1),
        "How often logs are checked for segments that retention removes.",
        "No effect: retention is applied in each run of winnow compact or the DAG compact_topics (with your prefix).",
        "ms",
    ),
)

BROKER_BY_NAME: dict[str, BrokerDefinition] = {definition.name: definition for definition in BROKER_DEFINITIONS}

BROKER_KEYS_WITHOUT_MEANING: frozenset[str] = frozenset(
    {
        "auto.create.topics.enable",
        "broker.id",
        "compression.type",
        "default.replication.factor",
        "log.dir",
        "log.dir.failure.timeout.ms",
        "log.dirs",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.scheduler.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.index.interval.bytes",
        "log.initial.task.delay.ms",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.difference.max.ms",
        "log.preallocate",
        "listeners",
        "min.insync.replicas",
        "node.id",
        "num.io.threads",
        "num.network.threads",
        "num.partitions",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "process.roles",
        "unclean.leader.election.enable",
    }
)
"""Broker keys that usually stand beside the cleaner's in server.properties; Winnow refuses them with a message."""

TABLE = "kafka"

MINIMUM_DEDUPE_BYTES_PER_THREAD = 1024 * 1024
"""Exclusive, as in Kafka."""


@dataclass(frozen=True, slots=True)
class TopicDefault:
    """The installation's default of a topic key: ``text`` in the topic key's unit, ``source`` with its broker name."""

    text: str
    source: str


def merge_broker_values(layers: Iterable[Layer]) -> tuple[dict[str, str], dict[str, str]]:
    """Merge layers into values and origins by broker name; the first layer that sets a name wins."""
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.values.items():
            name = key.removeprefix(f"{TABLE}.")
            if name != key and name not in found:
                found[name], origins[name] = value, layer.origins[key]
    return found, origins


def make_topic_defaults(given: Mapping[str, str], origins: Mapping[str, str]) -> dict[str, TopicDefault]:
    """Make the defaults of topic keys from ``given``; of several names of one key the first in Kafka's order wins.

    Raises:
        ConfigurationError: an unknown name, or a bad value; in Kafka's words, and with the place it came from.
    """
    for name in given:
        if not _is_known(name):
            raise _make_unknown_name_error(name, origins[name])
    for name in given.keys() & BROKER_BY_NAME.keys():
        _parse_broker_value(name, given, origins)
    found: dict[str, TopicDefault] = {}
    for definition in DEFINITIONS:
        for broker in _list_names(definition):
            if broker.name in given:
                text = _convert_topic_text(definition, broker, given[broker.name], origins[broker.name])
                found.setdefault(definition.name, TopicDefault(text, f"{origins[broker.name]}: {broker.name}"))
    return found


def make_engine_layer(given: Mapping[str, str], origins: Mapping[str, str], chosen: Iterable[Layer]) -> Layer:
    """Translate the cleaner's keys in ``given`` into settings.

    A setting that ``chosen`` contains keeps its value, and a notice says so.

    Raises:
        ConfigurationError: the memory is too small for the threads; in Kafka's words.
    """
    found: dict[str, tuple[Any, str]] = {}
    threads = int(_parse_broker_value(THREADS, given, origins)) if THREADS in given else None
    if threads is not None:
        found["engine.tasks"] = (threads, THREADS)
    if DEDUPE_BUFFER_BYTES in given:
        size_bytes = int(_parse_broker_value(DEDUPE_BUFFER_BYTES, given, origins)) // (threads or 1)
        if size_bytes <= MINIMUM_DEDUPE_BYTES_PER_THREAD:
            raise ConfigurationError(
                f"{DEDUPE_BUFFER_BYTES} must be at least 1MB per cleaner thread. "
                f"{_describe_origin(origins[DEDUPE_BUFFER_BYTES])}"
            )
        found["engine.memory_bytes"] = (size_bytes, DEDUPE_BUFFER_BYTES)
    if BYTES_PER_SECOND in given:
        rate = float(_parse_broker_value(BYTES_PER_SECOND, given, origins))
        if rate < float(MAXIMUM_DOUBLE):
            found["engine.bytes_per_second"] = (rate, BYTES_PER_SECOND)
    taken: dict[str, str] = {}
    for layer in chosen:
        taken = layer.origins | taken
    return Layer(
        {key: value for key, (value, _) in found.items()},
        {key: f"{origins[name]}: {name}" for key, (_, name) in found.items()},
        tuple(
            f"{name} ({origins[name]}) has no effect, because {key} ({taken[key]}) sets the same under Winnow's name."
            for key, (_, name) in found.items()
            if key in taken
        ),
    )


def _list_names(definition: Definition) -> tuple[BrokerName, ...]:
    # Winnow's own keys have no broker, so they are their own names.
    own = definition.name.startswith("winnow.")
    return (BrokerName(definition.name),) if own else definition.broker_names


_TOPIC_NAMES = [broker.name for definition in DEFINITIONS for broker in _list_names(definition)]


def _is_known(name: str) -> bool:
    return name in BROKER_BY_NAME or name in _TOPIC_NAMES


def _convert_topic_text(definition: Definition, broker: BrokerName, text: str, origin: str) -> str:
    kind = broker.kind or definition.kind
    validator = broker.validator if broker.kind else definition.validator
    value = _parse(broker.name, text, kind, validator, origin)
    if broker.kind is None or not isinstance(value, int):
        return values.trim_like_java(text)
    # Any negative retention means "no limit", which a topic spells -1; nothing else may be negative.
    number = max(value * broker.factor, -1)
    if broker.requirement and broker.requirement[0].reason(number):
        raise ConfigurationError(f"{broker.requirement[1]}. {_describe_origin(origin, broker.name)}")
    return str(number)


def _parse_broker_value(name: str, given: Mapping[str, str], origins: Mapping[str, str]) -> Any:
    definition = BROKER_BY_NAME[name]
    return _parse(name, given[name], definition.kind, definition.validator, origins[name])


def _parse(
    name: str, text: str, kind: values.ValueType, validator: values.Validator | None, origin: str
) -> values.Value:
    try:
        return values.parse_value(name, text, kind, validator)
    except ConfigurationError as problem:
        raise ConfigurationError(f"{problem}. {_describe_origin(origin)}") from None


def _describe_origin(origin: str, name: str = "") -> str:
    return f"{name or 'It'} comes from {origin}."


def _make_unknown_name_error(name: str, origin: str) -> ConfigurationError:
    if name in BY_NAME:
        brokers = [broker.name for broker in BY_NAME[name].broker_names]
        own = f"the broker's is {' or '.join(brokers)}" if brokers else "a broker has none, so set it on the topic"
        hint = f"That is a topic's name; {own}."
    elif name in BROKER_KEYS_WITHOUT_MEANING:
        hint = "It configures Kafka's brokers and has no meaning for an archive; leave it out."
    else:
        hint = f"The nearest known name is {find_nearest(name, (*_TOPIC_NAMES, *BROKER_BY_NAME))}."
    return ConfigurationError(f"Unknown broker config name: {name}.", next=f"{hint} {_describe_origin(origin)}")
