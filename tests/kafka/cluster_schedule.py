"""What happens to a cluster: nodes die, stop and stand still, partitions are added and moved, clients are throttled."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from broker.kafka_broker import KafkaBroker
from tests.kafka.accounted_topic import AccountedTopic
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_java_admin import JavaAdmin
from tests.support.waiting import wait_until

NODE_FAULTS = (KafkaBroker.kill, KafkaBroker.stop, KafkaBroker.pause)
MAXIMUM_PARTITIONS = 9


class Schedule:
    """Things that happen to a cluster, in an order that a seed chooses; ``told`` says which."""

    def __init__(self, cluster: KafkaCluster, admin: JavaAdmin, topics: list[AccountedTopic], seed: int) -> None:
        self._cluster, self._admin, self._topics = cluster, admin, topics
        self._chosen = random.Random(seed)
        self._fault = seed  # seeds in a row begin with different ones
        self.told: list[str] = []

    def run_round(self) -> None:
        """Let a node fail and come back, then something happen to topics or clients."""
        self._fail(self._chosen.choice(self._cluster.brokers), NODE_FAULTS[self._fault % len(NODE_FAULTS)])
        self._fault = self._chosen.randrange(len(NODE_FAULTS))
        self._chosen.choice((self._add_partition, self._move_partition, self._throttle))()

    def _fail(self, broker: KafkaBroker, fault: Callable[[KafkaBroker], None]) -> None:
        self.told.append(f"node {broker.node_id}: {fault.__name__}")
        fault(broker)
        # Less or more than the session that keeps it among the brokers.
        time.sleep(self._chosen.uniform(0, 5))
        broker.resume()
        broker.start()

    def _add_partition(self) -> None:
        topic = self._chosen.choice(self._topics)
        if topic.partitions >= MAXIMUM_PARTITIONS:
            return
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
