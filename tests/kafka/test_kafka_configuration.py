"""What a topic is configured to at Kafka counts here as it is in force there, and removes nothing unasked."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import admin

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import LiveTopic, create_live_topic, open_admin
from tests.support.waiting import wait_until
from tests.support.world import World, define_world
from winnow.clock import read_wall_clock_ms
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.pipeline.compaction.plan import plan_topic
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.kafka.following import follow_topics
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.topics.definition import alter_topic, describe_topic
from winnow.planning.kafka_configuration import TakingRules
from winnow.store.audit import AuditAction
from winnow.store.rows import Window

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SYNC = TakingRules(takes=True)
ACCEPTED = TakingRules(takes=True, accepts=True)
HELD = "configuration_held"
_KAFKA_NAMES = ("ConfigEntry", "ConfigResource", "AlterConfigOpType")


class Copy:
    """A topic at the broker and its log in a world."""

    def __init__(self, world: World, topic: LiveTopic) -> None:
        self.world, self.installation, self.topic, self.name = world, world.installation, topic, topic.name
        self.cluster = Cluster(read_client_settings(topic.broker.bootstrap_servers))

    def write(self, *keys: bytes | None, age_ms: int = 0) -> None:
        """Write a record for each key, each of that age."""
        stamp = read_wall_clock_ms() - age_ms
        self.topic.write([(0, key, b"v%d" % number, stamp, ()) for number, key in enumerate(keys)])

    def ingest(self, rules: TakingRules = SYNC) -> IngestReport:
        """Ingest what is new, with ``--create``."""
        wanted = KafkaRequest(creates=True, configuration=rules)
        done = ingest_kafka_topics(
            self.installation, self.cluster, {self.name: self.name}, wanted, as_of_ms=self.world.clock()
        )
        for failure in done.failures:
            raise failure.error
        return done.reports[0]

    def follow(self) -> int:
        """Follow once with source.sync_config; return how many topics had nothing new."""
        wanted = KafkaRequest(creates=True, configuration=SYNC)
        done = follow_topics(self.installation, self.cluster, [self.name], wanted, as_of_ms=self.world.clock())
        assert not done.failures
        return done.unchanged

    def compact(self) -> None:
        """Compact everything, the active segment too, as ``winnow compact --now``."""
        plan = plan_topic(self.installation, self.name, as_of_ms=self.world.clock(), attempt="a1", closes_active=True)
        if plan is not None:
            self.world.stage(plan)
            self.world.accept(plan)
            publish_attempt(self.installation, plan.plan_id, "a1")

    def set_at_kafka(self, changes: Mapping[str, str | None]) -> None:
        """Set keys for the topic at the broker, or take them back (None), and wait until it says so."""
        entry, resource, operation = (
            vars(admin)[name] for name in ("ConfigEntry", "ConfigResource", "AlterConfigOpType")
        )
        entries = [
            entry(
                name,
                value,
                incremental_operation=operation.DELETE if value is None else operation.SET,
            )
            for name, value in changes.items()
        ]
        altered = resource(resource.Type.TOPIC, self.name, incremental_configs=entries)
        client = open_admin(self.topic.broker)  # whose requests end with it
        client.incremental_alter_configs([altered])[altered].result()
        wait_until(lambda: all(self._read_at_kafka().get(name) == value for name, value in changes.items()))

    def _read_at_kafka(self) -> Mapping[str, str]:
        return self.cluster.describe_topics([self.name], configuration=True)[self.name].configuration

    def value(self, key: str) -> str:
        """The value in force here."""
        return self._entry(key)[0]

    def stands(self, key: str) -> str | None:
        """What ``topics describe`` says of Kafka's value."""
        return self._entry(key)[1]

    def _entry(self, key: str) -> tuple[str, str | None]:
        described = describe_topic(self.installation, self.name)
        return next((each.value, each.kafka) for each in described.config if each.name == key)

    def offsets(self) -> list[int]:
        """The offsets of the records that a reader sees."""
        return [each.offset for each in self.world.read(topic=self.name)]

    def alerts(self) -> list[str]:
        """The kinds of the open alerts."""
        return [each.kind for each in self.installation.store.alerts.list_open() if each.topic == self.name]

    def audit(self, action: AuditAction = AuditAction.ALTER) -> list[str]:
        """The details of the entries about changed configuration, newest first."""
        rows = self.installation.store.audit.list_entries(Window(), topic=self.name, action=action.value).rows
        return [each.detail or "" for each in rows]


world = define_world(in_the_present=True)


