"""One broker for the whole folder, a cluster of three for a module; a test makes topics with names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka_cluster import KafkaCluster, run_cluster
from tests.support.kafka_java_admin import JavaAdmin, open_java_admin
from winnow.embedded.kafka_broker import KafkaBroker, run_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that all tests of the folder share; a test that stops it starts it again."""
    folder: Path = tmp_path_factory.mktemp("kafka")
    with run_broker(folder) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A cluster that all tests of a module share; a test that ends a node starts it again."""
    with run_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: KafkaCluster) -> Iterator[JavaAdmin]:
    """What only Kafka's Java client can ask of the cluster."""
    with open_java_admin(cluster) as opened:
        yield opened
