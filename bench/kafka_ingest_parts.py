"""Measures what the parts of an ingest from Kafka cost in CPU time, one after another, beside a loop that only counts.

An ingest does them at the same time in threads. CPU seconds per million records hardly depend on what else the machine
does, so they say what an ingest can be at best beside the loop.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.files import storage
from winnow.files.segments import SegmentWriter
from winnow.kafka import range_reader
from winnow.kafka.client import make_consumer
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.range_reader import BrokerRange, RangeReader

if TYPE_CHECKING:
    import pyarrow as pa

_LOOP_MESSAGES = 10_000
_SEGMENT_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class PartCosts:
    """CPU seconds per million records. ``loop``: to receive and count records, and nothing else.

    ``received``: the library's threads of an ingest, which fetch and check the records' CRCs; ``consumed``: to make
    Python's objects of them; ``taken_apart``: to read their fields into columns; ``digested``: the digests of every
    byte; ``written``: Parquet, synced.
    """

    records: int
    loop: float
    received: float
    consumed: float
    taken_apart: float
    digested: float
    written: float

    @property
    def ingest(self) -> float:
        """All parts of an ingest."""
        return self.received + self.consumed + self.taken_apart + self.digested + self.written


def measure_parts(servers: str, topic: str, partitions: int, folder: Path) -> PartCosts:
    """Measure the parts with the records that ``topic`` has; files are written below ``folder`` and removed."""
    settings = ClientSettings(servers)
    ranges = _list_ranges(settings, topic, partitions)
    loop_s, count = _measure_loop(settings, ranges)
    began_s, began_thread_s = time.process_time(), time.thread_time()
    with _time_batches() as apart, RangeReader(settings) as reader:
        for each in ranges:
            for _ in reader.read(each):  # nothing is kept, as in an ingest, which uses its memory again
                pass
    thread_s = time.thread_time() - began_thread_s
    received_s = time.process_time() - began_s - thread_s
    with RangeReader(settings) as reader:
        batches = [list(reader.read(each)) for each in ranges]
    digested_s = _measure(lambda: _digest(batches))
    folder.mkdir(parents=True)
    try:
        written_s = _measure(lambda: _write(batches, folder))
    finally:
        shutil.rmtree(folder)
    parts = (loop_s, received_s, thread_s - apart[0], apart[0], digested_s, written_s)
    return PartCosts(count, *(seconds / count * 1_000_000 for seconds in parts))


def describe_parts(costs: PartCosts) -> str:
    """Describe the parts, and what an ingest can be at best beside the loop."""
    return (
        f"CPU seconds per million of {costs.records:,} records: a loop that counts {costs.loop:.2f}; received "
        f"{costs.received:.2f}, made objects of {costs.consumed:.2f}, taken apart {costs.taken_apart:.2f}, digested "
        f"{costs.digested:.2f}, written {costs.written:.2f}: {costs.ingest:.2f}, {costs.ingest / costs.loop:.1f} times "
        "the loop"
    )


def _list_ranges(settings: ClientSettings, topic: str, partitions: int) -> list[BrokerRange]:
    from confluent_kafka import TopicPartition

    consumer = make_consumer(settings)
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60) for number in range(partitions)
        ]
    finally:
        consumer.close()
    return [BrokerRange(topic, number, start, end) for number, (start, end) in enumerate(ends)]


def _measure_loop(settings: ClientSettings, ranges: Sequence[BrokerRange]) -> tuple[float, int]:
    """Count the records with a client of the reader's properties for fetching, but no check of CRCs."""
    from confluent_kafka import TopicPartition

    began_s, count = time.process_time(), 0
    consumer = make_consumer(
        settings,
        check_crcs=False,
        enable_partition_eof=False,
        queued_max_messages_kbytes=range_reader.QUEUE_KILOBYTES,
        queued_min_messages=1_000_000,
        fetch_queue_backoff_ms=range_reader.FETCH_PAUSE_MS,
        fetch_wait_max_ms=range_reader.FETCH_WAIT_MS,
        max_partition_fetch_bytes=range_reader.FETCH_BYTES,
        fetch_max_bytes=4 * range_reader.FETCH_BYTES,
    )
    try:
        consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in ranges])
        wanted = sum(each.end - each.start for each in ranges)
        while count < wanted:
            count += len(consumer.consume(_LOOP_MESSAGES, 1.0))
    finally:
        consumer.close()
    return time.process_time() - began_s, count


@contextmanager
def _time_batches() -> Iterator[list[float]]:
    """Count the CPU seconds of taking records apart within the block."""
    genuine, spent = range_reader.make_batch, [0.0]

    def make_batch(*arguments: Any) -> pa.RecordBatch:
        began_s = time.thread_time()
        try:
            return genuine(*arguments)
        finally:
            spent[0] += time.thread_time() - began_s

    vars(range_reader)["make_batch"] = make_batch
    try:
        yield spent
    finally:
        vars(range_reader)["make_batch"] = genuine


def _measure(work: Callable[[], None]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def _digest(batches: Sequence[Sequence[pa.RecordBatch]]) -> None:
    from winnow.sources.slice_digests import SliceDigests

    digests = SliceDigests()
    for part in batches:
        for batch in part:
            digests.update(batch)
    digests.file_digest()


def _write(batches: Sequence[Sequence[pa.RecordBatch]], folder: Path) -> None:
    from winnow.arrivals.write_range import build_segment_batch

    for number, part in enumerate(batches):
        paths = str(folder / f"{number}-")
        writer = SegmentWriter(
            partition=number,
            segment_bytes=_SEGMENT_BYTES,
            name=lambda piece, start=paths: f"{start}{piece:05d}.parquet",  # type: ignore[misc]
        )
        for batch in part:
            writer.write(build_segment_batch(batch, batch.column("offset").to_numpy()))
        storage.sync(segment.path for segment in writer.finish())