def test_a_topic_that_sets_no_policy_keeps_its_events(broker: KafkaBroker, world: World) -> None:
    """Kafka deletes by default and does not compact: a key's events are all there after a compaction."""
    copy = Copy(world, create_live_topic(broker, 1))
    copy.write(*[b"account"] * 20, age_ms=30 * DAY_MS)
    report = copy.ingest()
    assert copy.value("cleanup.policy") == "delete"
    assert copy.stands("cleanup.policy") == "from Kafka: default"
    assert "cleanup.policy=delete (from Kafka: default)" in report.notices[0]
    copy.compact()
    assert copy.offsets() == list(range(20))


def test_the_policy_is_taken_without_sync_config_too(broker: KafkaBroker, world: World) -> None:
    """It is in the commit that makes the topic, so nobody ever sees the topic with another one."""
    copy = Copy(world, create_live_topic(broker, 1, cleanup_policy="compact,delete", min_compaction_lag_ms="5"))
    report = copy.ingest(TakingRules())
    assert copy.value("cleanup.policy") == "compact,delete"
    assert copy.stands("cleanup.policy") == "from Kafka: topic"
    assert copy.value("min.compaction.lag.ms") == "0"
    assert any("min.compaction.lag.ms differs: here 0, at Kafka 5 (topic)" in each for each in report.notices)


def test_retention_that_kafka_has_by_default_removes_nothing_until_it_is_accepted(
    broker: KafkaBroker, world: World
) -> None:
    copy = Copy(world, create_live_topic(broker, 1))
    copy.set_at_kafka({"retention.ms": None})  # which the fixture sets
    copy.write(b"a", b"b", age_ms=0)
    report = copy.ingest()
    assert copy.value("retention.ms") == "-1"
    expected = "at Kafka: 7 days (default); removes nothing here until it is accepted (--accept-kafka-config)"
    assert copy.stands("retention.ms") == expected
    assert any("retention.ms differs: here -1, at Kafka 604800000 (default)" in each for each in report.notices)
    world.clock.now_ms += 30 * DAY_MS
    copy.compact()
    assert copy.offsets() == [0, 1]
    copy.ingest(ACCEPTED)  # nothing is held
    assert copy.value("retention.ms") == "-1"
    copy.ingest(TakingRules(takes=True, accepts=True, accepted_keys=frozenset({"retention.ms"})))
    assert copy.value("retention.ms") == "604800000"
    assert copy.stands("retention.ms") == "from Kafka: default"


def test_a_shorter_retention_waits_for_a_person_and_nothing_else_does(broker: KafkaBroker, world: World) -> None:
    copy = Copy(world, create_live_topic(broker, 1))
    copy.write(*[b"k"] * 5)
    copy.follow()
    copy.write(b"later")
    copy.set_at_kafka({"retention.ms": "86400000", "max.compaction.lag.ms": "172800000"})
    copy.follow()
    assert copy.offsets() == list(range(6))
    assert copy.value("max.compaction.lag.ms") == "172800000"
    assert copy.value("retention.ms") == "-1"
    assert copy.stands("retention.ms") == "at Kafka: 1 day (topic); waits for --accept-kafka-config"
    assert copy.alerts() == [HELD]
    world.clock.now_ms += 30 * DAY_MS
    copy.compact()
    assert copy.offsets() == list(range(6))

    report = copy.ingest(ACCEPTED)
    assert copy.value("retention.ms") == "86400000"
    assert any("retention.ms -1 → 86400000" in each for each in report.notices)
    assert "retention.ms -1 → 86400000 (accepted by a person)" in copy.audit()[0]
    assert copy.alerts() == []
    world.clock.now_ms = read_wall_clock_ms() + 30 * DAY_MS
    copy.compact()
    assert copy.offsets() == []


def test_what_waits_and_what_waits_no_more_is_in_the_audit_log_once(broker: KafkaBroker, world: World) -> None:
    copy = Copy(world, create_live_topic(broker, 1))
    copy.write(b"k")
    copy.follow()
    copy.set_at_kafka({"retention.ms": "86400000"})
    for key in (b"a", b"b"):
        copy.write(key)
        copy.follow()
    waits = f"from Kafka's {copy.name}: waits for a person: retention.ms is 1 day at Kafka (topic)"
    assert copy.audit(AuditAction.HOLD_CONFIGURATION) == [waits]
    copy.set_at_kafka({"retention.ms": "-1"})
    copy.write(b"c")
    world.clock.now_ms += 1_000
    copy.follow()
    ended = f"from Kafka's {copy.name}: waits no more, as Kafka has another value: retention.ms"
    assert copy.audit(AuditAction.HOLD_CONFIGURATION) == [ended, waits]


