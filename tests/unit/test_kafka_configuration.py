"""Which configuration a log takes from its topic at Kafka, and what waits for a person."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from winnow.config.kafka_settings import (
    KafkaRecord,
    Origin,
    RecordedSetting,
    SourceSetting,
    describe_recorded,
    forget_taken,
    format_record,
    parse_record,
)
from winnow.config.topic import TopicConfig
from winnow.errors import ConfigurationError
from winnow.planning.kafka_configuration import (
    ConfigurationDecision,
    TakingRules,
    decide_configuration,
    decide_new_configuration,
)
from winnow.planning.removing_changes import removes_more

SYNC = TakingRules(takes=True)
POLICY = "cleanup.policy"
KAFKA = {
    POLICY: SourceSetting("delete", Origin.DEFAULT),
    "retention.ms": SourceSetting("604800000", Origin.DEFAULT),
    "retention.bytes": SourceSetting("-1", Origin.DEFAULT),
    "delete.retention.ms": SourceSetting("86400000", Origin.DEFAULT),
    "min.compaction.lag.ms": SourceSetting("0", Origin.DEFAULT),
    "max.compaction.lag.ms": SourceSetting("9223372036854775807", Origin.DEFAULT),
}
"""A topic that sets nothing, at brokers that set nothing."""


def at_kafka(**values: str | None) -> dict[str, SourceSetting]:
    """``KAFKA`` with values that the topic sets; None leaves a key out, as a broker that does not say it."""
    found = dict(KAFKA)
    for key, value in values.items():
        name = key.replace("_", ".")
        if value is None:
            del found[name]
        else:
            found[name] = SourceSetting(value, Origin.TOPIC)
    return found


def create(kafka: Mapping[str, SourceSetting], rules: TakingRules = SYNC) -> ConfigurationDecision:
    return decide_new_configuration(kafka, parse=TopicConfig.parse, rules=rules)


def follow(
    before: ConfigurationDecision, kafka: Mapping[str, SourceSetting], rules: TakingRules = SYNC
) -> ConfigurationDecision:
    here = TopicConfig.parse(dict(before.overrides))
    return decide_configuration(here, before.record, kafka, parse=TopicConfig.parse, rules=rules)


def list_held(decision: ConfigurationDecision) -> list[str]:
    assert [each.name for each in decision.held] == [name for name, each in decision.record.items() if each.held]
    return [each.name for each in decision.held]


@pytest.mark.parametrize("rules", [TakingRules(), SYNC], ids=["create", "sync"])
def test_a_new_topic_has_the_policy_in_force_and_no_retention_of_kafkas_default(rules: TakingRules) -> None:
    made = create(KAFKA, rules)
    assert made.overrides == {POLICY: "delete"}
    assert made.record[POLICY] == RecordedSetting("delete", Origin.DEFAULT, taken=Origin.DEFAULT)
    assert made.record["retention.ms"] == RecordedSetting("604800000", Origin.DEFAULT)
    assert [each.name for each in made.different] == ["retention.ms"]


def test_a_new_topic_takes_what_the_topic_sets_and_with_acceptance_what_is_in_force() -> None:
    kafka = at_kafka(retention_ms="86400000", min_compaction_lag_ms="5")
    kafka["delete.retention.ms"] = SourceSetting("7", Origin.BROKER)
    assert create(kafka).overrides == {POLICY: "delete", "retention.ms": "86400000", "min.compaction.lag.ms": "5"}
    assert create(KAFKA, TakingRules(takes=True, accepts=True)).overrides == {
        POLICY: "delete",
        "retention.ms": "604800000",
    }


@pytest.mark.parametrize("policy", [None, "evaporate"])
def test_no_policy_is_assumed_where_kafka_says_none_that_is_known(policy: str | None) -> None:
    with pytest.raises(ConfigurationError):
        create(at_kafka(cleanup_policy=policy))


@pytest.mark.parametrize(
    ("before", "after", "held"),
    [
        ({}, {"retention_ms": "1000"}, ["retention.ms"]),
        ({"retention_ms": "2000"}, {"retention_ms": "1000"}, ["retention.ms"]),
        ({"retention_ms": "1000"}, {"retention_ms": "2000"}, []),
        ({"retention_bytes": "2000"}, {"retention_bytes": "1000"}, ["retention.bytes"]),
        ({"cleanup_policy": "delete"}, {"cleanup_policy": "compact"}, [POLICY]),
        ({"cleanup_policy": "delete"}, {"cleanup_policy": "compact,delete"}, [POLICY]),
        ({"cleanup_policy": "compact"}, {"cleanup_policy": "compact,delete"}, []),
        (
            {"cleanup_policy": "compact", "retention_ms": "1000"},
            {"cleanup_policy": "compact,delete", "retention_ms": "1000"},
            [POLICY],
        ),
        ({"cleanup_policy": "compact"}, {"cleanup_policy": "delete"}, []),
        ({"cleanup_policy": "compact"}, {"cleanup_policy": "delete", "retention_ms": "9"}, ["retention.ms"]),
        ({"cleanup_policy": "compact"}, {"cleanup_policy": "compact", "retention_ms": "9"}, []),
        (
            {"cleanup_policy": "compact"},
            {"cleanup_policy": "compact", "delete_retention_ms": "1000"},
            ["delete.retention.ms"],
        ),
        (
            {"cleanup_policy": "compact", "min_compaction_lag_ms": "5"},
            {"cleanup_policy": "compact", "min_compaction_lag_ms": "4"},
            ["min.compaction.lag.ms"],
        ),
        ({"cleanup_policy": "compact"}, {"cleanup_policy": "compact", "max_compaction_lag_ms": "9"}, []),
    ],
)
def test_what_would_remove_records_waits_and_the_rest_is_taken(
    before: dict[str, str], after: dict[str, str], held: list[str]
) -> None:
    first, kafka = create(at_kafka(**before)), at_kafka(**after)
    then = follow(first, kafka)
    assert list_held(then) == held
    for name, setting in kafka.items():
        if setting.origin is Origin.TOPIC and name not in held:
            assert then.overrides[name] == setting.value
    again = follow(then, kafka)
    assert (again.overrides, again.record, again.taken) == (then.overrides, then.record, ())
    accepted = follow(then, kafka, TakingRules(takes=True, accepts=True))
    assert not accepted.held
    assert all(accepted.overrides[name] == kafka[name].value for name in held)


def test_acceptance_is_of_the_values_that_were_said() -> None:
    accepted = TakingRules(takes=True, accepts=True)
    first = create(KAFKA)
    assert list_held(follow(first, at_kafka(retention_ms="2000"), accepted)) == ["retention.ms"]
    held = follow(first, at_kafka(retention_ms="2000"))
    assert list_held(follow(held, at_kafka(retention_ms="1000"), accepted)) == ["retention.ms"]
    assert follow(held, at_kafka(retention_ms="2000"), accepted).overrides["retention.ms"] == "2000"


def test_acceptance_of_what_waits_takes_no_default_of_kafkas_with_it() -> None:
    """The default of 7 days was only said; whoever accepts another change has not decided on it."""
    kafka = at_kafka(cleanup_policy="compact,delete")
    held = follow(create(at_kafka(cleanup_policy="compact")), kafka)
    assert list_held(held) == []
    shorter = at_kafka(cleanup_policy="compact,delete", delete_retention_ms="9")
    accepted = follow(follow(held, shorter), shorter, TakingRules(takes=True, accepts=True))
    assert accepted.overrides == {POLICY: "compact,delete", "delete.retention.ms": "9"}
    named = TakingRules(takes=True, accepts=True, accepted_keys=frozenset({"retention.ms"}))
    assert follow(accepted, shorter, named).overrides["retention.ms"] == "604800000"


def test_what_was_taken_back_at_kafka_goes_here_and_what_a_person_set_stays() -> None:
    first = create(at_kafka(retention_ms="1000", max_compaction_lag_ms="9"))
    then = follow(first, KAFKA)
    assert then.overrides == {POLICY: "delete"}
    assert then.record["retention.ms"] == RecordedSetting("604800000", Origin.DEFAULT)
    by_hand = ConfigurationDecision(first.overrides, forget_taken(first.record, {"retention.ms"}))
    assert follow(by_hand, KAFKA).overrides == {POLICY: "delete", "retention.ms": "1000"}


def test_a_policy_that_the_topic_no_longer_sets_becomes_the_one_in_force() -> None:
    first = create(at_kafka(cleanup_policy="compact"))
    assert follow(first, KAFKA).overrides == {POLICY: "delete"}


def test_without_sync_nothing_is_taken_and_what_waits_goes_on_waiting() -> None:
    held = follow(create(KAFKA), at_kafka(retention_ms="1000"))
    plain = follow(held, at_kafka(retention_ms="1000"), TakingRules())
    assert (plain.overrides, plain.record) == (held.overrides, held.record)
    assert not follow(held, at_kafka(), TakingRules()).record["retention.ms"].held


@pytest.mark.parametrize("missing", [True, False], ids=["not said", "of unknown origin"])
def test_a_key_of_which_kafka_says_nothing_stays(missing: bool) -> None:
    first = create(at_kafka(retention_ms="1000"))
    kafka = at_kafka(retention_ms=None)
    if not missing:
        kafka["retention.ms"] = SourceSetting("604800000", Origin.UNKNOWN)
    then = follow(first, kafka)
    assert then.overrides["retention.ms"] == "1000"
    assert follow(then, KAFKA).overrides == {POLICY: "delete"}


def test_a_value_that_contradicts_one_that_waits_is_not_taken_and_stops_nothing() -> None:
    lags = {"cleanup_policy": "compact", "min_compaction_lag_ms": "10", "max_compaction_lag_ms": "20"}
    first = create(at_kafka(**lags))
    then = follow(first, at_kafka(**{**lags, "min_compaction_lag_ms": "1", "max_compaction_lag_ms": "5"}))
    assert list_held(then) == ["min.compaction.lag.ms"]
    assert list(then.refused) == ["max.compaction.lag.ms"]
    assert then.overrides == first.overrides


def test_latest_records_that_were_protected_from_retention_are_protected_until_a_person_agrees() -> None:
    protects = {"winnow.retention.protect.latest": "true", "retention.ms": "1000"}
    both = TopicConfig.parse({POLICY: "compact,delete", **protects})
    assert removes_more(both, TopicConfig.parse({POLICY: "delete", **protects}))
    assert not removes_more(both, TopicConfig.parse({POLICY: "compact", **protects}))


def test_record_is_read_as_written_and_what_cannot_be_read_proves_nothing() -> None:
    record: KafkaRecord = {
        POLICY: RecordedSetting("delete", Origin.BROKER, taken=Origin.TOPIC),
        "retention.ms": RecordedSetting("1000", Origin.CLUSTER, held=True),
    }
    assert parse_record(format_record(record)) == record
    for text in (None, "", "{", "[]", '{"retention.ms": 1}', '{"retention.ms": {"value": 1}}'):
        assert parse_record(text) == {}
    assert parse_record('{"a": {"value": "1", "origin": "moon"}}')["a"].origin is Origin.UNKNOWN


@pytest.mark.parametrize(
    ("recorded", "here", "text"),
    [
        (None, "-1", None),
        (RecordedSetting("5", Origin.TOPIC), "5", None),
        (RecordedSetting("60000", Origin.TOPIC, taken=Origin.TOPIC), "60000", "from Kafka: topic"),
        (
            RecordedSetting("120000", Origin.BROKER, taken=Origin.TOPIC),
            "60000",
            "from Kafka: topic; at Kafka now: 2 min (broker)",
        ),
        (RecordedSetting("-1", Origin.CLUSTER), "5", "at Kafka: no limit (cluster); removes nothing here until"),
        (RecordedSetting("1000", Origin.TOPIC, held=True), "-1", "at Kafka: 1000 ms (topic); waits for"),
    ],
)
def test_description_says_where_a_value_stands_to_kafkas(
    recorded: RecordedSetting | None, here: str, text: str | None
) -> None:
    said = describe_recorded("retention.ms", recorded, here)
    assert said is None if text is None else (said or "").startswith(text)
