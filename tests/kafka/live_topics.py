"""Topics of the running broker: made, written and read by Kafka's client alone, without the code under test."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from broker.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until
from winnow.values.model import Headers, Record

BASE_MS = 1_760_000_000_000
ODD_KEYS = (b"", b"a", b"\x00", b"\xff\xfe", "schlüssel".encode(), b"k" * 300)
ODD_HEADERS: tuple[Headers, ...] = (
    (),
    (("v", b"1"),),
    (("v", None), ("v", b""), ("v", b"2")),
    (("ü", b"\xff"),),
)
FOR_EVER = {"retention.ms": "-1"}
"""Records of tests are old; a broker would delete them."""


@dataclass
class LiveTopic:
    """A topic of ``broker``, and every record that was committed to it, as it must be read."""

    broker: KafkaBroker
    name: str
    partitions: int

    def __post_init__(self) -> None:
        self.records: list[Record] = []

    def write(self, rows: Sequence[tuple[int, bytes | None, bytes | None, int, Headers]], **producer: Any) -> None:
        """Write (partition, key, value, timestamp in ms, headers) and wait until all are there."""
        self._send(self._open(**producer), rows)

    def write_transaction(
        self, rows: Sequence[tuple[int, bytes | None, bytes | None, int, Headers]], *, commits: bool = True
    ) -> None:
        """Write rows in one transaction, which is committed or aborted."""
        writer = self._open(**{"transactional.id": uuid.uuid4().hex})
        writer.init_transactions()
        writer.begin_transaction()
        sent = self._send(writer, rows, counts=commits)
        if commits:
            writer.commit_transaction()
        else:
            writer.abort_transaction()
        # The markers that end it are written after the answer; each takes an offset.
        for partition in {each.partition for each in sent}:
            last = max(each.offset for each in sent if each.partition == partition)
            wait_until(partial(self._has_reached, partition, last + 2))

    def _open(self, **producer: Any) -> Producer:
        return Producer(
            {"bootstrap.servers": self.broker.bootstrap_servers, "log_level": 0, "linger.ms": 5, **producer}
        )

    def _send(
        self,
        writer: Producer,
        rows: Sequence[tuple[int, bytes | None, bytes | None, int, Headers]],
        *,
        counts: bool = True,
    ) -> list[Record]:
        found: list[Record] = []
        for partition, key, value, time_ms, headers in rows:

            def note(error: Any, message: Any, row: Any = (partition, key, value, time_ms, headers)) -> None:
                assert error is None, error
                found.append(Record(message.offset(), row[1], row[2], row[3], row[4], 0, row[0]))

            writer.produce(
                self.name, value, key, partition, timestamp=time_ms, headers=list(headers) or None, on_delivery=note
            )
        assert writer.flush(60) == 0
        if counts:
            self.records = sorted([*self.records, *found], key=lambda each: (each.partition, each.offset))
        return found

    def add_partitions(self, count: int) -> None:
        """Let the topic have ``count`` partitions."""
        admin = open_admin(self.broker)  # whose requests end with it
        for done in admin.create_partitions([NewPartitions(self.name, count)]).values():
            done.result()
        self.partitions = count

    def delete_records(self, partition: int, before: int) -> None:
        """Delete the records of a partition below offset ``before``, as retention does."""
        asked = [TopicPartition(self.name, partition, before)]
        admin = open_admin(self.broker)  # whose requests end with it
        for done in admin.delete_records(asked).values():
            done.result()
        self.records = [each for each in self.records if each.partition != partition or each.offset >= before]

    def delete(self) -> None:
        """Delete the topic."""
        admin = open_admin(self.broker)  # whose requests end with it
        for done in admin.delete_topics([self.name]).values():
            done.result()

    def _has_reached(self, partition: int, offset: int) -> bool:
        return self.find_end(partition) >= offset

    def find_end(self, partition: int) -> int:
        """Return the last stable offset of a partition."""
        reader = Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "x", "log_level": 0})
        try:
            return reader.get_watermark_offsets(TopicPartition(self.name, partition), timeout=30)[1]
        finally:
            reader.close()


def open_admin(broker: KafkaBroker) -> AdminClient:
    """A client that creates and deletes topics."""
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def create_live_topic(broker: KafkaBroker, partitions: int = 2, name: str = "", **config: str) -> LiveTopic:
    """Create a topic with a name of its own, or again with that of a deleted one."""
    name = name or f"orders.{uuid.uuid4().hex[:8]}"
    values = {**FOR_EVER, **{key.replace("_", "."): value for key, value in config.items()}}
    admin = open_admin(broker)
    # A topic that was deleted just before may still be there for a moment.
    for attempt in range(100):
        try:
            for done in admin.create_topics([NewTopic(name, partitions, 1, config=values)]).values():
                done.result()
            break
        except KafkaException:
            if attempt == 99:
                raise
            time.sleep(0.1)
    return LiveTopic(broker, name, partitions)


def make_rows(
    chosen: random.Random, count: int, partitions: int = 2, start_ms: int = BASE_MS
) -> list[tuple[int, bytes | None, bytes | None, int, Headers]]:
    """Random rows: odd keys, tombstones, empty values, repeated and null headers, times out of order."""
    return [
        (
            chosen.randrange(partitions),
            chosen.choice([*ODD_KEYS, *(b"k%d" % n for n in range(20))]),
            chosen.choice([None, b"", b"value %d" % number, b"\xff" * chosen.randrange(200)]),
            start_ms + chosen.randrange(-5_000, 5_000),
            chosen.choice(ODD_HEADERS),
        )
        for number in range(count)
    ]
