"""What only Kafka's own Java client can ask of a cluster: moving replicas, forgetting nodes, and quotas of clients.

Python's client has no call for either. The client comes with the broker's jars, and PySpark's gateway runs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from broker.jars import list_spark_jars, locate_cache
from broker.kafka_broker import resolve_broker_jars
from tests.support.kafka_cluster import KafkaCluster
from winnow.embedded.java import find_java

QUOTAS = ("consumer_byte_rate", "producer_byte_rate")
_TIMEOUT_MS = 20_000


class JavaAdmin:
    """Kafka's ``Admin`` of one cluster. Get it from :func:`open_java_admin`."""

    def __init__(self, jvm: Any, servers: str) -> None:
        self._jvm = jvm
        properties = jvm.java.util.Properties()
        properties.put("bootstrap.servers", servers)
        properties.put("default.api.timeout.ms", str(_TIMEOUT_MS))
        properties.put("request.timeout.ms", str(_TIMEOUT_MS // 4))
        self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Begin to move partitions: each to the nodes that are named, the first of which is to lead it."""
        moves = self._jvm.java.util.HashMap()
        for partition, nodes in replicas.items():
            target = self._jvm.java.util.ArrayList()
            for node in nodes:
                target.add(node)
            moved = self._jvm.org.apache.kafka.clients.admin.NewPartitionReassignment(target)
            key = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
            moves.put(key, self._jvm.java.util.Optional.of(moved))
        self._admin.alterPartitionReassignments(moves).all().get()

    def count_reassignments(self) -> int:
        """Count the partitions that are still being moved."""
        return int(self._admin.listPartitionReassignments().reassignments().get().size())

    def unregister(self, node: int) -> None:
        """Have the controllers forget a node that does not run, as one that is to come back with empty disks."""
        self._admin.unregisterBroker(node).all().get()

    def throttle_clients(self, bytes_per_second: float | None) -> None:
        """Limit what each client reads and writes at a broker; None: lift the limit."""
        names = self._jvm.java.util.HashMap()
        names.put("client-id", None)  # whatever it is called
        quotas = self._jvm.org.apache.kafka.common.quota
        operations = self._jvm.java.util.ArrayList()
        for name in QUOTAS:
            operations.add(quotas.ClientQuotaAlteration.Op(name, bytes_per_second))
        alterations = self._jvm.java.util.ArrayList()
        alterations.add(quotas.ClientQuotaAlteration(quotas.ClientQuotaEntity(names), operations))
        self._admin.alterClientQuotas(alterations).all().get()

    def close(self) -> None:
        """Close its connections."""
        self._admin.close()


@contextmanager
def open_java_admin(cluster: KafkaCluster) -> Iterator[JavaAdmin]:
    """Run Kafka's Java client beside this process until the block ends."""
    java = find_java(os.environ, locate_cache().parent) / "bin" / "java"
    port = launch_gateway(
        classpath=os.pathsep.join([*map(str, list_spark_jars("py4j-*.jar")), f"{resolve_broker_jars()}/*"]),
        javaopts=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"],
        java_path=str(java),
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        admin = JavaAdmin(gateway.jvm, cluster.bootstrap_servers)
        try:
            yield admin
        finally:
            admin.close()
    finally:
        gateway.shutdown()
