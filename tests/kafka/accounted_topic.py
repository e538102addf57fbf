"""A topic whose every record is accounted for: what was sent, what brokers acknowledged, what an archive has."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.support.kafka_cluster import KafkaCluster
from winnow.values.model import Record

IDENTITY = "number"
"""The header that tells one record from every other one of its topic."""
BURST_RECORDS = 10
PAUSE_S = 0.05


@dataclass(frozen=True)
class Place:
    """Where a broker said that it put a record.

    ``offset``: None where it had the record already when the client sent it again: then it acknowledges, and says no
    offset.
    """

    partition: int
    offset: int | None

    def is_at(self, other: Place) -> bool:
        """Check whether this may be the place ``other``."""
        return self.partition == other.partition and self.offset in (None, other.offset)


class AccountedTopic:
    """A topic that a thread of its own writes to with acks=all, from :meth:`begin` to :meth:`end`."""

    def __init__(self, cluster: KafkaCluster, name: str, *, partitions: int = 3, seed: int = 0) -> None:
        self.name = name
        self.partitions = partitions
        self._chosen = random.Random(seed)
        self._numbers = itertools.count()
        self._sent: dict[int, tuple[int, bytes, bytes | None]] = {}
        self._acknowledged: dict[int, Place] = {}
        self._refused: set[int] = set()
        self._ends = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "log_level": 0,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                # A broker that stands still is asked no longer than this.
                "socket.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        self._thread = threading.Thread(target=self._write, name=f"writer of {name}", daemon=True)

    @property
    def acknowledged(self) -> int:
        """How many records the brokers have acknowledged so far."""
        return len(self._acknowledged)

    def begin(self) -> None:
        """Begin to write."""
        self._thread.start()

    def end(self) -> None:
        """Stop writing, and wait until the fate of every record is known."""
        self._ends.set()
        self._thread.join()
        assert self._producer.flush(120) == 0, f"the fate of records of {self.name} is not known"

    def _write(self) -> None:
        while not self._ends.wait(PAUSE_S):
            for number in itertools.islice(self._numbers, BURST_RECORDS):
                self._send(number)
            self._producer.poll(0)

    def _send(self, number: int) -> None:
        partition, key = self._chosen.randrange(self.partitions), b"key %d" % self._chosen.randrange(50)
        value = None if self._chosen.random() < 0.1 else b"value %d" % number

        def note(error: Any, message: Any) -> None:
            if error is None:
                self._acknowledged[number] = Place(message.partition(), message.offset())
            else:
                self._refused.add(number)

        headers: list[tuple[str, str | bytes | None]] = [(IDENTITY, b"%d" % number)]
        self._sent[number] = partition, key, value
        try:
            self._producer.produce(self.name, value, key, partition, headers=headers, on_delivery=note)
        except KafkaException as problem:
            # The client does not know a partition that was added just now.
            if problem.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            del self._sent[number]

    def find_faults(self, records: Iterable[Record]) -> list[str]:
        """List what is wrong with ``records``, a whole log of the topic: lost, changed, moved, repeated, invented.

        A record that no broker acknowledged may be there or not.
        """
        places, faults = self._locate(records)
        for number, place in self._acknowledged.items():
            if number not in places:
                faults.append(f"record {number} was acknowledged at {place} and is lost")
            elif not place.is_at(places[number]):
                faults.append(f"record {number} was acknowledged at {place} and stands at {places[number]}")
        return faults

    def find_faults_of_compacted(self, records: Iterable[Record]) -> list[str]:
        """List what is wrong with ``records``, a compacted log of the topic.

        The newest record of each key is there; an older one may be there or not, where it was.
        """
        places, faults = self._locate(records)
        # The client keeps the order of sending within a partition, so that of numbers is that of offsets.
        newest: dict[tuple[int, bytes], int] = {}
        for number, place in self._acknowledged.items():
            key = place.partition, self._sent[number][1]
            newest[key] = max(number, newest.get(key, -1))
        there: dict[tuple[int, bytes], int] = {}
        for number, place in places.items():
            key = place.partition, self._sent[number][1]
            there[key] = max(number, there.get(key, -1))
        for key, number in newest.items():
            # One that was written and not acknowledged may stand above it.
            if number not in places and there.get(key, -1) < number:
                faults.append(f"record {number}, the newest of its key, was acknowledged and is lost")
        for number, place in places.items():
            if number in self._acknowledged and not self._acknowledged[number].is_at(place):
                faults.append(f"record {number} was acknowledged elsewhere than at {place}")
        return faults

    def _locate(self, records: Iterable[Record]) -> tuple[dict[int, Place], list[str]]:
        """Find the place of each record by its number, and those that were repeated or changed."""
        places: dict[int, Place] = {}
        faults = []
        for record in records:
            number = int(dict(record.headers or ())[IDENTITY] or b"-1")
            place = Place(record.partition, record.offset)
            if number in places:
                faults.append(f"record {number} stands at {places[number]} and at {place}")
            places[number] = place
            if self._sent.get(number) != (record.partition, record.key, record.value):
                faults.append(f"record {number} at {place} was not sent like that")
        return places, faults
