"""The oldest broker that is supported: what it has is ingested, and given back to it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.kafka_broker import KafkaBroker, run_broker
from tests.kafka.live_topics import create_live_topic, make_rows
from tests.kafka.restored_topics import Target, list_rows, make_log, open_present_world
from tests.support.world import open_world
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics

OLDEST_VERSION = "3.0.2"
"""Of the first line of versions whose brokers have transactions without ZooKeeper, which no test here starts."""


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of that version."""
    with run_broker(tmp_path_factory.mktemp("oldest"), version=OLDEST_VERSION) as running:
        yield running


def test_the_oldest_supported_broker_gives_every_committed_record(oldest: KafkaBroker, tmp_path: Path) -> None:
    topic = create_live_topic(oldest)
    rng = random.Random(3)
    topic.write(make_rows(rng, 60))
    topic.write_transaction(make_rows(rng, 20))
    topic.write_transaction(make_rows(rng, 20), commits=False)
    cluster = Cluster(read_client_settings(oldest.bootstrap_servers))
    with open_world(tmp_path) as world:

        def ingest() -> None:
            done = ingest_kafka_topics(
                world.installation,
                cluster,
                {topic.name: topic.name},
                KafkaRequest(creates=True),
                as_of_ms=world.clock(),
            )
            assert done.failures == ()

        ingest()
        topic.write(make_rows(rng, 30))
        ingest()
        ingest()
        assert world.read(topic=topic.name) == topic.records


def test_the_oldest_supported_broker_takes_a_restore(oldest: KafkaBroker, tmp_path: Path) -> None:
    target = Target(oldest.bootstrap_servers)
    with open_present_world(tmp_path) as world:
        records = make_log(world, rounds=10)
        report = target.restore(world)
    assert report.records == len(records)
    assert [(number, row) for number, _, row in target.read()] == list_rows(records)
