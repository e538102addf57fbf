"""Streams records from input files into segments in one pass, without a spool.

For input as sinks and dumps leave it: every record new, of a known partition, in offset order (or without offsets), and
with a key if the topic is compacted. At any other record it stops with :class:`NotStreamableError`; nothing refers to
what it wrote, and the call uses the spool, which handles every case.

Memory is bounded for any size of input: rows buffered for row groups, in total half of the budget (or one row group),
and a few batches of 16 MiB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.errors import BadInputError
from winnow.files.parquet_writer import ROW_GROUP_BYTES
from winnow.pipeline.ingest.append import PartitionAppender, PreparedSegments, split_by_partition
from winnow.pipeline.ingest.spool import Progress, SpooledFile, add_file_columns
from winnow.sources.record_input import InputPass, RecordInput
from winnow.sources.slice_digests import SliceDigests
from winnow.values.model import TopicState

MAXIMUM_WAITING_CALLS = 3
"""Maximum calls that a worker queues, each with a batch in memory."""


class OrderedWorker:
    """One thread for calls that release Python's lock: hashing, compressing, writing. A context manager.

    An exception of a call is raised by a later :meth:`put` or by :meth:`settle`; calls after it may have run. Leaving
    the block waits for the running call and cancels the others.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[Any]] = deque()

    def __enter__(self) -> OrderedWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def put(self, call: Callable[..., object], *arguments: object) -> None:
        """Queue ``call``; waits while :data:`MAXIMUM_WAITING_CALLS` calls are pending."""
        while len(self._waiting) >= MAXIMUM_WAITING_CALLS:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(call, *arguments))

    def settle(self) -> None:
        """Wait until all queued calls are done."""
        while self._waiting:
            self._waiting.popleft().result()


MAXIMUM_OPEN_PARTITIONS = 128
"""Partitions written at a time; with more, row groups would be too small to read efficiently."""

MAXIMUM_SLICE_ROWS = 8_192
"""Records passed to a segment's writer at a time, which ends a segment only between two slices."""


MakeAppender = Callable[[int, Sequence[str]], PartitionAppender]
"""Makes the appender of a partition, given the paths of the input."""


class NotStreamableError(Exception):
    """The input has records that only the spool can handle. Never leaves the ingest."""


class StreamingAppender:
    """One pass over an input into the segments of ``prepared``.

    Args:
        state: the state of the log.
        prepared: receives what is written.
        make: makes the appender of a partition.
        held_bytes: maximum bytes buffered for row groups.
        needs_keys: whether a record without a key needs the spool.
    """

    def __init__(
        self,
        state: TopicState,
        prepared: PreparedSegments,
        make: MakeAppender,
        *,
        held_bytes: int,
        needs_keys: bool,
    ) -> None:
        self._state = state
        self._prepared = prepared
        self._make = make
        self._held_bytes = max(held_bytes, ROW_GROUP_BYTES)
        self._needs_keys = needs_keys
        self._open: dict[int, PartitionAppender] = {}
        self._closed: dict[int, PartitionAppender] = {}
        self._lacking: dict[int, bool] = {}
        self._paths: Sequence[str] = ()

    def read(self, source: RecordInput, opened: InputPass, progress: Progress | None = None) -> list[SpooledFile]:
        """Read the parts of ``source`` in order and write their records; ``progress`` is called after each batch.

        Raises:
            NotStreamableError: a record needs the spool.
            BadInputError: a part cannot be read or holds something that is not a record.
        """
        self._paths = source.names
        total_bytes = sum(source.measure(number) for number in range(len(source.names)))
        read_bytes = read_records = 0
        files: list[SpooledFile] = []
        with OrderedWorker() as hashing, OrderedWorker() as writing:
            for number, path in enumerate(source.names):
                digests = SliceDigests()
                records = lacking = 0
                for batch in opened.read(number):
                    sorted_batch = self._sort_by_partition(batch)
                    hashing.put(digests.update, sorted_batch)
                    writing.put(self._write, add_file_columns(sorted_batch, number, 0))
                    records += batch.num_rows
                    lacking += batch.column("offset").null_count
                    read_records += batch.num_rows
                    if progress is not None:
                        progress(read_bytes, total_bytes, read_records)
                hashing.settle()
                files.append(
                    SpooledFile(number, path, digests.file_digest(), dict(digests.digests()), records, lacking > 0)
                )
                read_bytes += source.measure(number)
                if progress is not None:
                    progress(read_bytes, total_bytes, read_records)
            opened.finish()
            # Writing opens appenders: they are complete only when it has ended.
            writing.settle()
            for appender in self._open.values():
                writing.put(appender.close)
            writing.settle()
        for _, appender in sorted((self._closed | self._open).items()):
            appender.note(files)
        return files

    def abandon(self) -> list[str]:
        """Stop and return all files written, which nothing refers to."""
        return [path for appender in (self._closed | self._open).values() for path in appender.abandon()]

    def _sort_by_partition(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Sort ``batch`` by partition, keeping the file's order within each."""
        partition = batch.column("partition")
        if partition.null_count or (self._needs_keys and batch.column("key").null_count):
            raise NotStreamableError
        numbers = partition.to_numpy()
        if (np.diff(numbers) < 0).any():
            return batch.take(pa.array(np.argsort(numbers, kind="stable")))
        return batch

    def _write(self, batch: pa.RecordBatch) -> None:
        for part in split_by_partition(batch):
            partition = part.column("partition")[0].as_py()
            offsets = part.column("offset")
            lacks = offsets.null_count > 0
            if offsets.null_count not in (0, len(offsets)) or self._lacking.setdefault(partition, lacks) is not lacks:
                raise NotStreamableError
            if not lacks and offsets[0].as_py() < self._state.partitions[partition].log_end_offset:
                raise NotStreamableError
            appender = self._get_appender(partition)
            try:
                for start in range(0, part.num_rows, MAXIMUM_SLICE_ROWS):
                    appender.add(part.slice(start, MAXIMUM_SLICE_ROWS))
            except BadInputError:
                # The spool reports the first fault of the input, which may be another record.
                raise NotStreamableError from None
        while sum(appender.held_bytes for appender in self._open.values()) > self._held_bytes:
            max(self._open.values(), key=lambda appender: appender.held_bytes).flush()

    def _get_appender(self, partition: int) -> PartitionAppender:
        found = self._open.pop(partition, None)
        if found is None:
            if partition in self._closed:
                raise NotStreamableError
            if len(self._open) >= MAXIMUM_OPEN_PARTITIONS:
                idle = next(iter(self._open))
                self._closed[idle] = self._open.pop(idle)
                self._closed[idle].close()
            state = self._state.partitions[partition]
            self._prepared.base[partition] = state
            self._prepared.log_end[partition] = state.log_end_offset
            found = self._make(partition, self._paths)
        # Re-inserted last: the least recently written appender is closed first.
        self._open[partition] = found
        return found
