"""Finds where a mirror of the topic that a log followed has the first record that the log lacks.

MirrorMaker's offset syncs and the records' timestamps say where to look; the order of equal records decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from winnow.arrivals.erased_records import ErasedRecords
from winnow.errors import UsageError
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.offset_syncs import FoundSyncs, MirrorOrigin, find_offset_syncs
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.pipeline.ingest.kafka.overlap import (
    COMPARED_OFFSETS,
    Fingerprint,
    PartitionOverlap,
    read_from,
    read_window,
)
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.epochs import Epoch
from winnow.values.model import OffsetRange, Segment
from winnow.values.topic_state import TopicState

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
        tombstones: Mapping[int, Collection[int]],
        erased: ErasedRecords | None,
    ) -> None:
        """``newest``: the newest records of each partition of the log.

        Neither side has what was erased: ``tombstones`` in the place of erased records, per partition their offsets in
        the log, and ``erased`` of the mirror.

        Raises:
            UsageError: the log followed another topic.
            BadInputError: the topic of offset syncs that was named is not there.
            ServiceError: a cluster cannot be reached.
        """
        self._state, self._topic = state, topic
        self._tombstones, self._erased = tombstones, erased
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
            there = read_window(reader, window, self._erased)
            alignment = align_records(beginning.here, there, begins_at=beginning.begins_at)
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
                here = read_from(self._state.topic, segments, begin, self._tombstones.get(partition, ()))
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


Identity = tuple[bytes, bytes, int]


class Doubt(StrEnum):
    """Why an alignment shows no position; what a person reads behind the partition's name."""

    NOTHING_HERE = "no record is left here to compare it with"
    NOTHING_EQUAL = "none of the newest records here was found"
    STRANGE = "between records that both have, it has more that are not here than offsets are empty here"
    LACKS_END = "it lacks the newest records here"
    OLDER = "records behind the last that both have are older than those of their keys here"
    UNCLEAR_REPEATS = "it repeats records that are here, and not those between them"


@dataclass(frozen=True, slots=True)
class Alignment:
    """How the newest records of a partition lie in its mirror.

    ``here``, ``there``: records compared. ``equal``: of those there, how many are here. ``position``: the offset at the
    mirror behind the last record before which nothing is passed over that may be new; None if the order tells none.
    ``doubt``: why what comes from there on may be here already, or older; None if it is new. ``lacking``: newest
    records here, after the last that is there. ``passed``: records before the position that are not here, each in a
    place where offsets are empty here. ``repeated``: records that the mirror has again. ``keys_here``,
    ``keys_in_both``: different keys among them.
    """

    here: int
    there: int
    equal: int
    position: int | None
    lacking: int
    passed: int
    repeated: int
    keys_here: int
    keys_in_both: int
    doubt: Doubt | None


def align_records(here: Sequence[Fingerprint], there: Iterable[Fingerprint], *, begins_at: int | None) -> Alignment:
    """Find the first record of a mirror that is not in the log.

    Args:
        here: the newest records of a partition of the log, without a gap up to its end, with the log's offsets.
        there: records of the mirror from some offset on, with the mirror's offsets.
        begins_at: the offset of the log from which on ``there`` has its records; None if that is not known.
    """
    alignment = _Aligning(here, begins_at)
    for record in there:
        alignment.add(record)
    return alignment.finish()


