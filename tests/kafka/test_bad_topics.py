"""One bad topic stops no other; one that is gone at Kafka is a state, not a failure that every call repeats."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions

from broker.kafka_broker import KafkaBroker, run_broker
from tests.kafka.test_following import DAY_MS, HOUR_MS, LAG, Follower, list_alerts, note_opened_topics
from tests.support.cli_runner import winnow_process
from tests.support.world import FakeClock, open_world
from winnow.clock import read_wall_clock_ms
from winnow.errors import BadInputError, ConfigurationError
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.pipeline.ingest.kafka.following import FollowReport, follow_topics
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.monitor.watch import watch_topics
from winnow.pipeline.topics.definition import describe_topic
from winnow.pipeline.topics.sources import list_missing_topics, set_following
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.planning.kafka_configuration import TakingRules
from winnow.report import alert_kinds
from winnow.store.rows import Window
from winnow.store.source_states import SourceKind

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
READS = (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)


class Watcher(Follower):
    """Follows all topics that the settings name, as the DAG does."""

    @property
    def pattern(self) -> str:
        """The expression of the settings."""
        return rf"{re.escape(self.prefix)}\..*"

    def tick(self, *, begins_epochs: bool = False) -> FollowReport:
        """Follow what the settings name, now."""
        self.world.clock.now_ms = max(self.world.clock.now_ms, read_wall_clock_ms())
        listed = [name for name in self.cluster.list_topics() if re.fullmatch(self.pattern, name)]
        missing = list_missing_topics(self.installation, self.pattern, listed)
        taking = TakingRules(takes=True)
        wanted = KafkaRequest(creates=True, configuration=taking, follows=True, begins_epochs=begins_epochs)
        return follow_topics(
            self.installation, self.cluster, listed, wanted, as_of_ms=self.world.clock(), missing=missing
        )

    def recreate(self, topic: str, *, partitions: int = 1) -> None:
        """Delete a topic at the broker and create it again."""
        self.delete(topic)
        self.create(topic.removeprefix(f"{self.prefix}."), partitions=partitions)

    def list_actions(self, topic: str) -> list[str]:
        """What the audit log says was done to a topic, oldest first."""
        entries = self.installation.store.audit.list_entries(Window(0, 50), topic=topic).rows
        return [entry.action for entry in reversed(entries)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaBroker, str]]:
    """A broker that checks rights, and the address at which it asks for a user: alice, who has no right yet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    properties = {
        "listeners": f"SECURED://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{MODULE} user_alice="secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with run_broker(tmp_path_factory.mktemp("guarded"), properties=properties) as broker:
        yield broker, f"127.0.0.1:{port}"


@pytest.fixture
def watcher(tmp_path: Path, guarded: tuple[KafkaBroker, str]) -> Iterator[Watcher]:
    broker, _ = guarded
    prefix = f"bad-{tmp_path.name}"
    lake = {"WINNOW_SOURCE__BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    lake["WINNOW_SOURCE__TOPICS_REGEX"] = rf"{prefix}\..*"
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), lake) as world:
        yield Watcher(world, broker, prefix)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Alice's client properties."""
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} username="alice" password="secret";\n'
    )
    return path


def grant(broker: KafkaBroker, topic: str, operations: Sequence[AclOperation]) -> None:
    """Let alice do ``operations`` on a topic, and nothing else."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    of_topic = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    anybody: Any = None  # which the stubs do not know
    every = AclBindingFilter(*of_topic, anybody, anybody, AclOperation.ANY, AclPermissionType.ANY)
    for future in admin.delete_acls([every]).values():
        future.result()
    rights = [AclBinding(*of_topic, "User:alice", "*", each, AclPermissionType.ALLOW) for each in operations]
    if rights:
        for future in admin.create_acls(rights).values():
            future.result()
    while len(admin.describe_acls(every).result()) != len(rights):  # the broker learns it from its controller
        time.sleep(0.01)


def test_a_topic_without_permission_fails_alone(
    guarded: tuple[KafkaBroker, str], watcher: Watcher, properties: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it may not be described or its configuration not be read; and neither counts as gone."""
    broker, address = guarded
    good, hidden, closed = topics = watcher.create("good", "hidden", "closed")
    for topic in topics:
        watcher.produce(topic, "k1")
        grant(broker, topic, READS)
    watcher.cluster = Cluster(read_client_settings(address, str(properties)))
    first = watcher.tick()
    assert first.failures == ()
    assert [report.records_appended for report in first.reports] == [1, 1, 1]
    grant(broker, hidden, ())
    grant(broker, closed, (AclOperation.READ,))
    for topic in topics:
        watcher.produce(topic, "k2")
    report = watcher.tick()
    assert [(done.topic, done.records_appended) for done in report.reports] == [(good, 1)]
    assert sorted(failure.topic for failure in report.failures) == [closed, hidden]
    assert all(isinstance(each.error, ConfigurationError) for each in report.failures)
    assert all(each.topic in str(each.error) for each in report.failures)
    assert report.gone == ()

    watcher.produce(good, "k3")
    monkeypatch.setenv("WINNOW_HOME", str(watcher.installation.settings.home))
    options = ["--bootstrap-servers", address, "--client-properties", properties]
    done = winnow_process("ingest", "kafka", "--topics-regex", watcher.pattern, *options)
    assert done.exit_code == ConfigurationError.exit_code
    assert f"{good}: 1 record appended" in done.stdout
    assert closed in done.stderr


