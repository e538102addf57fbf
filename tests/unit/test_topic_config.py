"""Topic configuration: Kafka's names, defaults, ranges and sentences, and Winnow's own keys."""

import pickle
from dataclasses import dataclass
from operator import attrgetter

import pytest

from winnow.config.definitions import BY_NAME, DEFINITIONS, KAFKA_KEYS_WITHOUT_MEANING, MAXIMUM_LONG, Definition
from winnow.config.topic import KeylessPolicy, TopicConfig, is_topic_key, list_entries, make_unknown_key_error
from winnow.errors import ConfigurationError
from winnow.values.formats import Format
from winnow.values.latest_fields import FieldRule, FieldRules
from winnow.values.latest_layout import PartitionTerm, TableLayout, Transform
from winnow.values.latest_order import parse_order
from winnow.values.row_shape import Envelope, UpdateTime
from winnow.values.strategies import Strategy

LONG_MIN = -(2**63)
INT_MAX = 2**31 - 1
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Row:
    """One key: its default, valid boundaries as text and parsed, and the first invalid values with their reasons."""

    key: str
    attribute: str
    default: object
    valid: tuple[tuple[str, object], ...]
    invalid: tuple[tuple[str, str], ...]
    brokers: tuple[tuple[str, int], ...] = ()


LONG_TOO_BIG = (str(MAXIMUM_LONG + 1), "Not a number of type LONG")
INT_TOO_BIG = (str(INT_MAX + 1), "Not a number of type INT")
ONE_POLICY = "String must be one of: compact, delete"