def test_an_override_whose_removal_waits_is_said_to_be_taken_back(broker: KafkaBroker, world: World) -> None:
    """Tombstones were to stay for a week; by default they go after a day."""
    copy = Copy(world, create_live_topic(broker, 1, cleanup_policy="compact", delete_retention_ms="604800000"))
    copy.write(b"k")
    copy.follow()
    assert copy.value("delete.retention.ms") == "604800000"
    copy.set_at_kafka({"delete.retention.ms": None})
    copy.write(b"a")
    copy.follow()
    assert copy.value("delete.retention.ms") == "604800000"
    (alert,) = [each for each in copy.installation.store.alerts.list_open() if each.topic == copy.name]
    said = "delete.retention.ms, which was set at Kafka, was taken back there (1 day is in force, default)"
    assert said in copy.audit(AuditAction.HOLD_CONFIGURATION)[0]
    assert said in alert.message
    copy.ingest(ACCEPTED)
    assert copy.value("delete.retention.ms") == "86400000"


def test_a_value_that_nobody_was_told_is_not_accepted(broker: KafkaBroker, world: World) -> None:
    """Who accepts has read of one value; if Kafka has another by now, that one waits."""
    copy = Copy(world, create_live_topic(broker, 1))
    copy.write(b"k")
    copy.ingest()
    copy.set_at_kafka({"retention.ms": "86400000"})
    copy.ingest()
    copy.set_at_kafka({"retention.ms": str(HOUR_MS)})
    copy.ingest(ACCEPTED)
    assert copy.value("retention.ms") == "-1"
    assert copy.alerts() == [HELD]
    copy.ingest(ACCEPTED)
    assert copy.value("retention.ms") == str(HOUR_MS)


def test_a_purge_that_was_taken_back_at_kafka_removes_nothing(broker: KafkaBroker, world: World) -> None:
    """A short retention for a while empties a topic at Kafka; its archive keeps all, though nothing new comes."""
    copy = Copy(world, create_live_topic(broker, 1, cleanup_policy="delete", retention_ms=str(HOUR_MS)))
    copy.write(*[b"k"] * 3)
    copy.follow()
    assert copy.value("retention.ms") == str(HOUR_MS)
    copy.set_at_kafka({"retention.ms": None})
    assert copy.follow() == 0
    assert copy.value("retention.ms") == "-1"
    assert f"retention.ms {HOUR_MS} → -1, no longer set at Kafka" in copy.audit()[0]
    world.clock.now_ms += 30 * DAY_MS
    copy.compact()
    assert copy.offsets() == [0, 1, 2]


def test_what_a_person_set_here_is_not_removed(broker: KafkaBroker, world: World) -> None:
    copy = Copy(world, create_live_topic(broker, 1, cleanup_policy="delete", retention_ms="86400000"))
    copy.write(b"k")
    copy.ingest()
    alter_topic(copy.installation, copy.name, {"retention.ms": "172800000", "delete.retention.ms": "7"}, [])
    copy.set_at_kafka({"retention.ms": None})
    copy.ingest()
    assert (copy.value("retention.ms"), copy.value("delete.retention.ms")) == ("172800000", "7")


def test_a_held_change_that_kafka_takes_back_ends_its_alert(broker: KafkaBroker, world: World) -> None:
    copy = Copy(world, create_live_topic(broker, 1, cleanup_policy="delete"))
    copy.write(b"k")
    copy.follow()
    copy.set_at_kafka({"cleanup.policy": "compact,delete"})
    copy.follow()
    assert copy.alerts() == [HELD]
    assert copy.value("cleanup.policy") == "delete"
    copy.set_at_kafka({"cleanup.policy": "delete"})
    copy.follow()
    assert copy.alerts() == []


def test_records_without_a_key_are_refused_with_the_policy_at_kafka(broker: KafkaBroker, world: World) -> None:
    """The topic here was made by hand and is compacted; Kafka's is not."""
    copy = Copy(world, create_live_topic(broker, 1))
    world.create(1, copy.name)
    copy.write(b"k", None)
    with pytest.raises(Exception, match=r"At Kafka its cleanup\.policy is delete \(default\)"):
        copy.ingest(TakingRules())
    assert copy.ingest().records_appended == 2
    assert copy.value("cleanup.policy") == "delete"
