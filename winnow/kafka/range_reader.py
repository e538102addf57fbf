"""Reads the committed records of a range of offsets of a topic partition, as record batches.

Offsets without a committed record are normal: markers of transactions, aborted records, what the broker's cleaner
removed. So neither the number of records nor the last offset tells that a range was read to its end; only a record at
or beyond the end, or the broker's word that there is nothing more below it, does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from operator import is_
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from winnow.errors import RunAgainError, ServiceError
from winnow.files.record_batch import RECORD_SCHEMA, make_headers
from winnow.kafka.client import NOTHING_CHANGED, explain_kafka_error, make_consumer
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.garbage_collection import collect_rarely
from winnow.values.epochs import UNKNOWN_LEADER_EPOCH, LeaderEpoch, append_leader_epochs

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

MAXIMUM_BATCH_MESSAGES = 8_192
BATCH_BYTES = 8 << 20
"""What a batch is to have; a burst of larger records makes one batch larger."""
WAIT_S = 0.1
"""How long a batch waits to be full; at the end of a range this is lost."""
ASSIGNMENT_S = 30.0
"""How long the library may take to begin with an assignment; it takes milliseconds."""
ASSIGNMENT_PAUSE_S = 0.005
ANSWER_S = 20.0
STALL_S = 120.0
"""A broker that sends nothing for so long is not reachable."""
TRUNCATION_PAUSES_S = (0.25, 0.5, 1.0)
"""How long to wait before a broker is asked again that says that it lost records; once for each."""
FETCH_BYTES = 4 << 20
FETCH_PAUSE_MS = 5
"""How long the library waits before it fetches again if it holds enough; its default of a second starves a reader."""
FETCH_WAIT_MS = 10
"""How long a broker may hold a fetch at the end of a partition; the fetch of the next range waits for it."""
QUEUE_KILOBYTES = 32 << 10
"""What the library holds in memory for a partition before it is asked."""


@dataclass(frozen=True, slots=True)
class BrokerRange:
    """Offsets of a topic partition at its brokers, from ``start`` (inclusive) to ``end`` (exclusive).

    ``end`` is at most the last stable offset. ``base``: what is added to an offset to make that of the log. ``after``:
    the leader epoch of the newest record that was read before. Its end is at most ``start``, with no record between
    them; the broker checks that it still has what was read so far.
    """

    topic: str
    partition: int
    start: int
    end: int
    base: int = 0
    after: LeaderEpoch | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TruncatedRangeError(RunAgainError):
    """The broker has deleted records of a range that were to be read, or lost the end of its log, or said so.

    What is lost, if anything is, the next ingest finds out before it reads. To a restore, which reads back what it has
    written, it is no reason to run it again.
    """


class RangeReader:
    """Reads ranges of offsets one after another with one client. A context manager.

    ``leader_epochs``: those of the records of the range that is read, as far as it was. ``left``: what a call that
    fails has left behind, as of :func:`explain_kafka_error`.
    """

    def __init__(self, settings: ClientSettings, *, left: str = NOTHING_CHANGED) -> None:
        self.leader_epochs: tuple[LeaderEpoch, ...] = ()
        self._settings, self._left = settings, left
        self._collecting = collect_rarely()
        self._consumer = make_consumer(
            settings,
            left=left,
            queued_max_messages_kbytes=QUEUE_KILOBYTES,
            queued_min_messages=1_000_000,
            fetch_queue_backoff_ms=FETCH_PAUSE_MS,
            fetch_wait_max_ms=FETCH_WAIT_MS,
            max_partition_fetch_bytes=FETCH_BYTES,
            fetch_max_bytes=4 * FETCH_BYTES,
        )

    def __enter__(self) -> Self:
        self._collecting.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._consumer.close()
        finally:
            self._collecting.__exit__(None, None, None)

    def read(self, wanted: BrokerRange) -> Iterator[pa.RecordBatch]:
        """Yield the committed records of ``wanted`` in the order of their offsets, with the offsets of the log.

        Raises:
            TruncatedRangeError: the broker has deleted records of the range meanwhile.
            ServiceError: the cluster cannot be reached.
        """
        self.leader_epochs = ()
        if wanted.start >= wanted.end:
            return
        position, size = wanted.start, min(512, MAXIMUM_BATCH_MESSAGES)
        heard_s = time.monotonic()
        done = False
        pauses_s = list(TRUNCATION_PAUSES_S)
        unassigned: BrokerRange | None = wanted
        while not done:
            try:
                if unassigned is not None:
                    self._assign(unassigned)
                    unassigned = None
                found = self._consumer.consume(min(size, wanted.end - position), WAIT_S)
                messages, done = self._take(found, wanted)
            except TruncatedRangeError:
                unassigned = self._find_rest(wanted, position)
                if unassigned is None or not pauses_s:
                    raise
                time.sleep(pauses_s.pop(0))
                continue
            if found:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > STALL_S:
                rest = f" {self._left} Run it again." if self._left else ""
                raise ServiceError(
                    f"Kafka at {self._settings.bootstrap_servers} sent nothing of {wanted} from offset {position} on "
                    f"for {STALL_S:.0f} s.{rest}"
                )
            if messages:
                if _get_offset(messages[0]) < position:
                    said = f"there is a record at offset {_get_offset(messages[0])}, where there was none"
                    raise make_truncation_error(wanted, said, left=self._left)
                position = _get_offset(messages[-1]) + 1
                self._note_leader_epochs(messages)
                batch = make_batch(messages, wanted)
                size = _choose_size(batch)
                yield batch
            done = done or position >= wanted.end
        self._consumer.unassign()

    def find_begin(self, wanted: BrokerRange) -> int:
        """Ask for the first offset that the broker has of the partition of ``wanted``.

        Raises:
            ServiceError: the cluster cannot be reached.
        """
        from confluent_kafka import KafkaException, TopicPartition

        place = TopicPartition(wanted.topic, wanted.partition)
        try:
            offsets = self._consumer.get_watermark_offsets(place, timeout=ANSWER_S)
        except KafkaException as problem:
            raise self._explain(problem.args[0], wanted) from None
        if offsets[0] < 0:
            raise ServiceError(
                f"Kafka at {self._settings.bootstrap_servers} did not say where {wanted} begins.",
                left=NOTHING_CHANGED,
                next="Run it again.",
            )
        return offsets[0]

    def _find_rest(self, wanted: BrokerRange, position: int) -> BrokerRange | None:
        """Find what is left of a range whose broker says that records are gone; None: do not ask again.

        A node that has just begun to lead may say so although nothing is lost. It is asked again only where it has to
        check the leader epoch of what was read before, as otherwise a log that was cut off and has grown again would
        pass for the one that was read; and not where its log begins beyond the position, which it never takes back.

        Raises:
            ServiceError: the cluster cannot be reached.
        """
        checked = wanted.after if position == wanted.start else self.leader_epochs[-1]
        if checked is None or checked.number == UNKNOWN_LEADER_EPOCH or self.find_begin(wanted) > position:
            return None
        return replace(wanted, start=position, after=checked)

    def _assign(self, wanted: BrokerRange) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        place, is_checked = TopicPartition(wanted.topic, wanted.partition, wanted.start), False
        if wanted.after is not None and wanted.after.number != UNKNOWN_LEADER_EPOCH:
            place, is_checked = (
                TopicPartition(wanted.topic, wanted.partition, wanted.after.end, "", wanted.after.number),
                True,
            )
        try:
            self._consumer.assign([place])
            if is_checked:
                self._seek(place, wanted)
        except KafkaException as problem:
            raise self._explain(problem.args[0], wanted) from None

    def _seek(self, place: TopicPartition, wanted: BrokerRange) -> None:
        """Have the broker check the leader epoch of ``place``, whose partition was assigned just before.

        With an assignment alone the library asks only about a partition that it has not seen before. If it asks and
        the answer is there already, that records are gone, it fetches nothing and never takes the new place.

        Raises:
            TruncatedRangeError, ServiceError: as :meth:`read`.
        """
        from confluent_kafka import KafkaError, KafkaException

        until_s = time.monotonic() + ASSIGNMENT_S
        while True:
            try:
                self._consumer.seek(place)
                return
            except KafkaException as problem:
                # The library has not yet begun with the assignment.
                if problem.args[0].code() != KafkaError._STATE or time.monotonic() > until_s:
                    raise
            for event in self._consumer.consume(1, ASSIGNMENT_PAUSE_S):
                # A record is fetched again from the place on, once that is taken.
                if event.error() is not None:
                    self._judge(event, wanted)

    def _take(self, found: Sequence[Message], wanted: BrokerRange) -> tuple[list[Message], bool]:
        """Return the records of the range, and whether it has ended."""
        from confluent_kafka import Message

        end = wanted.end
        messages, done = list(found), False
        if not all(map(is_, map(Message.error, found), repeat(None))):
            done = any(self._judge(each, wanted) for each in found if each.error() is not None)
            messages = [each for each in found if each.error() is None]
        if messages and _get_offset(messages[-1]) >= end:
            return [each for each in messages if _get_offset(each) < end], True
        return messages, done

    def _judge(self, event: Message, wanted: BrokerRange) -> bool:
        """Check an event that is no record: whether it says that the range has ended.

        Raises:
            TruncatedRangeError, ServiceError: as :meth:`read`.
        """
        from confluent_kafka import KafkaError

        error = event.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return _get_offset(event) >= wanted.end
        if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            raise make_truncation_error(wanted, error.str(), left=self._left)
        if error.retriable() or error.code() in {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}:
            return False  # the library tries again; the wait above ends it
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return False  # assigned partitions need no group; the library looks for its coordinator all the same
        raise self._explain(error, wanted)

    def _note_leader_epochs(self, messages: Sequence[Message]) -> None:
        first, last = _get_leader_epoch(messages[0]), _get_leader_epoch(messages[-1])
        start, end = _get_offset(messages[0]), _get_offset(messages[-1]) + 1
        if first == last:  # they never decrease
            observed = [LeaderEpoch(first, start, end)]
        else:
            observed = [
                LeaderEpoch(_get_leader_epoch(each), _get_offset(each), _get_offset(each) + 1) for each in messages
            ]
        self.leader_epochs = append_leader_epochs(self.leader_epochs, observed, joins=True)

    def _explain(self, error: Any, wanted: BrokerRange) -> Exception:
        return explain_kafka_error(error, self._settings.bootstrap_servers, f"reading {wanted}", left=self._left)


def make_truncation_error(wanted: BrokerRange, said: str, *, left: str = NOTHING_CHANGED) -> TruncatedRangeError:
    """Make the error about records of a range that the brokers do not have any more.

    ``said``: what told so, in words; ``left``: as of the reader.
    """
    rest = f" {left} Run it again: it says what is lost." if left else ""
    return TruncatedRangeError(
        f"The broker deleted records of {wanted}, or lost the end of its log, while it was read: in the range from "
        f"offset {wanted.start} to {wanted.end - 1} ({said}).{rest}"
    )


def _get_offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _get_leader_epoch(message: Message) -> int:
    number = message.leader_epoch()
    return UNKNOWN_LEADER_EPOCH if number is None else number


def _choose_size(batch: pa.RecordBatch) -> int:
    mean_bytes = batch.nbytes / batch.num_rows
    return max(1, min(MAXIMUM_BATCH_MESSAGES, int(BATCH_BYTES / max(mean_bytes, 1))))


def make_batch(messages: Sequence[Message], wanted: BrokerRange) -> pa.RecordBatch:
    """Make a batch of records of one range; its rows are the offsets at the broker."""
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

    # Methods mapped over the records cost half of what a loop in Python does, and this is all the time that is spent.
    count = len(messages)
    offsets = np.fromiter(map(Message.offset, messages), np.int64, count)
    times = np.fromiter(chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * count).reshape(-1, 2)
    stamps = times[:, 1]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(offsets),
            pa.array(np.full(count, wanted.partition, np.int32)),
            pa.array(offsets + wanted.base),
            pa.array(stamps, mask=(stamps < 0) | (times[:, 0] == TIMESTAMP_NOT_AVAILABLE)),
            # The library counts from 1, and has 0 for a record without a timestamp.
            pa.array(np.maximum(times[:, 0] - 1, 0).astype(np.int32)),
            pa.array(list(map(Message.key, messages)), pa.binary()),
            pa.array(list(map(Message.value, messages)), pa.binary()),
            _make_headers(list(map(Message.headers, messages))),
        ],
        schema=RECORD_SCHEMA,
    )


def _make_headers(headers: Sequence[Any]) -> Any:
    counts = np.fromiter([0 if each is None else len(each) for each in headers], np.int64, len(headers))
    flat = list(chain.from_iterable(filter(None, headers)))
    names = pa.array([name for name, _ in flat], pa.string())
    return make_headers(counts, names, pa.array([value for _, value in flat], pa.binary()))