def test_a_topic_that_is_gone_is_a_state_with_an_alert_and_no_failure(watcher: Watcher) -> None:
    """It is alerted once, shown, and has no deadline; the others are followed."""
    gone, other = watcher.create("gone", "other", config=LAG)
    for topic in (gone, other):
        watcher.produce(topic, "k1")
    watcher.tick()
    watcher.delete(gone)
    watcher.produce(other, "k2")
    report = watcher.tick()
    assert (report.gone, report.failures) == ((gone,), ())
    assert "1 are gone at Kafka" in report.sentence
    assert watcher.keys(other) == [b"k1", b"k2"]
    installation, clock = watcher.installation, watcher.world.clock
    state = describe_topic(installation, gone).source
    assert state is not None
    assert (state.kind, state.since_ms) == (SourceKind.GONE, clock())
    assert list(list_alerts(watcher, gone)) == ["source_gone"]

    clock.now_ms += DAY_MS + HOUR_MS
    assert watcher.tick().gone == (gone,)
    assert describe_topic(installation, gone).source == state
    watch_topics(installation)
    assert list(list_alerts(watcher, gone)) == ["source_gone"]
    assert watcher.keys(gone) == [b"k1"]


def test_a_log_of_a_topic_of_another_name_is_never_gone(watcher: Watcher) -> None:
    """That Kafka has no topic of the log's name says nothing about the topic it was read from."""
    (source,) = watcher.create("source")
    watcher.produce(source, "k1")
    copy = f"{watcher.prefix}.copy"
    request = KafkaRequest(creates=True)
    done = ingest_kafka_topics(
        watcher.installation, watcher.cluster, {copy: source}, request, as_of_ms=read_wall_clock_ms()
    )
    assert done.failures == ()
    assert watcher.tick().gone == ()
    assert list_alerts(watcher, copy) == {}


