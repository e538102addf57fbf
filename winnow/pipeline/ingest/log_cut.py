"""Cuts the ends of partitions off a log, in the commit of the ingest call that appends other records in their place.

What is planned for one head is done over another only where the end is exactly what it was. So nothing leaves the log
that nobody counted, and readers see either the old end or the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from winnow.arrivals.compare_with_log import read_log_segment
from winnow.errors import CommitConflictError
from winnow.files.quarantine_files import locate_ingest_folder
from winnow.files.segments import SegmentWriter, cast_to_segment_schema, locate_segment, read_offsets
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.plan_validity import is_replaced, name_replacement
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.overview import refresh_overview
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.epochs import shorten_newest_epoch
from winnow.values.model import Segment
from winnow.values.topic_state import Append, PartitionState, RetiredFile


@dataclass(frozen=True, slots=True)
class RemovedRecords:
    """Records of one partition that left the log for others. Offsets are of the log; ``end_offset`` is exclusive."""

    partition: int
    first_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class PartitionCut:
    """The end of one partition that leaves the log.

    ``offset``: the first of the log that goes; where the log starts, or above. ``before``: the partition before it.
    ``segments``: those with a record at ``offset`` or beyond, in the order of offsets. ``records``: how many go.
    """

    partition: int
    offset: int
    before: PartitionState
    segments: tuple[Segment, ...]
    records: int

    @property
    def divided(self) -> Segment | None:
        """The segment with records on both sides of ``offset`` that readers see; None: there is none."""
        first = self.segments[0] if self.segments else None
        is_divided = first is not None and max(first.first_offset, self.before.log_start_offset) < self.offset
        return first if is_divided else None


@dataclass(frozen=True, slots=True)
class LogCut:
    """The ends of partitions that leave a log. ``parts``: in the order of partitions."""

    parts: tuple[PartitionCut, ...]

    @property
    def removed(self) -> tuple[RemovedRecords, ...]:
        """What leaves the log, counted."""
        return tuple(
            RemovedRecords(part.partition, part.offset, part.before.log_end_offset, part.records) for part in self.parts
        )

    @property
    def segments(self) -> list[Segment]:
        """Every segment that leaves the log."""
        return [segment for part in self.parts for segment in part.segments]

    def apply(self, log: TopicLog, head: Head) -> Head:
        """Return ``head`` with the state as it is once the ends are gone, and before anything is in their place.

        Raises:
            CommitConflictError: the log is not what this was planned for; nothing was changed.
        """
        live = log.segments(head)
        states = dict(head.state.partitions)
        for part in self.parts:
            now = states[part.partition]
            if not _is_as_counted(part, now, live.get(part.partition, ())):
                raise CommitConflictError(
                    f"The log of {log.topic}-{part.partition} changed meanwhile, by an ingest, a compaction or its "
                    f"undo; what was to leave it from offset {part.offset} on is still there.",
                    left=NOTHING_INGESTED,
                    next="Run it again.",
                )
            states[part.partition] = _shorten(now, part)
        ends = {part.partition: part.offset for part in self.parts}
        state = replace(
            head.state,
            partitions=states,
            epochs=shorten_newest_epoch(head.state.epochs, ends),
            # Whatever was prepared or compared with records that go is prepared again.
            undone_ingests=head.state.undone_ingests + 1,
            erasures=head.state.lower_erasure_ends(ends),
        )
        return replace(head, state=state)

    def write_kept(self, topic: str, location: str, ingest_id: str, segment_bytes: int) -> list[Segment]:
        """Write the records of divided segments that stay, beside those of the call; return the new segments.

        Raises:
            DamagedSegmentError: a segment is not what was written.
        """
        written: list[Segment] = []
        for part in self.parts:
            if part.divided is not None:
                written += _write_part(topic, part, part.divided, location, ingest_id, segment_bytes)
        return written

    def retire_segments(self, ingest_id: str, now_ms: int) -> list[RetiredFile]:
        """Return the segments that leave the log as files that wait for the end of their grace."""
        name = name_replacement(ingest_id)
        return [RetiredFile(segment.path, segment.size_bytes, now_ms, name) for segment in self.segments]


def plan_cut(log: TopicLog, head: Head, offsets: dict[int, int]) -> LogCut:
    """Plan to cut partitions of the log at ``head`` from the given offsets of the log on.

    Raises:
        DamagedSegmentError: a segment is not what was written.
    """
    live = log.segments(head)
    parts = []
    for partition, offset in sorted(offsets.items()):
        segments = _list_from(live.get(partition, ()), offset)
        records = sum(_count_from(log.topic, segment, offset) for segment in segments)
        parts.append(PartitionCut(partition, offset, head.state.partitions[partition], tuple(segments), records))
    return LogCut(tuple(parts))


def record_cut(installation: Installation, log: TopicLog) -> None:
    """Record in the metadata store what was cut off a log, as its newest head has it. Repeatable."""
    head = log.head()
    retired = [file for file in head.state.waiting_files if is_replaced(file)]
    installation.store.retired_files.record(log.topic, retired, "data", table_uuid=head.table_uuid)
    installation.store.projection.record_states(
        log.topic, head.state.partitions, installation.now_ms(), table_uuid=head.table_uuid
    )
    refresh_overview(installation, log.topic, head)


def complete_cuts(installation: Installation, log: TopicLog, head: Head) -> None:
    """Record what a call cut off that died after its commit: the store does not have those files yet.

    Asks the store only while files wait whose records left the log for others.
    """
    replaced = {file.path for file in head.state.waiting_files if is_replaced(file)}
    if replaced and not replaced <= {file.path for file in installation.store.retired_files.list_retired(log.topic)}:
        record_cut(installation, log)


def _is_as_counted(part: PartitionCut, now: PartitionState, segments: Sequence[Segment]) -> bool:
    """Check whether a partition, whose live segments are ``segments``, is what its cut was planned for."""
    return _get_bounds(now) == _get_bounds(part.before) and tuple(_list_from(segments, part.offset)) == part.segments


def _get_bounds(state: PartitionState) -> tuple[object, ...]:
    return (state.log_start_offset, state.log_end_offset, state.first_dirty_offset, state.history)


def _list_from(segments: Sequence[Segment], offset: int) -> list[Segment]:
    return [segment for segment in segments if segment.last_offset >= offset]


def _count_from(topic: str, segment: Segment, offset: int) -> int:
    if segment.first_offset >= offset:
        return segment.records
    return sum(batch.num_rows for batch in read_log_segment(topic, segment, offset))


def _shorten(state: PartitionState, part: PartitionCut) -> PartitionState:
    """Return a partition's state without what is at the cut or beyond; its checkpoint goes back to it at most."""
    dirty = state.first_dirty_offset
    is_empty = part.offset <= state.log_start_offset
    history = tuple(entry for entry in state.history if entry.end_offset <= part.offset and not is_empty)
    return replace(
        state,
        log_end_offset=part.offset,
        first_dirty_offset=None if dirty is None or is_empty else min(dirty, part.offset),
        strategy=state.strategy if history == state.history else None,
        history=history,
        appends=tuple(_shorten_appends(state.appends, part)),
    )


def _shorten_appends(appends: Sequence[Append], part: PartitionCut) -> Iterator[Append]:
    for entry in appends:
        if entry.last_offset < part.offset:
            yield entry
        elif entry.first_offset < part.offset:
            # No more than there are offsets; how many of them hold a record decides nothing.
            records = min(entry.records, part.offset - entry.first_offset)
            yield replace(entry, last_offset=part.offset - 1, records=records)


def _write_part(
    topic: str, part: PartitionCut, segment: Segment, location: str, ingest_id: str, segment_bytes: int
) -> tuple[Segment, ...]:
    folder = locate_ingest_folder(location, ingest_id)
    writer = SegmentWriter(
        partition=part.partition,
        segment_bytes=segment_bytes,
        name=lambda number: locate_segment(folder, part.partition, segment.first_offset, number),
        below=location,
    )
    for batch in read_log_segment(topic, segment):
        kept = int((read_offsets(batch) < part.offset).sum())
        writer.write(cast_to_segment_schema(batch.slice(0, kept)))
    return writer.finish()
