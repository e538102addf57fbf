"""What a new epoch would do to a log: compared with the topic at the brokers, counted, said, and refused if need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from winnow.arrivals.erased_records import ErasedRecords
from winnow.errors import BadInputError, join_first
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.offset_syncs import MirrorOrigin
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.erased_keys import list_remaining_tombstones, open_erased_records
from winnow.pipeline.ingest.kafka.divergence import compare_with_brokers
from winnow.pipeline.ingest.kafka.mirror import Mirror, describe_aligned
from winnow.pipeline.ingest.kafka.overlap import (
    Fingerprint,
    PartitionOverlap,
    choose_windows,
    compare_partition,
    read_newest,
    read_window,
)
from winnow.pipeline.ingest.kafka.reading import (
    KafkaReading,
    ReadingRules,
    include_partitions,
    plan_reading,
    skip_known,
)
from winnow.pipeline.ingest.kafka.recreation import require_newer_than_left, require_records
from winnow.pipeline.installation import Installation
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.model import OffsetRange, Segment
from winnow.values.topic_state import TopicState

MAXIMUM_NAMED = 5


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """An epoch that would begin. ``records_here``: live records of the log. ``overlaps``: of partitions with any.

    ``head``: the metadata of the log's table when it was compared. ``rules``: what was asked for then. ``syncs``: the
    topics of offset syncs that said where to look; None: the topic was not said to be a mirror.
    """

    topic: str
    reading: KafkaReading
    records_here: int
    overlaps: tuple[PartitionOverlap, ...]
    head: str = ""
    rules: ReadingRules = field(default_factory=ReadingRules)
    syncs: tuple[str, ...] | None = None

    @property
    def positions(self) -> dict[int, int]:
        """Per partition the offset at the brokers behind the last record that the log has already."""
        return {each.partition: each.position for each in self.overlaps if each.position is not None}

    def is_valid(self, head: Head, topic: BrokerTopic, rules: ReadingRules) -> bool:
        """Check whether what was compared still holds: the log's head, the topic's offsets, and what was asked for."""
        compared = self.reading.topic
        return (
            self.topic == head.state.topic
            and self.head == head.table.metadata_location
            and self.rules == rules
            and (compared.name, compared.topic_id) == (topic.name, topic.topic_id)
            and _list_offsets(compared) == _list_offsets(topic)
        )


def preview_epoch(
    installation: Installation, topic: str, cluster: Cluster, found: BrokerTopic, rules: ReadingRules
) -> NewEpoch:
    """Compare what the epoch that ``rules`` ask for would begin with; changes nothing.

    ``found``: the topic at the brokers. Raises as the ingest that begins it.
    """
    log = installation.log.open(topic)
    head = log.newest_head()
    compared = compare_with_brokers(head.state, found, partial(log.segments, head), cluster.settings)
    reading = plan_reading(include_partitions(head.state, found), found, rules, compared)
    erased = open_erased_records(installation, head, left=NOTHING_INGESTED)
    return compare_epoch(log, head, reading, cluster, rules, erased)


def compare_epoch(
    log: TopicLog,
    head: Head,
    reading: KafkaReading,
    cluster: Cluster,
    rules: ReadingRules,
    erased: ErasedRecords | None,
) -> NewEpoch:
    """Compare an epoch that ``reading`` begins with the log, and leave out of it what the log has already.

    ``erased``: what is left out of the input of the log; None: no key was erased.

    Raises:
        BadInputError: it would make old values the newest, and ``rules`` do not accept that.
        UsageError: the topic is said to be a mirror of another one than the log's.
        ServiceError: the cluster cannot be reached.
    """
    require_records(head.state, reading.topic, accepts_overlap=rules.accepts_overlap)
    live = log.segments(head)
    require_newer_than_left(head.state, reading, live, cluster, accepts_overlap=rules.accepts_overlap)
    state = include_partitions(head.state, reading.topic)
    epoch = compare_new_epoch(state, reading, live, cluster, rules.mirror_of, erased)
    require_no_overlap(epoch, accepts_overlap=rules.accepts_overlap)
    skipping = skip_known(reading, epoch.positions)
    return replace(epoch, reading=skipping, head=head.table.metadata_location, rules=rules)


def compare_new_epoch(
    state: TopicState,
    reading: KafkaReading,
    live: Mapping[int, Sequence[Segment]],
    cluster: Cluster,
    origin: MirrorOrigin | None = None,
    erased: ErasedRecords | None = None,
) -> NewEpoch:
    """Compare the newest records of a log with the topic that ``reading`` begins an epoch with.

    Args:
        state: before it, with all partitions of that topic.
        reading: what would be read.
        live: the live segments of the log.
        cluster: the brokers.
        origin: what the topic is said to be a mirror of; then the order of the records decides where it can.
        erased: what is left out of the input of the log, and so is not compared; None: no key was erased.

    Raises:
        BadInputError: the topic of offset syncs that was named is not there.
        UsageError: the log is not of ``origin``.
        ServiceError: the cluster cannot be reached.
        DamagedSegmentError: a segment of the log is not what was written.
    """
    topic = reading.topic
    tombstones = list_remaining_tombstones(state)
    newest = {
        number: read_newest(state.topic, live.get(number, ()), tombstones.get(number, ()))
        for number in topic.partitions
    }
    elsewhere = None if erased is None else erased.ignore_offsets()
    mirror = None if origin is None else Mirror(state, topic, origin, newest, cluster, tombstones, elsewhere)
    times = {
        number: min(each.timestamp_ms for each in records if each.timestamp_ms is not None)
        for number, records in newest.items()
        if any(each.timestamp_ms is not None for each in records)
    }
    firsts = cluster.find_offsets_at(topic.name, times)
    overlaps = []
    with RangeReader(cluster.settings) as reader:
        for number, records in newest.items():
            segments, first = live.get(number, ()), firsts.get(number)
            alignment = None if mirror is None else mirror.align(number, segments, reader, first)
            overlap = None
            if records and (alignment is None or alignment.doubt is not None):
                overlap = _compare_newest(state, topic, number, records, first, reader, elsewhere)
            if alignment is not None:
                overlap = describe_aligned(number, _get_range(topic, number), alignment, overlap)
            if overlap is not None:
                overlaps.append(overlap)
    count = sum(segment.records for segments in live.values() for segment in segments)
    return NewEpoch(state.topic, reading, count, tuple(overlaps), syncs=None if mirror is None else mirror.hints.topics)


def _compare_newest(
    state: TopicState,
    topic: BrokerTopic,
    partition: int,
    records: Sequence[Fingerprint],
    first: int | None,
    reader: RangeReader,
    erased: ErasedRecords | None,
) -> PartitionOverlap:
    """Compare the newest ``records`` of a partition, whatever the topic is; ``first``: as of :func:`choose_windows`."""
    offsets = _get_range(topic, partition)
    windows = choose_windows(offsets, first)
    return compare_partition(
        partition,
        offsets,
        records,
        (read_window(reader, BrokerRange(topic.name, partition, each.start, each.end), erased) for each in windows),
        begins_at=_find_beginning(state, partition),
        is_from_start=bool(windows) and windows[0].start == offsets.start,
    )


def _get_range(topic: BrokerTopic, partition: int) -> OffsetRange:
    return OffsetRange(topic.partitions[partition].start_offset, topic.partitions[partition].stable_offset)


def _list_offsets(topic: BrokerTopic) -> list[tuple[int, int, int]]:
    return sorted((number, each.start_offset, each.stable_offset) for number, each in topic.partitions.items())


def require_no_overlap(epoch: NewEpoch, *, accepts_overlap: bool) -> None:
    """Raise if the epoch would make old values the newest, and nobody accepted that.

    Raises:
        BadInputError: the brokers hold what the log has already, or only older records; or records that the log never
            had lie between those that both have, which nothing accepts.
    """
    name = epoch.reading.topic.name
    strange = [each for each in epoch.overlaps if each.unexplained]
    if strange:
        listed = [f"{name}-{each.partition} {each.unexplained:,}" for each in strange]
        raise BadInputError(
            f"Topic {name} has records of {epoch.topic} and, before the last of these, records that were never in "
            f"{epoch.topic}: {join_first(listed, MAXIMUM_NAMED)}. It is no mirror of it.",
            left=NOTHING_INGESTED,
            next=f"Ingest it into another topic: winnow ingest kafka NAME --source-topic {name} --create",
        )
    doubtful = [each for each in epoch.overlaps if each.is_doubtful]
    if not doubtful or accepts_overlap:
        return
    listed = [_describe_doubt(name, each) for each in doubtful]
    if epoch.syncs is None:
        reason = f"Topic {name} has records that {epoch.topic} has already, or older ones"
    else:
        reason = f"The order of its records does not show from where on mirror {name} has what {epoch.topic} lacks"
    raise BadInputError(
        f"{reason}; a new epoch may make old values the newest. {join_first(listed, MAXIMUM_NAMED)}. "
        f"{' '.join([*_describe_syncs(epoch), NOTHING_INGESTED])} If it is a mirror that lags, wait until it has "
        "caught up.",
        next=(
            f"If it has, or if what it lacks is lost for good: winnow ingest kafka {epoch.topic} --new-epoch "
            "--accept-overlap goes on behind the last record that both have; where there is none, or brokers set the "
            "timestamps, all of a partition is appended as newer."
        ),
    )


def _describe_doubt(name: str, overlap: PartitionOverlap) -> str:
    where = f"{name}-{overlap.partition}"
    said = [] if overlap.doubt is None else [f"{where}: {overlap.doubt}"]
    if overlap.equal:
        said.append(
            f"{where}: of {overlap.there:,} records compared {overlap.equal:,} are here already; of the newest "
            f"{overlap.here:,} here it lacks the last {overlap.lacking:,}"
        )
    if overlap.is_older:
        assert overlap.newest_here_ms is not None
        assert overlap.newest_there_ms is not None
        behind_s = (overlap.newest_here_ms - overlap.newest_there_ms) / 1000
        said.append(f"{where}: the newest record is {behind_s:,.3f} s older than the newest one here")
    return "; ".join(said)


def _describe_syncs(epoch: NewEpoch) -> list[str]:
    """Say what said where to look in a mirror."""
    if epoch.syncs is None:
        return []
    if epoch.syncs:
        return [f"Where to look was taken from {join_first(epoch.syncs, MAXIMUM_NAMED, ', ')} and the timestamps."]
    missing = "No topic of MirrorMaker's offset syncs is at these brokers, so the timestamps said where to look;"
    return [f"{missing} --offset-syncs-at names the brokers that have it."]


def describe_new_epoch(epoch: NewEpoch) -> str:
    """Say what the epoch will do to readers, for who decides about it."""
    reading, name = epoch.reading, epoch.reading.topic.name
    bases = ", ".join(
        f"{name}-{number} +{reading.epoch.get_base(number)}" for number in sorted(reading.topic.partitions)
    )
    behind = (
        f"The {epoch.records_here:,} records here stay where they are. Behind them, and so newer than they are, come "
        f"the records of {reading.offsets:,} offsets at the brokers."
    )
    lines = [
        f"Epoch {reading.number} of {epoch.topic} would begin with Kafka's {name} (topic id {reading.topic.topic_id}).",
        behind,
        f"Readers find offset N of Kafka at N plus the end of the log: {bases}.",
    ]
    keys = sum(each.keys_here for each in epoch.overlaps)
    both = sum(each.keys_in_both for each in epoch.overlaps)
    compared = sum(each.there for each in epoch.overlaps)
    lines.append(
        f"Of the {keys:,} keys of the newest records here {both:,} are among the {compared:,} compared at the brokers: "
        "those get Kafka's values; a key that Kafka does not have keeps its value."
    )
    lines += [*_describe_alignments(epoch), *_describe_skipped(reading)]
    lacking = [f"{name}-{each.partition} {each.lacking:,}" for each in epoch.overlaps if each.equal and each.lacking]
    if lacking:
        lines.append(
            f"Of the newest records here, Kafka lacks the last of {join_first(lacking, MAXIMUM_NAMED)}: if it gets "
            "them later, they are appended once more, as newer."
        )
    older = [f"{name}-{each.partition}" for each in epoch.overlaps if each.is_older]
    if older:
        lines.append(
            f"Accepted: what comes is older than the newest records here in {join_first(older, MAXIMUM_NAMED)}."
        )
    return "\n".join(lines)


def describe_epoch_notices(epoch: NewEpoch) -> list[str]:
    """Say what was found out when the epoch began."""
    compared = sum(each.there for each in epoch.overlaps)
    here = sum(each.here for each in epoch.overlaps)
    equal = sum(each.equal for each in epoch.overlaps)
    said = f"{here:,} of the newest records here were compared with {compared:,} at the brokers: {equal:,} are equal."
    return [said, *_describe_alignments(epoch), *_describe_skipped(epoch.reading)]


def _describe_alignments(epoch: NewEpoch) -> list[str]:
    """Say what comparing a mirror in the order of the records showed."""
    name, reading = epoch.reading.topic.name, epoch.reading
    lines = _describe_syncs(epoch)
    aligned = [f"{name}-{each.partition}" for each in epoch.overlaps if each.aligned]
    if aligned:
        lines.append(
            f"As a mirror of {reading.mirror_of}, by the order of the records, the epoch begins with the first that is "
            f"not here: {join_first(aligned, MAXIMUM_NAMED)}."
        )
    passed = [f"{name}-{each.partition} {each.passed:,}" for each in epoch.overlaps if each.passed]
    if passed:
        lines.append(
            f"Passed over, because offsets are empty here where they lie (compacted, or aborted at the source): "
            f"{join_first(passed, MAXIMUM_NAMED)}."
        )
    repeated = [f"{name}-{each.partition} {each.repeated:,}" for each in epoch.overlaps if each.repeated]
    if repeated:
        lines.append(f"Records that the mirror has more than once: {join_first(repeated, MAXIMUM_NAMED)}.")
    return lines


def _describe_skipped(reading: KafkaReading) -> list[str]:
    return [
        f"{reading.topic.name}-{number}: offsets {skipped.start} to {skipped.end - 1} are skipped; the last of them is "
        "here already, and so is what came before it."
        for number, skipped in sorted(reading.skipped.items())
    ]


def _find_beginning(state: TopicState, partition: int) -> int:
    """Find the offset of the log that is offset 0 at the brokers; -1 if the epoch began at a later one."""
    if not state.epochs:
        return 0
    base = state.epochs[-1].get_base(partition)
    return base if state.epochs[-1].get_begin(partition) == base else -1
