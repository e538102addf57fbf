"""The broker's side: creates the topics, writes to them, holds the cleaner back and releases it, reads records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from broker.kafka_broker import KafkaBroker
from parity.cleaner_log import CleanerLog
from parity.random_topics import PARTITIONS, NewRecord, RandomTopic
from winnow.values.model import Headers, Record

HELD_BACK: Final = {"min.cleanable.dirty.ratio": "1.0"}
"""A ratio is never above 1, so nothing is cleaned."""
QUIET_TIMEOUT_S: Final = 900
_POLL_S: Final = 0.2
_BATCH: Final = 20_000
_TIMEOUT_S: Final = 60
_FETCH_S: Final = 0.05
"""The client waits that long for a full batch of messages, also at the end of a partition."""
_LOG_APPEND_TIME: Final = 2
_PLAIN_SHARE: Final = 0.3
"""Of the records of a topic with transactions."""
_COMMITTED_SHARE: Final = 0.7


class BrokerError(Exception):
    """The broker did not do what it was asked to do."""


@dataclass
class BrokerTopics:
    """The topics of one run on one broker. In a cluster, ``broker`` is the node that is followed: the leader."""

    broker: KafkaBroker
    topics: Sequence[RandomTopic]
    replicas: Sequence[int] = ()
    """The nodes of a cluster that have every partition, the preferred leader first; none: ``broker`` is alone."""
    cleaner_log: CleanerLog = field(init=False)

    def __post_init__(self) -> None:
        self._client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "log_level": 0,
        }
        self._admin = AdminClient(self._client)
        self.cleaner_log = CleanerLog(self.broker.cleaner_log_file)

    def create(self) -> None:
        """Create every topic, with the cleaner held back."""
        wanted = [
            NewTopic(
                topic.name,
                PARTITIONS,
                **self._describe_replicas(PARTITIONS),
                config={
                    **topic.config,
                    **HELD_BACK,
                    "retention.ms": "-1",
                    "min.compaction.lag.ms": str(topic.min_compaction_lag_ms),
                    "delete.retention.ms": str(topic.delete_retention_ms[0]),
                },
            )
            for topic in self.topics
        ]
        for created in self._admin.create_topics(wanted, operation_timeout=_TIMEOUT_S).values():
            created.result()

    def _describe_replicas(self, partitions: int) -> dict[str, Any]:
        if self.replicas:
            return {"replica_assignment": [list(self.replicas)] * partitions}
        return {"replication_factor": 1}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create one topic."""
        wanted = NewTopic(name, partitions, 1, config=dict(config))
        self._admin.create_topics([wanted], operation_timeout=_TIMEOUT_S)[name].result()

    def write(self, name: str, records: Sequence[NewRecord], **properties: str | int | float | bool) -> None:
        """Write records to a topic with a producer of these properties, and wait until all are there."""
        producer = Producer({**self._client, "enable.idempotence": True, **properties})
        _write(producer, name, records)
        _flush(producer)

    def alter(self, changes: Mapping[str, Mapping[str, str | None]]) -> None:
        """Change the configuration of topics; None takes a setting back."""
        resources = [
            ConfigResource(
                ConfigResource.Type.TOPIC,
                topic,
                incremental_configs=[
                    ConfigEntry(
                        name,
                        value or "",
                        incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
                    )
                    for name, value in settings.items()
                ],
            )
            for topic, settings in changes.items()
        ]
        if resources:
            for altered in self._admin.incremental_alter_configs(resources).values():
                altered.result()

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Raise the log start of partitions of ``topic``."""
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for deleted in self._admin.delete_records(wanted).values():
            deleted.result()

    def produce(self, topic: RandomTopic, round_number: int) -> int:
        """Write the records of a round; return how many."""
        records = topic.make_records(round_number, int(time.time() * 1000))
        settings: dict[str, str | int | float | bool] = {
            **self._client,
            "linger.ms": 20,
            "batch.size": topic.batch_bytes,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
        }
        plain = Producer(settings)
        if topic.transactional:
            return self._produce_transactions(
                topic, records, plain, Producer({**settings, "transactional.id": topic.name})
            )
        written = _write(plain, topic.name, records)
        _flush(plain)
        return written

    def _produce_transactions(
        self, topic: RandomTopic, records: Iterator[NewRecord], plain: Producer, transactions: Producer
    ) -> int:
        """Write some records outside of transactions, some in committed and some in aborted ones."""
        transactions.init_transactions(_TIMEOUT_S)
        rng = topic.generator
        written = 0
        while chunk := list(islice(records, rng.randrange(100, 3_000))):
            if rng.random() < _PLAIN_SHARE:
                written += _write(plain, topic.name, chunk)
                _flush(plain)
                continue
            transactions.begin_transaction()
            written += _write(transactions, topic.name, chunk)
            _flush(transactions)
            if rng.random() < _COMMITTED_SHARE:
                transactions.commit_transaction(_TIMEOUT_S)
            else:
                transactions.abort_transaction(_TIMEOUT_S)
        return written

    def wait_until_quiet(self) -> None:
        """Wait until the cleaner has looked at every log three times and found nothing to clean."""
        logs = [f"{topic.name}-{partition}" for topic in self.topics for partition in range(PARTITIONS)]
        until = time.monotonic() + QUIET_TIMEOUT_S
        while not self.cleaner_log.is_quiet(logs):
            if time.monotonic() > until:
                raise BrokerError(f"The cleaner was not done after {QUIET_TIMEOUT_S} s; see {self.cleaner_log.path}.")
            time.sleep(_POLL_S)
            self.cleaner_log.read_on()

    def read_checkpoints(self) -> dict[str, int]:
        """Read the broker's file of first dirty offsets, by topic partition."""
        path = self.broker.data_folder / "cleaner-offset-checkpoint"
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        return {f"{topic}-{partition}": int(offset) for topic, partition, offset in map(str.split, lines)}

    def read_log_starts(self, topic: str) -> dict[int, int]:
        """Read where each partition of ``topic`` begins."""
        consumer = self._make_consumer()
        try:
            found = {n: consumer.get_watermark_offsets(TopicPartition(topic, n), _TIMEOUT_S) for n in range(PARTITIONS)}
        finally:
            consumer.close()
        return {partition: low for partition, (low, _) in found.items()}

    def read_records(self, topic: str, starts: Mapping[int, int]) -> dict[int, list[Record]]:
        """Read the committed records of ``topic`` from ``starts`` to the last stable offsets, by partition."""
        consumer = self._make_consumer()
        found: dict[int, list[Record]] = {partition: [] for partition in starts}
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in starts.items()])
        left = set(starts)
        until = time.monotonic() + _TIMEOUT_S
        try:
            while left:
                messages = consumer.consume(_BATCH, _FETCH_S)
                if messages:
                    until = time.monotonic() + _TIMEOUT_S
                elif time.monotonic() > until:
                    raise BrokerError(f"Nothing was read of {topic}, partitions {sorted(left)}, for {_TIMEOUT_S} s.")
                for message in messages:
                    error = message.error()
                    if error is None:
                        record = _build_record(message)
                        found[record.partition].append(record)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                    else:
                        raise BrokerError(f"{topic} was not read: {error.str()}")
        finally:
            consumer.close()
        return found

    def _make_consumer(self) -> Consumer:
        return Consumer(
            {
                **self._client,
                "group.id": "parity",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
            }
        )


