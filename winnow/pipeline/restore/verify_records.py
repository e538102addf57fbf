"""Reads the target back and compares every record with the log: key, value, headers and timestamp, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import ValidationFailedError
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.pipeline.restore.compare_records import find_difference
from winnow.pipeline.restore.restore_state import Progress, RestoreState
from winnow.pipeline.restore.source_log import SourceLog
from winnow.values.counts import format_count
from winnow.values.model import OffsetRange

if TYPE_CHECKING:
    from winnow.pipeline.restore.offset_translation import Offsets

_LOG_APPEND_TIME = 1


class OffsetListener(Protocol):
    """Takes in where restored records stand."""

    def add(self, partition: int, source: Offsets, target: Offsets) -> None:
        """Take in records of a partition, by their offsets on both sides."""


@dataclass(slots=True)
class PartitionFigures:
    """What one partition's restored records are. ``target_end``: the target's offset after the last of them.

    ``timestamps_dropped``: records whose timestamp Kafka's clients cannot write. ``log_append_times``: records whose
    time was a broker's; they are restored with the same time as the producer's.
    """

    records: int = 0
    tombstones: int = 0
    without_timestamp: int = 0
    timestamps_dropped: int = 0
    log_append_times: int = 0
    target_end: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the records of a batch of the log."""
        times = batch.column("timestamp")
        self.records += batch.num_rows
        self.tombstones += batch.column("value").null_count
        self.without_timestamp += times.null_count
        self.timestamps_dropped += int(pc.sum(pc.less_equal(times.cast(pa.int64()), 0)).as_py() or 0)
        self.log_append_times += int(pc.sum(pc.equal(batch.column("timestampType"), _LOG_APPEND_TIME)).as_py() or 0)


def verify_records(
    source: SourceLog,
    reader: RangeReader,
    target: str,
    ends: Mapping[int, int],
    state: RestoreState,
    listeners: Sequence[OffsetListener],
    on_progress: Callable[[int], None],
) -> dict[int, PartitionFigures]:
    """Compare the whole of every partition of ``state`` with the log, in bounded memory.

    ``ends``: the stable offsets of the target's partitions; everything below them is read. ``listeners`` get the
    offsets of each record on both sides.

    Raises:
        ValidationFailedError: a record is missing, doubled, changed or another producer's.
        DamagedSegmentError: a segment of the log cannot be read.
        ServiceError: the cluster cannot be reached.
    """
    figures = {}
    for number, progress in sorted(state.partitions.items()):
        written = _Written(target, number, reader, BrokerRange(target, number, progress.target_start, ends[number]))
        start = source.partitions[number].start
        counted = figures[number] = PartitionFigures(target_end=progress.target_start)
        for batch in source.read(number, OffsetRange(start, progress.end_offset), on_progress):
            offsets = _read_offsets(batch)
            done = 0
            while done < batch.num_rows:
                found = written.take(batch.num_rows - done)
                if found is None:
                    raise _make_missing_error(target, number, counted.records + done, progress, int(offsets[done]))
                expected = batch.slice(done, found.num_rows)
                _compare(target, number, expected, found)
                own, theirs = offsets[done : done + found.num_rows], _read_offsets(found)
                for listener in listeners:
                    listener.add(number, own, theirs)
                counted.target_end = int(theirs[-1]) + 1
                done += found.num_rows
            counted.add(batch)
        _require_end(target, number, written, counted, progress)
    return figures


class _Written:
    """The records of one partition of the target, taken in slices."""

    def __init__(self, target: str, partition: int, reader: RangeReader, wanted: BrokerRange) -> None:
        self.target, self.partition = target, partition
        self._batches: Iterator[pa.RecordBatch] = iter(reader.read(wanted))
        self._left: pa.RecordBatch | None = None

    def take(self, maximum: int) -> pa.RecordBatch | None:
        """Return the next records, at most ``maximum``; None: there are no more."""
        while self._left is None or not self._left.num_rows:
            self._left = next(self._batches, None)
            if self._left is None:
                return None
        taken, self._left = self._left.slice(0, maximum), self._left.slice(maximum)
        return taken


def _read_offsets(batch: pa.RecordBatch) -> Offsets:
    found: Offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    return found


def _compare(target: str, partition: int, expected: pa.RecordBatch, found: pa.RecordBatch) -> None:
    difference = find_difference(expected, found)
    if difference is None:
        return
    name, row = difference
    raise ValidationFailedError(
        f"Topic {target} is not what was restored: the record at {target}-{partition} offset "
        f"{found.column('offset')[row].as_py()} has another {name} than offset "
        f"{expected.column('offset')[row].as_py()} of the log. The archive is as it was. Did another producer write "
        "to the topic?",
        next="Delete it and restore anew.",
    )


def _make_missing_error(
    target: str, partition: int, records: int, progress: Progress, offset: int
) -> ValidationFailedError:
    return ValidationFailedError(
        f"Topic {target} is not what was restored: {target}-{partition} has {format_count(records, 'record')} from "
        f"offset {progress.target_start} on where {progress.records:,} were written; offset {offset} of the log and "
        "what follows is not there. The archive is as it was. Were records deleted from the topic?",
        next="Delete it and restore anew.",
    )


def _require_end(target: str, partition: int, written: _Written, counted: PartitionFigures, progress: Progress) -> None:
    more = written.take(1)
    if more is not None:
        raise ValidationFailedError(
            f"Topic {target} holds more than was restored: at {target}-{partition} offset "
            f"{more.column('offset')[0].as_py()} stands a record after the last of {counted.records:,}. Another "
            "producer writes to the topic. The archive is as it was.",
            next="Stop it, delete the topic and restore anew.",
        )
    if counted.records != progress.records:
        raise ValidationFailedError(
            f"{target}-{partition} has {format_count(counted.records, 'record')} where {progress.records:,} were "
            "written. The archive is as it was.",
            next="Delete the topic and restore anew.",
        )
