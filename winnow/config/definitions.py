"""The table of topic configuration: every key, its defaults, type, valid values, unit and meaning in one place.

Names, defaults and ranges are those of Kafka's LogConfig and of KIP-280 (``compaction.strategy``). Winnow differs in
two defaults, because an archive may be the only copy (``kafka_default`` is set where it differs), and in two ranges:
``segment.bytes`` has the old minimum of 14 bytes (1,048,576 since Kafka 4.0), and a dirty ratio of NaN is refused.
Winnow's own keys begin with ``winnow.``.
"""

from __future__ import annotations

from dataclasses import dataclass

from winnow.config.values import OneOf, Range, ShortText, SuiteName, Tag, Unlimited, Validator, ValueType, WordOrSeconds
from winnow.values.formats import Format
from winnow.values.row_shape import Envelope, UpdateTime
from winnow.values.strategies import Strategy

MAXIMUM_LONG = 2**63 - 1

_CRITERIA = tuple(strategy.criterion for strategy in Strategy)

MAXIMUM_TAGS = 20
"""Maximum tags of one topic."""

MAXIMUM_UPDATE_SECONDS = 366 * 86_400
"""Maximum seconds between two updates of a table of the latest state."""


LATEST_TABLE = "winnow.latest.table"
"""The key that has a topic keep a table of its latest state."""

LATEST_UPDATE = "winnow.latest.update"
"""The key that says when that table is brought up to date."""

LATEST_EXPECTATIONS = "winnow.latest.expectations"
"""The key that names the content suite of that table's rows."""

LATEST_MAX_UNDECODED = "winnow.latest.max.undecoded.ratio"
"""The key that says how many of that table's rows may be undecoded."""

LATEST_MAX_AGE = "winnow.latest.max.age.ms"
"""The key that says how long a record may wait to be in that table."""

KEY_FORMAT, VALUE_FORMAT = "winnow.key.format", "winnow.value.format"
"""The keys that say what the bytes of keys and values are."""

KEY_SCHEMA, VALUE_SCHEMA = "winnow.key.schema", "winnow.value.schema"
"""The keys that name a file with their schema."""

VALUE_ENVELOPE = "winnow.value.envelope"
VALUE_ENVELOPE_FIELDS = "winnow.value.envelope.fields"
"""The key that says what is around the row in a value."""

LATEST_FIELDS = "winnow.latest.fields"
"""The key that says which fields are columns, and which of them are masked."""

LATEST_PARTITION_BY = "winnow.latest.partition_by"
"""The key that says by which columns that table's files are partitioned besides the topic partition."""

LATEST_SORT_BY = "winnow.latest.sort_by"
"""The key that says by which columns rows are sorted within that table's files."""

FOLLOW = "winnow.follow"
"""The key that keeps a topic from being followed although the settings name it."""


@dataclass(frozen=True, slots=True)
class BrokerName:
    """The broker's name for a topic key. A broker value times ``factor`` is the value in the topic key's unit.

    ``kind``: how the broker reads it, with ``validator``; None: as the topic key is read and checked.
    ``requirement``: what the product must fulfil besides, and Kafka's sentence when it does not.
    """

    name: str
    factor: int = 1
    kind: ValueType | None = None
    validator: Validator | None = None
    requirement: tuple[Validator, str] | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """One topic key.

    Attributes:
        name: the topic key.
        kind: how its value is read.
        default: Winnow's default as text; None where the key has none.
        validator: which values are valid; None for all of ``kind``.
        sentence: what it does, for people.
        unit: ``ms``, ``bytes`` or empty.
        broker_names: the broker's names for it; the first that is set wins.
        kafka_default: Kafka's default where Winnow's differs, else None.
    """

    name: str
    kind: ValueType
    default: str | None
    validator: Validator | None
    sentence: str
    unit: str = ""
    broker_names: tuple[BrokerName, ...] = ()
    kafka_default: str | None = None


def _make_broker_names(*names: str) -> tuple[BrokerName, ...]:
    return tuple(BrokerName(name) for name in names)


_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_WEEK_MS = 7 * _DAY_MS