def _build_record(message: object) -> Record:
    kind, timestamp_ms = message.timestamp()  # type: ignore[attr-defined]
    headers: Headers | None = message.headers()  # type: ignore[attr-defined]
    return Record(
        offset=message.offset(),  # type: ignore[attr-defined]
        key=message.key(),  # type: ignore[attr-defined]
        value=message.value(),  # type: ignore[attr-defined]
        timestamp_ms=None if timestamp_ms < 0 else timestamp_ms,
        headers=tuple((name, value) for name, value in headers) if headers else None,
        timestamp_type=1 if kind == _LOG_APPEND_TIME else 0,
        partition=message.partition(),  # type: ignore[attr-defined]
    )


def _write(producer: Producer, topic: str, records: Iterable[NewRecord]) -> int:
    count = 0
    for count, record in enumerate(records, 1):
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms,
            headers=None if record.headers is None else list(record.headers),
            on_delivery=_check_delivered,
        )
        if count % 1_000 == 0:
            producer.poll(0)
    return count


def _check_delivered(error: KafkaError | None, _: object) -> None:
    if error is not None:
        raise BrokerError(f"A record was not written: {error.str()}")


def _flush(producer: Producer) -> None:
    if producer.flush(_TIMEOUT_S):
        raise BrokerError(f"Records were not written within {_TIMEOUT_S} s.")
