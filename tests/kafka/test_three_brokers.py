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
from pathlib import Path

import pytest

from tests.kafka.accounted_topic import AccountedTopic
from tests.kafka.cluster_activities import Activity, follow_once, ingest_once
from tests.kafka.restored_topics import Target, list_rows, make_log, open_present_world
from tests.support.kafka_cluster import KafkaCluster, run_cluster
from tests.support.kafka_java_admin import JavaAdmin, open_java_admin
from tests.support.waiting import wait_until
from winnow.embedded.kafka_broker import KafkaBroker
from winnow.pipeline.restore import write_records

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
        time.sleep(self._chosen.uniform(0, 6))
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
    cluster: KafkaCluster, admin: JavaAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Nodes die, stop and stand still during ingest, following and a restore, all of which go on meanwhile."""
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", 8_000)
    servers = cluster.bootstrap_servers
    prefix = uuid.uuid4().hex[:8]
    topics = [AccountedTopic(cluster, f"{prefix}-{number}", seed=seed + number) for number in range(3)]
    for topic in topics:
        cluster.create_topic(topic.name, partitions=PARTITIONS, config={"min.insync.replicas": "2"})
    ingested, followed = [topics[0].name], [topic.name for topic in topics[1:]]
    with ExitStack() as stack:
        archive, followers, source = (
            stack.enter_context(open_present_world(tmp_path / name)) for name in ("archive", "followers", "source")
        )
        published = make_log(source, PARTITIONS)
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
