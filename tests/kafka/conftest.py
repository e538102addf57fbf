"""One broker for the whole folder, a cluster of three for a module; a test makes topics with names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.kafka_broker import KafkaBroker, run_broker
from tests.kafka.restored_topics import Target, make_log, open_present_world
from tests.kafka.small_share import SMALL
from tests.support.kafka_cluster import KafkaCluster, run_cluster
from tests.support.kafka_java_admin import JavaAdmin, open_java_admin
from tests.support.world import World
from winnow.pipeline.restore import write_records
from winnow.values.model import Record


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


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world in the present, for a restore."""
    with open_present_world(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with the odd log, for tests that leave it as it is."""
    with open_present_world(tmp_path_factory.mktemp("odd")) as opened:
        make_log(opened)
        yield opened


@pytest.fixture(scope="session")
def records(odd: World) -> list[Record]:
    """What the odd log publishes."""
    return odd.read()


@pytest.fixture
def target(broker: KafkaBroker) -> Target:
    """A topic to restore into, which does not exist yet."""
    return Target(broker.bootstrap_servers)


@pytest.fixture
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores write several transactions."""
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", SMALL)
