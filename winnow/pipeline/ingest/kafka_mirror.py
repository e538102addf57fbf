"""Finds where a mirror of the topic that a log followed has the first record that the log lacks.

MirrorMaker's offset syncs and the records' timestamps say where to look; the order of equal records decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.errors import UsageError
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.offset_syncs import FoundSyncs, MirrorOrigin, find_offset_syncs
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.pipeline.ingest.compared_records import read_from, read_window
from winnow.pipeline.ingest.kafka_overlap import COMPARED_OFFSETS, Fingerprint, PartitionOverlap
from winnow.pipeline.ingest.mirror_alignment import Alignment, align_records
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.epochs import Epoch
from winnow.values.model import OffsetRange, Segment, TopicState

_MAXIMUM_READ = 2 * COMPARED_OFFSETS
"""Maximum offsets of a mirror's partition that are read from one beginning."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Where a comparison may begin. ``start``: an offset of the mirror. ``begins_at``: as of :func:`align_records`."""

    start: int
    begins_at: int | None
    here: Sequence[Fingerprint]


class Mirror:
    """A topic that is said to be a mirror of the one that the newest epoch of a log is of."""

    def __init__(
        self,
        state: TopicState,
        topic: BrokerTopic,
        origin: MirrorOrigin,
        newest: Mapping[int, Sequence[Fingerprint]],
        cluster: Cluster,
    ) -> None:
        """``newest``: the newest records of each partition of the log.

        Raises:
            UsageError: the log followed another topic.
            BadInputError: the topic of offset syncs that was named is not there.
            ServiceError: a cluster cannot be reached.
        """
        self._state, self._topic = state, topic
        self._epoch = state.epochs[-1] if state.epochs else Epoch()
        if self._epoch.topic not in {None, origin.topic}:
            raise UsageError(
                f"{state.topic} holds Kafka's topic {self._epoch.topic}, not {origin.topic}.",
                left=NOTHING_INGESTED,
                next=f"Say --mirror-of {self._epoch.topic} if {topic.name} is a mirror of that; else leave it out.",
            )
        self._newest = {
            number: [record for record in records if record.offset >= self._epoch.get_begin(number)]
            for number, records in newest.items()
        }
        last = {
            number: records[-1].offset - self._epoch.get_base(number)
            for number, records in self._newest.items()
            if records
        }
        self._syncs = find_offset_syncs(cluster, origin, last)

    @property
    def hints(self) -> FoundSyncs:
        """The offset syncs that were found."""
        return self._syncs

    def align(
        self, partition: int, segments: Sequence[Segment], reader: RangeReader, first: int | None
    ) -> Alignment | None:
        """Align the newest records of a partition with the mirror; None if the log never had any of this epoch.

        Args:
            partition: its number.
            segments: its live segments.
            reader: reads the mirror.
            first: the first offset of the mirror whose record is not older than the newest records; None: all are.

        Raises:
            TruncatedRangeError: the broker has deleted records meanwhile.
            ServiceError: the cluster cannot be reached.
            DamagedSegmentError: a segment of the log is not what was written.
        """
        log_end = self._state.partitions[partition].log_end_offset
        at_mirror = self._topic.partitions[partition]
        if log_end <= self._epoch.get_begin(partition):
            return None
        if not self._newest.get(partition):
            return align_records((), (), begins_at=None)
        best: Alignment | None = None
        for beginning in self._list_beginnings(partition, segments, log_end, first):
            end = min(at_mirror.stable_offset, beginning.start + _MAXIMUM_READ)
            window = BrokerRange(self._topic.name, partition, beginning.start, end)
            alignment = align_records(beginning.here, read_window(reader, window), begins_at=beginning.begins_at)
            if alignment.doubt is None:
                return alignment
            if best is None or alignment.equal > best.equal:
                best = alignment
        return best

    def _list_beginnings(
        self, partition: int, segments: Sequence[Segment], log_end: int, first: int | None
    ) -> Iterator[_Beginning]:
        """List where to look: by offset syncs, then by time, and without such a record at the mirror's end."""
        offsets, base = self._topic.partitions[partition], self._epoch.get_base(partition)
        for sync in self._syncs.by_partition.get(partition, ()):
            begin = sync.upstream + base
            if log_end - begin > COMPARED_OFFSETS or begin < self._epoch.get_begin(partition):
                continue
            if sync.downstream < offsets.stable_offset:
                here = read_from(self._state.topic, segments, begin)
                yield _Beginning(max(sync.downstream, offsets.start_offset), begin, here)
        start = offsets.stable_offset - _MAXIMUM_READ if first is None else first
        yield _Beginning(max(start, offsets.start_offset), None, self._newest[partition])


def describe_aligned(
    partition: int, offsets: OffsetRange, alignment: Alignment, overlap: PartitionOverlap | None
) -> PartitionOverlap:
    """Say how a partition compares with its mirror; ``overlap``: what comparing without an order showed, if need be."""
    if overlap is None:
        overlap = PartitionOverlap(
            partition=partition,
            offsets=offsets,
            here=alignment.here,
            there=alignment.there,
            equal=alignment.equal,
            position=alignment.position,
            lacking=alignment.lacking,
            unexplained=0,
            keys_here=alignment.keys_here,
            keys_in_both=alignment.keys_in_both,
            newest_here_ms=None,
            newest_there_ms=None,
        )
    doubt = alignment.doubt
    if alignment.position is not None:
        # The order explains what lies before it.
        overlap = replace(overlap, position=alignment.position, unexplained=0, passed=alignment.passed)
    return replace(
        overlap, aligned=doubt is None, repeated=alignment.repeated, doubt=None if doubt is None else doubt.value
    )
