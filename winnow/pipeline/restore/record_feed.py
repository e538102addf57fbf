"""Reads several partitions side by side in a thread, ahead of whoever writes, within bounded memory."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self

import pyarrow as pa

from winnow.pipeline.restore.source_log import SourceLog
from winnow.values.model import OffsetRange

PARTITIONS_SIDE_BY_SIDE = 4
"""Partitions that are open at a time; more would take memory and gain nothing, since one process writes."""
BATCHES_AHEAD = 4
_STOP_POLL_S = 0.1

Batches = Iterator[tuple[int, pa.RecordBatch]]


class RecordFeed:
    """Batches of several partitions in turn, each partition's in offset order. A context manager."""

    def __init__(
        self, source: SourceLog, wanted: Mapping[int, OffsetRange], on_progress: Callable[[int], None]
    ) -> None:
        self._source, self._wanted, self._on_progress = source, wanted, on_progress
        self._queue: queue.Queue[tuple[int, pa.RecordBatch] | BaseException | None] = queue.Queue(BATCHES_AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="winnow-restore-reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def __iter__(self) -> Batches:
        while True:
            found = self._queue.get()
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            yield found

    def _run(self) -> None:
        try:
            for item in self._read_in_turn():
                if not self._put(item):
                    return
            self._put(None)
        except BaseException as problem:  # whoever iterates raises it
            self._put(problem)

    def _read_in_turn(self) -> Batches:
        waiting = deque(sorted(self._wanted))
        reading: deque[tuple[int, Iterator[pa.RecordBatch]]] = deque()
        while waiting or reading:
            while waiting and len(reading) < PARTITIONS_SIDE_BY_SIDE:
                number = waiting.popleft()
                reading.append((number, self._source.read(number, self._wanted[number], self._on_progress)))
            number, batches = reading.popleft()
            batch = next(batches, None)
            if batch is not None:
                reading.append((number, batches))
                yield number, batch

    def _put(self, item: tuple[int, pa.RecordBatch] | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=_STOP_POLL_S)
                return True
            except queue.Full:
                continue
        return False
