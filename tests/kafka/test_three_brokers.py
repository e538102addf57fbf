"""Three brokers of which some die, stop or move: every record that was acknowledged is in the log, once, at its place.

What happens to the cluster is chosen by a seed. `make test` tries three, `make test-long` more.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.kafka.accounted_topic import AccountedTopic
from tests.kafka.cluster_activities import Activity, follow_once, ingest_once
from tests.kafka.restored_topics import Target, list_rows, make_log, open_present_world
from tests.support.kafka_cluster import (
    KafkaCluster,
    create_unclean_topic,
    lose_records_by_unclean_election,
    run_cluster,
    write_records,
)
from tests.support.kafka_java_admin import JavaAdmin, open_java_admin
from tests.support.waiting import wait_until
from tests.support.world import World
from winnow.embedded.kafka_broker import KafkaBroker
from winnow.errors import BadInputError
from winnow.pipeline.restore import write_records as restore_writing

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
FIRST_SEED = int(os.environ.get("CROWD_SEED") or 0) if IS_LONG else 0
SEEDS = range(FIRST_SEED, FIRST_SEED + (20 if IS_LONG else 3))
ROUNDS = 4 if IS_LONG else 1
NODE_FAULTS = (KafkaBroker.kill, KafkaBroker.stop, KafkaBroker.pause)
PARTITIONS = 3
"""As many as there are nodes, so each node leads one of every topic."""
TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with run_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: KafkaCluster) -> Iterator[JavaAdmin]:
    with open_java_admin(cluster) as opened:
        yield opened


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose log is restored."""
    with open_present_world(tmp_path_factory.mktemp("source")) as world:
        make_log(world, PARTITIONS)
        yield world


class Schedule:
    """Things that happen to a cluster, in an order that a seed chooses; ``told`` says which."""

    def __init__(self, cluster: KafkaCluster, admin: JavaAdmin, topics: list[AccountedTopic], seed: int) -> None:
        self._cluster, self._admin, self._topics = cluster, admin, topics
        self._chosen = random.Random(seed)
        self._seed = seed
        self.told: list[str] = []

    def run(self) -> None:
        """Let a node fail, then something happen to topics or clients; again and again."""
        fault = self._seed  # each of the first seeds begins with another one
        for _ in range(ROUNDS):
            self._fail(self._chosen.choice(self._cluster.brokers), NODE_FAULTS[fault % len(NODE_FAULTS)])
            self._chosen.choice((self._add_partition, self._move_partition, self._throttle))()
            fault = self._chosen.randrange(len(NODE_FAULTS))

    def _fail(self, broker: KafkaBroker, fault: Callable[[KafkaBroker], None]) -> None:
        self.told.append(f"node {broker.node_id}: {fault.__name__}")
        fault(broker)
        # Less or more than the session that keeps it among the brokers.
        time.sleep(self._chosen.uniform(0, 5))
        broker.resume()
        broker.start()

    def _add_partition(self) -> None:
        topic = self._chosen.choice(self._topics)
        self.told.append(f"{topic.name}: a partition more")
        self._cluster.add_partitions(topic.name, topic.partitions + 1)
        topic.partitions += 1

    def _move_partition(self) -> None:
        topic = self._chosen.choice(self._topics)
        nodes = [broker.node_id for broker in self._cluster.brokers]
        moved = {0: self._chosen.sample(nodes, 2)}
        self.told.append(f"{topic.name}: partition 0 moves to nodes {moved[0]}")
        self._admin.reassign(topic.name, moved)
        wait_until(lambda: self._admin.count_reassignments() == 0)

    def _throttle(self) -> None:
        self.told.append("clients throttled")
        self._admin.throttle_clients(self._chosen.choice([2_000.0, 20_000.0]))
        time.sleep(1)
        self._admin.throttle_clients(None)


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
    servers = cluster.bootstrap_servers
    prefix = uuid.uuid4().hex[:8]
    topics = [AccountedTopic(cluster, f"{prefix}-{number}", seed=seed + number) for number in range(3)]
    for topic in topics:
        cluster.create_topic(topic.name, partitions=PARTITIONS, config={"min.insync.replicas": "2"})
    ingested, followed = [topics[0].name], [topic.name for topic in topics[1:]]
    published = source.read()
    with open_present_world(tmp_path / "archive") as archive, open_present_world(tmp_path / "followers") as followers:
        target = Target(servers)
        activities = (
            Activity(lambda: ingest_once(archive, servers, ingested)),
            Activity(lambda: follow_once(followers, servers, followed)),
            Activity(lambda: target.restore(source, bytes_per_second=50_000)),
        )
        schedule = Schedule(cluster, admin, topics, seed)
        with ExitStack() as running:
            for topic in topics:
                topic.begin()
            for activity in activities:
                running.enter_context(activity)
            wait_until(lambda: all(topic.acknowledged for topic in topics))
            schedule.run()
            cluster.recover()
        for topic in topics:
            topic.end()
        repeat_until_done(lambda: ingest_once(archive, servers, ingested))
        repeat_until_done(lambda: follow_once(followers, servers, followed))
        for activity in activities:
            assert not activity.faults, (schedule.told, *activity.faults)
        for topic, world in zip(topics, (archive, followers, followers), strict=True):
            assert topic.find_faults(world.read(topic=topic.name)) == [], schedule.told
        target.restore(source)
        assert [(number, row) for number, _, row in target.read()] == list_rows(published), schedule.told


def repeat_until_done(call: Callable[[], bool]) -> None:
    """Call until it succeeds."""
    until = time.monotonic() + TIMEOUT_S
    while not call():
        assert time.monotonic() < until


def name_records(prefix: str, count: int) -> list[tuple[bytes, bytes]]:
    """Keys and values that tell which write they are of."""
    return [(b"key %d" % number, f"{prefix} {number}".encode()) for number in range(count)]


def test_what_brokers_lost_by_an_unclean_election_or_a_deletion_stays_in_the_log_and_is_refused(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    """Nothing is appended above records that Kafka does not have any more, until a person says so."""
    servers = cluster.bootstrap_servers
    unclean, deleted = f"unclean-{uuid.uuid4().hex[:8]}", f"deleted-{uuid.uuid4().hex[:8]}"
    create_unclean_topic(cluster, unclean, (1, 2))
    cluster.create_topic(deleted, assignment=[(1, 2, 3)])
    first, lost, second = name_records("first", 10), name_records("lost", 5), name_records("second", 3)
    for topic in (unclean, deleted):
        write_records(cluster, topic, first)
    with open_present_world(tmp_path) as world:

        def read_values(topic: str) -> list[bytes | None]:
            return [record.value for record in world.read(topic=topic)]

        def archive_and_delete() -> None:
            repeat_until_done(lambda: ingest_once(world, servers, [unclean, deleted]))
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