@dataclass
class _Aligning:
    """The comparison as far as the mirror was read. ``last``: the place of the record here that was equal last."""

    here: Sequence[Fingerprint]
    begins_at: int | None
    last: int = -1
    position: int | None = None
    there: int = 0
    equal: int = 0
    passed: int = 0
    strange: int = 0
    repeated: int = 0
    unknown: list[Fingerprint] = field(default_factory=list)
    """Records of the mirror since then; none of them is here."""
    owed: Counter[Identity] = field(default_factory=Counter)
    """Records that are not here and lie before repeated ones: they must come again after them."""
    certain: int | None = None
    """The position before the first of these."""
    keys: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._places: dict[Identity, list[int]] = {}
        for place, record in enumerate(self.here):
            identity = _identify(record)
            if identity is not None:
                self._places.setdefault(identity, []).append(place)
        self._newest_ms = max((each.timestamp_ms or 0 for each in self.here), default=0)

    def add(self, record: Fingerprint) -> None:
        """Take the mirror's next record."""
        self.there += 1
        self.keys.add(record.key)
        identity = _identify(record)
        places = [] if identity is None else self._places.get(identity, [])
        if not places:
            self.unknown.append(record)
            return
        self.equal += 1
        after = bisect_right(places, self.last)
        place = places[after] if after < len(places) else places[after - 1]
        if place > self.last:
            self._pass_over(self._count_empty(place))
        else:
            self.repeated += 1
            self._go_back()
        self.unknown.clear()
        self.last, self.position = place, record.offset + 1

    def _count_empty(self, place: int) -> int | None:
        """Count the empty offsets here between the record that was equal last and that at ``place``."""
        if self.last < 0:
            return None if self.begins_at is None else self.here[place].offset - self.begins_at - place
        return self.here[place].offset - self.here[self.last].offset - (place - self.last)

    def _pass_over(self, empty: int | None) -> None:
        count = len(self.unknown)
        if empty is None:
            # Where offsets do not tell, it was never newer than all that is here.
            self.strange += sum((each.timestamp_ms or 0) > self._newest_ms for each in self.unknown)
        else:
            self.strange += max(0, count - empty)
        self.passed += count

    def _go_back(self) -> None:
        """Judge what lies before a repeated record: of empty offsets here, or newer than all that is here."""
        count = len(self.unknown)
        is_at_end = self.last == len(self.here) - 1
        if count and (is_at_end or count > (self._count_empty(self.last + 1) or 0)):
            self.certain = self.position if self.certain is None else self.certain
            self.owed |= Counter(_identify_all(self.unknown))
        else:
            self.passed += count

    def finish(self) -> Alignment:
        """Decide whether the position is shown."""
        lacking = len(self.here) - 1 - self.last
        doubt = self._find_doubt(lacking)
        keys_here = {record.key for record in self.here}
        return Alignment(
            here=len(self.here),
            there=self.there,
            equal=self.equal,
            position=self._choose_position(doubt),
            lacking=lacking,
            passed=self.passed,
            repeated=self.repeated,
            keys_here=len(keys_here),
            keys_in_both=len(keys_here & self.keys),
            doubt=doubt,
        )

    def _choose_position(self, doubt: Doubt | None) -> int | None:
        if doubt is Doubt.STRANGE:
            return None
        return self.certain if doubt is Doubt.UNCLEAR_REPEATS else self.position

    def _find_doubt(self, lacking: int) -> Doubt | None:
        if not self.here:
            return Doubt.NOTHING_HERE
        if self.last < 0:
            return Doubt.NOTHING_EQUAL
        if self.strange:
            return Doubt.STRANGE
        if self.owed - Counter(_identify_all(self.unknown)):
            return Doubt.UNCLEAR_REPEATS
        if lacking and not self._is_compacted_away():
            return Doubt.LACKS_END
        return Doubt.OLDER if self._is_followed_by_older() else None

    def _is_followed_by_older(self) -> bool:
        """Check whether what follows may be sent again: compacted away here, or before what is compared."""
        newest_ms: dict[bytes, int] = {}
        for record in self.here:
            time_ms = record.timestamp_ms
            if time_ms is not None:
                newest_ms[record.key] = max(newest_ms.get(record.key, time_ms), time_ms)
        oldest_ms = min((each.timestamp_ms for each in self.here if each.timestamp_ms is not None), default=0)
        return any(
            each.timestamp_ms is not None and each.timestamp_ms < newest_ms.get(each.key, oldest_ms)
            for each in self.unknown
        )

    def _is_compacted_away(self) -> bool:
        """Check whether the mirror's compaction explains that it lacks the newest records here.

        If so, every one of their keys has a newer record there. Nothing of what follows there can lie before the end of
        the log only if no offset from the last equal record on is empty here.
        """
        later = {record.key for record in self.unknown}
        rest = self.here[self.last + 1 :]
        return self._count_empty(len(self.here) - 1) == 0 and all(record.key in later for record in rest)


def _identify(record: Fingerprint) -> Identity | None:
    """Return what makes a record the same; None without a timestamp of a producer, with which nothing is shown."""
    return None if record.timestamp_ms is None else (record.digest, record.headers, record.timestamp_ms)


def _identify_all(records: Iterable[Fingerprint]) -> list[Identity]:
    return [identity for identity in map(_identify, records) if identity is not None]
