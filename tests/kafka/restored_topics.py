"""A log with everything odd in it, and what a restore of it leaves in Kafka; read without the code under test."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tests.support.world import TOPIC, FakeClock, World, open_world
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.target_topic import TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore.restore import restore_topic
from winnow.pipeline.restore.restore_request import RestoreReport, RestoreRequest
from winnow.values.model import Record

NOW_MS: Final = 1_760_000_000_000
KEEPING: Final = {"retention_ms": "-1", "segment_ms": str(2**63 - 1)}
"""What a topic must be set to for a restore of old records."""
Row = tuple[bytes | None, bytes | None, int | None, tuple[tuple[str, bytes | None], ...] | None]
"""Key, value, timestamp and headers of a record."""

ODD_ROWS: Final[Sequence[Row]] = (
    (b"", b"empty key", NOW_MS, None),
    (b"\xff\x00\xfe", b"", NOW_MS + 5, (("a", None), ("a", b""), ("a", b"1"), ("ü", b"\xff"))),
    (b"gone", None, NOW_MS - 9, None),
    (b"gone too", None, None, (("reason", b"asked"),)),
    (b"untimed", b"value", None, None),
    (b"future", b"value", 4_102_444_800_000, None),
    (b"past", b"value", 1, None),
    (b"large", b"x" * 20_000, NOW_MS, None),
)


def build_odd_log(partitions: int = 2, rounds: int = 40) -> list[Record]:
    """Records with odd keys, values, headers and times in every partition, with gaps between their offsets."""
    return [
        Record(
            offset=turn * 13 + at + (at > 4) * 2,
            key=key if turn % 2 else (key or b"") + b"-%d" % turn,
            value=value,
            timestamp_ms=time_ms,
            headers=headers,
            timestamp_type=0,
            partition=partition,
        )
        for partition in range(partitions)
        for turn in range(rounds)
        for at, (key, value, time_ms, headers) in enumerate(ODD_ROWS[: 5 if turn else None])
    ]


@contextmanager
def open_present_world(folder: Path) -> Iterator[World]:
    """A world in the present, as snapshots are that a sweep judges."""
    with open_world(folder, FakeClock(int(time.time() * 1000))) as world:
        yield world


def make_log(world: World, partitions: int = 2, rounds: int = 40, **config: str) -> list[Record]:
    """A compacted log with records after the compaction; returns what it publishes."""
    world.create(partitions, min_cleanable_dirty_ratio="0", segment_bytes="4000", **config)
    records = build_odd_log(partitions, rounds)
    world.ingest([each for each in records if each.offset < 13 * rounds * 3 // 4])
    assert world.compact() is not None
    world.ingest([each for each in records if each.offset >= 13 * rounds * 3 // 4])
    return world.read()


def name_target() -> str:
    """A new topic's name."""
    return f"restored-{uuid.uuid4().hex[:8]}"


class Target:
    """A Kafka topic to restore into, with clients of its own."""

    def __init__(self, servers: str, name: str | None = None) -> None:
        self.name = name or name_target()
        self.settings = ClientSettings(servers)
        self.servers = servers
        self._properties: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0}
        self.admin = AdminClient(dict(self._properties))

    def restore(self, world: World, **request: Any) -> RestoreReport:
        """Restore in this process."""
        file = request.pop("offsets_file", world.folder / f"{self.name}.parquet")
        watch = request.pop("watch", lambda *_: None)
        return restore_topic(
            world.installation, RestoreRequest(TOPIC, self.name, file, **request), self.settings, watch
        )

    def create(self, partitions: int = 1, **config: str) -> None:
        """Create it, as somebody else would."""
        named = {name.replace("_", "."): value for name, value in config.items()}
        self.admin.create_topics([NewTopic(self.name, partitions, 1, config=named)])[self.name].result()
        wait_until(lambda: self.describe() is not None)

    def delete(self) -> None:
        """Delete it, and wait until it is gone."""
        self.admin.delete_topics([self.name], operation_timeout=30)[self.name].result()
        wait_until(lambda: self.describe() is None)

    def describe(self) -> Any:
        """The topic, or None."""
        try:
            return self.admin.describe_topics(TopicCollection([self.name]))[self.name].result()
        except Exception:
            return None

    def produce(self, *records: dict[str, Any]) -> None:
        """Write records, as another producer would."""
        producer = Producer(dict(self._properties))
        for record in records:
            producer.produce(self.name, **record)
        assert producer.flush(30) == 0

    def list_ends(self, isolation: IsolationLevel) -> dict[int, int]:
        """The end of each partition: of everything, or of what readers of committed records may get to."""
        spec: Any = OffsetSpec
        wanted = {TopicPartition(self.name, each.id): spec.latest() for each in self.describe().partitions}
        asked = self.admin.list_offsets(wanted, isolation_level=isolation)
        return {place.partition: answer.result().offset for place, answer in asked.items()}

    def make_consumer(self, group: str = "reader") -> Consumer:
        """A consumer of committed records."""
        return Consumer(
            self._properties
            | {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False}
            | {"enable.partition.eof": True, "auto.offset.reset": "error"}
        )

    def read(self, isolation: str = "read_committed") -> list[tuple[int, int, Row]]:
        """Partition, offset and content of every record."""
        consumer = Consumer(
            self._properties
            | {"group.id": "reader", "isolation.level": isolation, "enable.auto.commit": False}
            | {"enable.partition.eof": True}
        )
        numbers = [each.id for each in self.describe().partitions]
        consumer.assign([TopicPartition(self.name, number, 0) for number in numbers])
        found: list[tuple[int, int, Row]] = []
        ended: set[int] = set()
        while len(ended) < len(numbers):
            for message in consumer.consume(1000, 0.2):
                number, offset = message.partition(), message.offset()
                assert number is not None
                assert offset is not None
                if message.error() is not None:
                    ended.add(number)
                    continue
                _, time_ms = message.timestamp()
                headers: Any = message.headers()
                row = (message.key(), message.value(), None if time_ms == -1 else time_ms, headers and tuple(headers))
                found.append((number, offset, row))
        consumer.close()
        return sorted(found, key=lambda each: each[:2])


def list_rows(records: Sequence[Record]) -> list[tuple[int, Row]]:
    """Partition and content of the log's records, in order."""
    return [(each.partition, (each.key, each.value, each.timestamp_ms, each.headers)) for each in records]


def wait_until(reached: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for what a broker does in its own time."""
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.05)


def assert_restored(target: Target, records: list[Record]) -> None:
    assert [(number, row) for number, _, row in target.read()] == list_rows(records)


def read_configuration(target: Target) -> dict[str, str]:
    found = TargetTopic(target.settings, target.name).describe()
    assert found is not None
    return dict(found.configuration)


class StoppedError(Exception):
    """Stands for whatever ends a call."""


def break_off_restore(monkeypatch: pytest.MonkeyPatch, target: Target, world: World, *, commits: int) -> None:
    """Restore until so many transactions are committed; the call ends before it knows of the last.

    At the end everything that ``monkeypatch`` changed is as it was.
    """
    genuine = TransactionalWriter._commit
    left = [commits]

    def commit(writer: TransactionalWriter) -> None:
        genuine(writer)
        left[0] -= 1
        if left[0] == 0:
            raise StoppedError

    monkeypatch.setattr(TransactionalWriter, "_commit", commit)
    with pytest.raises(StoppedError):
        target.restore(world)
    monkeypatch.undo()
