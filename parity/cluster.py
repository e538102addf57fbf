"""Three brokers, one of which is followed: it leads every partition once the first leader has been stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parity.broker_topics import BrokerError, BrokerTopics
from parity.random_topics import PARTITIONS, RandomTopic
from tests.support.kafka_cluster import KafkaCluster, run_cluster

FIRST_LEADER: Final = 1
FOLLOWED: Final = 2
REPLICAS: Final = (FIRST_LEADER, FOLLOWED, 3)
_PROPERTIES: Final = {"auto.leader.rebalance.enable": "false"}
"""The followed node keeps leading once the first leader is back."""
_LED_WITHIN_S: Final = 120.0
_POLL_S: Final = 0.2


@dataclass(frozen=True)
class FollowedCluster:
    """A cluster, and its topics as the followed node has them."""

    cluster: KafkaCluster
    broker: BrokerTopics

    def follow(self, topics: Sequence[RandomTopic]) -> BrokerTopics:
        """Return further topics, which the followed node leads from the beginning."""
        return BrokerTopics(self.cluster.get_broker(FOLLOWED), topics, (FOLLOWED, FIRST_LEADER, 3))

    def change_leaders(self) -> None:
        """Stop the node that leads every partition, wait until the followed one does, and let it come back.

        Raises:
            BrokerError: another node leads, or not every replica comes back into sync.
        """
        first = self.cluster.get_broker(FIRST_LEADER)
        first.stop()
        for topic in self.broker.topics:
            self._wait_until_led(topic.name)
        self.cluster.start()
        for topic in self.broker.topics:
            self.cluster.wait_until_whole(topic.name)
            self._wait_until_led(topic.name)

    def _wait_until_led(self, topic: str) -> None:
        until = time.monotonic() + _LED_WITHIN_S
        while True:
            leaders = [each.leader for each in self.cluster.describe_topic(topic).values()]
            if leaders == [FOLLOWED] * PARTITIONS:
                return
            if time.monotonic() > until:
                raise BrokerError(f"{topic} is led by the nodes {leaders}, and should be by {FOLLOWED}.")
            time.sleep(_POLL_S)


@contextmanager
def run_followed_cluster(folder: Path, version: str, topics: Sequence[RandomTopic]) -> Iterator[FollowedCluster]:
    """Run a cluster in ``folder`` until the block ends."""
    with run_cluster(folder, len(REPLICAS), version=version, properties=_PROPERTIES) as cluster:
        yield FollowedCluster(cluster, BrokerTopics(cluster.get_broker(FOLLOWED), topics, REPLICAS))
