"""The table of what only a broker has: its cleaner's threads, memory and rate, and what each means to Winnow.

Names, defaults and ranges are those of Kafka's CleanerConfig and KafkaConfig; where Winnow differs, ``effect`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from winnow.config.values import BytesPerSecond, Range, Validator, Value, ValueType

THREADS = "log.cleaner.threads"
DEDUPE_BUFFER_BYTES = "log.cleaner.dedupe.buffer.size"
BYTES_PER_SECOND = "log.cleaner.io.max.bytes.per.second"

MAXIMUM_DOUBLE = "1.7976931348623157E308"


@dataclass(frozen=True, slots=True)
class BrokerDefinition:
    """One key of a broker that no topic has.

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
    """The cleaner cannot be switched off: nothing runs by itself."""

    def reason(self, value: Value) -> str | None:
        """Why ``value`` is not valid; None when it is."""
        if value is True:
            return None
        return (
            "Winnow compacts only when it is asked to; pause the DAG compact_topics in Airflow, or partitions with: "
            "winnow partitions pause TOPIC"
        )


BROKER_DEFINITIONS: tuple[BrokerDefinition, ...] = (
    BrokerDefinition(
        "log.cleaner.enable",
        ValueType.BOOLEAN,
        "true",
        _Enabled(),
        "Whether the cleaner runs at all; deprecated since Kafka 4.1 (KIP-1148).",
        "true is accepted and is what holds anyway; false is refused, with what to pause instead.",
    ),
    BrokerDefinition(
        THREADS,
        ValueType.INT,
        "1",
        Range(1),
        "How many partitions are cleaned at once.",
        "Stands for the setting engine.tasks: at most so many Spark tasks per application. When not set, Spark's "
        "cores decide. 0 is refused, as Kafka 5.0 will.",
    ),
    BrokerDefinition(
        DEDUPE_BUFFER_BYTES,
        ValueType.LONG,
        "134217728",
        None,
        "Memory of all cleaner threads together for their offset maps; more than 1 MiB per thread.",
        "Stands for the setting engine.memory_bytes: divided by log.cleaner.threads (1 when not set) it is what one "
        "task may use before it spills to disk. Kafka's default is not taken over; what lies above 2 GiB per thread "
        "counts, too.",
        "bytes",
    ),
    BrokerDefinition(
        BYTES_PER_SECOND,
        ValueType.DOUBLE,
        MAXIMUM_DOUBLE,
        BytesPerSecond(),
        "How many bytes all cleaner threads together read and write per second, on average.",
        "Stands for the setting engine.bytes_per_second: each task of an application gets an equal share. Kafka's "
        "default, the largest double, is no limit.",
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
        "No effect: the schedule of the DAG compact_topics decides when the next look comes.",
        "ms",
    ),
    BrokerDefinition(
        "log.retention.check.interval.ms",
        ValueType.LONG,
        "300000",
        Range(1),
        "How often logs are checked for segments that retention removes.",
        "No effect: retention is applied in each run of winnow compact or of the DAG compact_topics.",
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
"""Keys that stand beside the cleaner's in a usual server.properties; Winnow refuses them and says so."""
