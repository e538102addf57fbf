"""A Kafka cluster of several nodes on this machine, each of which can be killed, stopped and paused by itself.

Every node is a broker and a voter of the controllers' quorum, so while more than half of them live, topics can be
created and leaders elected, whichever node is the active controller.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from broker.addresses import find_free_ports
from broker.kafka_broker import (
    DEFAULT_VERSION,
    QUICK_START,
    KafkaBroker,
    make_cluster_id,
    prepare_broker,
)
from tests.support.waiting import wait_until
from winnow.embedded.processes import start_guardian
from winnow.errors import ServiceError

JVM_OPTIONS = (*QUICK_START, "-Xmx320m")
FOR_EVER = {"retention.ms": "-1"}
"""Records of tests are old; a broker would delete them."""

_START_ATTEMPTS = 3
_ANSWER_TIMEOUT_S = 3
_WAIT_S = 120
"""A node takes seconds to start, and a minute on a machine that is busy."""


def _describe_replication(nodes: int) -> dict[str, str]:
    # A transaction survives the death of one node.
    return {
        "default.replication.factor": str(nodes),
        "offsets.topic.replication.factor": str(nodes),
        "transaction.state.log.replication.factor": str(nodes),
        "transaction.state.log.min.isr": str(nodes // 2 + 1),
        "replica.lag.time.max.ms": "5000",
        "controller.quorum.election.timeout.ms": "1000",
        "controller.quorum.fetch.timeout.ms": "3000",
    }


@dataclass(frozen=True)
class Partition:
    """What the cluster says of a partition: ``leader`` is -1 while nobody leads it."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class KafkaCluster:
    """The nodes, numbered from 1. Get it from :func:`run_cluster`."""

    brokers: Sequence[KafkaBroker]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, also of those that do not run."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def get_broker(self, node_id: int) -> KafkaBroker:
        """Return the node with this id."""
        return self.brokers[node_id - 1]

    def start(self) -> None:
        """Start the nodes that do not run, side by side; return when each of them answers.

        Raises:
            ServiceError: one of them ended, or does not answer within two minutes.
        """
        waiting = [broker for broker in self.brokers if broker.pid is None]
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(KafkaBroker.launch, waiting))
            list(threads.map(KafkaBroker.wait_until_ready, waiting))

    def recover(self) -> None:
        """Let every node run again, whatever was done to it."""
        for broker in self.brokers:
            broker.resume()
        self.start()

    def kill(self) -> None:
        """Kill every node."""
        for broker in self.brokers:
            broker.kill()

    def open_admin(self) -> AdminClient:
        """A client that creates and deletes topics; its requests end with it, so keep it until they are answered."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int = 3,
        assignment: Sequence[Sequence[int]] = (),
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until every replica is in sync.

        ``assignment``: the replicas of each partition by node id, the preferred leader first; chosen by Kafka when left
        out. Records are kept for ever unless ``config`` says otherwise.
        """
        values = {**FOR_EVER, **(config or {})}
        if assignment:
            topic = NewTopic(
                name, len(assignment), replica_assignment=[list(each) for each in assignment], config=values
            )
        else:
            topic = NewTopic(name, partitions, replication, config=values)
        admin = self.open_admin()

        def create() -> bool:
            try:
                admin.create_topics([topic], request_timeout=_ANSWER_TIMEOUT_S)[name].result()
            except KafkaException as problem:
                # One that was deleted just before may still be there; one whose creation was not answered is there.
                if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    return False
            return self._is_in_sync(name)

        wait_until(create, within_s=_WAIT_S)

    def add_partitions(self, name: str, count: int) -> None:
        """Let a topic have ``count`` partitions, and wait until each is led."""
        admin = self.open_admin()

        def add() -> bool:
            with contextlib.suppress(KafkaException):  # an answer that did not come says nothing
                admin.create_partitions([NewPartitions(name, count)], request_timeout=_ANSWER_TIMEOUT_S)[name].result()
            return len(self.describe_topic(name)) == count

        wait_until(add, within_s=_WAIT_S)
        self.wait_until_whole(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until the brokers know it no more."""
        admin = self.open_admin()

        def delete() -> bool:
            with contextlib.suppress(KafkaException):  # an answer that did not come says nothing
                admin.delete_topics([name], request_timeout=_ANSWER_TIMEOUT_S)[name].result()
            return not self.describe_topic(name)

        wait_until(delete, within_s=_WAIT_S)

    def describe_topic(self, name: str) -> dict[int, Partition]:
        """Return what a living node says of the topic's partitions, by number; nothing while it knows no such topic."""
        admin = self.open_admin()
        try:
            topic = admin.describe_topics(TopicCollection([name]), request_timeout=_ANSWER_TIMEOUT_S)[name].result()
        except KafkaException:
            return {}
        return {
            each.id: Partition(
                each.leader.id if each.leader is not None else -1,
                tuple(node.id for node in each.replicas),
                tuple(node.id for node in each.isr),
            )
            for each in topic.partitions
        }

    def find_leader(self, name: str, partition: int = 0) -> KafkaBroker:
        """Return the node that leads a partition; wait until there is one that runs.

        Raises:
            AssertionError: nobody leads it within two minutes.
        """
        leaders: list[KafkaBroker] = []

        def is_led() -> bool:
            described = self.describe_topic(name).get(partition)
            if described is None or described.leader < 0:
                return False
            leaders[:] = [self.get_broker(described.leader)]
            return leaders[0].pid is not None

        wait_until(is_led, within_s=_WAIT_S)
        return leaders[0]

    def wait_for_in_sync(self, name: str, nodes: Sequence[int], partition: int = 0) -> None:
        """Wait until exactly the replicas on ``nodes`` are in sync."""

        def is_reached() -> bool:
            described = self.describe_topic(name).get(partition)
            return described is not None and set(described.in_sync) == set(nodes)

        wait_until(is_reached, within_s=_WAIT_S)

    def wait_until_whole(self, name: str) -> None:
        """Wait until every replica of every partition is in sync."""
        wait_until(partial(self._is_in_sync, name), within_s=_WAIT_S)

    def _is_in_sync(self, name: str) -> bool:
        partitions = self.describe_topic(name)
        return bool(partitions) and all(
            each.leader >= 0 and set(each.in_sync) == set(each.replicas) for each in partitions.values()
        )


def create_unclean_topic(cluster: KafkaCluster, name: str, nodes: tuple[int, int] = (1, 2)) -> None:
    """Create a topic of one partition whose records :func:`lose_records_by_unclean_election` can lose."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    cluster.create_topic(name, assignment=[nodes], config=config)


def lose_records_by_unclean_election(
    cluster: KafkaCluster,
    topic: str,
    lost: Sequence[tuple[bytes, bytes]],
    instead: Sequence[tuple[bytes, bytes]] = (),
    *,
    read: Callable[[], object] = lambda: None,
) -> None:
    """Let partition 0 lose records that were acknowledged, as an unclean election does, and grow again.

    ``topic`` is one of :func:`create_unclean_topic`. The follower ends; ``lost`` is written with acks=all, which the
    leader alone acknowledges; ``read`` is called then, the last time that they can be read. The leader ends and the
    follower starts, which leads then, without ``lost``; ``instead`` is written to it. At last both run, and the one
    that led has cut its log to the other's. They end in an orderly way, which leaves the same as a crash and is
    noticed at once.
    """
    described = cluster.describe_topic(topic)[0]
    leader = cluster.get_broker(described.leader)
    follower = cluster.get_broker(next(each for each in described.replicas if each != described.leader))
    follower.stop()
    cluster.wait_for_in_sync(topic, [leader.node_id])
    write_records(cluster, topic, lost)
    read()
    leader.stop()
    follower.start()
    wait_until(lambda: cluster.find_leader(topic) is follower, within_s=_WAIT_S)
    write_records(cluster, topic, instead)
    cluster.start()
    cluster.wait_until_whole(topic)


def write_records(
    cluster: KafkaCluster, topic: str, records: Sequence[tuple[bytes, bytes]], partition: int = 0
) -> list[int]:
    """Write keys and values with acks=all; return the offsets that were acknowledged, one for each record.

    Raises:
        AssertionError: one was not acknowledged within a minute.
    """
    offsets: dict[int, int] = {}
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all", "enable.idempotence": True}
    )
    for number, (key, value) in enumerate(records):

        def note(error: KafkaError | None, message: object, number: int = number) -> None:
            assert error is None, error
            offsets[number] = message.offset()  # type: ignore[attr-defined]

        producer.produce(topic, value, key, partition, on_delivery=note)
    assert producer.flush(60) == 0
    return [offsets[number] for number in range(len(records))]


@contextlib.contextmanager
def run_cluster(
    folder: Path,
    nodes: int = 3,
    *,
    version: str = DEFAULT_VERSION,
    jvm_options: Sequence[str] = JVM_OPTIONS,
    properties: Mapping[str, str] | None = None,
) -> Iterator[KafkaCluster]:
    """Run a cluster with its data in ``folder`` until the block ends, when its nodes are killed.

    Raises:
        ConfigurationError: PySpark or Java is missing.
        ServiceError: the jars cannot be fetched, or a node does not start.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with start_guardian(None, folder / "guardian.log") as guardian:

        def prepare(attempt: int) -> KafkaCluster:
            ports = {node: find_free_ports() for node in range(1, nodes + 1)}
            voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, controller) in ports.items())
            cluster_id = make_cluster_id()
            return KafkaCluster(
                [
                    prepare_broker(
                        folder / f"attempt-{attempt}" / f"node-{node}",
                        guardian,
                        version=version,
                        jvm_options=jvm_options,
                        properties={**_describe_replication(nodes), **(properties or {})},
                        node_id=node,
                        cluster_id=cluster_id,
                        ports=ports[node],
                        voters=voters,
                    )
                    for node in ports
                ]
            )

        cluster = prepare(0)
        try:
            for attempt in range(1, _START_ATTEMPTS + 1):
                try:
                    _format_storages(cluster)
                    cluster.start()
                    break
                except ServiceError:
                    # Another process may have taken a port since.
                    if attempt == _START_ATTEMPTS:
                        raise
                    cluster.kill()
                    cluster = prepare(attempt)
            yield cluster
        finally:
            cluster.kill()


def _format_storages(cluster: KafkaCluster) -> None:
    """Format the storage of the first node, and give each other node a copy with an identity of its own."""
    first, *others = cluster.brokers
    first.format_storage()
    for broker in others:
        shutil.copytree(first.data_folder, broker.data_folder)
        meta = broker.data_folder / "meta.properties"
        identity = {"node.id": str(broker.node_id), "directory.id": make_cluster_id()}
        names = (line.partition("=") for line in meta.read_text().splitlines() if not line.startswith("#"))
        meta.write_text("".join(f"{name}={identity.get(name, value)}\n" for name, _, value in names))
