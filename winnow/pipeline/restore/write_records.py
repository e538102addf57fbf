"""Writes a log's records to the target, transaction by transaction, each with the positions that it reaches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.files.segments import read_offsets
from winnow.kafka.target_topic import TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore.record_feed import RecordFeed
from winnow.pipeline.restore.restore_state import Progress, RestoreState
from winnow.pipeline.restore.source_log import SourceLog
from winnow.values.model import OffsetRange

TRANSACTION_BYTES = 16 << 20
"""What a transaction is to hold: enough that its markers and round trips cost little, and little to repeat."""
TRANSACTION_SECONDS = 10.0
"""Maximum age of a transaction that still takes records; brokers abort one that stays open."""
REFRESH_SECONDS = 3600.0
"""How often the positions of all partitions are committed again: brokers forget one after offsets.retention.minutes."""


@dataclass(slots=True)
class _Transaction:
    """The records of one transaction. ``moved``: the positions that it reaches."""

    began_s: float
    moved: dict[int, Progress]
    size_bytes: int = 0


def write_records(
    source: SourceLog,
    target: TargetTopic,
    writer: TransactionalWriter,
    state: RestoreState,
    *,
    bytes_per_second: float | None,
    on_progress: Callable[[int], None],
    on_commit: Callable[[RestoreState], None],
) -> RestoreState:
    """Write what is missing in the target and return the state reached; every record is written exactly once.

    ``bytes_per_second``: maximum mean rate, by the bytes of keys, values and headers. The waits lie between
    transactions. ``on_commit`` gets the state after each transaction.

    Raises:
        TopicBusyError: another process restores into the target now.
        BadInputError: the target was deleted or created anew meanwhile.
        DamagedSegmentError: a segment of the log cannot be read.
        ServiceError: the cluster cannot be reached.
    """
    wanted = {
        number: OffsetRange(each.next_offset, each.end_offset)
        for number, each in state.partitions.items()
        if each.next_offset < each.end_offset
    }
    limit_bytes = TRANSACTION_BYTES if bytes_per_second is None else max(1, min(TRANSACTION_BYTES, bytes_per_second))
    started_s, written_bytes = time.monotonic(), 0
    refreshed_s = started_s
    open_one: _Transaction | None = None
    with RecordFeed(source, wanted, on_progress) as feed:
        for number, whole in feed:
            for batch in _split(_make_writable(whole), int(limit_bytes)):
                if open_one is None:
                    _require_same_target(target, state)
                    writer.begin()
                    open_one = _Transaction(time.monotonic(), {})
                writer.write(batch, number)
                before = open_one.moved.get(number, state.partitions[number])
                last = int(read_offsets(batch)[-1])
                open_one.moved[number] = replace(before, next_offset=last + 1, records=before.records + batch.num_rows)
                open_one.size_bytes += batch.nbytes
                is_old = time.monotonic() - open_one.began_s >= TRANSACTION_SECONDS
                if open_one.size_bytes >= limit_bytes or is_old:
                    if time.monotonic() - refreshed_s >= REFRESH_SECONDS:
                        open_one.moved = {**state.partitions, **open_one.moved}
                        refreshed_s = time.monotonic()
                    state = _commit(writer, state, open_one)
                    on_commit(state)
                    written_bytes += open_one.size_bytes
                    open_one = None
                    if bytes_per_second is not None:
                        time.sleep(max(0.0, started_s + written_bytes / bytes_per_second - time.monotonic()))
    if open_one is not None:
        state = _commit(writer, state, open_one)
        on_commit(state)
    return _commit_ends(target, writer, state)


def _commit(writer: TransactionalWriter, state: RestoreState, done: _Transaction) -> RestoreState:
    state = state.advance(done.moved)
    writer.commit(state.to_positions(done.moved))
    return state


def _commit_ends(target: TargetTopic, writer: TransactionalWriter, state: RestoreState) -> RestoreState:
    """Move partitions whose last offsets have no record to their ends."""
    moved = {
        number: replace(each, next_offset=each.end_offset)
        for number, each in state.partitions.items()
        if each.next_offset < each.end_offset
    }
    if not moved:
        return state
    _require_same_target(target, state)
    writer.begin()
    return _commit(writer, state, _Transaction(time.monotonic(), moved))


def _require_same_target(target: TargetTopic, state: RestoreState) -> None:
    if target.read_topic_id() != state.identity.target_id:
        raise BadInputError(
            f"Topic {target.name} was deleted while it was being restored, and perhaps created again. What stands in "
            "it now is not this restore.",
            left="Nothing more was written.",
            next="Delete it and run this again: it begins anew.",
        )


def _make_writable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out timestamps of 1970's first millisecond and before; the log was checked for them unless that is wanted.

    Kafka's client library takes 0 for the present.
    """
    times = batch.column("timestamp")
    early = pc.less_equal(times.cast(pa.int64()), 0)
    if not pc.any(early).as_py():
        return batch
    index = batch.schema.get_field_index("timestamp")
    return batch.set_column(index, batch.schema.field(index), pc.if_else(early, pa.scalar(None, times.type), times))


def _split(batch: pa.RecordBatch, limit_bytes: int) -> Iterator[pa.RecordBatch]:
    rows = max(1, limit_bytes * batch.num_rows // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
