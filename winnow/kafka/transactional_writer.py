"""Writes records to a topic in transactions, each of which also commits positions in the source of the records.

Records and positions become visible together or not at all. The positions are committed offsets of a consumer group on
the target's own partitions. Opening a writer fences every earlier one of its name, wherever it is or however long it
was paused, and aborts the transaction it left open. The group has the writer's name; writers with names of their own
may share one if each has partitions of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from winnow.errors import WinnowError
from winnow.files.record_batch import NO_TIMESTAMP_MS
from winnow.kafka.client import check_client_library, make_properties_error
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.record_columns import list_bytes, list_headers, read_times_ms
from winnow.kafka.writer_errors import explain_writer_error, is_fenced, list_clear_codes

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

TRANSACTION_TIMEOUT_MS = 300_000
"""A broker aborts an open transaction after this; until then a dead writer's holds back readers, unless it runs again.
Below ``transaction.max.timeout.ms`` (15 minutes by default)."""
REQUEST_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 10.0
"""Maximum wait for the brokers' word on who holds a name; they refuse an outdated epoch at once."""
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


class _FirstFailure:
    """Remembers why the first record failed: it fails its transaction, and all others in it."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: object) -> None:
        if error is not None and self.error is None:
            self.error = error


class TransactionalWriter:
    """Writes to one topic. A context manager; leaving it aborts an open transaction."""

    def __init__(
        self, settings: ClientSettings, topic: str, name: str, batch_bytes: int = BATCH_BYTES, group: str | None = None
    ) -> None:
        """``batch_bytes``: maximum size of a batch of several records. ``group``: where positions are; as the name."""
        self._settings, self._topic, self._name, self._batch_bytes = settings, topic, name, batch_bytes
        self._group = group or name
        self._in_transaction = False
        self._first_failure = _FirstFailure()
        # What this writer read or committed last, and what a commit of unknown outcome may have committed.
        self._known: dict[int, CommittedPosition] = {}
        self._attempted: dict[int, CommittedPosition] = {}
        self._producer = self._make_producer()

    def _make_producer(self) -> Producer:
        check_client_library(left="")
        from confluent_kafka import KafkaException, Producer

        chosen: dict[str, Any] = self._settings.to_librdkafka(
            transactional_id=self._name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            enable_idempotence=True,
            linger_ms=50,
            batch_size=self._batch_bytes,
            message_max_bytes=MAXIMUM_MESSAGE_BYTES,
            queue_buffering_max_kbytes=QUEUE_KILOBYTES,
            queue_buffering_max_messages=QUEUE_MESSAGES,
            delivery_report_only_error=True,
        )
        # Not a method: clients and their threads would live until Python next looks for cycles.
        chosen["on_delivery"] = self._first_failure
        chosen.setdefault("compression.type", "lz4")
        try:
            return Producer({**chosen, "logger": _log})
        except KafkaException as problem:
            raise make_properties_error(problem.args[0], left="") from None

    @cached_property
    def _consumer(self) -> Consumer:
        # A writer that only fences others needs none.
        return self._make_consumer(self._group)

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
            raise make_properties_error(problem.args[0], left="") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.abort()
        finally:
            self._producer.purge()
            if "_consumer" in self.__dict__:
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
        self._known = _parse_positions(found)
        return dict(self._known)

    def require_held(self, *, certain: bool = False) -> None:
        """Check, outside of a transaction, that no newer writer of this name has fenced this one; the topic exists.

        ``certain``: that the brokers do not tell is an error, too.

        Raises:
            TopicBusyError: one has.
            ServiceError: the brokers do not tell.
        """
        from confluent_kafka import KafkaError

        taken_over = self._is_taken_over()
        if taken_over:
            raise self._explain(KafkaError(KafkaError._FENCED), "asking who writes")
        if taken_over is None and certain:
            raise self._explain(KafkaError(KafkaError._TIMED_OUT), "asking who writes")

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
        """Return why a request failed: that another writer took over, else why a record failed, else ``error``.

        Who holds the name is asked before any error is returned that says nothing about it.
        """
        from confluent_kafka import KafkaError, KafkaException

        found = [error]
        try:
            self._producer.poll(1.0)
        except KafkaException as fatal:
            found.append(fatal.args[0])
        found += [] if self._first_failure.error is None else [self._first_failure.error]
        cause = next(filter(is_fenced, found), found[-1])
        if is_fenced(cause) or cause.code() in list_clear_codes():
            return cause
        taken_over = self._is_taken_over()
        # An outdated epoch is that of a fenced writer, or of one whose transaction the brokers ended for its age.
        if taken_over or (taken_over is None and cause.code() == KafkaError.INVALID_PRODUCER_EPOCH):
            return KafkaError(KafkaError._FENCED)
        return cause

    def _is_taken_over(self) -> bool | None:
        """Ask the brokers whether a newer writer holds the name; None: they do not tell. Ends the open transaction.

        A fenced writer may be told no more than that something failed. Another request of its own shows it: the
        brokers refuse whatever an outdated epoch asks.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        try:
            self._abort()
            # A transaction without anything in it ends without a request, so this one gets a position.
            self._producer.begin_transaction()
            self._in_transaction = True
            probe = [TopicPartition(self._topic, 0, 0)]
            group = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(probe, group, PROBE_TIMEOUT_S)
            self._abort()
        except KafkaException as problem:
            error = problem.args[0]
            _log.debug("the writer was asked for after an error: %s", error.name())
            if is_fenced(error):
                return True
            unreachable = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
            return None if error.code() in unreachable else self._has_foreign_positions()
        return False

    def _has_foreign_positions(self) -> bool | None:
        """Check whether positions are committed that this writer does not know; None: it cannot be told."""
        from confluent_kafka import KafkaException, TopicPartition

        numbers = self._known.keys() | self._attempted.keys()
        if not numbers:
            return None
        try:
            found = self._consumer.committed(
                [TopicPartition(self._topic, number) for number in numbers], REQUEST_TIMEOUT_S
            )
        except KafkaException:
            return None
        committed = _parse_positions(each for each in found if each.error is None)
        # Only writers of this name commit for this group, so a position of nobody else's is a newer writer's.
        foreign = (
            position not in (self._known.get(number), self._attempted.get(number))
            for number, position in committed.items()
        )
        return True if any(foreign) else None

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
        self._attempted = dict(positions)
        self._add_offsets(self._consumer, offsets)
        for name, own in (groups or {}).items():
            consumer = self._make_consumer(name)
            try:
                self._add_offsets(consumer, [TopicPartition(self._topic, number, own[number]) for number in own])
            finally:
                consumer.close()
        self._commit()
        self._in_transaction = False
        self._known = {**self._known, **positions}
        self._attempted = {}

    def _add_offsets(self, consumer: Consumer, offsets: Sequence[TopicPartition]) -> None:
        group = consumer.consumer_group_metadata()
        self._try(
            lambda: self._producer.send_offsets_to_transaction(list(offsets), group, REQUEST_TIMEOUT_S),
            "committing positions",
        )

    def _commit(self) -> None:
        # Once a record has failed the library sends no other of its transaction, and a commit without an end to its
        # patience would wait for them for ever.
        self._try(lambda: self._producer.commit_transaction(REQUEST_TIMEOUT_S), "committing a transaction")

    def abort(self) -> None:
        """Abort the open transaction, if there is one; if that fails, the next writer's :meth:`open` ends it."""
        from confluent_kafka import KafkaException

        try:
            self._abort()
        except KafkaException as problem:
            _log.debug("a transaction was not aborted: %s", problem.args[0].name())

    def _abort(self) -> None:
        if self._in_transaction:
            self._in_transaction = False
            self._producer.abort_transaction(REQUEST_TIMEOUT_S)

    def _try(self, action: Callable[[], Any], what: str) -> Any:
        from confluent_kafka import KafkaException

        for left in reversed(range(MAXIMUM_TRIES)):
            try:
                return action()
            except KafkaException as problem:
                error = problem.args[0]
                if left and self._first_failure.error is None and error.retriable() and not error.txn_requires_abort():
                    continue
                raise self._explain(self._find_cause(error), what) from None
        raise AssertionError("the last try returns or raises")

    def _explain(self, error: Any, what: str) -> WinnowError:
        return explain_writer_error(error, self._settings.bootstrap_servers, self._topic, what)


def _parse_positions(offsets: Iterable[TopicPartition]) -> dict[int, CommittedPosition]:
    return {each.partition: CommittedPosition(each.offset, each.metadata or "") for each in offsets if each.offset >= 0}
