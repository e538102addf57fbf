"""Checks the order in which records arrive, and leaves out those that arrive twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.pipeline.ingest.recreated_topic import describe_two_beginnings

FindNewest = Callable[[int, int], tuple[int | None, int]]
"""Given the number of a part and a partition."""
_COMPARED = ("timestamp", "timestampType", "key", "value", "headers")


class ArrivalOrder:
    """Whether offsets increase within each partition, over all batches noted. Records without offsets keep theirs."""

    def __init__(self) -> None:
        self.increases = True
        self._last: dict[int, int] = {}

    def note(self, batch: pa.RecordBatch) -> None:
        """Look at the next batch of records."""
        offsets = batch.column("offset")
        if not self.increases or not batch.num_rows or offsets.null_count == len(offsets):
            return
        partitions = np.asarray(batch.column("partition").fill_null(-1))
        numbers = np.asarray(offsets.fill_null(-1))
        for partition in np.unique(partitions).tolist():
            mine = numbers[partitions == partition]
            if mine[0] <= self._last.get(partition, -1) or (np.diff(mine) <= 0).any():
                self.increases = False
            self._last[partition] = int(mine[-1])


class RepeatFilter:
    """Leaves out records whose partition and offset the record before them has, of records sorted by these.

    Args:
        topic: for messages.
        names: the parts of the input.
        find_newest: returns the newest timestamp and the highest offset of the records of a partition in a part.
    """

    def __init__(self, topic: str, names: Sequence[str], find_newest: FindNewest) -> None:
        self.counts: dict[int, int] = {}
        self._topic = topic
        self._names = names
        self._find_newest = find_newest
        self._before: pa.RecordBatch | None = None

    def remove(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return ``batch`` without repeats of records of it or of the batch before.

        Raises:
            BadInputError: two records with one offset differ.
        """
        if not batch.num_rows:
            return batch
        joined = batch if self._before is None else _join(self._before, batch)
        own = joined.num_rows - batch.num_rows
        self._before = batch.slice(batch.num_rows - 1)
        offsets, partitions = joined.column("offset"), joined.column("partition")
        numbers = np.asarray(offsets.fill_null(-1))
        parts = np.asarray(partitions.fill_null(-1))
        same = np.concatenate(([False], (np.diff(numbers) == 0) & (np.diff(parts) == 0) & (numbers[1:] >= 0)))
        if not same.any():
            return batch
        repeats = np.flatnonzero(same)
        later, earlier = joined.take(pa.array(repeats)), joined.take(pa.array(repeats - 1))
        equal = np.ones(len(repeats), np.bool_)
        for name in _COMPARED:
            equal &= _compare(earlier.column(name), later.column(name))
        if not equal.all():
            raise self._make_order_error(earlier, later, int(np.argmin(equal)))
        for partition, count in zip(*np.unique(parts[repeats], return_counts=True), strict=True):
            self.counts[int(partition)] = self.counts.get(int(partition), 0) + int(count)
        return batch.filter(pa.array(~same[own:]))

    def _make_order_error(self, earlier: pa.RecordBatch, later: pa.RecordBatch, index: int) -> BadInputError:
        if self._is_new_beginning(earlier, later, index):
            number = later.column("offset")[index].as_py()
            names = " and ".join(self._names[each.column("file")[index].as_py()] for each in (earlier, later))
            partition = later.column("partition")[index].as_py()
            return BadInputError(f"{names} {describe_two_beginnings(partition, number)}")
        places = [
            f"{self._names[each.column('file')[index].as_py()]}, row {each.column('row')[index].as_py()}"
            for each in (earlier, later)
        ]
        return BadInputError(
            f"{places[0]} and {places[1]} (partition {later.column('partition')[index].as_py()}, offset "
            f"{later.column('offset')[index].as_py()}): two different records have the same offset. Are these objects "
            "of two topics or clusters, or of a topic that was deleted and created again? Or, where offsets are not "
            "in the records, of a sink that was set back?",
            left="Nothing of this call landed.",
            next="Leave one of the objects out with --exclude GLOB.",
        )

    def _is_new_beginning(self, earlier: pa.RecordBatch, later: pa.RecordBatch, index: int) -> bool:
        """Check whether one of two records comes after the end of the other's part, under a smaller offset."""
        for one, other in ((earlier, later), (later, earlier)):
            arrived_ms = one.column("timestamp")[index].as_py()
            number, partition = other.column("file")[index].as_py(), other.column("partition")[index].as_py()
            newest_ms, highest = self._find_newest(number, partition)
            if None not in {arrived_ms, newest_ms} and arrived_ms > newest_ms:
                return bool(highest > one.column("offset")[index].as_py())
        return False


def _join(before: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.Table.from_batches([before, batch]).combine_chunks().to_batches()[0]


def _compare(one: Any, other: Any) -> Any:
    """Return where two columns are equal; null equals null."""
    if pa.types.is_list(one.type):
        return np.array(
            [left == right for left, right in zip(one.to_pylist(), other.to_pylist(), strict=True)], np.bool_
        )
    both = pc.and_(one.is_null(), other.is_null())
    return np.asarray(pc.or_kleene(pc.equal(one, other), both).fill_null(False))
