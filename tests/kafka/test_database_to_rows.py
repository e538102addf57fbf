"""From a database to its rows: PostgreSQL, Debezium, Kafka, Winnow; the compacted logs equal the tables.

Random transactions run on three tables, and every part is killed once while they do: the Connect worker, PostgreSQL,
the broker, Winnow's ingest. After each kill the part comes back, what it missed or wrote twice arrives, and the logs
are ingested, compacted and compared with the tables. ``DATABASE_ROUNDS`` sets how often all of that is repeated.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from broker.kafka_broker import KafkaBroker, run_broker
from tests.support.connect_worker import ConnectWorker, describe_debezium
from tests.support.object_store import find_free_port
from tests.support.shop_tables import (
    MARKER,
    TABLE_NAMES,
    TABLES,
    Changes,
    create_tables,
    load_rows,
    read_events,
    write_marker,
)
from tests.support.source_database import SourceDatabase
from tests.support.waiting import wait_until
from tests.support.world import FakeClock, World, open_world
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.topics.definition import alter_topic

PREFIX = "shop"
PARTITIONS = 2
ROUNDS = int(os.environ.get("DATABASE_ROUNDS", "1"))
TRANSACTIONS = 60
"""In each of the two halves of a round."""
DAY_MS = 86_400_000


class Shop:
    """The database, the worker and the broker, with what changes the tables, and the archive."""

    def __init__(self, database: SourceDatabase, worker: ConnectWorker, broker: KafkaBroker, world: World) -> None:
        self.database = database
        self.worker = worker
        self.broker = broker
        self.world = world
        self.changes = Changes(seed=20_261)
        self.marker = 0
        self.attempts = 0

    def change(self, transactions: int = TRANSACTIONS) -> None:
        """Run random transactions."""
        with self.database.connect() as connection:
            for _ in range(transactions):
                self.changes.run_transaction(connection)

    def wait_for_events(self) -> None:
        """Wait until the event of every change so far is at the broker."""
        self.marker += 1
        with self.database.connect() as connection:
            write_marker(connection, self.marker)
        wait_until(lambda: self.marker in self._read_markers(), within_s=120)

    def _read_markers(self) -> set[int]:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "marker"})
        topic = f"{PREFIX}.public.{MARKER}"
        try:
            found = set()
            for partition in range(PARTITIONS):
                where = TopicPartition(topic, partition, 0)
                with suppress(KafkaException):
                    _, end = consumer.get_watermark_offsets(where, timeout=10)
                    consumer.assign([where])
                    while end and (message := consumer.poll(10)) is not None and message.error() is None:
                        found.add(json.loads(message.value() or b"")["after"]["round"])
                        if (message.offset() or 0) >= end - 1:
                            break
            return found
        finally:
            consumer.close()

    def start_ingest(self) -> subprocess.Popen[str]:
        """Start ``winnow ingest kafka`` for all tables."""
        command = ["ingest", "kafka", "--topics-regex", rf"{PREFIX}[.]public[.]({'|'.join(TABLE_NAMES)})", "--create"]
        return subprocess.Popen(
            [sys.executable, "-m", "winnow.cli", *command, "--bootstrap-servers", self.broker.bootstrap_servers],
            env={**os.environ, "WINNOW_HOME": str(self.world.installation.settings.home)},
            cwd=self.world.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ingest(self) -> None:
        """Ingest all tables."""
        ended = self.start_ingest()
        output, _ = ended.communicate(timeout=120)
        assert ended.returncode == 0, output

    def check(self) -> int:
        """Ingest, compact, and compare every log with its table; return the number of deleted keys."""
        self.wait_for_events()
        self.ingest()
        # All segments are closed by then, and no tombstone may go.
        self.world.clock.now_ms = read_wall_clock_ms() + 8 * DAY_MS
        self.attempts += 1
        deleted = 0
        with self.database.connect() as connection:
            for table in TABLES:
                topic = f"{PREFIX}.public.{table.name}"
                # Debezium's topics delete; with the archive the tables are to be had at any time.
                alter_topic(self.world.installation, topic, {"cleanup.policy": "compact"}, [])
                self.world.compact(topic=topic, attempt=f"a{self.attempts}")
                found = read_events(table, self.world.read(topic=topic))
                rows = load_rows(connection, table)
                assert rows, f"{table.name} is empty"
                assert {key: row for key, row in found.items() if row is not None} == rows
                deleted += sum(row is None for row in found.values())
        return deleted


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """The shop, with rows that are older than the connector."""
    with ExitStack() as stack:
        # PostgreSQL's account, which is not root's, must reach its folder.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="winnow-shop-")))
        folder.chmod(0o755)
        (folder / "connect").mkdir()
        database = SourceDatabase(folder / "postgres", find_free_port())
        stack.callback(database.stop)
        database.start()
        broker = stack.enter_context(run_broker(folder / "kafka"))
        worker = ConnectWorker(folder / "connect", find_free_port(), bootstrap_servers=broker.bootstrap_servers)
        stack.callback(worker.kill)
        tables = [*TABLE_NAMES, MARKER]
        settings = describe_debezium(database.port, prefix=PREFIX, tables=tables, partitions=PARTITIONS)
        worker.add_connector(PREFIX, settings)
        world = stack.enter_context(open_world(tmp_path, FakeClock(read_wall_clock_ms())))
        opened = Shop(database, worker, broker, world)
        with database.connect() as connection:
            create_tables(connection)
        opened.change()
        worker.start()
        yield opened


def kill_worker(shop: Shop) -> None:
    """Events that it sent since it last kept its position arrive twice."""
    shop.worker.kill()
    shop.change()
    shop.worker.start()


def kill_database(shop: Shop) -> None:
    """A transaction is open, and is gone with it."""
    connection = shop.database.connect()
    connection.execute("UPDATE customers SET name = 'never committed'")
    shop.database.kill()
    connection.close()  # not a commit: the process that serves it may outlive the one that was killed
    shop.database.start()
    shop.change()


def kill_broker(shop: Shop) -> None:
    """The worker waits with what it has."""
    shop.broker.kill()
    shop.change()
    shop.broker.start()


def kill_ingest(shop: Shop) -> None:
    """At three moments; what it left behind does not matter."""
    for wait_s in (0.6, 1.0, 1.5):
        shop.change(TRANSACTIONS // 3)
        process = shop.start_ingest()
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        process.communicate()


KILLS: tuple[Callable[[Shop], None], ...] = (kill_worker, kill_database, kill_broker, kill_ingest)


def test_compacted_logs_are_the_tables_whatever_is_killed_on_the_way(shop: Shop) -> None:
    shop.check()
    deleted = 0
    for _ in range(ROUNDS):
        for kill in KILLS:
            shop.change()
            kill(shop)
            shop.change()
            deleted = shop.check()
    assert deleted > 10
