"""Lists the keys whose latest value changed between two snapshots, or between two offsets of each partition."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from winnow.engine.key_changes import LogExtent, read_key_changes
from winnow.engine.latest_records import build_latest_plan
from winnow.engine.read_plans import ReadKind, ReadPart, ReadPlan
from winnow.errors import UsageError
from winnow.log.head import Head
from winnow.log.state import read_receipt
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.state import explain_scan_errors, get_present_order
from winnow.pipeline.topics.topic_view import TopicView
from winnow.planning.cleanable import PartitionLog, find_cleaned_offset


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """Offsets as they were asked for: one for every partition, or by partition."""

    everywhere: int | None = None
    by_partition: Mapping[int, int] = field(default_factory=dict)

    def find(self, partition: int) -> int | None:
        """Return the offset for ``partition``; None: not asked for."""
        return self.by_partition.get(partition, self.everywhere)


@dataclass(frozen=True, slots=True)
class ChangedExtents:
    """The states before and after, by partition. ``compares_records``: see :func:`read_key_changes`."""

    by_partition: Mapping[int, tuple[LogExtent, LogExtent]]
    compares_records: bool = False


def read_changes(
    installation: Installation, view: TopicView, extents: ChangedExtents, *, with_headers: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the changed keys, partition by partition; ``with_headers``: see :func:`read_key_changes`.

    Both states are those of the topic's present strategy. A compaction alone changes no key.

    Raises:
        DamagedSegmentError, RunAgainError, ServiceError: a segment cannot be read.
    """
    for partition, (before, after) in extents.by_partition.items():
        yield from _read_changes(
            installation,
            view,
            partition,
            before,
            after,
            compares_records=extents.compares_records,
            with_headers=with_headers,
        )


def plan_changes(view: TopicView, extents: ChangedExtents) -> ReadPlan:
    """Plan the reading of what :func:`read_changes` yields, each partition by itself."""
    parts = []
    for number, (partition, (before, after)) in enumerate(extents.by_partition.items()):
        segments = tuple(dict.fromkeys([*before.list_readable(), *after.list_readable()])) if before != after else ()
        log = build_latest_plan(partition, 0, 0, max(before.end_offset, after.end_offset), segments)
        size_bytes = sum(segment.size_bytes for segment in segments)
        parts.append(ReadPart(number, log, size_bytes, *((before, after) if segments else (None, None))))
    return ReadPlan(
        uuid.uuid4().hex,
        view.log.topic,
        ReadKind.CHANGES,
        tuple(parts),
        order=get_present_order(view.rules),
        compares_records=extents.compares_records,
    )


def find_snapshot_extents(view: TopicView, from_snapshot: int, to_snapshot: int | None = None) -> ChangedExtents:
    """Find the states of two snapshots; ``to_snapshot`` None: the newest.

    Raises:
        UsageError: the table has no such snapshot, or no longer.
    """
    before = view.log.snapshot(from_snapshot)
    after = view.head if to_snapshot is None else view.log.snapshot(to_snapshot)
    old, new = _list_extents(view, before), _list_extents(view, after)
    undone = before.state.undone_ingests != after.state.undone_ingests
    nothing = LogExtent((), 0, 0)
    pairs = {
        partition: (old.get(partition, nothing), new.get(partition, nothing)) for partition in sorted({*old, *new})
    }
    return ChangedExtents(pairs, compares_records=undone)


def find_offset_extents(
    installation: Installation, view: TopicView, from_offset: OffsetBounds, to_offset: OffsetBounds
) -> ChangedExtents:
    """Find the states between which the records in [``from_offset``, ``to_offset``) of each partition lie.

    Where no end was asked for, it is the log end; where no beginning was, the log start: then every key is inserted.

    Raises:
        UsageError: there is no such partition, the beginning lies behind the end or beyond the log, or a compaction
            has removed what was there at the beginning.
    """
    topic = view.log.topic
    for partition in {*from_offset.by_partition, *to_offset.by_partition}:
        if partition >= len(view.partitions):
            raise UsageError(
                f"Topic {topic} has partitions 0 to {len(view.partitions) - 1}; there is no partition {partition}."
            )
    cleaned = _find_cleaned_ends(installation, view)
    bounds = [
        _choose_bounds(log, from_offset.find(log.partition), to_offset.find(log.partition), cleaned[log.partition])
        for log in view.partitions
    ]
    return ChangedExtents(
        {
            log.partition: (
                LogExtent(log.segments, log.state.log_start_offset, start),
                LogExtent(log.segments, log.state.log_start_offset, end),
            )
            for log, (start, end) in zip(view.partitions, bounds, strict=True)
        }
    )


def _choose_bounds(log: PartitionLog, start: int | None, end: int | None, cleaned: int) -> tuple[int, int]:
    state = log.state
    name = f"{log.topic}-{log.partition}"
    first = state.log_start_offset if start is None else max(start, state.log_start_offset)
    last = state.log_end_offset if end is None else min(end, state.log_end_offset)
    if start is not None and start > state.log_end_offset:
        raise UsageError(f"{name} ends at offset {state.log_end_offset}, before --from-offset {start}.")
    if start is not None and end is not None and start > end:
        raise UsageError(f"--from-offset {start} of {name} lies behind --to-offset {end}.")
    for asked, offset in (("--from-offset", first), ("--to-offset", last)):
        if state.log_start_offset < offset < cleaned:
            raise UsageError(
                f"{asked} {offset} of {name} lies below {cleaned}, up to where a compaction has removed superseded "
                "records, so what readers saw at that offset is not known any more.",
                next=f"Ask from {cleaned} on, or between snapshots (--from-snapshot).",
            )
    return first, max(first, last)


def _find_cleaned_ends(installation: Installation, view: TopicView) -> dict[int, int]:
    """Return, by partition, the offset below which any compaction has removed records, by state and receipts."""
    found = {
        log.partition: find_cleaned_offset(log.state) if log.state.strategy is not None else 0
        for log in view.partitions
    }
    for reference in view.log.receipt_references(view.head):
        receipt = installation.store.projection.find_receipt(reference.plan_id) or read_receipt(
            view.head.state, reference
        )
        undone = view.head.state.list_undone_partitions(reference.plan_id)
        for part in receipt.partitions:
            if part.records_in and part.partition in found and part.partition not in undone:
                found[part.partition] = max(found[part.partition], part.next_first_dirty_offset)
    return found


def _list_extents(view: TopicView, head: Head) -> dict[int, LogExtent]:
    segments = view.log.segments(head)
    return {
        number: LogExtent(segments.get(number, ()), state.log_start_offset, state.log_end_offset)
        for number, state in head.state.partitions.items()
    }


def _read_changes(
    installation: Installation,
    view: TopicView,
    partition: int,
    before: LogExtent,
    after: LogExtent,
    *,
    compares_records: bool,
    with_headers: bool,
) -> Iterator[pa.RecordBatch]:
    if before == after:
        return
    (log,) = (each for each in view.partitions if each.partition == partition)
    everything = tuple(dict.fromkeys([*before.segments, *after.segments]))
    order = get_present_order(view.rules)
    with explain_scan_errors(view.log, PartitionLog(log.topic, partition, everything, log.state)):
        yield from read_key_changes(
            partition,
            before,
            after,
            order,
            installation.budget,
            compares_records=compares_records,
            with_headers=with_headers,
        )