_ROLL = (Range(1), "log.roll.ms must be greater than or equal to 1")
_JITTER = (Range(0), "log.roll.jitter.ms must be greater than or equal to 0")
_RETENTION = (Unlimited(), "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "cleanup.policy",
        ValueType.LIST,
        "compact",
        OneOf(("compact", "delete")),
        "What happens to old records: compact keeps the last record of each key, delete removes old segments; "
        "empty removes nothing.",
        broker_names=_make_broker_names("log.cleanup.policy"),
        kafka_default="delete",
    ),
    Definition(
        "min.cleanable.dirty.ratio",
        ValueType.DOUBLE,
        "0.5",
        Range(0, 1),
        "A partition is compacted when dirty bytes make up more than this share of its cleanable and clean bytes.",
        broker_names=_make_broker_names("log.cleaner.min.cleanable.ratio"),
    ),
    Definition(
        "min.compaction.lag.ms",
        ValueType.LONG,
        "0",
        Range(0),
        "Minimum time that a record stays uncompacted, by its timestamp.",
        "ms",
        _make_broker_names("log.cleaner.min.compaction.lag.ms"),
    ),
    Definition(
        "max.compaction.lag.ms",
        ValueType.LONG,
        str(MAXIMUM_LONG),
        Range(1),
        "Maximum time a record may stay uncompacted, at any dirty ratio; applies to idle partitions too.",
        "ms",
        _make_broker_names("log.cleaner.max.compaction.lag.ms"),
    ),
    Definition(
        "delete.retention.ms",
        ValueType.LONG,
        str(_DAY_MS),
        Range(0),
        "How long a tombstone stays readable after the first compaction that covered it.",
        "ms",
        _make_broker_names("log.cleaner.delete.retention.ms"),
    ),
    Definition(
        "segment.bytes",
        ValueType.INT,
        str(2**30),
        Range(14),
        "A segment that reaches this size is closed; also the size to which rewritten segments are merged.",
        "bytes",
        _make_broker_names("log.segment.bytes"),
    ),
    Definition(
        "internal.segment.bytes",
        ValueType.INT,
        None,
        Range(1),
        "Replaces segment.bytes when set; for tests, as in Kafka.",
        "bytes",
    ),
    Definition(
        "segment.ms",
        ValueType.LONG,
        str(_WEEK_MS),
        Range(1),
        "A segment whose oldest record is older than this is closed.",
        "ms",
        (
            BrokerName("log.roll.ms", kind=ValueType.LONG, requirement=_ROLL),
            BrokerName("log.roll.hours", _HOUR_MS, ValueType.INT, Range(1), _ROLL),
        ),
    ),
    Definition(
        "segment.jitter.ms",
        ValueType.LONG,
        "0",
        Range(0),
        "In Kafka a random reduction of segment.ms; kept, without effect on an archive.",
        "ms",
        (
            BrokerName("log.roll.jitter.ms", kind=ValueType.LONG, requirement=_JITTER),
            BrokerName("log.roll.jitter.hours", _HOUR_MS, ValueType.INT, Range(0), _JITTER),
        ),
    ),
    Definition(
        "segment.index.bytes",
        ValueType.INT,
        str(10 * 2**20),
        Range(4),
        "In Kafka the size of a segment's index; kept, without effect on an archive.",
        "bytes",
        _make_broker_names("log.index.size.max.bytes"),
    ),
    Definition(
        "retention.ms",
        ValueType.LONG,
        "-1",
        Range(-1),
        "With delete in the policy: segments whose youngest record is older than this are removed; -1 removes none.",
        "ms",
        (
            BrokerName("log.retention.ms", kind=ValueType.LONG, requirement=_RETENTION),
            BrokerName("log.retention.minutes", _MINUTE_MS, ValueType.INT, requirement=_RETENTION),
            BrokerName("log.retention.hours", _HOUR_MS, ValueType.INT, requirement=_RETENTION),
        ),
        kafka_default=str(_WEEK_MS),
    ),
    Definition(
        "retention.bytes",
        ValueType.LONG,
        "-1",
        None,
        "With delete in the policy: the oldest segments of a partition larger than this are removed; "
        "a negative number removes none.",
        "bytes",
        _make_broker_names("log.retention.bytes"),
    ),
    Definition(
        "file.delete.delay.ms",
        ValueType.LONG,
        "60000",
        Range(0),
        "In Kafka the delay before replaced files are removed; kept, without effect: see winnow.retired.grace.ms.",
        "ms",
        _make_broker_names("log.segment.delete.delay.ms"),
    ),
    Definition(
        "max.message.bytes",
        ValueType.INT,
        "1048588",
        Range(0),
        "In Kafka the largest record batch; kept, without effect on an archive.",
        "bytes",
        _make_broker_names("message.max.bytes"),
    ),
    Definition(
        "message.timestamp.type",
        ValueType.STRING,
        "CreateTime",
        OneOf(("CreateTime", "LogAppendTime")),
        "Whose clock the timestamps come from: the producer's (CreateTime) or the broker's (LogAppendTime).",
        broker_names=_make_broker_names("log.message.timestamp.type"),
    ),
    Definition(
        "compaction.strategy",
        ValueType.STRING,
        "offset",
        OneOf(tuple(each.value for each in Strategy)),
        f"Which record of a key survives (KIP-280): the highest {', '.join(_CRITERIA[:-1])}, or {_CRITERIA[-1]}.",
        broker_names=_make_broker_names("log.cleaner.compaction.strategy"),
    ),
    Definition(
        "compaction.strategy.header",
        ValueType.STRING,
        "",
        None,
        "With compaction.strategy=header: the name of the header that holds the version, an 8-byte big-endian long.",
        broker_names=_make_broker_names("log.cleaner.compaction.strategy.header"),
    ),
    Definition(
        "remote.storage.enable",
        ValueType.BOOLEAN,
        "false",
        None,
        "In Kafka tiered storage, which excludes compaction; kept, without effect on an archive.",
    ),
    Definition(
        "winnow.keyless",
        ValueType.STRING,
        "reject",
        OneOf(("reject", "quarantine")),
        "What ingest does with records without a key while the policy includes compact: refuse the call, or put them "
        "in a side table.",
    ),
    Definition(
        "winnow.retired.grace.ms",
        ValueType.LONG,
        str(_DAY_MS),
        Range(0),
        "How long a file that a compaction replaced stays on disk before sweep removes it.",
        "ms",
    ),
    Definition(
        "winnow.late.arrival.ms",
        ValueType.LONG,
        str(_WEEK_MS),
        Range(0),
        "With compaction.strategy timestamp or header: minimum time that a tombstone stays after the first "
        "compaction that covered it, and after the last in which it superseded a record, so that a late record of a "
        "lower version still loses to it. 0: no late arrivals are expected.",
        "ms",
    ),
    Definition(
        "winnow.retention.protect.latest",
        ValueType.BOOLEAN,
        "false",
        None,
        "With cleanup.policy=compact,delete: records that retention would remove are compacted instead, so the "
        "latest record of a key is never removed by its age.",
    ),
    Definition(
        LATEST_TABLE,
        ValueType.BOOLEAN,
        "false",
        None,
        "Whether each publish brings the table winnow_latest.TOPIC up to date: the latest state, a row for each key.",
    ),
    Definition(
        LATEST_UPDATE,
        ValueType.STRING,
        UpdateTime.PUBLISH,
        WordOrSeconds(tuple(UpdateTime), MAXIMUM_UPDATE_SECONDS),
        "When winnow_latest.TOPIC is brought up to date: with each publish, or with each ingest, too, or a number of "
        "seconds after its last update if records came since, too. An update costs what the files cost in which a "
        "row changes.",
    ),
    Definition(
        LATEST_MAX_AGE,
        ValueType.LONG,
        str(MAXIMUM_LONG),
        Range(1),
        "Maximum time until a record is in winnow_latest.TOPIC, by its timestamp; then an alert is sent "
        "(latest_late). A table that shows everything is never late.",
        "ms",
    ),
    Definition(
        LATEST_MAX_UNDECODED,
        ValueType.DOUBLE,
        "0",
        Range(0, 1),
        "The share of a partition's rows in winnow_latest.TOPIC whose key or value could not be decoded, above which "
        "an alert is sent (latest_suspect). Such rows are in the table in any case.",
    ),
    Definition(
        LATEST_EXPECTATIONS,
        ValueType.STRING,
        "",
        SuiteName(),
        "The name of a content suite over the columns of winnow_latest.TOPIC, for the rows that an update writes: a "
        "critical expectation that does not hold leaves the table as it was; empty for none.",
    ),
    Definition(
        KEY_FORMAT,
        ValueType.STRING,
        Format.BYTES,
        OneOf(tuple(Format)),
        "What keys are, for the columns of winnow_latest.TOPIC. bytes: one column as it is.",
    ),
    Definition(
        VALUE_FORMAT,
        ValueType.STRING,
        Format.BYTES,
        OneOf(tuple(Format)),
        "What values are, for the columns of winnow_latest.TOPIC: with a format other than bytes, each field of a "
        "value is a column. Schemas come from the registry of the settings, or from the file of winnow.value.schema.",
    ),
    Definition(
        KEY_SCHEMA,
        ValueType.STRING,
        "",
        ShortText(1_000),
        "The place of a file with the schema of all keys (Avro, JSON Schema or .proto); then they bear no schema id. "
        "FILE.proto#package.Message: they are that message, not the first one.",
    ),
    Definition(
        VALUE_SCHEMA,
        ValueType.STRING,
        "",
        ShortText(1_000),
        "The place of a file with the schema of all values (Avro, JSON Schema or .proto); then they bear no schema id. "
        "FILE.proto#package.Message: they are that message, not the first one.",
    ),
    Definition(
        VALUE_ENVELOPE,
        ValueType.STRING,
        Envelope.NONE,
        OneOf(tuple(Envelope)),
        "What is around the row in a value. debezium: the columns of winnow_latest.TOPIC are those of the database's "
        "row after the change, and a row that was deleted there is no row.",
    ),
    Definition(
        VALUE_ENVELOPE_FIELDS,
        ValueType.LIST,
        "",
        None,
        "The fields of the envelope that are columns beside the row's, nested ones as NAME.NAME, such as "
        "op,ts_ms,source.lsn: their columns are op__event, ts_ms__event, source_lsn__event. Empty: none.",
    ),
    Definition(
        LATEST_FIELDS,
        ValueType.LIST,
        "",
        None,
        "The fields of which winnow_latest.TOPIC has columns, NAME or NAME:hmac (a keyed digest) or NAME:drop, nested "
        "ones as NAME.NAME; others are hidden until they are named. Empty: all.",
    ),
    Definition(
        LATEST_PARTITION_BY,
        ValueType.STRING,
        "",
        None,
        "What the files of winnow_latest.TOPIC are partitioned by besides the topic partition, so that readers skip "
        "files: COLUMN, years, months, days or hours(COLUMN), bucket or truncate(NUMBER, COLUMN), separated by commas. "
        "Values of these columns are in the table's metadata.",
    ),
    Definition(
        LATEST_SORT_BY,
        ValueType.STRING,
        "",
        None,
        "What the rows in each file of winnow_latest.TOPIC are sorted by, so that readers skip parts of files: COLUMN, "
        "with asc or desc and nulls first or nulls last, separated by commas. Minimum and maximum of these columns are "
        "in the table's metadata.",
    ),
    Definition(
        FOLLOW,
        ValueType.BOOLEAN,
        "true",
        None,
        "Whether the DAG ingest_topics (with your prefix) follows the Kafka topic of this name, if the settings name "
        "it; `winnow topics unfollow` and `winnow topics follow` set it.",
    ),
    Definition(
        "winnow.expectations",
        ValueType.STRING,
        "",
        SuiteName(),
        "The name of a content suite that every compaction of this topic must pass; empty for none.",
    ),
    Definition(
        "winnow.owner",
        ValueType.STRING,
        "",
        ShortText(100),
        "Who is responsible for the topic, a team or a person; shown on the page. The setting "
        "`owners` may name the users who act for it; else it decides nothing.",
    ),
    Definition(
        "winnow.tags",
        ValueType.LIST,
        "",
        Tag(50),
        f"Tags by which the page finds the topic, at most {MAXIMUM_TAGS}. They decide nothing.",
    ),
)

BY_NAME: dict[str, Definition] = {definition.name: definition for definition in DEFINITIONS}

TOPIC_KEY_OF_BROKER_NAME: dict[str, str] = {
    broker.name: definition.name for definition in DEFINITIONS for broker in definition.broker_names
}

KAFKA_KEYS_WITHOUT_MEANING: frozenset[str] = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "unclean.leader.election.enable",
    }
)
"""Kafka's topic keys that concern only brokers and replicas; Winnow refuses them with a message."""
