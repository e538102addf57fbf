"""Writes records to a topic in transactions, each of which also commits positions in the source of the records.

Records and positions become visible together or not at all. The positions are committed offsets of a consumer group on
the target's own partitions. Writer and group have one name: opening a writer fences every earlier one of that name,
wherever it is or however long it was paused, and aborts the transaction it left open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError, ConfigurationError, ServiceError, TopicBusyError, WinnowError
from winnow.files.record_batch import NO_TIMESTAMP_MS
from winnow.kafka.client import check_client_library, explain_kafka_error, refuse_properties
from winnow.kafka.client_settings import ClientSettings

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

    Header = tuple[str, str | bytes | None]

TRANSACTION_TIMEOUT_MS = 300_000
"""A broker aborts an open transaction after this; until then a dead writer's holds back readers, unless it runs again.
Below ``transaction.max.timeout.ms`` (15 minutes by default)."""
REQUEST_TIMEOUT_S = 60.0
MAXIMUM_TRIES = 5
QUEUE_KILOBYTES = 64 << 10
"""Maximum records that wait in memory for the brokers."""
QUEUE_MESSAGES = 200_000
BATCH_BYTES = 900_000
"""Maximum bytes of a record batch with several records: below the default of ``max.message.bytes``."""
MAXIMUM_MESSAGE_BYTES = 1_000_000_000
"""The library's own maximum. What the topic takes, the broker decides: it knows the compressed size."""
_log = logging.getLogger("winnow.kafka")


@dataclass(frozen=True, slots=True)
class CommittedPosition:
    """A position that was committed with records: an offset in their source, and text about what is copied."""

    offset: int
    metadata: str


