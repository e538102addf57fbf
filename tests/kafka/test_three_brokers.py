"""Three brokers of which some die, stop or move: every record that was acknowledged is in the log, once, at its place.

What happens to the cluster is chosen by a seed. `make test` tries three, `make test-long` more.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from parity.archive import open_archive
from parity.broker_topics import BrokerTopics
from parity.cluster import FOLLOWED, REPLICAS, FollowedCluster
from parity.random_topics import make_topics
from parity.run import ParityRun
from tests.kafka.accounted_topic import AccountedTopic
from tests.kafka.cluster_activities import Activity, follow_once, ingest_once, repeat_until_done
from tests.kafka.cluster_schedule import Schedule
from tests.kafka.restored_topics import Target, list_rows, make_log, open_present_world
from tests.support.cli_runner import winnow
from tests.support.examples import IS_LONG
from tests.support.kafka_cluster import (
    KafkaCluster,
    create_unclean_topic,
    lose_records_by_unclean_election,
    write_records,
)
from tests.support.kafka_java_admin import JavaAdmin
from tests.support.waiting import wait_until
from tests.support.world import World
from winnow.errors import BadInputError, ConfigurationError, ServiceError
from winnow.kafka import cluster as cluster_of_winnow
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.kafka.reading import ReadingRules
from winnow.pipeline.restore import write_records as restore_writing

FIRST_SEED = int(os.environ.get("CROWD_SEED") or 0) if IS_LONG else 0
SEEDS = range(FIRST_SEED, FIRST_SEED + (20 if IS_LONG else 3))
ROUNDS = 4 if IS_LONG else 1
PARTITIONS = 3
"""As many as there are nodes, so each node leads one of every topic."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose log is restored."""
    with open_present_world(tmp_path_factory.mktemp("source")) as world:
        make_log(world, PARTITIONS)
        yield world


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_record_is_in_the_log_once_whatever_happens_to_the_cluster(
    cluster: KafkaCluster,
    admin: JavaAdmin,
    source: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """Nodes die, stop and stand still during ingest, following and a restore, all of which go on meanwhile."""
    monkeypatch.setattr(restore_writing, "TRANSACTION_BYTES", 8_000)
    # A request that is under way to a broker that dies is waited for so long.
    monkeypatch.setattr(cluster_of_winnow, "REQUEST_TIMEOUT_S", 5.0)
    servers = cluster.bootstrap_servers
    prefix = uuid.uuid4().hex[:8]
    topics = [AccountedTopic(cluster, f"{prefix}-{number}", seed=seed + number) for number in range(3)]
    for topic in topics:
        cluster.create_topic(topic.name, partitions=PARTITIONS, config={"min.insync.replicas": "2"})
    ingested, followed = [topics[0].name], [topic.name for topic in topics[1:]]
    published = source.read()
    with open_present_world(tmp_path / "archive") as archive, open_present_world(tmp_path / "followers") as followers:
        target = Target(servers)  # with two replicas: the cluster refuses a third while a node is away
        activities = (
            Activity(lambda: ingest_once(archive, servers, ingested)),
            Activity(lambda: follow_once(followers, servers, followed)),
            Activity(lambda: target.restore(source, bytes_per_second=50_000, replication_factor=2)),
        )
        schedule = Schedule(cluster, admin, topics, seed)
        with ExitStack() as running:
            for topic in topics:
                topic.begin()
            for activity in activities:
                running.enter_context(activity)
            wait_until(lambda: all(topic.acknowledged for topic in topics))
            for _ in range(ROUNDS):
                schedule.run_round()
            cluster.recover()
        for topic in topics:
            topic.end()
        repeat_until_done(lambda: ingest_once(archive, servers, ingested))
        repeat_until_done(lambda: follow_once(followers, servers, followed))
        for activity in activities:
            assert not activity.faults, (schedule.told, *activity.faults)
        for topic, world in zip(topics, (archive, followers, followers), strict=True):
            assert topic.find_faults(world.read(topic=topic.name)) == [], schedule.told
        target.restore(source, replication_factor=2)
        assert [(number, row) for number, _, row in target.read()] == list_rows(published), schedule.told


def name_records(prefix: str, count: int) -> list[tuple[bytes, bytes]]:
    """Keys and values that tell which write they are of."""
    return [(b"key %d" % number, f"{prefix} {number}".encode()) for number in range(count)]


def test_what_brokers_lost_by_an_unclean_election_or_a_deletion_stays_in_the_log_and_is_refused(
    cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is appended above records that Kafka does not have any more, until a person says so."""
    servers = cluster.bootstrap_servers
    unclean, deleted = f"unclean-{uuid.uuid4().hex[:8]}", f"deleted-{uuid.uuid4().hex[:8]}"
    create_unclean_topic(cluster, unclean, (1, 2))
    cluster.create_topic(deleted, assignment=[(1, 2, 3)])
    first, lost, second = name_records("first", 10), name_records("lost", 5), name_records("second", 3)
    for topic in (unclean, deleted):
        write_records(cluster, topic, first)
    with open_present_world(tmp_path / "keeping") as world, open_present_world(tmp_path / "taking") as taking:

        def read_values(topic: str) -> list[bytes | None]:
            return [record.value for record in world.read(topic=topic)]

        def archive_and_delete() -> None:
            repeat_until_done(lambda: ingest_once(world, servers, [unclean, deleted]))
            repeat_until_done(lambda: ingest_once(taking, servers, [unclean]))
            cluster.delete_topic(deleted)
            cluster.create_topic(deleted, assignment=[(1, 3)])  # node 2 does not run, and has the old one on its disk
            write_records(cluster, deleted, second)

        # Kafka's log ends below ours afterwards.
        lose_records_by_unclean_election(cluster, unclean, lost, second, read=archive_and_delete)
        for topic in (unclean, deleted):
            with pytest.raises(BadInputError, match="Nothing of this call landed"):
                repeat_until_done(partial(ingest_once, world, servers, [topic]))
        assert read_values(unclean) == [value for _, value in first + lost]
        assert read_values(deleted) == [value for _, value in first]
        repeat_until_done(lambda: ingest_once(world, servers, [deleted], begins_epoch=True))
        assert read_values(deleted) == [value for _, value in first + second]
        # It grows beyond ours, with other records at the same offsets.
        third = name_records("third", 8)
        write_records(cluster, unclean, third)
        with pytest.raises(BadInputError, match=f"{unclean}-0 from offset 10 on .* read up to 15, and ends at 21 now"):
            repeat_until_done(partial(ingest_once, world, servers, [unclean]))
        assert read_values(unclean) == [value for _, value in first + lost]
        repeat_until_done(lambda: ingest_once(world, servers, [unclean], diverged="keep"))
        assert read_values(unclean) == [value for _, value in first + lost + second + third]
        assert [record.value for record in taking.read(topic=unclean)] == [value for _, value in first + lost]
        monkeypatch.setenv("WINNOW_HOME", str(taking.installation.settings.home))
        take = ("ingest", "kafka", unclean, "--bootstrap-servers", servers, "--diverged", "take", "--yes", "--json")
        removed = {"partition": 0, "first_offset": 10, "end_offset": 15, "records": 5}
        assert winnow(*take).document["removed"] == [removed]
        at_kafka = list(enumerate(first + second + third))
        for _ in range(2):
            records = taking.read(topic=unclean)
            assert [(each.offset, (each.key, each.value)) for each in records] == at_kafka
            head = taking.head(unclean).snapshot_id
            assert ingest_once(taking, servers, [unclean])
            assert taking.head(unclean).snapshot_id == head


def test_topic_whose_partition_nobody_leads_is_run_again_and_stops_no_other(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    """Its only replica is on a node that does not run: nothing is concluded about its log."""
    servers = cluster.bootstrap_servers
    alone, sound = f"alone-{uuid.uuid4().hex[:8]}", f"sound-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(alone, assignment=[(1,), (3,)])
    cluster.create_topic(sound, assignment=[(1, 2, 3)])
    for topic in (alone, sound):
        write_records(cluster, topic, name_records("first", 5))
    with open_present_world(tmp_path) as world:
        repeat_until_done(lambda: ingest_once(world, servers, [alone, sound]))
        brokers = Cluster(read_client_settings(servers))
        cluster.get_broker(3).stop()
        try:
            wait_until(lambda: cluster.describe_topic(alone)[1].leader < 0)
            write_records(cluster, sound, name_records("second", 5))
            for rules in (ReadingRules(), ReadingRules(begins_epoch=True)):
                done = ingest_kafka_topics(
                    world.installation, brokers, {alone: alone}, KafkaRequest(rules), as_of_ms=world.clock()
                )
                assert [str(type(each.error).__name__) for each in done.failures] == ["ServiceError"]
                assert f"{alone}-1: no broker leads it" in str(done.failures[0].error)
            both = {alone: alone, sound: sound}
            done = ingest_kafka_topics(world.installation, brokers, both, KafkaRequest(), as_of_ms=world.clock())
            assert [(each.topic, each.records_appended) for each in done.reports] == [(sound, 5)]
            assert [each.topic for each in done.failures] == [alone]
        finally:
            cluster.start()
        write_records(cluster, alone, name_records("second", 5), partition=1)
        repeat_until_done(lambda: ingest_once(world, servers, [alone, sound]))
        assert len(world.read(topic=alone)) == len(world.read(topic=sound)) == 10
        assert len(world.head(alone).state.epochs) == 1


def test_restore_whose_target_lacks_a_node_for_its_replicas_is_run_again_when_that_is_back(
    cluster: KafkaCluster, admin: JavaAdmin, source: World
) -> None:
    """More replicas than the cluster ever had are refused instead, with the number that it has."""
    target = Target(cluster.bootstrap_servers)
    cluster.create_topic(f"whole-{uuid.uuid4().hex[:8]}")
    with pytest.raises(ConfigurationError, match=r"has 3 brokers\..* Say --replication-factor 3"):
        target.restore(source, replication_factor=4)
    cluster.get_broker(3).stop()
    try:
        admin.unregister(3)
        with pytest.raises(ServiceError, match=r"Away, .*: broker 3\..* Run it again .* --replication-factor 2\."):
            target.restore(source, replication_factor=3)
        assert target.describe() is None
    finally:
        cluster.start()
    target.restore(source, replication_factor=3)
    assert [(number, row) for number, _, row in target.read()] == list_rows(source.read())


def test_a_log_whose_leader_changed_is_cleaned_as_winnow_cleans_it(cluster: KafkaCluster, tmp_path: Path) -> None:
    """The certificate in small: the leader stops after the records were written, and is back before the cleaning."""
    cluster.recover()
    special = make_topics(1, 1, 400, segment_setting="internal.segment.bytes")
    topics = [topic for topic in special if topic.name == "show-markers"]
    followed = FollowedCluster(cluster, BrokerTopics(cluster.get_broker(FOLLOWED), topics, REPLICAS))
    with open_archive(tmp_path) as archive:
        tally = ParityRun(followed.broker, archive, topics, 1, print, 0, followed.change_leaders).run()
    assert tally.unexplained == []
    assert tally.compared["logs whose leader changed between writing and cleaning"] == 4
    assert tally.compared["cleanings by the broker"] >= 4
