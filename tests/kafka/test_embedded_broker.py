"""The embedded broker: jars that arrive whole or not at all, and a broker that ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker import jars
from broker.kafka_broker import KafkaBroker, resolve_broker_jars, run_broker
from winnow.errors import ServiceError

BROKER_OF_A_PROCESS = """
import sys, time
from pathlib import Path
from broker.kafka_broker import run_broker
with run_broker(Path(sys.argv[1])) as broker:
    print(broker.pid, flush=True)
    time.sleep(600)
"""


def wait_until(reached: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.1)


def create_topic(broker: KafkaBroker, name: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    for created in admin.create_topics([NewTopic(name, 1, 1, config=settings)]).values():
        created.result()


def read_values(broker: KafkaBroker, topic: str, end: int) -> dict[int, bytes | None]:
    """The committed records of the only partition, up to ``end``, by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, bytes | None] = {}
    try:
        while not found or max(found) < end - 1:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is not None:
                break  # the end of the partition
            offset = message.offset()
            assert offset is not None
            found[offset] = message.value()
    finally:
        consumer.close()
    return found


def is_running(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_committed_transactions_are_read_and_aborted_ones_are_not(broker: KafkaBroker) -> None:
    create_topic(broker, "transactions")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "transactions", "log_level": 0}
    )
    producer.init_transactions()
    for value, commit in ((b"kept", True), (b"aborted", False), (None, True)):
        producer.begin_transaction()
        producer.produce("transactions", value, b"key")
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    assert list(read_values(broker, "transactions", 5).values()) == [b"kept", None]


def test_the_cleaner_compacts_as_soon_as_it_may(broker: KafkaBroker) -> None:
    create_topic(
        broker, "cleaned", cleanup_policy="compact", internal_segment_bytes="10000", min_cleanable_dirty_ratio="0.01"
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "batch.size": 1000})
    for number in range(1000):
        producer.produce("cleaned", b"%04d" % number, b"key %d" % (number % 7))
    producer.flush()
    checkpoint = broker.data_folder / "cleaner-offset-checkpoint"
    wait_until(lambda: checkpoint.exists() and "cleaned 0 " in checkpoint.read_text())
    found = read_values(broker, "cleaned", 1000)
    assert len(found) < 500
    assert max(found) == 999
    assert "cleaned-0" in broker.cleaner_log_file.read_text()


def test_records_outlive_a_kill_and_the_address_stays(broker: KafkaBroker) -> None:
    create_topic(broker, "restarted")
    address = broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    producer.produce("restarted", b"before", b"key")
    assert producer.flush(20) == 0
    broker.kill()
    assert broker.pid is None
    broker.start()
    assert broker.bootstrap_servers == address
    assert read_values(broker, "restarted", 1) == {0: b"before"}


def test_a_broker_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", BROKER_OF_A_PROCESS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.communicate()
    wait_until(lambda: not is_running(pid))


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    refused = pytest.raises(ServiceError, match=r"did not start.*log\.retention\.ms")
    with refused, run_broker(tmp_path, properties={"log.retention.ms": "many"}):
        pass


def test_jars_that_are_there_need_neither_java_nor_network(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = resolve_broker_jars()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(jars, "find_java", None)
    assert resolve_broker_jars() == folder
    assert any(folder.glob("org.apache.kafka_kafka_2.13-*.jar"))


def test_without_the_repository_nothing_is_kept_and_the_message_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / ".ivy2" / "ivysettings.xml"
    settings.parent.mkdir()
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><ibiblio name="none" m2compatible="true" '
        'root="http://127.0.0.1:9/"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ServiceError, match=r"org\.apache\.kafka:kafka_2\.13:4\.3\.1 could not be fetched.*mirror"):
        resolve_broker_jars("4.3.1")
    kept = sorted(path.name for path in (tmp_path / "cache" / "winnow" / "jars").iterdir())
    assert not [name for name in kept if name.startswith(("kafka", "draft"))]


def test_a_download_that_was_killed_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    left = tmp_path / "winnow" / "jars" / "draft-killed" / "jars"
    left.mkdir(parents=True)
    (left / "half.jar").write_bytes(b"half")

    def download(coordinates: object, exclude: object, draft: Path) -> None:
        (draft / "jars").mkdir()
        (draft / "jars" / "whole.jar").write_bytes(b"whole")

    monkeypatch.setattr(jars, "_download", download)
    folder = jars.resolve_jars(["some:thing:1"], "thing")
    assert [path.name for path in folder.iterdir()] == ["whole.jar"]
    assert not left.exists()
