"""What a new epoch would do to a log: compared with the topic at the brokers, counted, said, and refused if need be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError, DamagedSegmentError, join_first
from winnow.files.checked_reading import make_damage_error, read_segment
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.model import OffsetRange, Segment, TopicState
from winnow.pipeline.context import Context
from winnow.pipeline.ingest.kafka_divergence import compare_with_brokers
from winnow.pipeline.ingest.kafka_overlap import (
    COMPARED_RECORDS,
    Fingerprint,
    PartitionOverlap,
    choose_windows,
    compare_partition,
    digest_bytes,
)
from winnow.pipeline.ingest.kafka_reading import (
    KafkaReading,
    ReadingRules,
    include_partitions,
    plan_reading,
    skip_known,
)
from winnow.sources.input_errors import NOTHING_INGESTED

MAXIMUM_NAMED = 5
_WIDER = 8
"""How much more of a segment is read when its last offsets hold too few records."""
CREATE_TIME = 0


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """An epoch that would begin. ``records_here``: live records of the log. ``overlaps``: of partitions with any."""

    topic: str
    reading: KafkaReading
    records_here: int
    overlaps: tuple[PartitionOverlap, ...]

    @property
    def positions(self) -> dict[int, int]:
        """Per partition the offset at the brokers behind the last record that the log has already."""
        return {each.partition: each.position for each in self.overlaps if each.position is not None}


def preview_epoch(ctx: Context, topic: str, cluster: Cluster, found: BrokerTopic, rules: ReadingRules) -> str:
    """Say what the epoch that ``rules`` ask for would do to readers of ``topic``; changes nothing.

    ``found``: the topic at the brokers. Raises as the ingest that begins it.
    """
    log = ctx.log.open(topic)
    head = log.newest_head()
    compared = compare_with_brokers(head.state, found, partial(log.segments, head), cluster.settings)
    reading = plan_reading(include_partitions(head.state, found), found, rules, compared)
    return describe_new_epoch(compare_epoch(log, head, reading, cluster, rules))


def compare_epoch(log: TopicLog, head: Head, reading: KafkaReading, cluster: Cluster, rules: ReadingRules) -> NewEpoch:
    """Compare an epoch that ``reading`` begins with the log, and leave out of it what the log has already.

    Raises:
        BadInputError: it would make old values the newest, and ``rules`` do not accept that.
        ServiceError: the cluster cannot be reached.
    """
    epoch = compare_new_epoch(head.state, reading, log.segments(head), cluster)
    refuse_overlap(epoch, accepts_overlap=rules.accepts_overlap)
    return replace(epoch, reading=skip_known(reading, epoch.positions))


def compare_new_epoch(
    state: TopicState, reading: KafkaReading, live: Mapping[int, Sequence[Segment]], cluster: Cluster
) -> NewEpoch:
    """Compare the newest records of a log with the topic that ``reading`` begins an epoch with.

    ``state``: before it. ``live``: the live segments of the log.

    Raises:
        ServiceError: the cluster cannot be reached.
        DamagedSegmentError: a segment of the log is not what was written.
    """
    topic = reading.topic
    newest = {number: _read_newest(state.topic, live.get(number, ())) for number in topic.partitions}
    times = {
        number: min(each.timestamp_ms for each in records if each.timestamp_ms is not None)
        for number, records in newest.items()
        if any(each.timestamp_ms is not None for each in records)
    }
    firsts = cluster.find_offsets_at(topic.name, times)
    overlaps = []
    with RangeReader(cluster.settings) as reader:
        for number, records in newest.items():
            at_brokers = topic.partitions[number]
            offsets = OffsetRange(at_brokers.start_offset, at_brokers.stable_offset)
            if not records:
                continue
            windows = choose_windows(offsets, firsts.get(number))
            overlaps.append(
                compare_partition(
                    number,
                    offsets,
                    records,
                    (_read_window(reader, BrokerRange(topic.name, number, each.start, each.end)) for each in windows),
                    begins_at=_find_beginning(state, number),
                    is_from_start=bool(windows) and windows[0].start == offsets.start,
                )
            )
    count = sum(segment.records for segments in live.values() for segment in segments)
    return NewEpoch(state.topic, reading, count, tuple(overlaps))


def refuse_overlap(epoch: NewEpoch, *, accepts_overlap: bool) -> None:
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
            f"{epoch.topic}: {join_first(listed, MAXIMUM_NAMED)}. It is no mirror of it. "
            f"{NOTHING_INGESTED} Ingest it into another topic: winnow ingest kafka NAME --source-topic {name} --create"
        )
    doubtful = [each for each in epoch.overlaps if each.equal or each.is_older]
    if not doubtful or accepts_overlap:
        return
    listed = [_describe_doubt(name, each) for each in doubtful]
    raise BadInputError(
        f"Topic {name} has records that {epoch.topic} has already, or older ones; a new epoch may make old values the "
        f"newest. {join_first(listed, MAXIMUM_NAMED)}. {NOTHING_INGESTED} If it is a mirror that lags, wait until it "
        f"has caught up. If it has, or if what it lacks is lost for good: winnow ingest kafka {epoch.topic} "
        "--new-epoch --accept-overlap goes on behind the last record that both have; where there is none, or brokers "
        "set the timestamps, all of a partition is appended as newer."
    )


def _describe_doubt(name: str, overlap: PartitionOverlap) -> str:
    where = f"{name}-{overlap.partition}"
    said = []
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
    lines += _describe_skipped(reading)
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
    return [said, *_describe_skipped(epoch.reading)]


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


def _read_newest(topic: str, segments: Sequence[Segment]) -> list[Fingerprint]:
    """Read about the newest :data:`COMPARED_RECORDS` records of a partition, in the order of their offsets."""
    newest: list[Fingerprint] = []
    for segment in reversed(segments):
        if len(newest) >= COMPARED_RECORDS:
            break
        try:
            newest = [*_read_end(segment), *newest]
        except DamagedSegmentError as problem:
            raise make_damage_error(topic, segment, str(problem), NOTHING_INGESTED) from None
    return newest[-COMPARED_RECORDS:]


def _read_end(segment: Segment) -> list[Fingerprint]:
    width = COMPARED_RECORDS
    while True:
        start = max(segment.first_offset, segment.last_offset + 1 - width)
        batches = read_segment(segment, start)
        records = [each for batch in batches for each in _make_fingerprints(batch, of_producers=False)]
        if start == segment.first_offset or len(records) >= COMPARED_RECORDS:
            return records
        width *= _WIDER


def _read_window(reader: RangeReader, window: BrokerRange) -> Iterator[Fingerprint]:
    for batch in reader.read(window):
        yield from _make_fingerprints(batch, of_producers=True)


def _make_fingerprints(batch: pa.RecordBatch, *, of_producers: bool) -> Iterator[Fingerprint]:
    """Make what is compared of records; ``of_producers``: a timestamp that a broker set counts as none.

    A mirror has its own brokers' timestamps of the arrival, or those of its source, whoever set them there.
    """
    times = batch.column("timestamp")
    if pa.types.is_timestamp(times.type):
        times = pc.divide(pc.cast(times, pa.int64()), 1000)
    rows = zip(
        batch.column("offset").to_pylist(),
        times.to_pylist(),
        batch.column("timestampType").to_pylist(),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        strict=True,
    )
    for offset, time_ms, kind, key, value in rows:
        key_digest = digest_bytes(key)
        counts = kind == CREATE_TIME or not of_producers
        yield Fingerprint(offset, time_ms if counts else None, key_digest, key_digest + digest_bytes(value))
