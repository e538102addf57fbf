"""Records that an open transaction holds back are said wherever somebody asks how far a log is behind Kafka."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import LiveTopic, create_live_topic
from tests.support.cli_runner import winnow
from tests.support.kafka_scripts import run_kafka_script
from tests.support.waiting import wait_until
from tests.support.world import World, define_world
from winnow.clock import format_ms, read_wall_clock_ms
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.open_transactions import date_open_transactions
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.request import IngestReport, UncommittedRecords
from winnow.pipeline.monitor.metrics import measure_topic
from winnow.planning.kafka_configuration import TakingRules
from winnow.report.metrics import list_metric_values
from winnow.store.ingest_lag import IngestLag

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


class OpenTransaction:
    """A transaction that somebody began and did not end yet."""

    def __init__(self, topic: LiveTopic) -> None:
        self._topic = topic
        name = {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": 600_000}
        self._producer = Producer({"bootstrap.servers": topic.broker.bootstrap_servers, "log_level": 0, **name})
        self._producer.init_transactions()
        self._producer.begin_transaction()

    def write(self, partition: int, *keys: str, timestamp_ms: int, value: bytes = b"held") -> None:
        """Write a record for each key, and wait until the broker has them."""
        for key in keys:
            self._producer.produce(self._topic.name, value, key, partition, timestamp=timestamp_ms)
        assert self._producer.flush(60) == 0

    def end(self, *, commits: bool) -> None:
        """End it, and wait until its records are as stable as all others."""
        if commits:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()
        wait_until(lambda: not describe(self._topic).is_held)


def describe(topic: LiveTopic) -> BrokerTopic:
    """Describe a topic as the code under test does."""
    settings = read_client_settings(topic.broker.bootstrap_servers)
    found = Cluster(settings).describe_topics([topic.name])
    return date_open_transactions(settings, found)[topic.name]


world = define_world(in_the_present=True)


def ingest(world: World, topic: LiveTopic) -> IngestReport:
    cluster = Cluster(read_client_settings(topic.broker.bootstrap_servers))
    wanted = KafkaRequest(creates=True, configuration=TakingRules(takes=True))
    done = ingest_kafka_topics(world.installation, cluster, {topic.name: topic.name}, wanted, as_of_ms=world.clock())
    assert not done.failures
    return done.reports[0]


def find_metrics(world: World, topic: LiveTopic, *names: str) -> list[float | None]:
    told = list_metric_values(measure_topic(world.installation, topic.name, as_of_ms=world.clock()))
    return [told[f"ingest-{name}"] for name in names]


@pytest.mark.parametrize("ends_by", ["commit", "printed command"])
def test_held_records_are_said_with_the_age_of_their_transaction_until_it_ends(
    broker: KafkaBroker, world: World, tmp_path: Path, ends_by: str
) -> None:
    """Committed records above it are held as well: they are missing since it began, and their deadline counts."""
    topic = create_live_topic(broker, cleanup_policy="compact", max_compaction_lag_ms=str(DAY_MS))
    began_ms = world.clock() - 2 * HOUR_MS
    topic.write([(0, b"k1", b"v", began_ms, ()), (1, b"k1", b"v", began_ms, ())])
    transaction = OpenTransaction(topic)
    transaction.write(0, "t1", "t2", "t3", timestamp_ms=began_ms)
    topic.write([(0, b"k2", b"v", began_ms + 7, ())])

    report = ingest(world, topic)
    assert report.records_appended == 2
    assert report.uncommitted == (UncommittedRecords(0, 1, 5, 4, began_ms),)
    notice = next(notice for notice in report.notices if "open transaction" in notice)
    since = f"4 records are held by an open transaction since {format_ms(began_ms)} (2 h), in {topic.name}-0 from"
    assert notice.startswith(f"{since} offset 1 on.")
    printed = f"kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic.name} --partition 0"
    assert notice.endswith(f"{printed} --start-offset 1")
    held, level = (world.installation.store.ingest_lags.find(topic.name)[number] for number in range(2))
    looked_ms = held.looked_at_ms
    assert held == IngestLag(topic.name, 0, looked_ms, 0, began_ms, began_ms + DAY_MS, 4, began_ms)
    assert level == IngestLag(topic.name, 1, looked_ms, 0, looked_ms, looked_ms + DAY_MS)
    assert find_metrics(world, topic, "lag-records", "uncommitted-records") == [0, 4]
    assert find_metrics(world, topic, "open-transaction-secs") == [(looked_ms - began_ms) / 1000]
    assert measure_topic(world.installation, topic.name, as_of_ms=world.clock()).next_deadline_ms is not None

    again = ingest(world, topic)
    assert any("Nothing new that is committed" in notice for notice in again.notices)
    if ends_by == "commit":
        transaction.end(commits=True)
    else:
        command = notice[notice.index("kafka-transactions.sh") :]
        run_kafka_script(command, topic.broker.bootstrap_servers, tmp_path)
    wait_until(lambda: not describe(topic).is_held)
    world.clock.now_ms = read_wall_clock_ms()
    after = ingest(world, topic)
    assert after.records_appended == (4 if ends_by == "commit" else 1)
    assert after.uncommitted == ()
    assert not any("open transaction" in notice for notice in after.notices)
    assert find_metrics(world, topic, "lag-records", "uncommitted-records", "open-transaction-secs") == [0, 0, 0]
    assert {lag.open_since_ms for lag in world.installation.store.ingest_lags.find(topic.name).values()} == {None}


def test_the_ages_of_transactions_in_many_partitions_are_read_together(broker: KafkaBroker) -> None:
    """A partition with much to read keeps no other from being read, and a batch of any size tells its age."""
    topic = create_live_topic(broker, partitions=12)
    began_ms = read_wall_clock_ms() - HOUR_MS
    transaction = OpenTransaction(topic)
    for partition in range(11):
        keys = [f"k{number}" for number in range(1 if partition else 100)]
        transaction.write(partition, *keys, timestamp_ms=began_ms + partition, value=b"x" * 100_000)
    found = describe(topic)
    assert [found.partitions[number].open_since_ms for number in range(11)] == [began_ms + p for p in range(11)]
    assert found.partitions[11].open_since_ms is None
    assert [found.partitions[number].records_uncommitted for number in (0, 1, 11)] == [100, 1, 0]
    transaction.end(commits=False)


@contextmanager
def keep_writing(topic: LiveTopic) -> Iterator[None]:
    """Write to a topic without transactions until the block ends."""
    producer = Producer({"bootstrap.servers": topic.broker.bootstrap_servers, "linger.ms": 0, "log_level": 0})
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            producer.produce(topic.name, b"v", b"k", 0)
            producer.flush(10)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_records_that_come_while_the_brokers_are_asked_are_taken_for_no_transaction(broker: KafkaBroker) -> None:
    topic = create_live_topic(broker, partitions=1)
    cluster = Cluster(read_client_settings(broker.bootstrap_servers))
    stable_offsets: set[int] = set()
    uncommitted: set[int] = set()
    with keep_writing(topic):
        while len(stable_offsets) < 10:
            look = cluster.describe_topics([topic.name])[topic.name].partitions[0]
            stable_offsets.add(look.stable_offset)
            uncommitted.add(look.records_uncommitted)
    assert uncommitted == {0}


def test_the_command_says_it_in_words_and_in_json(
    broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that began just now is no reason to end it."""
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    topic = create_live_topic(broker, partitions=1)
    began_ms = read_wall_clock_ms()
    transaction = OpenTransaction(topic)
    transaction.write(0, "t1", timestamp_ms=began_ms)
    command = ("ingest", "kafka", topic.name, "--bootstrap-servers", broker.bootstrap_servers)
    first = winnow(*command, "--create")
    assert f"{topic.name}: 0 records appended from Kafka, 1 held by an open transaction." in first.stdout
    assert f"1 record is held by an open transaction since {format_ms(began_ms)} (less than a minute)" in first.stderr
    assert "It hangs" not in first.stderr
    (held,) = winnow(*command, "--json").document["uncommitted"]
    assert held == {
        "partition": 0, "last_stable_offset": 0, "end_offset": 1, "records": 1, "open_since_ms": began_ms
    }  # fmt: skip
    transaction.end(commits=True)
    done = winnow(*command)
    assert f"{topic.name}: 1 record appended from Kafka. Snapshot" in done.stdout
    assert "transaction" not in done.stderr