class TransactionalWriter:
    """Writes to one topic. A context manager; leaving it aborts an open transaction."""

    def __init__(self, settings: ClientSettings, topic: str, name: str) -> None:
        self._settings, self._topic, self._name = settings, topic, name
        self._in_transaction = False
        self._failure: KafkaError | None = None
        self._producer = self._make_producer()
        self._consumer = self._make_consumer(name)

    def _make_producer(self) -> Producer:
        check_client_library()
        from confluent_kafka import KafkaException, Producer

        chosen: dict[str, Any] = self._settings.to_librdkafka(
            transactional_id=self._name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            enable_idempotence=True,
            linger_ms=50,
            batch_size=BATCH_BYTES,
            message_max_bytes=MAXIMUM_MESSAGE_BYTES,
            queue_buffering_max_kbytes=QUEUE_KILOBYTES,
            queue_buffering_max_messages=QUEUE_MESSAGES,
            delivery_report_only_error=True,
        )
        chosen["on_delivery"] = self._note_failure
        chosen.setdefault("compression.type", "lz4")
        try:
            return Producer({**chosen, "logger": _log})
        except KafkaException as problem:
            raise refuse_properties(problem.args[0]) from None

    def _make_consumer(self, group: str) -> Consumer:
        from confluent_kafka import Consumer, KafkaException

        chosen: dict[str, Any] = self._settings.to_librdkafka(
            group_id=group,
            enable_auto_commit=False,
            # Offsets of an open transaction are waited for.
            isolation_level="read_committed",
        )
        try:
            return Consumer({**chosen, "logger": _log})
        except KafkaException as problem:
            raise refuse_properties(problem.args[0]) from None

    def _note_failure(self, error: KafkaError | None, message: object) -> None:
        """Remember why the first record failed: it fails its transaction, and all others in it."""
        if error is not None and self._failure is None:
            self._failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.abort()
        finally:
            self._producer.purge()
            self._consumer.close()

    def open(self) -> None:
        """Fence earlier writers of this name and abort what they left open. Must come first.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not write with this transactional id.
        """
        self._try(lambda: self._producer.init_transactions(REQUEST_TIMEOUT_S), "opening the writer")

    def read_positions(self, partitions: Iterable[int]) -> dict[int, CommittedPosition]:
        """Return the committed positions of those of ``partitions`` that have one.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not use the group.
        """
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(self._topic, number) for number in partitions]
        found = self._try(lambda: self._consumer.committed(wanted, REQUEST_TIMEOUT_S), "asking for its positions")
        for each in found:
            if each.error is not None:
                raise self._explain(each.error, "asking for its positions")
        return {
            each.partition: CommittedPosition(each.offset, each.metadata or "") for each in found if each.offset >= 0
        }

    def begin(self) -> None:
        """Begin a transaction."""
        self._try(self._producer.begin_transaction, "beginning a transaction")
        self._in_transaction = True

    def write(self, batch: pa.RecordBatch, partition: int) -> None:
        """Add the records of a batch to the transaction, in their order; a null timestamp is none.

        Raises:
            TopicBusyError: a newer writer of this name has fenced this one.
            ServiceError, ConfigurationError, BadInputError: the cluster did not take a record of the transaction.
        """
        from confluent_kafka import KafkaException

        keys, values = list_bytes(batch.column("key")), list_bytes(batch.column("value"))
        times = read_times_ms(batch.column("timestamp")).fill_null(NO_TIMESTAMP_MS).to_numpy(zero_copy_only=False)
        if (times == 0).any():
            raise ValueError("the library would replace a timestamp of 0 by the present")
        headers = list_headers(batch.column("headers"))
        produce, topic = self._producer.produce, self._topic
        try:
            for key, value, time_ms, own in zip(keys, values, times.tolist(), headers, strict=True):
                while True:
                    try:
                        produce(topic, value, key, partition, timestamp=time_ms, headers=own)
                        break
                    except BufferError:
                        self._producer.poll(0.05)
            self._producer.poll(0)
        except KafkaException as problem:
            # Nothing is committed here: the transaction may have records without their positions. If it failed
            # meanwhile, it refuses further records, and the report of a failed one has the cause.
            raise self._explain(self._find_cause(problem.args[0]), "writing records") from None

    def _find_cause(self, error: KafkaError) -> KafkaError:
        """Return why a request failed: that another writer took over, else why a record failed, else ``error``."""
        from confluent_kafka import KafkaException

        found = [error]
        try:
            self._producer.poll(1.0)
        except KafkaException as fatal:
            found.append(fatal.args[0])
        found += [] if self._failure is None else [self._failure]
        return next(filter(_is_fenced, found), found[-1])

    def commit(
        self, positions: Mapping[int, CommittedPosition], groups: Mapping[str, Mapping[int, int]] | None = None
    ) -> None:
        """Commit the transaction's records together with ``positions``, and with offsets of other consumer groups.

        Raises:
            as :meth:`write`; the transaction is aborted then, or the next writer's :meth:`open` ends it.
        """
        from confluent_kafka import TopicPartition

        offsets = [
            TopicPartition(self._topic, number, each.offset, metadata=each.metadata)
            for number, each in sorted(positions.items())
        ]
        self._add_offsets(self._consumer, offsets)
        for name, own in (groups or {}).items():
            consumer = self._make_consumer(name)
            try:
                self._add_offsets(consumer, [TopicPartition(self._topic, number, own[number]) for number in own])
            finally:
                consumer.close()
        self._commit()
        self._in_transaction = False

    def _add_offsets(self, consumer: Consumer, offsets: Sequence[TopicPartition]) -> None:
        group = consumer.consumer_group_metadata()
        self._try(
            lambda: self._producer.send_offsets_to_transaction(list(offsets), group, REQUEST_TIMEOUT_S),
            "committing positions",
        )

    def _commit(self) -> None:
        self._try(self._producer.commit_transaction, "committing a transaction")

    def abort(self) -> None:
        """Abort the open transaction, if there is one; if that fails, the next writer's :meth:`open` ends it."""
        from confluent_kafka import KafkaException

        if not self._in_transaction:
            return
        self._in_transaction = False
        try:
            self._producer.abort_transaction(REQUEST_TIMEOUT_S)
        except KafkaException as problem:
            _log.debug("a transaction was not aborted: %s", problem.args[0].name())

    def _try(self, action: Callable[[], Any], what: str) -> Any:
        from confluent_kafka import KafkaException

        for left in reversed(range(MAXIMUM_TRIES)):
            try:
                return action()
            except KafkaException as problem:
                error = problem.args[0]
                if left and error.retriable() and not error.txn_requires_abort():
                    continue
                raise self._explain(self._find_cause(error), what) from None
        raise AssertionError("the last try returns or raises")

    def _explain(self, error: Any, what: str) -> WinnowError:
        from confluent_kafka import KafkaError

        code, rest = error.code(), "What was committed stays; running it again goes on from there."
        if _is_fenced(error):
            return TopicBusyError(
                f"Another process began to restore into topic {self._topic} and has taken over from this one. "
                "What this one committed stays, and the other goes on from there."
            )
        if code in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}:
            return ConfigurationError(
                f"A record is larger than topic {self._topic} takes (max.message.bytes). {rest} Raise it first: "
                f"kafka-configs.sh --alter --entity-type topics --entity-name {self._topic} --add-config "
                "max.message.bytes=BYTES"
            )
        if code == KafkaError.INVALID_TIMESTAMP:
            return ConfigurationError(
                f"A record's timestamp is one that topic {self._topic} does not take "
                f"(message.timestamp.before.max.ms, message.timestamp.after.max.ms). Raise them first. {rest}"
            )
        if code in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}:
            return BadInputError(
                f"Topic {self._topic} is gone from the cluster: somebody deleted it while it was being restored. "
                "Run it again: it begins anew."
            )
        found = explain_kafka_error(error, self._settings.bootstrap_servers, f"{what} of topic {self._topic}")
        if isinstance(found, ConfigurationError):
            return found
        at = self._settings.bootstrap_servers
        return ServiceError(f"Kafka at {at} failed, {what} of topic {self._topic} ({error.name()}). {rest}")


def _is_fenced(error: KafkaError) -> bool:
    """Check whether a writer's error says that a newer one of its name took over."""
    from confluent_kafka import KafkaError

    codes = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
    return error.code() in codes or (error.code() == KafkaError._FATAL and "fenced" in error.str().lower())


def read_times_ms(column: pa.Array) -> pa.Array:
    """Return a column of timestamps as milliseconds."""
    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())


def list_bytes(column: pa.Array) -> list[bytes | None]:
    """List a binary column's values, without one of PyArrow's scalars per value."""
    found: list[bytes | None] = column.to_numpy(zero_copy_only=False).tolist()
    return found


def list_headers(column: pa.Array) -> Iterable[list[Header] | None]:
    """List the headers of each record; None where it has none."""
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    if not counts.any():
        return repeat(None, len(column))
    flat = column.flatten()
    names: list[str] = flat.field("key").to_numpy(zero_copy_only=False).tolist()
    pairs: list[Header] = list(zip(names, list_bytes(flat.field("value")), strict=True))
    ends = np.cumsum(counts).tolist()
    starts = [0, *ends[:-1]]
    return [pairs[start:end] or None for start, end in zip(starts, ends, strict=True)]