ROWS = (
    Row(
        "cleanup.policy",
        "cleanup_policy",
        frozenset({"compact"}),
        (
            ("compact", frozenset({"compact"})),
            ("delete", frozenset({"delete"})),
            (" compact , delete ", frozenset({"compact", "delete"})),
            ("compact,compact", frozenset({"compact"})),
            ("", frozenset()),
        ),
        (("Compact", ONE_POLICY), ("purge", ONE_POLICY)),
        (("log.cleanup.policy", 1),),
    ),
    Row(
        "min.cleanable.dirty.ratio",
        "min_cleanable_dirty_ratio",
        0.5,
        (("0", 0.0), ("1", 1.0), ("1e-1", 0.1), (".25", 0.25), ("0.5d", 0.5), ("+1.0", 1.0)),
        (
            ("-0.1", "Value must be at least 0"),
            ("1.1", "Value must be no more than 1"),
            ("Infinity", "Value must be no more than 1"),
            ("-Infinity", "Value must be at least 0"),
            ("half", "Not a number of type DOUBLE"),
            ("nan", "Not a number of type DOUBLE"),
            ("inf", "Not a number of type DOUBLE"),
            ("-+Infinity", "Not a number of type DOUBLE"),
            ("0_1", "Not a number of type DOUBLE"),
            ("", "Not a number of type DOUBLE"),
        ),
        (("log.cleaner.min.cleanable.ratio", 1),),
    ),
    Row(
        "min.compaction.lag.ms",
        "min_compaction_lag_ms",
        0,
        (("0", 0), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("-1", "Value must be at least 0"), LONG_TOO_BIG),
        (("log.cleaner.min.compaction.lag.ms", 1),),
    ),
    Row(
        "max.compaction.lag.ms",
        "max_compaction_lag_ms",
        MAXIMUM_LONG,
        (("1", 1), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("0", "Value must be at least 1"), LONG_TOO_BIG),
        (("log.cleaner.max.compaction.lag.ms", 1),),
    ),
    Row(
        "delete.retention.ms",
        "delete_retention_ms",
        86_400_000,
        (("0", 0), (" +5 ", 5), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("-1", "Value must be at least 0"), LONG_TOO_BIG, ("1.5", "Not a number of type LONG")),
        (("log.cleaner.delete.retention.ms", 1),),
    ),
    Row(
        "segment.bytes",
        "segment_bytes",
        1_073_741_824,
        (("14", 14), (str(INT_MAX), INT_MAX)),
        (("13", "Value must be at least 14"), INT_TOO_BIG, ("1GB", "Not a number of type INT")),
        (("log.segment.bytes", 1),),
    ),
    Row(
        "internal.segment.bytes",
        "segment_bytes",
        1_073_741_824,
        (("1", 1), (str(INT_MAX), INT_MAX)),
        (("0", "Value must be at least 1"), INT_TOO_BIG),
    ),
    Row(
        "segment.ms",
        "segment_ms",
        604_800_000,
        (("1", 1), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("0", "Value must be at least 1"), LONG_TOO_BIG),
        (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    ),
    Row(
        "segment.jitter.ms",
        "segment_jitter_ms",
        0,
        (("0", 0), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("-1", "Value must be at least 0"), LONG_TOO_BIG),
        (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    ),
    Row(
        "segment.index.bytes",
        "segment_index_bytes",
        10_485_760,
        (("4", 4), (str(INT_MAX), INT_MAX)),
        (("3", "Value must be at least 4"), INT_TOO_BIG),
        (("log.index.size.max.bytes", 1),),
    ),
    Row(
        "retention.ms",
        "retention_ms",
        -1,
        (("-1", -1), ("0", 0), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("-2", "Value must be at least -1"), LONG_TOO_BIG),
        (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", HOUR_MS)),
    ),
    Row(
        "retention.bytes",
        "retention_bytes",
        -1,
        ((str(LONG_MIN), LONG_MIN), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        ((str(LONG_MIN - 1), "Not a number of type LONG"), LONG_TOO_BIG),
        (("log.retention.bytes", 1),),
    ),
    Row(
        "file.delete.delay.ms",
        "file_delete_delay_ms",
        60_000,
        (("0", 0), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("-1", "Value must be at least 0"), LONG_TOO_BIG),
        (("log.segment.delete.delay.ms", 1),),
    ),
    Row(
        "max.message.bytes",
        "max_message_bytes",
        1_048_588,
        (("0", 0), (str(INT_MAX), INT_MAX)),
        (("-1", "Value must be at least 0"), INT_TOO_BIG),
        (("message.max.bytes", 1),),
    ),
    Row(
        "message.timestamp.type",
        "message_timestamp_type",
        "CreateTime",
        (("CreateTime", "CreateTime"), (" LogAppendTime ", "LogAppendTime")),
        (("createtime", "String must be one of: CreateTime, LogAppendTime"),),
        (("log.message.timestamp.type", 1),),
    ),
    Row(
        "compaction.strategy",
        "compaction_strategy",
        Strategy.OFFSET,
        (("offset", Strategy.OFFSET), ("timestamp", Strategy.TIMESTAMP)),
        (
            ("Offset", "String must be one of: offset, timestamp, header"),
            ("", "String must be one of: offset, timestamp, header"),
        ),
        (("log.cleaner.compaction.strategy", 1),),
    ),
    Row(
        "compaction.strategy.header",
        "compaction_strategy_header",
        "",
        (("", ""), ("version", "version"), ("any thing", "any thing")),
        (),
        (("log.cleaner.compaction.strategy.header", 1),),
    ),
    Row(
        "remote.storage.enable",
        "remote_storage_enable",
        False,
        (("false", False), ("FALSE", False)),
        (("no", "Expected value to be either true or false"), ("", "Expected value to be either true or false")),
    ),
    Row(
        "winnow.keyless",
        "keyless",
        KeylessPolicy.REJECT,
        (("reject", KeylessPolicy.REJECT), ("quarantine", KeylessPolicy.QUARANTINE)),
        (("drop", "String must be one of: reject, quarantine"),),
    ),
    Row(
        "winnow.retired.grace.ms",
        "retired_grace_ms",
        86_400_000,
        (("0", 0), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("-1", "Value must be at least 0"), LONG_TOO_BIG),
    ),
    Row(
        "winnow.late.arrival.ms",
        "late_arrival_ms",
        604_800_000,
        (("0", 0), (str(MAXIMUM_LONG), MAXIMUM_LONG)),
        (("-1", "Value must be at least 0"), LONG_TOO_BIG),
    ),
    Row(
        "winnow.retention.protect.latest",
        "retention_protect_latest",
        False,
        (("true", True), ("False", False)),
        (("1", "Expected value to be either true or false"),),
    ),
    Row(
        "winnow.latest.table",
        "latest_table",
        False,
        (("true", True), ("False", False)),
        (("yes", "Expected value to be either true or false"),),
    ),
    Row(
        "winnow.latest.update",
        "latest_update",
        UpdateTime.PUBLISH,
        (("publish", UpdateTime.PUBLISH), ("ingest", UpdateTime.INGEST), ("60", UpdateTime.PUBLISH)),
        tuple(
            (text, f"Value must be one of: publish, ingest, or a number of seconds from 1 to {366 * 86_400}")
            for text in ("0", "1.5", "hourly", str(366 * 86_400 + 1))
        ),
    ),
    Row(
        "winnow.latest.max.age.ms",
        "latest_max_age_ms",
        None,
        (("1", 1), (str(MAXIMUM_LONG), None)),
        (("0", "Value must be at least 1"), LONG_TOO_BIG),
    ),
    Row(
        "winnow.latest.max.undecoded.ratio",
        "latest_max_undecoded_ratio",
        0.0,
        (("0.01", 0.01), ("1", 1.0)),
        (("1.1", "Value must be no more than 1"), ("-0.1", "Value must be at least 0")),
    ),
    Row(
        "winnow.latest.expectations",
        "latest_expectations",
        "",
        (("customer_rows", "customer_rows"), ("", "")),
        (("a/b", "Value must be the name of an expectation suite: letters, digits, '_' and '-' only"),),
    ),
    Row(
        "winnow.key.format",
        "row_shape.key_format",
        Format.BYTES,
        (("string", Format.STRING), ("avro", Format.AVRO)),
        (("xml", f"String must be one of: {', '.join(Format)}"),),
    ),
    Row(
        "winnow.value.format",
        "row_shape.value_format",
        Format.BYTES,
        (("json", Format.JSON), ("protobuf", Format.PROTOBUF)),
        (("Avro", f"String must be one of: {', '.join(Format)}"),),
    ),
    Row(
        "winnow.key.schema",
        "row_shape.key_schema",
        "",
        (("", ""), ("s3://schemas/key.avsc", "s3://schemas/key.avsc")),
        (("a\tb", "Value must be at most 1000 printable characters"),),
    ),
    Row(
        "winnow.value.schema",
        "row_shape.value_schema",
        "",
        (("/schemas/value.proto", "/schemas/value.proto"),),
        (("a\tb", "Value must be at most 1000 printable characters"),),
    ),
    Row(
        "winnow.value.envelope",
        "row_shape.envelope",
        Envelope.NONE,
        (("none", Envelope.NONE),),
        (("maxwell", "String must be one of: none, debezium"),),
    ),
    Row(
        "winnow.value.envelope.fields",
        "row_shape.envelope_fields",
        (),
        (("", ()),),
        (("op,source..lsn", "'source..lsn' names no field"),),
    ),
    Row(
        "winnow.latest.fields",
        "row_shape.fields",
        FieldRules(),
        (("a,b.c:hmac", FieldRules((("a", FieldRule.SHOW), ("b.c", FieldRule.HMAC)))),),
        (("a,b:sha1", "'b:sha1' has a rule that is neither hmac nor drop"),),
    ),
    Row(
        "winnow.latest.partition_by",
        "latest_layout",
        TableLayout(),
        (("", TableLayout()),),
        (
            ("a,", "'' does not begin with a column or TRANSFORM(COLUMN)"),
            ("a..b", "'a..b' names no column"),
            ("void(a)", "void is no transform; there are years, months, days, hours, bucket, truncate"),
            ("bucket(a)", "bucket needs a number above 0 before the column: bucket(16, a)"),
            ("days(2, a)", "day has no number"),
            ("days(a), hours(a)", "day(a) and hour(a) are redundant"),
            ("a,b,c,d,e", "there are 5 terms; a table may be partitioned by at most 4"),
        ),
    ),
    Row(
        "winnow.latest.sort_by",
        "latest_layout",
        TableLayout(),
        (("", TableLayout()),),
        (
            ("a,", "'' is not COLUMN, or COLUMN asc or desc, with nulls first or nulls last"),
            ("days(a)", "'days(a)' is not COLUMN, or COLUMN asc or desc, with nulls first or nulls last"),
            ("a..b desc", "'a..b' names no column"),
            ("a, a desc", "a is named twice"),
            ("a,b,c,d,e", "there are 5 terms; a table may be sorted by at most 4"),
        ),
    ),
    Row(
        "winnow.follow",
        "follow",
        True,
        (("false", False), ("TRUE", True)),
        (("never", "Expected value to be either true or false"),),
    ),
    Row(
        "winnow.expectations",
        "expectations",
        "",
        (("", ""), ("orders_content-2", "orders_content-2")),
        (
            ("../x", "Value must be the name of an expectation suite: letters, digits, '_' and '-' only"),
            ("größe", "Value must be the name of an expectation suite: letters, digits, '_' and '-' only"),
        ),
    ),
    Row(
        "winnow.owner",
        "owner",
        "",
        (("", ""), (" Équipe données, ops@example.com ", "Équipe données, ops@example.com"), ("x" * 100, "x" * 100)),
        (
            ("x" * 101, "Value must be at most 100 printable characters"),
            ("a\nb", "Value must be at most 100 printable characters"),
            ("a\u202eb", "Value must be at most 100 printable characters"),
        ),
    ),
    Row(
        "winnow.tags",
        "tags",
        (),
        (("", ()), ("pii , gold,team:orders", ("gold", "pii", "team:orders")), ("a,a", ("a",))),
        (
            ("two words", "A tag must be 1 to 50 letters, digits, '_', '.', ':' and '-'"),
            ("x" * 51, "A tag must be 1 to 50 letters, digits, '_', '.', ':' and '-'"),
        ),
    ),
)


def refusal(**overrides: str | None) -> str:
    """What parsing says of ``overrides``, written with ``__`` for ``.``."""
    with pytest.raises(ConfigurationError) as caught:
        TopicConfig.parse({key.replace("__", "."): value for key, value in overrides.items()})
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_table_has_exactly_the_rows_that_are_tested() -> None:
    """A key that is added without a test fails here."""
    assert [definition.name for definition in DEFINITIONS] == [row.key for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_key_that_is_not_set_has_its_default(row: Row) -> None:
    """The defaults of Kafka, with Winnow's two exceptions."""
    assert attrgetter(row.attribute)(TopicConfig.parse({})) == row.default


@pytest.mark.parametrize(
    ("row", "text", "expected"),
    [pytest.param(row, text, value, id=f"{row.key}={text}") for row in ROWS for text, value in row.valid],
)
def test_valid_value_at_the_boundary_is_parsed(row: Row, text: str, expected: object) -> None:
    """White space at the ends does not count."""
    config = TopicConfig.parse({row.key: text})
    assert attrgetter(row.attribute)(config) == expected
    assert config.overrides == {row.key: text.strip()}


@pytest.mark.kafka("24", "130")
@pytest.mark.parametrize(
    ("row", "text", "reason"),
    [pytest.param(row, text, reason, id=f"{row.key}={text}") for row in ROWS for text, reason in row.invalid],
)
def test_first_invalid_value_is_refused_in_kafkas_words(row: Row, text: str, reason: str) -> None:
    """The exact sentence, value and name included."""
    with pytest.raises(ConfigurationError) as caught:
        TopicConfig.parse({row.key: text})
    assert str(caught.value) == f"Invalid value {text} for configuration {row.key}: {reason}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_null_is_refused_for_every_key(row: Row) -> None:
    """Kafka prints it as null."""
    with pytest.raises(ConfigurationError) as caught:
        TopicConfig.parse({row.key: None})
    assert str(caught.value) == f"Invalid value null for configuration {row.key}: Value must be non-null"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_broker_names_stand_beside_the_key_in_order(row: Row) -> None:
    """The first that is set wins; hours and minutes carry their factor."""
    assert tuple((broker.name, broker.factor) for broker in BY_NAME[row.key].broker_names) == row.brokers


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_every_key_has_a_sentence_and_a_unit_that_fits_its_name(definition: Definition) -> None:
    """Units are in the names; the sentence is one a person can read."""
    assert definition.sentence.endswith(".")
    assert definition.unit == next((unit for unit in ("ms", "bytes") if definition.name.endswith(f".{unit}")), "")


def test_an_envelope_needs_values_with_fields() -> None:
    assert refusal(winnow__value__envelope="debezium").startswith(
        "winnow.value.envelope=debezium needs values with fields: winnow.value.format must be one of avro"
    )
    config = TopicConfig.parse({"winnow.value.envelope": "debezium", "winnow.value.format": "avro"})
    assert config.row_shape.envelope is Envelope.DEBEZIUM


def test_a_layout_is_terms_in_their_order() -> None:
    parsed = TopicConfig.parse(
        {"winnow.latest.partition_by": "a.b, day(c),Bucket( 16 ,d)", "winnow.value.format": "json"}
    ).latest_layout
    terms = (
        PartitionTerm(Transform.IDENTITY, "a.b"),
        PartitionTerm(Transform.DAY, "c"),
        PartitionTerm(Transform.BUCKET, "d", 16),
    )
    assert parsed == TableLayout(terms)
    assert str(parsed) == "a.b, day(c), bucket(16, d)"


def test_an_order_is_terms_with_their_direction_and_the_place_of_nulls() -> None:
    parsed = TopicConfig.parse(
        {"winnow.latest.sort_by": "created DESC, a.b,c asc nulls last, d nulls  last", "winnow.value.format": "json"}
    ).latest_layout
    assert parsed.order_text == "created desc nulls last, a.b asc nulls first, c asc nulls last, d asc nulls last"
    assert parse_order(parsed.order_text) == parsed.order


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({"winnow.latest.sort_by": "a"}, "winnow.latest.sort_by needs columns"),
        (
            {"winnow.latest.sort_by": "b.c desc", "winnow.value.format": "json", "winnow.latest.fields": "b,b.c:drop"},
            "winnow.latest.sort_by names b.c, which winnow.latest.fields does not show",
        ),
        ({"winnow.latest.partition_by": "a"}, "winnow.latest.partition_by needs columns"),
        (
            {"winnow.latest.partition_by": "__offset", "winnow.value.format": "json"},
            "names __offset; of the table's own columns it may name __timestamp only",
        ),
        (
            {"winnow.latest.partition_by": "b.c", "winnow.value.format": "json", "winnow.latest.fields": "b,b.c:drop"},
            "names b.c, which winnow.latest.fields does not show",
        ),
    ],
)
def test_a_layout_names_columns_that_are_shown(config: dict[str, str], wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong.replace(".", r"\.")):
        TopicConfig.parse(config)


@pytest.mark.parametrize("column", ["a.b", "c", "c__key", "__timestamp", "d"])
def test_a_layout_may_name_every_column_that_is_shown(column: str) -> None:
    fields = {"winnow.latest.fields": "a,a.x:drop,c,d:hmac", "winnow.value.format": "json"}
    layout = TopicConfig.parse({"winnow.latest.partition_by": f"bucket(2, {column})", **fields}).latest_layout
    assert layout.list_columns() == [column]


def test_fields_of_an_envelope_need_one() -> None:
    assert refusal(winnow__value__envelope__fields="op").startswith(
        "winnow.value.envelope.fields needs an envelope: winnow.value.envelope must be debezium"
    )
    asked = {"winnow.value.envelope.fields": "op, source.lsn,op", "winnow.value.envelope": "debezium"}
    config = TopicConfig.parse({**asked, "winnow.value.format": "avro"})
    assert config.row_shape.envelope_fields == ("op", "source.lsn")


@pytest.mark.kafka("24")
def test_dirty_ratio_of_nan_is_refused_and_says_why() -> None:
    """Kafka accepts it and then never cleans."""
    assert refusal(min__cleanable__dirty__ratio="NaN") == (
        "Invalid value NaN for configuration min.cleanable.dirty.ratio: Value must be a number between 0 and 1; NaN "
        "compares as false with everything, so the log would never be cleaned, and nothing would say why"
    )


@pytest.mark.parametrize(
    ("text", "printed"),
    [("2", "2.0"), ("1e7", "1.0E7"), ("-1.25e-4", "-1.25E-4"), ("1e999", "Infinity"), ("9999999", "9999999.0")],
)
def test_ratio_out_of_range_is_printed_as_java_prints_it(text: str, printed: str) -> None:
    """Kafka prints the parsed number, not the text."""
    expected = "at least 0" if text.startswith("-") else "no more than 1"
    assert refusal(min__cleanable__dirty__ratio=text) == (
        f"Invalid value {printed} for configuration min.cleanable.dirty.ratio: Value must be {expected}"
    )


def test_policy_list_names_only_the_element_that_is_wrong() -> None:
    """As Kafka's ValidList does; a trailing comma is an empty element."""
    shape = "Invalid value {} for configuration cleanup.policy: String must be one of: compact, delete"
    assert refusal(cleanup__policy="compact,purge") == shape.format("purge")
    assert refusal(cleanup__policy="compact,") == shape.format("")


@pytest.mark.kafka("23", "G11")
def test_minimum_lag_above_maximum_lag_is_refused() -> None:
    """Kafka's cross-field sentence."""
    assert refusal(min__compaction__lag__ms="11", max__compaction__lag__ms="10") == (
        "conflict topic config setting min.compaction.lag.ms (11) > max.compaction.lag.ms (10)"
    )


def test_minimum_lag_equal_to_maximum_lag_is_accepted() -> None:
    """Equality is no conflict."""
    config = TopicConfig.parse({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"})
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (10, 10)


@pytest.mark.parametrize(("text", "ms"), [("publish", None), ("ingest", None), ("1", 1_000), ("60", 60_000)])
def test_seconds_between_updates_are_in_force_besides_publishes(text: str, ms: int | None) -> None:
    assert TopicConfig.parse({"winnow.latest.update": text}).latest_update_ms == ms


@pytest.mark.kafka("112")
@pytest.mark.parametrize("policy", [{}, {"cleanup.policy": "compact"}, {"cleanup.policy": "delete,compact"}])
def test_remote_storage_with_compact_is_refused(policy: dict[str, str]) -> None:
    """Winnow's default policy counts."""
    with pytest.raises(ConfigurationError) as caught:
        TopicConfig.parse({"remote.storage.enable": "true", **policy})
    assert str(caught.value) == "Remote log storage is unsupported for the compacted topics"


def test_remote_storage_with_delete_is_accepted() -> None:
    """Any case of true is Kafka's true."""
    assert TopicConfig.parse({"remote.storage.enable": "TRUE", "cleanup.policy": "delete"}).remote_storage_enable


@pytest.mark.kafka("129")
@pytest.mark.parametrize("header", [{}, {"compaction.strategy.header": ""}, {"compaction.strategy.header": "  "}])
def test_header_strategy_without_a_header_name_is_refused(header: dict[str, str]) -> None:
    """KIP-280's sentence; white space is no name."""
    with pytest.raises(ConfigurationError) as caught:
        TopicConfig.parse({"compaction.strategy": "header", **header})
    assert str(caught.value) == "compaction.strategy.header must be specified."


def test_header_strategy_with_a_header_name_is_accepted() -> None:
    """The name is kept without white space at its ends."""
    config = TopicConfig.parse({"compaction.strategy": "header", "compaction.strategy.header": " version "})
    assert (config.compaction_strategy, config.compaction_strategy_header) == (Strategy.HEADER, "version")


def test_a_topic_has_at_most_twenty_tags() -> None:
    """More would make its row on the page unreadable, and its row in the store large."""
    twenty = ",".join(f"tag-{number}" for number in range(20))
    assert len(TopicConfig.parse({"winnow.tags": twenty}).tags) == 20
    assert refusal(winnow__tags="a,,b").startswith("Invalid value  for configuration winnow.tags: A tag must be 1 to")
    assert refusal(winnow__tags=f"{twenty},one-more") == "winnow.tags has 21 tags; a topic may have at most 20"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("min.cleanable.dirty.rato", "The nearest known name is min.cleanable.dirty.ratio."),
        ("Segment.Bytes", "The nearest known name is segment.bytes."),
        ("winnow.partitions", "The nearest known name is winnow.expectations."),
        ("log.roll.hours", "That is a broker's name; a topic's is segment.ms."),
        (
            "log.cleaner.threads",
            "A broker has it for all topics; set it in winnow.toml, in the table [kafka].",
        ),
        (
            "min.insync.replicas",
            "It configures Kafka's brokers and has no meaning for an archive; leave it out.",
        ),
    ],
)
def test_unknown_key_is_refused_with_what_to_write_instead(name: str, hint: str) -> None:
    """Kafka's sentence first."""
    with pytest.raises(ConfigurationError) as caught:
        TopicConfig.parse({name: "1"})
    assert str(caught.value) == f"Unknown topic config name: {name}. {hint}"
    assert str(make_unknown_key_error(name)) == str(caught.value)
    assert not is_topic_key(name)


def test_key_that_means_nothing_to_an_archive_is_no_key() -> None:
    """The list of refused keys and the table do not overlap."""
    assert not KAFKA_KEYS_WITHOUT_MEANING & BY_NAME.keys()


def test_unknown_key_is_named_before_bad_values() -> None:
    """As Kafka does, names come first."""
    assert refusal(segment__bytes="1", no__such="1").startswith("Unknown topic config name: no.such.")


def test_internal_segment_bytes_takes_precedence_over_segment_bytes() -> None:
    """Whatever the order in which they are given."""
    config = TopicConfig.parse({"internal.segment.bytes": "100", "segment.bytes": "200"})
    assert config.segment_bytes == 100


@pytest.mark.parametrize(
    ("policy", "compacts", "deletes"),
    [("compact", True, False), ("delete", False, True), ("compact,delete", True, True), ("", False, False)],
)
def test_policy_tells_whether_it_compacts_and_deletes(policy: str, compacts: bool, deletes: bool) -> None:
    """An empty policy does neither."""
    config = TopicConfig.parse({"cleanup.policy": policy})
    assert (config.compacts, config.deletes) == (compacts, deletes)


@pytest.mark.parametrize(
    ("policy", "segment_ms", "lag_ms", "expected_ms"),
    [("compact", 100, 50, 50), ("compact", 50, 100, 50), ("compact,delete", 100, 50, 50), ("delete", 100, 50, 100)],
)
def test_segment_age_is_bounded_by_the_maximum_lag_only_when_compacting(
    policy: str, segment_ms: int, lag_ms: int, expected_ms: int
) -> None:
    """Kafka's LogConfig.maxSegmentMs."""
    config = TopicConfig.parse(
        {"cleanup.policy": policy, "segment.ms": str(segment_ms), "max.compaction.lag.ms": str(lag_ms)}
    )
    assert config.max_segment_ms == expected_ms


def test_entries_name_the_two_defaults_that_differ_from_kafka() -> None:
    """Policy and retention time, and no others."""
    differing = {e.name: e.value for e in list_entries(TopicConfig.parse({})) if e.source == "default (Winnow)"}
    assert differing == {"cleanup.policy": "compact", "retention.ms": "-1"}
    kafka_defaults = {d.name: d.kafka_default for d in DEFINITIONS if d.kafka_default is not None}
    assert kafka_defaults == {"cleanup.policy": "delete", "retention.ms": "604800000"}


def test_entries_show_what_the_topic_sets_with_its_source() -> None:
    """Also when the value is the default; a key without default only then."""
    found = {
        e.name: e for e in list_entries(TopicConfig.parse({"retention.ms": " -1 ", "internal.segment.bytes": "100"}))
    }
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("-1", "topic")
    assert (found["internal.segment.bytes"].value, found["internal.segment.bytes"].source) == ("100", "topic")
    assert found["segment.ms"].source == "default"
    assert found["segment.ms"].sentence == BY_NAME["segment.ms"].sentence


def test_entries_leave_out_a_key_without_default_that_is_not_set() -> None:
    """All others are there, in the table's order."""
    assert [e.name for e in list_entries(TopicConfig.parse({}))] == [
        d.name for d in DEFINITIONS if d.default is not None
    ]
    assert "internal.segment.bytes" not in [e.name for e in list_entries(TopicConfig.parse({}))]


def test_equal_configurations_are_equal_hashable_and_cross_process_borders() -> None:
    """Order and white space of what was given do not matter."""
    one = TopicConfig.parse({"segment.ms": "5", "segment.bytes": "100"})
    other = TopicConfig.parse({"segment.bytes": " 100", "segment.ms": "5"})
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