def test_a_gone_topic_is_known_from_its_log_alone(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metadata store that was lost costs the time since when; a log of files alone never was at Kafka."""
    (gone,) = watcher.create("gone")
    watcher.produce(gone, "k1")
    watcher.tick()
    watcher.world.create(topic=f"{watcher.prefix}.files")
    watcher.delete(gone)
    assert watcher.tick().gone == (gone,)
    watcher.installation.store.source_states.forget([gone, f"{watcher.prefix}.files"])
    watcher.installation.store.ingest_lags.record_complete([])
    assert watcher.tick().gone == (gone,)
    assert list_alerts(watcher, f"{watcher.prefix}.files") == {}
    opened = note_opened_topics(monkeypatch)
    assert watcher.tick().gone == (gone,)
    assert opened == []


def test_a_topic_that_comes_back_as_another_one_is_gone_no_more_and_refused(watcher: Watcher) -> None:
    """And the alert about its failed ingest ends when a person has decided."""
    (topic,) = watcher.create("back")
    watcher.produce(topic, "k1")
    watcher.tick()
    watcher.delete(topic)
    watcher.tick()
    watcher.create("back")
    watcher.produce(topic, "k2")
    report = watcher.tick()
    assert report.gone == ()
    assert [type(failure.error) for failure in report.failures] == [BadInputError]
    assert "topic id" in str(report.failures[0].error)
    assert watcher.installation.store.source_states.find(topic) is None
    assert list_alerts(watcher, topic) == {}
    watcher.installation.alerts.open_alert(
        alert_kinds.make_ingest_failed(topic, "It was refused.", dag_id="ingest_topics", at_ms=1)
    )
    assert watcher.tick(begins_epochs=True).failures == ()
    assert list_alerts(watcher, topic) == {}


def test_a_recreated_topic_goes_on_as_a_new_epoch_where_the_settings_say_so(watcher: Watcher) -> None:
    (topic,) = watcher.create("again")
    watcher.produce(topic, "k1", "k2")
    watcher.tick()
    before = watcher.world.head(topic).state.epochs[-1]
    watcher.recreate(topic)
    watcher.produce(topic, "k3")
    assert [type(failure.error) for failure in watcher.tick().failures] == [BadInputError]
    assert watcher.keys(topic) == [b"k1", b"k2"]
    (report,) = watcher.tick(begins_epochs=True).reports
    assert report.records_appended == 1
    assert any("By source.recreated=new_epoch" in notice for notice in report.notices)
    first, second = watcher.world.head(topic).state.epochs
    assert first.topic_id == before.topic_id
    assert second.topic_id not in {None, before.topic_id}
    assert second.bases == {0: 2}
    assert watcher.keys(topic) == [b"k1", b"k2", b"k3"]
    assert watcher.list_actions(topic).count("new_epoch") == 1
    assert watcher.tick(begins_epochs=True).failures == ()
    assert len(watcher.world.head(topic).state.epochs) == 2


def test_an_epoch_of_the_policy_waits_for_records_and_is_refused_if_they_are_old(watcher: Watcher) -> None:
    """An empty topic proves nothing: a mirror that fills it later would make old values the newest."""
    (topic,) = watcher.create("filled", partitions=2)
    stamp_ms = watcher.world.clock()
    watcher.produce(topic, "k1", timestamp_ms=stamp_ms - HOUR_MS)
    watcher.produce(topic, "k2", timestamp_ms=stamp_ms, partition=1)
    watcher.tick()
    watcher.recreate(topic)
    report = watcher.tick(begins_epochs=True)
    assert (report.reports, report.failures) == ((), ())
    assert len(watcher.world.head(topic).state.epochs) == 1
    watcher.produce(topic, "k2", timestamp_ms=stamp_ms - 1)
    (failure,) = watcher.tick(begins_epochs=True).failures
    assert "may make old values the newest" in str(failure.error)
    assert watcher.keys(topic) == [b"k1", b"k2"]
    watcher.produce(topic, "k2", timestamp_ms=stamp_ms + 1)
    assert watcher.tick(begins_epochs=True).failures == ()
    assert len(watcher.world.head(topic).state.epochs) == 2


def test_partitions_that_a_recreated_topic_lacks_keep_their_records(watcher: Watcher) -> None:
    """Also when it grows again, and its new records come after them."""
    (topic,) = watcher.create("fewer", partitions=3)
    for partition in range(3):
        watcher.produce(topic, f"k{partition}", partition=partition)
    watcher.tick()
    watcher.recreate(topic)
    watcher.produce(topic, "new0")
    (failure,) = watcher.tick().failures
    assert "It has 1 partitions" in str(failure.error)
    assert "--new-epoch" in str(failure.error)
    (report,) = watcher.tick(begins_epochs=True).reports
    kept = next(notice for notice in report.notices if "keep their" in notice)
    assert f"{topic}-1, {topic}-2 keep their 2 records" in kept
    assert watcher.keys(topic) == [b"k0", b"new0", b"k1", b"k2"]
    admin = AdminClient({"bootstrap.servers": watcher.servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    watcher.produce(topic, "new2", partition=2)
    assert watcher.tick(begins_epochs=True).failures == ()
    assert watcher.keys(topic) == [b"k0", b"new0", b"k1", b"k2", b"new2"]


def test_an_unfollowed_topic_is_left_until_it_is_followed_again(watcher: Watcher) -> None:
    """It stands in the table: a metadata store that is lost or made again changes nothing."""
    left, other = watcher.create("left", "other")
    for topic in (left, other):
        watcher.produce(topic, "k1")
    watcher.tick()
    assert set_following(watcher.installation, left, follows=False)
    assert not set_following(watcher.installation, left, follows=False)
    for topic in (left, other):
        watcher.produce(topic, "k2")
    for _ in range(2):
        report = watcher.tick()
        assert report.unfollowed == 1
        watcher.installation.store.source_states.forget([left])
    assert watcher.keys(left) == [b"k1"]
    assert watcher.keys(other) == [b"k1", b"k2"]
    rebuild_store(watcher.installation, [left])
    state = watcher.installation.store.source_states.find(left)
    assert state is not None
    assert state.kind is SourceKind.UNFOLLOWED

    # Whoever names it reads it.
    ingest_kafka_topics(watcher.installation, watcher.cluster, {left: left}, KafkaRequest(), as_of_ms=1)
    assert watcher.keys(left) == [b"k1", b"k2"]
    watcher.produce(left, "k3")
    assert set_following(watcher.installation, left, follows=True)
    assert watcher.installation.store.source_states.find(left) is None
    assert watcher.tick().unfollowed == 0
    assert watcher.keys(left) == [b"k1", b"k2", b"k3"]
    assert [each for each in watcher.list_actions(left) if "follow" in each] == ["unfollow", "follow"]


def test_unfollowing_a_gone_topic_closes_its_alert(watcher: Watcher) -> None:
    """And a topic that the settings do not name any more is none of theirs."""
    unfollowed, unnamed = watcher.create("unfollowed", "unnamed")
    for topic in (unfollowed, unnamed):
        watcher.produce(topic, "k1")
    watcher.tick()
    for topic in (unfollowed, unnamed):
        watcher.delete(topic)
    assert watcher.tick().gone == (unfollowed, unnamed)
    set_following(watcher.installation, unfollowed, follows=False)
    assert list_alerts(watcher, unfollowed) == {}
    assert watcher.tick().gone == (unnamed,)
    wanted = KafkaRequest(follows=True)
    follow_topics(watcher.installation, watcher.cluster, [], wanted, as_of_ms=1, missing=[])
    assert list_alerts(watcher, unnamed) == {}
    assert watcher.installation.store.source_states.find(unnamed) is None
    with pytest.raises(KafkaException):
        watcher.delete(unnamed)
